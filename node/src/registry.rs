//! Containers by name and number: the scheduler knows numbers, people know names and Docker knows ids.

use crate::facts::{Home, Labels};
use crate::terms;
use sched::{ContainerId, Span, Terms};
use std::collections::{BTreeMap, HashMap};

/// How much of an id is shown where there is no name.
const SHORT_ID: usize = 12;

/// How many containers are remembered that Docker does not know: plain cgroups, and those of other engines.
const UNTOLD_MAX: usize = 1000;

/// A container, as people know it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) number: ContainerId,
    pub(crate) id: String,
    pub(crate) name: String,
    /// What it was made from, where Docker said so.
    pub(crate) image: Option<String>,
    pub(crate) labels: Labels,
    /// Docker named it, or its cgroup has labels: it is what it seems.
    pub(crate) confirmed: bool,
    /// How long its health check bears a hold.
    pub(crate) healthy: Option<Span>,
    /// Docker was asked about it.
    pub(crate) asked: bool,
    /// What was last told to the scheduler.
    pub(crate) terms: Option<Terms>,
}

impl Known {
    /// The Kubernetes namespace of its pod: the kubelet labels what it starts.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.labels.get("io.kubernetes.pod.namespace").map(String::as_str)
    }

    /// Its pod's name.
    pub(crate) fn pod(&self) -> Option<&str> {
        self.labels.get("io.kubernetes.pod.name").map(String::as_str)
    }
}

/// Every container that is or was just here.
#[derive(Default)]
pub(crate) struct Registry {
    by_id: HashMap<String, ContainerId>,
    known: BTreeMap<ContainerId, Known>,
    numbered: u32,
    /// What `leeway deadline set` says, by id.
    pub(crate) set: BTreeMap<String, String>,
    pub(crate) manage_all: bool,
    /// Docker has said which containers there are.
    pub(crate) listed: bool,
}

impl Registry {
    pub(crate) fn new(manage_all: bool) -> Self {
        Self { manage_all, ..Self::default() }
    }

    pub(crate) fn get(&self, number: ContainerId) -> Option<&Known> {
        self.known.get(&number)
    }

    pub(crate) fn by_id(&self, id: &str) -> Option<ContainerId> {
        self.by_id.get(id).copied()
    }

