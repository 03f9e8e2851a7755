//! `docker run`'s words as a swarm service: what a service can have is translated, what it cannot is refused by name.
//!
//! A container becomes a service with one replica, which without `--restart` swarm does not start again. Swarm's own kind of service for
//! that, the replicated job, is not used: in Docker 20.10 a manager that has led the swarm twice starts each of them twice, and none is
//! stopped when its service changes. The image goes by digest or id: swarm asks a registry for a tag first, for 20 seconds where there is none.

use super::words::{self, Name};
use crate::failure::Failure;
use bollard::models::{
    EndpointPortConfig, EndpointPortConfigProtocolEnum as Protocol,
    EndpointPortConfigPublishModeEnum as PublishMode, EndpointSpec, Limit, Mount, MountType,
    NetworkAttachmentConfig, ServiceSpec, ServiceSpecMode, ServiceSpecModeReplicated, TaskSpec,
    TaskSpecContainerSpec, TaskSpecResources, TaskSpecRestartPolicy,
    TaskSpecRestartPolicyConditionEnum as Condition,
};
use std::collections::HashMap;
use std::ffi::OsString;
use wire::labels;

/// What gives a service its GPUs, for those who asked for them in another way.
const GPU_HELP: &str = "in a swarm, GPUs come with the nodes' default runtime: \"default-runtime\": \"nvidia\" in their \
                        daemon.json, and a container is shown the one it was placed on; see docs/cluster.md";
/// Options that people give for the sake of GPUs, or that need the same way out.
const FOR_GPUS: [&str; 6] = ["gpus", "device", "device-cgroup-rule", "runtime", "privileged", "pid"];

/// A command line, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Options by their long names, in their order.
    options: Vec<(String, String)>,
    /// The image.
    pub(crate) image: String,
    /// What it is told to run.
    words: Vec<String>,
}

/// Takes `docker run`'s words apart.
pub(crate) fn line(
    given: &[OsString],
    mut takes_value: impl FnMut(Name<'_>) -> Result<bool, Failure>,
) -> Result<Line, Failure> {
    let mut line = Line::default();
    let mut rest: &[OsString] = given;
    while let Some(word) = rest.first().filter(|word| words::is_option(word)) {
        let taken = words::words_taken(word, &mut takes_value)?.min(rest.len());
        let next = (taken == 2).then(|| rest[1].to_string_lossy().into_owned());
        split(&word.to_string_lossy(), next, &mut line.options, &mut takes_value)?;
        rest = &rest[taken..];
    }
    let rest = if rest.first().is_some_and(|word| word == "--") { &rest[1..] } else { rest };
    let mut words = rest.iter().map(|word| word.to_string_lossy().into_owned());
    line.image = words.next().ok_or_else(|| Failure::input("the image is missing"))?;
    line.words = words.collect();
    Ok(line)
}

/// One word's options: a long one, or short ones run together, of which the last may have a value.
fn split(
    word: &str,
    next: Option<String>,
    options: &mut Vec<(String, String)>,
    takes_value: &mut impl FnMut(Name<'_>) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, next),
        };
        options.push((name.to_owned(), value.unwrap_or_else(|| "true".to_owned())));
        return Ok(());
    }
    let letters: Vec<char> = word.chars().skip(1).collect();
    for (at, letter) in letters.iter().enumerate() {
        let attached: String = letters[at + 1..].iter().collect();
        if let Some(value) = attached.strip_prefix('=') {
            options.push((long_name(*letter), value.to_owned()));
            return Ok(());
        }
        if takes_value(Name::Short(*letter))? {
            let value = if attached.is_empty() { next.unwrap_or_default() } else { attached };
            options.push((long_name(*letter), value));
            return Ok(());
        }
        options.push((long_name(*letter), "true".to_owned()));
    }
    Ok(())
}

fn long_name(letter: char) -> String {
    let long = match letter {
        'd' => "detach",
        'e' => "env",
        'h' => "hostname",
        'i' => "interactive",
        'l' => "label",
        'm' => "memory",
        'p' => "publish",
        't' => "tty",
        'u' => "user",
        'v' => "volume",
        'w' => "workdir",
        other => return other.to_string(),
    };
    long.to_owned()
}

