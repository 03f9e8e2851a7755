//! Docker's swarm mode: who leads, who is down, and services pinned to the node they are given.
//!
//! A service is pinned by `node.id`: swarm shuts down tasks whose constraint stops matching, and an id never changes. It is
//! moved by changing that constraint. What a move must remember is in the service's own labels, so that the next master,
//! on another machine, knows it, too.

use super::View;
use crate::certificates::digest;
use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{
    Node, NodeSpecAvailabilityEnum as Availability, NodeState, Service, ServiceSpec, Task, TaskSpecPlacement,
    TaskSpecRestartPolicy, TaskSpecRestartPolicyConditionEnum as Condition, TaskState,
};
use bollard::query_parameters::{ListServicesOptions, ListTasksOptions, UpdateServiceOptions};
use std::collections::HashMap;
use std::time::Duration;
use wire::cluster::{KIND, NODE, PLACEMENT, Placed};
use wire::labels;

/// The request that made a service: who asks twice with one name means one service.
const REQUEST: &str = "leeway.request";
/// When a service was last moved, in microseconds since 1970.
const MOVED_US: &str = "leeway.moved.us";
/// The nodes it left because it missed there.
const LEFT: &str = "leeway.left";
/// The GPU that its place was found on.
const GPU: &str = "leeway.gpu";
/// What NVIDIA's runtime reads: which GPUs a container sees.
const SHOWN: &str = "NVIDIA_VISIBLE_DEVICES=";
/// How a constraint begins that pins.
const PIN: &str = "node.id==";
/// How long the engine may take to answer before it counts as gone.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// What Docker answers where a name is taken, and where there is no such thing.
const CONFLICT: u16 = 409;
const NOT_FOUND: u16 = 404;

/// The swarm, seen from one of its managers.
#[derive(Clone)]
pub(crate) struct Swarm {
    docker: Docker,
    /// What the swarm calls this machine.
    pub(crate) id: String,
}

/// A service that a master placed.
#[derive(Debug, Clone)]
pub(crate) struct PlacedService {
    pub(crate) name: String,
    id: String,
    /// Counts its changes.
    pub(crate) version: i32,
    spec: ServiceSpec,
    /// Where it is, as the swarm calls it.
    pub(crate) engine_id: String,
    /// Whether it may be moved.
    pub(crate) may_move: bool,
    /// When it was last moved.
    pub(crate) moved_us: i64,
    /// The nodes it left because it missed there.
    pub(crate) left: Vec<String>,
}

/// Why a service was not created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoService {
    /// The description is none.
    #[error("the description of the service cannot be understood: {0}")]
    Spec(#[from] serde_json::Error),
    /// Another service has the name.
    #[error("there is a service '{0}' already")]
    Exists(String),
    /// Docker refused.
    #[error("the swarm did not create the service: {0}")]
    Docker(#[from] Error),
}

/// What the engine answers, if it does so soon: a manager that lost the majority answers late or not at all.
pub(crate) async fn soon<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    let late = |_| format!("the swarm did not answer within {} s", ANSWER_MAX.as_secs());
    tokio::time::timeout(ANSWER_MAX, asked).await.map_err(late)?.map_err(|error| error.to_string())
}

impl Swarm {
    /// The swarm that the Docker at the other end manages; or why it manages none.
    pub(crate) async fn find(docker: Docker) -> Result<Self, String> {
        let info = docker.info().await.map_err(|error| error.to_string())?;
        let swarm = info.swarm.unwrap_or_default();
        match (swarm.control_available, swarm.node_id.filter(|id| !id.is_empty())) {
            (Some(true), Some(id)) => Ok(Self { docker, id }),
            _ => Err("this Docker manages no swarm".to_owned()),
        }
    }

