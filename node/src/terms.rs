//! From a container's labels to the terms its tasks run on.

use crate::facts::Labels;
use sched::{Deadline, Mode, Span, Terms};
use wire::labels;
use wire::{bytes, duration};

/// How long anybody may be held who does not say: as the scheduler's own setting.
const HOLD_MAX: Span = Span::from_secs(300);

/// The terms of a container with these labels. `set` is what `leeway deadline set` says, `healthy` how long its health check bears
/// a hold; a label that cannot be understood counts as none, as everywhere.
pub(crate) fn read(given: &Labels, set: Option<&str>, healthy: Option<Span>, manage_all: bool) -> Terms {
    let label = |name: &str| given.get(name).map(String::as_str);
    let span = |text: &str| {
        duration::parse(text).ok().map(|duration| Span::from_micros(duration.as_micros() as i64))
    };
    let ours = set.is_some() || given.keys().any(|name| name.starts_with(labels::PREFIX));
    Terms {
        deadline: set.or_else(|| label(labels::DEADLINE)).and_then(span).and_then(Deadline::new),
        mode: mode(label(labels::TASK).and_then(|text| text.parse().ok()).unwrap_or_default()),
        expect: label(labels::EXPECT).and_then(span),
        memory: label(labels::GPU_MEMORY).and_then(|text| bytes::parse(text).ok()),
        hold_max: label(labels::HOLD_MAX).and_then(span).or(healthy.filter(|healthy| *healthy < HOLD_MAX)),
        swap: label(labels::SWAP) == Some("true"),
        managed: (ours || manage_all) && label(labels::MANAGE) != Some("false"),
    }
}

/// The scheduler's word for a mode.
pub(crate) fn mode(mode: labels::Mode) -> Mode {
    match mode {
        labels::Mode::Process => Mode::Process,
        labels::Mode::Memory => Mode::Memory,
        labels::Mode::Burst => Mode::Burst,
    }
}

/// The mode as it leaves the process.
pub(crate) fn told(mode: Mode) -> labels::Mode {
    match mode {
        Mode::Process => labels::Mode::Process,
        Mode::Memory => labels::Mode::Memory,
        Mode::Burst => labels::Mode::Burst,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(pairs: &[(&str, &str)], set: Option<&str>) -> Terms {
        let labels = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        read(&labels, set, None, false)
    }

    #[test]
    fn labels_say_what_was_asked_for() {
        let terms = terms(&[("leeway.deadline", "2s"), ("leeway.task", "memory"), ("x", "y")], None);
        assert_eq!(terms.deadline.map(Deadline::span), Some(Span::from_secs(2)));
        assert_eq!((terms.mode, terms.managed), (Mode::Memory, true));
    }

    #[test]
    fn what_was_set_beats_the_label_and_nonsense_counts_as_none() {
        let deadline = |pairs, set| terms(pairs, set).deadline.map(Deadline::span);
        assert_eq!(deadline(&[("leeway.deadline", "2s")], Some("5s")), Some(Span::from_secs(5)));
        assert_eq!(deadline(&[("leeway.deadline", "soon")], None), None);
    }

    #[test]
    fn a_hold_lasts_as_long_as_its_label_says_or_its_health_check_bears() {
        let hold_max = |label: Option<&str>, healthy: Option<i64>| {
            let labels = label.map(|value| ("leeway.hold.max".to_owned(), value.to_owned()));
            read(&labels.into_iter().collect(), None, healthy.map(Span::from_secs), false).hold_max
        };
        assert_eq!(hold_max(None, None), None);
        assert_eq!(hold_max(None, Some(8)), Some(Span::from_secs(8)));
        assert_eq!(hold_max(Some("2s"), Some(8)), Some(Span::from_secs(2)));
        assert_eq!(hold_max(None, Some(3_600)), None, "longer than anybody is held");
    }

    #[test]
    fn only_containers_with_a_label_of_ours_are_touched() {
        assert!(!terms(&[("com.example", "x")], None).managed);
        assert!(terms(&[("leeway.manage", "true")], None).managed);
        assert!(!terms(&[("leeway.manage", "false"), ("leeway.deadline", "2s")], None).managed);
        assert!(terms(&[], Some("2s")).managed);
    }
}