    /// The container a person means: by name, id or start of the id.
    pub(crate) fn find(&self, wanted: &str) -> Result<ContainerId, String> {
        let meant: Vec<&Known> = match self.all().find(|known| known.name == wanted || known.id == wanted) {
            Some(known) => vec![known],
            None => self.all().filter(|known| !wanted.is_empty() && known.id.starts_with(wanted)).collect(),
        };
        match meant.as_slice() {
            [known] => Ok(known.number),
            [] => Err(format!("there is no container '{wanted}'")),
            _ => Err(format!("'{wanted}' is the start of {} containers' ids", meant.len())),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Known> {
        self.known.values()
    }

    /// Docker says that a container is there, and what it is called.
    pub(crate) fn meet(&mut self, id: &str, name: String, labels: Labels) -> ContainerId {
        let number = self.number(id);
        if let Some(known) = self.known.get_mut(&number) {
            known.name = name;
            known.labels = labels;
            known.confirmed = true;
        }
        number
    }

    /// What it was made from.
    pub(crate) fn set_image(&mut self, number: ContainerId, image: Option<String>) {
        if let (Some(known), Some(_)) = (self.known.get_mut(&number), &image) {
            known.image = image;
        }
    }

    /// The container a process is in, and whether Docker must still be asked about it.
    pub(crate) fn home(&mut self, home: Home) -> (Option<ContainerId>, bool) {
        match home {
            Home::Nowhere => (None, false),
            Home::Cgroup(path, labels) => {
                let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
                (Some(self.meet(&path, name, labels)), false)
            }
            // Of nested containers, the innermost that Docker knows; if it knows none, the innermost.
            Home::Containers(ids) => {
                let confirmed = |number: &ContainerId| self.get(*number).is_some_and(|known| known.confirmed);
                let known = ids.iter().filter_map(|id| self.by_id(id)).find(confirmed);
                match (known, ids.first()) {
                    (Some(number), _) => (Some(number), false),
                    (None, Some(id)) => (Some(self.number(id)), true),
                    (None, None) => (None, false),
                }
            }
        }
    }

    /// The terms of a container, if they are not those the scheduler was told.
    pub(crate) fn new_terms(&mut self, number: ContainerId) -> Option<Terms> {
        let known = self.known.get_mut(&number)?;
        let set = self.set.get(&known.id).map(String::as_str);
        let terms = terms::read(&known.labels, set, known.healthy, self.manage_all);
        (known.terms.replace(terms) != Some(terms)).then_some(terms)
    }

    /// How long a container's health check bears a hold.
    pub(crate) fn set_health(&mut self, number: ContainerId, healthy: Span) {
        if let Some(known) = self.known.get_mut(&number) {
            known.healthy = Some(healthy);
        }
    }

    /// Whether Docker is to be asked about a container that may be held: what its health check bears is in no list. Once.
    pub(crate) fn ask_once(&mut self, number: ContainerId) -> bool {
        let managed =
            |known: &Known| known.terms.is_some_and(|terms| terms.managed) && !known.id.starts_with('/');
        let known = self.known.get_mut(&number).filter(|known| managed(known));
        known.is_some_and(|known| !std::mem::replace(&mut known.asked, true))
    }

    /// Containers that nobody will tell us the end of, if there are more of them than are worth remembering.
    pub(crate) fn forgettable(&self) -> Vec<ContainerId> {
        let untold = |known: &&Known| !known.confirmed || known.id.starts_with('/');
        let untold: Vec<ContainerId> = self.all().filter(untold).map(|known| known.number).collect();
        if untold.len() > UNTOLD_MAX { untold } else { Vec::new() }
    }

    /// Forgets a container. Docker never uses an id twice.
    pub(crate) fn forget(&mut self, number: ContainerId) {
        if let Some(known) = self.known.remove(&number) {
            self.by_id.remove(&known.id);
        }
    }

    fn number(&mut self, id: &str) -> ContainerId {
        if let Some(number) = self.by_id(id) {
            return number;
        }
        self.numbered += 1;
        let number = ContainerId(self.numbered);
        let name = id.get(..SHORT_ID).unwrap_or(id).to_owned();
        let known = Known {
            number,
            id: id.to_owned(),
            name,
            image: None,
            labels: Labels::new(),
            confirmed: false,
            healthy: None,
            asked: false,
            terms: None,
        };
        self.by_id.insert(id.to_owned(), number);
        self.known.insert(number, known);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nested_containers_the_one_docker_knows_counts() {
        let mut registry = Registry::default();
        let outer = registry.meet("outer", "web".to_owned(), Labels::new());
        let nested = Home::Containers(vec!["inner".to_owned(), "outer".to_owned()]);
        assert_eq!(registry.home(nested), (Some(outer), false));
        let unknown = Home::Containers(vec!["another".to_owned()]);
        let (number, ask) = registry.home(unknown);
        assert!(ask && number.is_some_and(|number| number != outer));
        assert_eq!(registry.home(Home::Nowhere), (None, false));
    }

    #[test]
    fn terms_are_told_when_they_change() {
        let mut registry = Registry::default();
        let web = registry.meet("id", "web".to_owned(), Labels::new());
        assert_eq!(registry.new_terms(web), Some(Terms::UNMANAGED));
        assert_eq!(registry.new_terms(web), None);
        registry.set.insert("id".to_owned(), "2s".to_owned());
        assert!(registry.new_terms(web).is_some_and(|terms| terms.deadline.is_some() && terms.managed));
    }
}