impl Line {
    /// The service that it describes.
    pub(crate) fn spec(&self, name_otherwise: &str, image: String) -> Result<ServiceSpec, Failure> {
        let mut made = Made { name: name_otherwise.to_owned(), restart: "no".to_owned(), ..Made::default() };
        made.container.image = Some(image);
        made.container.args = (!self.words.is_empty()).then(|| self.words.clone());
        for (name, value) in &self.options {
            made.take(name, value)?;
        }
        made.spec()
    }
}

/// A service in the making.
#[derive(Default)]
struct Made {
    name: String,
    container: TaskSpecContainerSpec,
    labels: HashMap<String, String>,
    limits: Limit,
    networks: Vec<NetworkAttachmentConfig>,
    ports: Vec<EndpointPortConfig>,
    restart: String,
}

impl Made {
    fn take(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let container = &mut self.container;
        let is = |value: &str| value == "true";
        match name {
            // A service is never attached to.
            "detach" => {}
            "name" => value.clone_into(&mut self.name),
            "restart" => value.clone_into(&mut self.restart),
            "label" => {
                let (key, value) = value.split_once('=').unwrap_or((value, ""));
                self.labels.insert(key.to_owned(), value.to_owned());
            }
            "env" => container.env.get_or_insert_default().push(variable(value)?),
            "volume" => container.mounts.get_or_insert_default().push(volume(value)),
            "mount" => container.mounts.get_or_insert_default().push(mount(value)?),
            "workdir" => container.dir = Some(value.to_owned()),
            "user" => container.user = Some(value.to_owned()),
            "hostname" => container.hostname = Some(value.to_owned()),
            "entrypoint" => container.command = Some(vec![value.to_owned()]),
            "stop-signal" => container.stop_signal = Some(value.to_owned()),
            "stop-timeout" => {
                let seconds: i64 = value.parse().map_err(|_| no_number("stop-timeout", value))?;
                container.stop_grace_period = Some(seconds * 1_000_000_000);
            }
            "read-only" => container.read_only = Some(is(value)),
            "init" => container.init = Some(is(value)),
            "tty" => container.tty = Some(is(value)),
            "network" | "net" => self.networks.push(NetworkAttachmentConfig {
                target: Some(value.to_owned()),
                ..NetworkAttachmentConfig::default()
            }),
            "publish" => self.ports.push(port(value)?),
            "memory" => {
                let bytes = wire::bytes::parse(value)
                    .map_err(|wrong| Failure::input(format!("--memory: {wrong}")))?;
                self.limits.memory_bytes = i64::try_from(bytes).ok();
            }
            "cpus" => {
                let cpus: f64 = value.parse().map_err(|_| no_number("cpus", value))?;
                self.limits.nano_cpus = Some((cpus * 1e9) as i64);
            }
            other => return Err(cannot_have(other)),
        }
        Ok(())
    }

    fn spec(mut self) -> Result<ServiceSpec, Failure> {
        // The agent reads the container's, the master the service's.
        self.container.labels = Some(self.labels.clone());
        let ours = |key: &String| key.starts_with(labels::PREFIX);
        let labels = self.labels.into_iter().filter(|(key, _)| ours(key)).collect();
        let mode = ServiceSpecMode {
            replicated: Some(ServiceSpecModeReplicated { replicas: Some(1) }),
            ..ServiceSpecMode::default()
        };
        let limited = self.limits != Limit::default();
        let task = TaskSpec {
            container_spec: Some(self.container),
            resources: limited
                .then(|| TaskSpecResources { limits: Some(self.limits), ..TaskSpecResources::default() }),
            restart_policy: Some(restart_policy(&self.restart)?),
            networks: (!self.networks.is_empty()).then_some(self.networks),
            ..TaskSpec::default()
        };
        let endpoint = EndpointSpec { ports: Some(self.ports), ..EndpointSpec::default() };
        Ok(ServiceSpec {
            name: Some(self.name),
            labels: Some(labels),
            task_template: Some(task),
            mode: Some(mode),
            endpoint_spec: endpoint.ports.as_ref().is_some_and(|ports| !ports.is_empty()).then_some(endpoint),
            ..ServiceSpec::default()
        })
    }
}