    /// Who leads, and who is of no use.
    pub(crate) async fn look(&self) -> Result<View, Error> {
        let nodes = self.docker.list_nodes(None).await?;
        let mut view = View::default();
        for node in nodes {
            let (id, name) = (node.id.clone().unwrap_or_default(), name_of(&node));
            view.known.get_or_insert_default().insert(id.clone());
            let status = node.status.and_then(|status| status.state);
            let availability = node.spec.and_then(|spec| spec.availability);
            if node.manager_status.is_some_and(|manager| manager.leader == Some(true)) {
                view.leads = id == self.id;
                view.leader.clone_from(&name);
            }
            if status == Some(NodeState::DOWN) {
                view.down.push(id.clone());
            }
            if availability == Some(Availability::DRAIN) {
                view.drained.push(id.clone());
            }
            // After an election swarm knows nothing of its nodes for some seconds, and gives them time to come back.
            let there = matches!(status, Some(NodeState::READY | NodeState::UNKNOWN));
            let why = match (status, availability) {
                (_, Some(Availability::ACTIVE) | None) if there => continue,
                (_, Some(availability)) if there => {
                    format!("swarm does not use it: its availability is {availability}")
                }
                (status, _) => {
                    let status = status.map(|status| status.to_string()).unwrap_or_default();
                    format!("swarm does not use it: it is {status}")
                }
            };
            view.unusable.insert(id, why);
        }
        Ok(view)
    }

    /// The service that a request made already, with the placement that it got.
    pub(crate) async fn made_by(&self, name: &str, request: &str) -> Result<Option<String>, NoService> {
        let found = match self.docker.inspect_service(name, None).await {
            Err(Error::DockerResponseServerError { status_code: NOT_FOUND, .. }) => return Ok(None),
            found => found?,
        };
        let labels = found.spec.and_then(|spec| spec.labels).unwrap_or_default();
        if labels.get(REQUEST).map(String::as_str) == Some(request) {
            return Ok(Some(found.id.unwrap_or_default()));
        }
        Err(NoService::Exists(name.to_owned()))
    }

    /// Creates a service on its node; its id.
    pub(crate) async fn create(
        &self,
        mut spec: ServiceSpec,
        placed: &Placed,
        wanted_node: &str,
        request: &str,
    ) -> Result<String, NoService> {
        let name = spec.name.clone().unwrap_or_default();
        pin(&mut spec, &placed.engine_id);
        let kind = kind(&spec);
        let on_service = spec.labels.get_or_insert_default();
        on_service.insert(NODE.to_owned(), wanted_node.to_owned());
        on_service.insert(REQUEST.to_owned(), request.to_owned());
        label_container(&mut spec, KIND, kind);
        label_container(&mut spec, PLACEMENT, placed.placement.clone());
        give_gpu(&mut spec, placed.gpu);
        match self.docker.create_service(spec, None).await {
            // Somebody asked twice at once.
            Err(Error::DockerResponseServerError { status_code: CONFLICT, .. }) => {
                self.made_by(&name, request).await?.ok_or(NoService::Exists(name))
            }
            created => Ok(created?.id.unwrap_or_default()),
        }
    }

    /// Every service that a master placed.
    pub(crate) async fn placed(&self) -> Result<Vec<PlacedService>, Error> {
        let filters = HashMap::from([("label".to_owned(), vec![NODE.to_owned()])]);
        let options = ListServicesOptions { filters: Some(filters), ..ListServicesOptions::default() };
        let services = self.docker.list_services(Some(options)).await?;
        Ok(services.into_iter().filter_map(placed).collect())
    }

    /// What has become of a service where it is now.
    pub(crate) async fn fate(&self, service: &PlacedService) -> Result<Fate, Error> {
        let filters = HashMap::from([("service".to_owned(), vec![service.id.clone()])]);
        let tasks = self.docker.list_tasks(Some(ListTasksOptions { filters: Some(filters) })).await?;
        Ok(fate(&tasks, &service.engine_id, service.placement().as_deref()))
    }

