//! Which daemon: by the rules of the Docker CLI.
//!
//! In order: `--host`, `--context`, `DOCKER_HOST`, `DOCKER_CONTEXT`, the current context of Docker's configuration, and
//! the default socket. Podman's socket is one more address for `DOCKER_HOST`.

use super::globals::Globals;
use crate::failure::Failure;
use anyhow::{Context, Result};
use serde_json::Value;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Where Docker listens when nobody says otherwise.
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";

/// A daemon's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `unix://…`, `tcp://…` or `ssh://…`
    pub host: String,
    /// The keys to show, where the address is to be reached by TLS.
    pub tls: Option<Keys>,
}

/// Files for TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The authority that signed the daemon's certificate.
    pub authority: PathBuf,
    /// Our certificate.
    pub certificate: PathBuf,
    /// Our key.
    pub key: PathBuf,
}

impl Endpoint {
    /// The daemon that the Docker CLI would talk to, given the same options here.
    pub fn find(globals: &Globals) -> Result<Self> {
        Self::choose(globals, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn choose(globals: &Globals, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let configuration = Configuration::at(globals, &variable);
        if let [host] = &globals.host[..] {
            if globals.context.is_some() {
                return Err(
                    Failure::input("--host and --context name a daemon each: give one of them").into()
                );
            }
            return Ok(Self::by_host(host, globals, &configuration, &variable));
        }
        if !globals.host.is_empty() {
            return Err(Failure::input("--host was given more than once").into());
        }
        let by_variable = || variable("DOCKER_HOST").map(|_| "default".to_owned());
        let context = globals.context.clone().or_else(by_variable).or_else(|| variable("DOCKER_CONTEXT"));
        match context.map_or_else(|| configuration.current_context(), |name| Ok(Some(name)))? {
            Some(name) if name != "default" => configuration.context(&name),
            _ => {
                let host = variable("DOCKER_HOST").unwrap_or_else(|| DEFAULT_HOST.to_owned());
                Ok(Self::by_host(&host, globals, &configuration, &variable))
            }
        }
    }

    /// An address given as such; whether to use TLS is said elsewhere.
    fn by_host(
        host: &str,
        globals: &Globals,
        configuration: &Configuration,
        variable: &impl Fn(&str) -> Option<String>,
    ) -> Self {
        let host = if host.contains("://") { host.to_owned() } else { format!("tcp://{host}") };
        let asked =
            globals.tls.or(globals.tlsverify).unwrap_or_else(|| variable("DOCKER_TLS_VERIFY").is_some());
        let folder = variable("DOCKER_CERT_PATH").map_or_else(|| configuration.folder.clone(), PathBuf::from);
        let file = |given: &Option<PathBuf>, name| given.clone().unwrap_or_else(|| folder.join(name));
        let keys = Keys {
            authority: file(&globals.tlscacert, "ca.pem"),
            certificate: file(&globals.tlscert, "cert.pem"),
            key: file(&globals.tlskey, "key.pem"),
        };
        let tls = (asked && !host.starts_with("unix://") && !host.starts_with("ssh://")).then_some(keys);
        Self { host, tls }
    }

    /// Fails if the daemon is on this machine and nobody listens. A distant one is asked when it is needed.
    pub fn check(&self) -> Result<(), Failure> {
        let Some(path) = self.host.strip_prefix("unix://") else { return Ok(()) };
        UnixStream::connect(path).map(drop).map_err(|error| self.no_daemon(&error))
    }

    fn no_daemon(&self, error: &io::Error) -> Failure {
        let host = &self.host;
        if error.kind() == io::ErrorKind::PermissionDenied {
            return Failure::new(format!("you may not use the Docker daemon at {host}: {error}"))
                .help("try sudo, or join the group of the socket: `sudo usermod -aG docker $USER`, then log in again");
        }
        Failure::new(format!("the Docker daemon is missing: nobody answers at {host}: {error}")).help(
            "start it with `sudo systemctl start docker`; install it with `sudo apt install docker.io` (Debian, \
             Ubuntu) or Docker's own package docker-ce; name another with DOCKER_HOST or `docker context use`",
        )
    }
}

/// Docker's client configuration: a folder.
struct Configuration {
    folder: PathBuf,
}

impl Configuration {
    fn at(globals: &Globals, variable: impl Fn(&str) -> Option<String>) -> Self {
        let home = || PathBuf::from(variable("HOME").unwrap_or_default()).join(".docker");
        let folder = globals.config.clone().or_else(|| variable("DOCKER_CONFIG").map(PathBuf::from));
        Self { folder: folder.unwrap_or_else(home) }
    }

    /// The context chosen with `docker context use`, if one was.
    fn current_context(&self) -> Result<Option<String>> {
        let file = self.folder.join("config.json");
        let text = match std::fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => {
                read.with_context(|| format!("could not read Docker's configuration {}", file.display()))?
            }
        };
        let configuration: Value = serde_json::from_str(&text)
            .with_context(|| format!("could not understand Docker's configuration {}", file.display()))?;
        Ok(configuration["currentContext"].as_str().filter(|name| !name.is_empty()).map(str::to_owned))
    }

    /// The daemon of a context. Docker keeps each in a folder named by a hash; the name is inside.
    fn context(&self, name: &str) -> Result<Endpoint> {
        let contexts = self.folder.join("contexts");
        let unknown = || {
            Failure::new(format!("there is no Docker context '{name}' in {}", contexts.display()))
                .help("`docker context ls` lists those there are")
        };
        let folders = std::fs::read_dir(contexts.join("meta")).map_err(|_| unknown())?;
        let (folder, context) = folders
            .flatten()
            .filter_map(|folder| Some((folder.file_name(), read_json(&folder.path().join("meta.json"))?)))
            .find(|(_, context)| context["Name"] == name)
            .ok_or_else(unknown)?;
        let host = context["Endpoints"]["docker"]["Host"].as_str().filter(|host| !host.is_empty());
        let keys = contexts.join("tls").join(folder).join("docker");
        let file = |name| keys.join(name);
        let tls = file("ca.pem").exists().then(|| Keys {
            authority: file("ca.pem"),
            certificate: file("cert.pem"),
            key: file("key.pem"),
        });
        Ok(Endpoint { host: host.unwrap_or(DEFAULT_HOST).to_owned(), tls })
    }
}

fn read_json(file: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(globals: &Globals, variables: &[(&str, &str)]) -> Result<Endpoint> {
        Endpoint::choose(globals, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn an_option_beats_a_variable_and_a_variable_beats_the_default() {
        let none = Globals::default();
        let host = |globals: &Globals, variables| chosen(globals, variables).unwrap().host;
        assert_eq!(host(&none, &[]), DEFAULT_HOST);
        let variables = [("DOCKER_HOST", "tcp://far:2375"), ("DOCKER_CONTEXT", "nowhere")];
        assert_eq!(host(&none, &variables), "tcp://far:2375");
        let option = Globals { host: vec!["near:2375".to_owned()], ..Globals::default() };
        assert_eq!(host(&option, &variables), "tcp://near:2375");
    }

    #[test]
    fn two_daemons_are_one_too_many() {
        let both =
            Globals { host: vec!["a:1".to_owned()], context: Some("b".to_owned()), ..Globals::default() };
        assert!(chosen(&both, &[]).is_err());
        let twice = Globals { host: vec!["a:1".to_owned(), "b:1".to_owned()], ..Globals::default() };
        assert!(chosen(&twice, &[]).is_err());
    }

    #[test]
    fn a_distant_daemon_is_shown_the_keys_where_it_is_asked_for() {
        let variables =
            [("DOCKER_HOST", "tcp://far:2376"), ("DOCKER_TLS_VERIFY", "1"), ("DOCKER_CERT_PATH", "/k")];
        let keys = chosen(&Globals::default(), &variables).unwrap().tls.unwrap();
        assert_eq!(keys.authority, Path::new("/k/ca.pem"));
        let near = [("DOCKER_TLS_VERIFY", "1")];
        assert_eq!(chosen(&Globals::default(), &near).unwrap().tls, None);
    }
}
