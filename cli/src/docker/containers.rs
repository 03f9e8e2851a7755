//! One container as Leeway sees it: who it is, and which deadline counts.

use crate::failure::Failure;
use anyhow::Result;
use bollard::models::ContainerSummary;
use wire::deadlines::Deadlines;
use wire::labels::{self, Mode};
use wire::{bytes, duration};

/// How much of an id Docker shows, and enough to tell containers apart.
pub const SHORT_ID: usize = 12;

/// A container, with Docker's optional fields settled.
#[derive(Debug, Clone, Default)]
pub struct Container {
    /// The full id.
    pub id: String,
    /// Its names, without Docker's leading slash; links to others add names of the form `other/alias`.
    pub names: Vec<String>,
    /// Everything else Docker said.
    pub summary: ContainerSummary,
}

impl From<ContainerSummary> for Container {
    fn from(summary: ContainerSummary) -> Self {
        let names = summary.names.iter().flatten();
        let names = names.map(|name| name.strip_prefix('/').unwrap_or(name).to_owned()).collect();
        Self { id: summary.id.clone().unwrap_or_default(), names, summary }
    }
}

impl Container {
    /// Its own name, as `docker ps` shows it.
    pub fn name(&self) -> &str {
        let own = self.names.iter().find(|name| !name.contains('/'));
        own.or(self.names.first()).map_or("", String::as_str)
    }

    /// The start of its id.
    pub fn short_id(&self) -> &str {
        self.id.get(..SHORT_ID).unwrap_or(&self.id)
    }

    /// One of its labels.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.summary.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// What delimits one of its tasks. A label that says nothing known counts as none.
    pub fn mode(&self) -> Mode {
        self.label(labels::TASK).and_then(|label| label.parse().ok()).unwrap_or_default()
    }

    /// The deadline that counts, as it was given: what was set for the container, else its label. A label that is no
    /// duration counts as none.
    pub fn deadline(&self, set: &Deadlines) -> Option<String> {
        let set = set.containers.get(&self.id).map(|given| given.deadline.as_str());
        duration::normalised(set.or_else(|| self.label(labels::DEADLINE))?).ok()
    }

    /// What is wrong with its labels: whoever wrote them by hand, as in a Compose file, was told by nobody else.
    pub fn complaints(&self) -> Vec<String> {
        let complaint = |label: &str, wrong: Option<String>| {
            wrong.map(|wrong| format!("container {}: label {label} is ignored: {wrong}", self.name()))
        };
        let wrong_duration = |label| duration::parse(self.label(label)?).err().map(|wrong| wrong.to_string());
        let wrong_mode = || self.label(labels::TASK)?.parse::<Mode>().err().map(|wrong| wrong.to_string());
        let wrong_size =
            || bytes::parse(self.label(labels::GPU_MEMORY)?).err().map(|wrong| wrong.to_string());
        let durations = [labels::DEADLINE, labels::EXPECT, labels::HOLD_MAX];
        let mut complaints: Vec<String> =
            durations.into_iter().filter_map(|label| complaint(label, wrong_duration(label))).collect();
        complaints.extend(complaint(labels::TASK, wrong_mode()));
        complaints.extend(complaint(labels::GPU_MEMORY, wrong_size()));
        let given = self.summary.labels.iter().flatten().map(|(label, _)| label.as_str());
        let unknown = given.filter(|label| label.starts_with("leeway.") && !labels::ALL.contains(label));
        complaints.extend(
            unknown.filter_map(|label| {
                complaint(label, Some(format!("Leeway knows {}", labels::ALL.join(", "))))
            }),
        );
        complaints
    }
}

/// The container that a full id, a name or the start of an id means, in Docker's order of preference.
pub fn find<'a>(containers: &'a [Container], wanted: &str) -> Result<&'a Container, Failure> {
    let wanted = wanted.strip_prefix('/').unwrap_or(wanted);
    let named = |container: &&Container| container.names.iter().any(|name| name == wanted);
    let exact = containers.iter().find(|container| container.id == wanted);
    if let Some(container) = exact.or_else(|| containers.iter().find(named)) {
        return Ok(container);
    }
    let starts = |container: &&Container| !wanted.is_empty() && container.id.starts_with(wanted);
    let candidates: Vec<&Container> = containers.iter().filter(starts).collect();
    match candidates[..] {
        [container] => Ok(container),
        [] => Err(Failure::new(format!("there is no container '{wanted}'"))
            .help("`leeway ps -a` lists those there are; a name, a full id or the start of an id will do")),
        _ => {
            let list = candidates.iter().map(|c| format!("{} ({})", c.short_id(), c.name()));
            let list = list.collect::<Vec<_>>().join(", ");
            Err(Failure::new(format!("'{wanted}' is the start of more than one container's id: {list}"))
                .help("give more of the id, or the name"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(id: &str, name: &str) -> Container {
        Container { id: id.to_owned(), names: vec![name.to_owned()], summary: ContainerSummary::default() }
    }

    #[test]
    fn a_name_beats_the_start_of_an_id() {
        let containers = [container("abc1", "web"), container("dddd", "abc")];
        assert_eq!(find(&containers, "abc").unwrap().id, "dddd");
        assert_eq!(find(&containers, "abc1").unwrap().id, "abc1");
        assert_eq!(find(&containers, "ab").unwrap().id, "abc1");
        assert_eq!(find(&containers, "/web").unwrap().id, "abc1");
    }

    #[test]
    fn an_ambiguous_start_lists_the_candidates() {
        let containers = [container("abc1", "web"), container("abc2", "db"), container("b", "other")];
        let refused = find(&containers, "abc").unwrap_err().to_string();
        assert!(refused.contains("abc1 (web), abc2 (db)") && !refused.contains("other"), "{refused}");
        assert!(find(&containers, "x").unwrap_err().to_string().contains("'x'"));
        assert!(find(&containers, "").is_err());
    }
}