    /// Whether a container of the service still runs where it is now.
    pub(crate) async fn still_runs(&self, service: &PlacedService) -> Result<bool, Error> {
        let filters = HashMap::from([
            ("service".to_owned(), vec![service.id.clone()]),
            ("node".to_owned(), vec![service.engine_id.clone()]),
        ]);
        let tasks = self.docker.list_tasks(Some(ListTasksOptions { filters: Some(filters) })).await?;
        let runs = |task: &bollard::models::Task| {
            task.status.as_ref().is_some_and(|status| status.state == Some(TaskState::RUNNING))
        };
        Ok(tasks.iter().any(runs))
    }

    /// Moves a service. `left` is the node it leaves because it missed there.
    pub(crate) async fn move_to(
        &self,
        service: &PlacedService,
        placed: &Placed,
        now_us: i64,
        left: Option<&str>,
    ) -> Result<(), Error> {
        let mut spec = service.spec.clone();
        pin(&mut spec, &placed.engine_id);
        label_container(&mut spec, PLACEMENT, placed.placement.clone());
        give_gpu(&mut spec, placed.gpu);
        let labels = spec.labels.get_or_insert_default();
        labels.insert(MOVED_US.to_owned(), now_us.to_string());
        if let Some(left) = left {
            let all: Vec<&str> = service.left.iter().map(String::as_str).chain([left]).collect();
            labels.insert(LEFT.to_owned(), all.join(" "));
        }
        // The version makes it one move, whoever else changes the service meanwhile.
        let options = UpdateServiceOptions { version: service.version, ..UpdateServiceOptions::default() };
        self.docker.update_service(&service.id, spec, options, None).await.map(drop)
    }
}

impl PlacedService {
    /// A label of the service.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.spec.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// Whether it runs once.
    pub(crate) fn runs_once(&self) -> bool {
        self.restart_policy().and_then(|policy| policy.condition) == Some(Condition::NONE)
    }

    /// Whether swarm counts how often it starts it again.
    pub(crate) fn is_limited(&self) -> bool {
        // None at all is as many as it takes, and so is zero.
        self.restart_policy().and_then(|policy| policy.max_attempts).is_some_and(|most| most > 0)
    }

    fn restart_policy(&self) -> Option<&TaskSpecRestartPolicy> {
        self.spec.task_template.as_ref()?.restart_policy.as_ref()
    }

    /// What it runs.
    pub(crate) fn kind(&self) -> Option<String> {
        self.container_label(KIND)
    }

    /// How it came to where it is.
    pub(crate) fn placement(&self) -> Option<String> {
        self.container_label(PLACEMENT)
    }

    fn container_label(&self, name: &str) -> Option<String> {
        self.spec.task_template.as_ref()?.container_spec.as_ref()?.labels.as_ref()?.get(name).cloned()
    }
}

/// What has become of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It runs, or swarm will start it.
    Lives,
    /// It ended well.
    Done,
    /// It failed, and swarm does not start it again. Somebody on its node may have ended it, for all that swarm knows.
    Failed,
    /// Swarm stopped it, and does not start it again.
    Stopped,
}

/// The states that a task stays in.
const OVER: [TaskState; 6] = [
    TaskState::COMPLETE,
    TaskState::SHUTDOWN,
    TaskState::FAILED,
    TaskState::REJECTED,
    TaskState::REMOVE,
    TaskState::ORPHANED,
];

/// By its tasks since it was placed there, of which the newest counts. What is to be stopped may still run here; elsewhere, on a node that
/// was lost, it runs for ever in swarm's eyes, and what never had a node waits for ever.
fn fate(tasks: &[Task], node: &str, placement: Option<&str>) -> Fate {
    let state = |task: &Task| task.status.as_ref().and_then(|status| status.state);
    let is_wanted = |task: &Task| matches!(task.desired_state, Some(TaskState::READY | TaskState::RUNNING));
    let lives = |task: &Task| {
        task.node_id.as_deref() == Some(node) && state(task).is_none_or(|state| !OVER.contains(&state))
    };
    let placed_as = |task: &Task| {
        let container = task.spec.as_ref()?.container_spec.as_ref()?;
        container.labels.as_ref()?.get(PLACEMENT).cloned()
    };
    let made = |task: &&Task| task.created_at.as_ref().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    let newest = tasks.iter().filter(|task| placed_as(task).as_deref() == placement).max_by_key(made);
    let Some(newest) = newest.and_then(state) else { return Fate::Lives };
    if tasks.iter().any(|task| is_wanted(task) || lives(task)) {
        return Fate::Lives;
    }
    match newest {
        TaskState::COMPLETE => Fate::Done,
        TaskState::FAILED | TaskState::REJECTED => Fate::Failed,
        _ => Fate::Stopped,
    }
}

