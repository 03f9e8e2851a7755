//! What is worth saying to a master: what it has not heard yet.

use super::Snapshot;
use std::collections::HashMap;
use wire::link::{KnownContainer, KnownContainers, Reports};
use wire::report::{Figures, Record};

/// The most containers that one message tells of.
const CONTAINERS_MAX: usize = 500;

/// What one master has heard.
#[derive(Debug, Default)]
pub struct Sayer {
    records: HashMap<u8, Record>,
    containers: HashMap<String, KnownContainer>,
    sequence: u16,
}

impl Sayer {
    /// The GPUs of which something changed, as a report; nothing if nothing did.
    pub fn report(&mut self, now: &Snapshot) -> Option<Reports> {
        let changed = now.records.iter().filter(|record| self.records.get(&record.gpu) != Some(record));
        let changed: Vec<Record> = changed.copied().collect();
        let mut records = Vec::new();
        for record in &changed {
            self.records.insert(record.gpu, *record);
            self.sequence = self.sequence.wrapping_add(1);
            let sequence = self.sequence;
            let figures = record.figures.map(|figures| Figures { sequence, ..figures });
            Record { figures, ..*record }.write(&mut records);
        }
        (!records.is_empty()).then_some(Reports { records, sent_us: 0 })
    }

    /// The containers of which something changed.
    pub fn containers(&mut self, now: &Snapshot) -> Option<KnownContainers> {
        let changed = now.containers.iter().filter(|one| self.containers.get(&one.service) != Some(one));
        let changed: Vec<KnownContainer> = changed.take(CONTAINERS_MAX).cloned().collect();
        for one in &changed {
            self.containers.insert(one.service.clone(), one.clone());
        }
        self.containers.retain(|service, _| now.containers.iter().any(|one| one.service == *service));
        (!changed.is_empty()).then_some(KnownContainers { containers: changed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(free: u32, missed: bool) -> Snapshot {
        let figures = Figures { memory_free_mib: free, ..Figures::default() };
        let record = Record { missed, figures: (!missed).then_some(figures), ..Record::default() };
        Snapshot { records: vec![record], ..Snapshot::default() }
    }

    #[test]
    fn only_what_changed_is_said() {
        let mut sayer = Sayer::default();
        assert_eq!(sayer.report(&now(10, false)).unwrap().records.len(), 16);
        assert_eq!(sayer.report(&now(10, false)), None);
        assert_eq!(sayer.report(&now(11, false)).unwrap().records[2..4], [2, 0], "numbers count up");
        let barred = sayer.report(&now(11, true)).unwrap();
        assert_eq!(barred.records.len(), 1, "a state byte and nothing more");
        assert_eq!(sayer.report(&now(9, true)), None);
        assert!(sayer.report(&now(11, false)).is_some());
    }

    #[test]
    fn a_container_is_told_of_again_when_it_comes_back() {
        let mut sayer = Sayer::default();
        let one =
            KnownContainer { service: "web".to_owned(), missed_in_a_row: 2, ..KnownContainer::default() };
        let with = |containers: Vec<KnownContainer>| Snapshot { containers, ..Snapshot::default() };
        assert!(sayer.containers(&with(vec![one.clone()])).is_some());
        assert!(sayer.containers(&with(vec![one.clone()])).is_none());
        assert!(sayer.containers(&with(vec![])).is_none());
        assert!(sayer.containers(&with(vec![one])).is_some());
    }
}
