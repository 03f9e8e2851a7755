//! How long tasks take, by what runs: of so many kinds as fit, those that were told of last.

use std::collections::HashMap;

/// Half of how many are remembered.
const HALF_MAX: usize = 50_000;

/// Two halves: when the younger one is full the older one is forgotten, so that nobody need look for the oldest.
#[derive(Default)]
pub(super) struct Kinds {
    younger: HashMap<String, i64>,
    older: HashMap<String, i64>,
}

impl Kinds {
    pub(super) fn note(&mut self, kind: &str, run_us: i64) {
        if self.younger.len() >= HALF_MAX && !self.younger.contains_key(kind) {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(kind.to_owned(), run_us);
    }

    pub(super) fn get(&self, kind: &str) -> Option<i64> {
        self.younger.get(kind).or_else(|| self.older.get(kind)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_of_last_is_known_however_much_there_was() {
        let mut kinds = Kinds::default();
        let many = 5 * HALF_MAX;
        for number in 0..many {
            kinds.note(&number.to_string(), 1);
            kinds.note("always", 2);
        }
        assert_eq!(
            (kinds.get("0"), kinds.get("always"), kinds.get(&(many - 1).to_string())),
            (None, Some(2), Some(1))
        );
        assert!(kinds.younger.len() + kinds.older.len() <= 2 * HALF_MAX);
    }
}