fn name_of(node: &Node) -> String {
    let described = node.description.as_ref().and_then(|about| about.hostname.clone());
    described.or_else(|| node.id.clone()).unwrap_or_default()
}

fn placed(service: Service) -> Option<PlacedService> {
    let spec = service.spec?;
    let labels = spec.labels.clone().unwrap_or_default();
    let constraints = spec.task_template.as_ref()?.placement.as_ref()?.constraints.as_ref()?;
    let engine_id = constraints.iter().find_map(|constraint| constraint.strip_prefix(PIN))?.to_owned();
    Some(PlacedService {
        name: spec.name.clone()?,
        id: service.id?,
        version: i32::try_from(service.version?.index?).ok()?,
        engine_id,
        may_move: labels.get(labels::MIGRATE).map(String::as_str) == Some("true"),
        moved_us: labels.get(MOVED_US).and_then(|us| us.parse().ok()).unwrap_or(0),
        left: labels.get(LEFT).map(|names| names.split(' ').map(str::to_owned).collect()).unwrap_or_default(),
        spec,
    })
}

/// The image and what it is told to run, as one word.
pub(crate) fn kind(spec: &ServiceSpec) -> String {
    let container = spec.task_template.as_ref().and_then(|task| task.container_spec.as_ref());
    let words = container.map(|container| {
        let all =
            [container.image.clone().into_iter().collect(), container.command.clone().unwrap_or_default()];
        [all.concat(), container.args.clone().unwrap_or_default()].concat()
    });
    digest(words.unwrap_or_default().join("\0").as_bytes())[..16].to_owned()
}

fn pin(spec: &mut ServiceSpec, engine_id: &str) {
    let task = spec.task_template.get_or_insert_default();
    let placement = task.placement.get_or_insert_with(TaskSpecPlacement::default);
    let constraints = placement.constraints.get_or_insert_default();
    constraints.retain(|constraint| !constraint.starts_with(PIN));
    constraints.push(format!("{PIN}{engine_id}"));
}

/// Shows a container the GPU that its place was found on, and no other, unless somebody chose one: a program takes the first it sees.
fn give_gpu(spec: &mut ServiceSpec, gpu: u8) {
    let container = spec.task_template.get_or_insert_default().container_spec.get_or_insert_default();
    let given = container.labels.get_or_insert_default().insert(GPU.to_owned(), gpu.to_string());
    let variables = container.env.get_or_insert_default();
    let shown = variables.iter().find_map(|variable| variable.strip_prefix(SHOWN));
    if shown.is_none_or(|shown| shown == "all" || Some(shown) == given.as_deref()) {
        variables.retain(|variable| !variable.starts_with(SHOWN));
        variables.push(format!("{SHOWN}{gpu}"));
    }
}