/// When swarm starts it again.
fn restart_policy(restart: &str) -> Result<TaskSpecRestartPolicy, Failure> {
    let policy = |condition, attempts| TaskSpecRestartPolicy {
        condition: Some(condition),
        max_attempts: attempts,
        ..TaskSpecRestartPolicy::default()
    };
    let (word, attempts) = restart.split_once(':').unwrap_or((restart, ""));
    match (word, attempts.parse::<i64>()) {
        ("no" | "", _) => Ok(policy(Condition::NONE, None)),
        ("always" | "unless-stopped", _) => Ok(policy(Condition::ANY, None)),
        ("on-failure", Ok(attempts)) => Ok(policy(Condition::ON_FAILURE, Some(attempts))),
        ("on-failure", Err(_)) if attempts.is_empty() => Ok(policy(Condition::ON_FAILURE, None)),
        _ => Err(Failure::input(format!(
            "--restart: '{restart}' is not known: accepted are no, always, unless-stopped, on-failure[:N]"
        ))),
    }
}

fn cannot_have(name: &str) -> Failure {
    let dashes = if name.chars().count() == 1 { "-" } else { "--" };
    let words = Failure::input(format!(
        "with --node a container is a swarm service, which cannot have {dashes}{name}"
    ));
    if FOR_GPUS.contains(&name) {
        return words.help(GPU_HELP);
    }
    words.help("leave it out, or leave --node out to run the container here")
}

fn no_number(option: &str, value: &str) -> Failure {
    Failure::input(format!("--{option}: '{value}' is not a number"))
}

/// `KEY=VALUE`, or `KEY` with the value it has here.
fn variable(text: &str) -> Result<String, Failure> {
    if text.contains('=') {
        return Ok(text.to_owned());
    }
    let value = std::env::var(text);
    value
        .map(|value| format!("{text}={value}"))
        .map_err(|_| Failure::input(format!("--env: '{text}' has no value here: accepted is KEY=VALUE")))
}

/// `/host:/container[:ro]`, `name:/container`, `/container`.
fn volume(text: &str) -> Mount {
    let mut parts = text.split(':');
    let (first, target, options) = (parts.next(), parts.next(), parts.next().unwrap_or_default());
    let source = target.and(first).map(str::to_owned);
    let is_path = source.as_ref().is_some_and(|source| source.starts_with('/'));
    Mount {
        target: target.or(first).map(str::to_owned),
        source,
        typ: Some(if is_path { MountType::BIND } else { MountType::VOLUME }),
        read_only: Some(options.split(',').any(|option| option == "ro")),
        ..Mount::default()
    }
}

/// `type=bind,source=/a,target=/b,readonly`.
fn mount(text: &str) -> Result<Mount, Failure> {
    let mut mount = Mount { typ: Some(MountType::VOLUME), ..Mount::default() };
    for part in text.split(',') {
        let (key, value) = part.split_once('=').unwrap_or((part, "true"));
        match key {
            "type" => {
                mount.typ = Some(match value {
                    "bind" => MountType::BIND,
                    "volume" => MountType::VOLUME,
                    "tmpfs" => MountType::TMPFS,
                    _ => {
                        return Err(Failure::input(format!(
                            "--mount: type={value} is not known: accepted are bind, volume, tmpfs"
                        )));
                    }
                });
            }
            "source" | "src" => mount.source = Some(value.to_owned()),
            "target" | "dst" | "destination" => mount.target = Some(value.to_owned()),
            "readonly" | "ro" => mount.read_only = Some(value == "true" || value == "1"),
            _ => {
                return Err(Failure::input(format!(
                    "--mount: '{key}' is not passed on to a service: accepted are type, source, target, readonly"
                )));
            }
        }
    }
    Ok(mount)
}

