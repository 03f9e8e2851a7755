//! The Engine API, asked one question at a time.

use super::endpoint::Endpoint;
use super::globals::Globals;
use anyhow::{Context, Result};
use bollard::Docker;
use bollard::models::ContainerSummary;
use bollard::query_parameters::ListContainersOptions;
use std::collections::HashMap;

/// How long one answer may take: a daemon under load takes seconds to list hundreds of containers.
const ANSWER_SECONDS_MAX: u64 = 120;

/// A connection to one daemon.
pub struct Client {
    pub(super) docker: Docker,
    pub(super) runtime: tokio::runtime::Runtime,
    pub(super) host: String,
}

/// Which containers to list.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Those that do not run, too.
    pub all: bool,
    /// Only the newest, running or not.
    pub last: Option<i32>,
    /// Docker's filters: the values wanted, by key.
    pub filters: HashMap<String, Vec<String>>,
}

impl Client {
    /// Connects to the daemon the Docker CLI would talk to.
    pub fn connect(globals: &Globals) -> Result<Self> {
        let endpoint = Endpoint::find(globals)?;
        endpoint.check()?;
        let host = endpoint.host.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("could not start a runtime for Docker's API")?;
        let docker = runtime
            .block_on(async { open(&endpoint)?.negotiate_version().await })
            .with_context(|| format!("could not talk to the Docker daemon at {host}"))?;
        Ok(Self { docker, runtime, host })
    }

    /// The containers selected, in the daemon's order: the newest first.
    pub fn containers(&self, selection: &Selection) -> Result<Vec<ContainerSummary>> {
        let options = ListContainersOptions {
            all: selection.all,
            limit: selection.last,
            size: false,
            filters: (!selection.filters.is_empty()).then(|| selection.filters.clone()),
        };
        self.runtime
            .block_on(self.docker.list_containers(Some(options)))
            .with_context(|| format!("could not list the containers of the Docker daemon at {}", self.host))
    }

    /// An image by what is in it, so that no registry must be asked which one it is: its digest, else its id. One that is
    /// not here goes by the name it was given.
    pub fn image_by_content(&self, image: &str) -> Result<String> {
        match self.runtime.block_on(self.docker.inspect_image(image)) {
            Ok(found) => {
                let digest = found.repo_digests.into_iter().flatten().next();
                Ok(digest.or(found.id).unwrap_or_else(|| image.to_owned()))
            }
            Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) => {
                eprintln!(
                    "notice: the image {image} is not on this machine: the node will look for it in its registry"
                );
                Ok(image.to_owned())
            }
            Err(error) => Err(error).with_context(|| format!("could not ask after the image {image}")),
        }
    }

    /// The daemon's own id, which it keeps over restarts.
    pub fn daemon_id(&self) -> Result<String> {
        let info = self.runtime.block_on(self.docker.info());
        let info =
            info.with_context(|| format!("could not ask the Docker daemon at {} for its id", self.host))?;
        Ok(info.id.unwrap_or_default())
    }
}

/// A connection that nothing was asked over yet.
pub(crate) fn open(endpoint: &Endpoint) -> Result<Docker, bollard::errors::Error> {
    let version = bollard::API_DEFAULT_VERSION;
    let host = &endpoint.host;
    match &endpoint.tls {
        Some(keys) => Docker::connect_with_ssl(
            host,
            &keys.key,
            &keys.certificate,
            &keys.authority,
            ANSWER_SECONDS_MAX,
            version,
        ),
        None if host.starts_with("unix://") => Docker::connect_with_unix(host, ANSWER_SECONDS_MAX, version),
        None if host.starts_with("ssh://") => {
            Docker::connect_with_ssh(host, ANSWER_SECONDS_MAX, version, None)
        }
        None => Docker::connect_with_http(host, ANSWER_SECONDS_MAX, version),
    }
}