fn label_container(spec: &mut ServiceSpec, name: &str, value: String) {
    let container = spec.task_template.get_or_insert_default().container_spec.get_or_insert_default();
    container.labels.get_or_insert_default().insert(name.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_sees_the_gpu_of_its_place_unless_somebody_chose_one() {
        let shown = |spec: &ServiceSpec| {
            let container = spec.task_template.clone().unwrap().container_spec.unwrap();
            container.env.unwrap().join(" ")
        };
        let mut spec = ServiceSpec::default();
        give_gpu(&mut spec, 3);
        assert_eq!(shown(&spec), "NVIDIA_VISIBLE_DEVICES=3");
        give_gpu(&mut spec, 0);
        assert_eq!(shown(&spec), "NVIDIA_VISIBLE_DEVICES=0", "it moved");
        for (chosen, then) in
            [("all", "A=1 NVIDIA_VISIBLE_DEVICES=2"), ("1,5", "A=1 NVIDIA_VISIBLE_DEVICES=1,5")]
        {
            let mut spec = ServiceSpec::default();
            let container = spec.task_template.get_or_insert_default().container_spec.get_or_insert_default();
            container.env = Some(vec!["A=1".to_owned(), format!("{SHOWN}{chosen}")]);
            give_gpu(&mut spec, 2);
            assert_eq!(shown(&spec), then);
        }
    }

    #[test]
    fn what_became_of_a_service_is_told_by_its_tasks_since_it_was_placed() {
        let task = |second: u8, placement: &str, node: &str, wanted, state| {
            let labels = Some(HashMap::from([(PLACEMENT.to_owned(), placement.to_owned())]));
            let container = bollard::models::TaskSpecContainerSpec { labels, ..Default::default() };
            Task {
                spec: Some(bollard::models::TaskSpec {
                    container_spec: Some(container),
                    ..Default::default()
                }),
                created_at: Some(format!("2026-11-16T08:00:{second:02}.5Z")),
                node_id: Some(node.to_owned()),
                desired_state: Some(wanted),
                status: Some(bollard::models::TaskStatus { state: Some(state), ..Default::default() }),
                ..Task::default()
            }
        };
        let now = |tasks: &[Task]| fate(tasks, "n", Some("p"));
        let ended = |second, state| task(second, "p", "n", TaskState::SHUTDOWN, state);
        let failed = ended(1, TaskState::FAILED);
        assert_eq!(now(&[]), Fate::Lives, "it was placed a moment ago");
        assert_eq!(now(std::slice::from_ref(&failed)), Fate::Failed);
        assert_eq!(now(&[ended(2, TaskState::COMPLETE), failed.clone()]), Fate::Done);
        assert_eq!(now(&[failed.clone(), ended(2, TaskState::SHUTDOWN)]), Fate::Stopped);
        for (node, wanted, state, then) in [
            ("n", TaskState::RUNNING, TaskState::FAILED, Fate::Lives),
            ("n", TaskState::READY, TaskState::PENDING, Fate::Lives),
            ("n", TaskState::SHUTDOWN, TaskState::RUNNING, Fate::Lives),
            ("", TaskState::RUNNING, TaskState::PENDING, Fate::Lives),
            ("", TaskState::SHUTDOWN, TaskState::PENDING, Fate::Failed),
            ("lost", TaskState::SHUTDOWN, TaskState::RUNNING, Fate::Failed),
        ] {
            let tasks = [failed.clone(), task(0, "before", node, wanted, state)];
            assert_eq!(now(&tasks), then, "{node} {wanted} {state}");
        }
        let before = task(0, "before", "n", TaskState::SHUTDOWN, TaskState::COMPLETE);
        assert_eq!(now(&[before.clone(), failed]), Fate::Failed);
        assert_eq!(now(&[before]), Fate::Lives, "it was placed a moment ago");
    }

    #[test]
    fn a_service_is_pinned_to_one_node_at_a_time() {
        let mut spec = ServiceSpec::default();
        pin(&mut spec, "one");
        pin(&mut spec, "two");
        let placement = spec.task_template.unwrap().placement.unwrap();
        assert_eq!(placement.constraints.unwrap(), ["node.id==two"]);
    }

    #[test]
    fn a_kind_is_the_image_and_its_words() {
        let of = |image: &str, words: &[&str]| {
            let mut spec = ServiceSpec::default();
            let container = spec.task_template.get_or_insert_default().container_spec.get_or_insert_default();
            container.image = Some(image.to_owned());
            container.args = Some(words.iter().map(|word| (*word).to_owned()).collect());
            kind(&spec)
        };
        assert_eq!(of("a", &["b", "c"]), of("a", &["b", "c"]));
        assert_ne!(of("a", &["b", "c"]), of("a", &["bc"]));
        assert_ne!(of("a", &[]), of("b", &[]));
    }
}
