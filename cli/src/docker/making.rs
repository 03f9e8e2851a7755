//! Containers and images that Leeway makes for itself, and removes again.

use super::client::Client;
use anyhow::{Context, Result};
use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerStateStatusEnum, HostConfig, Mount, MountType as MountKind,
};
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, LogsOptions, RemoveContainerOptions, RemoveImageOptions,
};
use futures_util::TryStreamExt;
use std::collections::HashMap;

/// An archive without a single file: two blocks of zeros are its end, and here its beginning, too.
const EMPTY_ARCHIVE: [u8; 1_024] = [0; 1_024];
/// What Docker answers where there is no such thing.
const NOT_FOUND: u16 = 404;

/// A container to be made.
pub struct Wanted<'a> {
    /// Its name.
    pub name: &'a str,
    /// The image it is made from.
    pub image: &'a str,
    /// Its command.
    pub words: Vec<String>,
    /// Its labels.
    pub labels: HashMap<String, String>,
    /// What it has mounted, read-only: the path here, and the path there.
    pub mounts: &'a [(String, String)],
}

impl Client {
    /// Makes an image with nothing in it; no registry is asked.
    pub fn import_empty_image(&self, repository: &str, tag: &str) -> Result<()> {
        let options = CreateImageOptions {
            from_src: Some("-".to_owned()),
            repo: Some(repository.to_owned()),
            tag: Some(tag.to_owned()),
            ..CreateImageOptions::default()
        };
        let archive = bollard::body_full(EMPTY_ARCHIVE.to_vec().into());
        let imported = self.docker.create_image(Some(options), Some(archive), None);
        let imported = self.runtime.block_on(imported.try_collect::<Vec<_>>());
        imported.map(drop).with_context(|| format!("could not make the image {repository}:{tag}"))
    }

    /// Makes a container, without a network; its id.
    pub fn create(&self, wanted: Wanted<'_>) -> Result<String> {
        let mount = |(source, target): &(String, String)| Mount {
            source: Some(source.clone()),
            target: Some(target.clone()),
            typ: Some(MountKind::BIND),
            read_only: Some(true),
            ..Mount::default()
        };
        let host = HostConfig {
            mounts: Some(wanted.mounts.iter().map(mount).collect()),
            network_mode: Some("none".to_owned()),
            ..HostConfig::default()
        };
        let body = ContainerCreateBody {
            image: Some(wanted.image.to_owned()),
            cmd: Some(wanted.words),
            labels: Some(wanted.labels),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptions {
            name: Some(wanted.name.to_owned()),
            ..CreateContainerOptions::default()
        };
        let created = self.runtime.block_on(self.docker.create_container(Some(options), body));
        Ok(created.with_context(|| format!("could not create the container {}", wanted.name))?.id)
    }

    /// Starts a container.
    pub fn start(&self, container: &str) -> Result<()> {
        let started = self.runtime.block_on(self.docker.start_container(container, None));
        started.with_context(|| format!("could not start the container {container}"))
    }

    /// What a container exited with; nothing while it runs.
    pub fn exit_code(&self, container: &str) -> Result<Option<i64>> {
        let found = self.runtime.block_on(self.docker.inspect_container(container, None));
        let found = found.with_context(|| format!("could not ask after the container {container}"))?;
        let state = found.state.unwrap_or_default();
        let over =
            matches!(state.status, Some(ContainerStateStatusEnum::EXITED | ContainerStateStatusEnum::DEAD));
        Ok(if over { state.exit_code } else { None })
    }

    /// The last line that a container printed.
    pub fn last_line(&self, container: &str) -> Result<String> {
        let options =
            LogsOptions { stdout: true, stderr: true, tail: "1".to_owned(), ..LogsOptions::default() };
        let printed = self.docker.logs(container, Some(options)).try_collect::<Vec<_>>();
        let printed = self.runtime.block_on(printed);
        let printed = printed.with_context(|| format!("could not read what {container} printed"))?;
        Ok(printed.last().map_or_else(String::new, |line| line.to_string().trim().to_owned()))
    }

    /// Removes a container, running or not. One that is not there is as good as removed.
    pub fn remove(&self, container: &str) -> Result<()> {
        let options = RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
        let removed = self.runtime.block_on(self.docker.remove_container(container, Some(options)));
        or_missing(removed).with_context(|| format!("could not remove the container {container}"))
    }

    /// Removes an image. One that is not there is as good as removed.
    pub fn remove_image(&self, image: &str) -> Result<()> {
        let options = RemoveImageOptions { force: true, ..RemoveImageOptions::default() };
        let removed = self.runtime.block_on(self.docker.remove_image(image, Some(options), None));
        or_missing(removed.map(drop)).with_context(|| format!("could not remove the image {image}"))
    }
}

fn or_missing(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(Error::DockerResponseServerError { status_code: NOT_FOUND, .. }) => Ok(()),
        done => done,
    }
}