/// `8080:80[/udp]`, `80`: on the node itself, as with `docker run`.
fn port(text: &str) -> Result<EndpointPortConfig, Failure> {
    let wrong = || {
        Failure::input(format!("--publish: '{text}' is not understood: accepted is [PORT:]PORT[/PROTOCOL]"))
    };
    let (ports, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let (published, target) = ports.rsplit_once(':').map_or((None, ports), |(one, other)| (Some(one), other));
    let number = |text: &str| text.parse::<u16>().map(i64::from).map_err(|_| wrong());
    Ok(EndpointPortConfig {
        protocol: Some(match protocol {
            "tcp" => Protocol::TCP,
            "udp" => Protocol::UDP,
            "sctp" => Protocol::SCTP,
            _ => return Err(wrong()),
        }),
        target_port: Some(number(target)?),
        published_port: published.map(number).transpose()?,
        publish_mode: Some(PublishMode::HOST),
        ..EndpointPortConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Result<ServiceSpec, Failure> {
        let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
        let flags = ["detach", "d", "rm", "i", "t", "tty", "privileged", "init", "read-only"];
        let takes_value = |name: Name<'_>| {
            Ok(match name {
                Name::Long(long) => !flags.contains(&long),
                Name::Short(short) => !flags.contains(&short.to_string().as_str()),
            })
        };
        line(&words, takes_value)?.spec("otherwise", "sha256:1".to_owned())
    }

    #[test]
    fn swarm_starts_again_what_docker_would_start_again() {
        let once = spec("-d --name one IMAGE sh -c true").unwrap();
        assert_eq!(once.name.as_deref(), Some("one"));
        assert_eq!(once.mode.unwrap().replicated.unwrap().replicas, Some(1));
        let task = once.task_template.unwrap();
        assert_eq!(task.container_spec.unwrap().args.unwrap(), ["sh", "-c", "true"]);
        assert_eq!(task.restart_policy.unwrap().condition, Some(Condition::NONE));
        let service = spec("--restart=on-failure:3 IMAGE").unwrap();
        assert_eq!(service.task_template.unwrap().restart_policy.unwrap().max_attempts, Some(3));
        assert!(spec("--restart sometimes IMAGE").is_err());
    }

    #[test]
    fn deadlines_are_labels_of_service_and_container() {
        let made = spec("--label=leeway.deadline=2s -l team=a IMAGE").unwrap();
        assert_eq!(made.labels.unwrap(), HashMap::from([("leeway.deadline".to_owned(), "2s".to_owned())]));
        let container = made.task_template.unwrap().container_spec.unwrap();
        assert_eq!(container.labels.unwrap().len(), 2);
    }

    #[test]
    fn mounts_variables_and_ports_are_those_of_docker_run() {
        let text = "-tde A=1 -v /a:/b:ro -v named:/c --mount type=bind,source=/x,target=/y,readonly -p 8080:80/udp IMAGE";
        let made = spec(text).unwrap();
        let container = made.task_template.unwrap().container_spec.unwrap();
        assert_eq!((container.env.unwrap(), container.tty), (vec!["A=1".to_owned()], Some(true)));
        let mounts = container.mounts.unwrap();
        assert_eq!(mounts[0].typ, Some(MountType::BIND));
        assert_eq!((mounts[0].source.as_deref(), mounts[0].read_only), (Some("/a"), Some(true)));
        assert_eq!(mounts[1].typ, Some(MountType::VOLUME));
        assert_eq!(mounts[2].target.as_deref(), Some("/y"));
        let port = &made.endpoint_spec.unwrap().ports.unwrap()[0];
        assert_eq!((port.target_port, port.published_port), (Some(80), Some(8080)));
        assert_eq!(port.protocol, Some(Protocol::UDP));
    }

    #[test]
    fn what_a_service_cannot_have_is_refused_by_name() {
        for (text, named) in [
            ("--gpus all IMAGE", "--gpus"),
            ("--device /dev/x IMAGE", "--device"),
            ("--runtime nvidia IMAGE", "--runtime"),
            ("--pid host IMAGE", "--pid"),
            ("--privileged IMAGE", "--privileged"),
            ("-it IMAGE", "--interactive"),
            ("--rm IMAGE", "--rm"),
            ("-c 5 IMAGE", "-c"),
        ] {
            let refused = spec(text).unwrap_err().to_string();
            assert!(refused.ends_with(&format!("cannot have {named}")), "{refused}");
        }
        assert!(spec("-d").unwrap_err().to_string().contains("image"));
    }
}
