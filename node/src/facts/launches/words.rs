//! What is to be told before what.

use super::Work;
use super::layout::Event;
use sched::Process;

/// What is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// By the kernel.
    Heard(Event),
    /// Of what was done here, and since when it is true.
    Done(u64, Process, Work),
}

/// What the kernel told, in its order, and what was done here, each before what came later.
pub(super) fn in_order(heard: Vec<Event>, mut done: Vec<(u64, Process, Work)>) -> Vec<Word> {
    done.sort_by_key(|(at, ..)| *at);
    let mut done = done.into_iter().peekable();
    let word = |(at, process, work)| Word::Done(at, process, work);
    let mut words = Vec::new();
    for event in heard {
        words.extend(std::iter::from_fn(|| done.next_if(|(at, ..)| *at < event.at)).map(word));
        words.push(Word::Heard(event));
    }
    words.extend(done.map(word));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::launches::layout::kind;

    #[test]
    fn who_stopped_for_urgent_work_is_told_of_after_that_work_and_whoever_went_on_before_its_end() {
        let (batch, other) = (Process { pid: 7, started: 1 }, Process { pid: 8, started: 1 });
        let event = |at, pid, kind| Event { at, pid, kind, value: 0 };
        let urgent = event(10, 1, kind::LAUNCH);
        let end = event(30, 8, kind::DRAIN);
        let done = vec![(12, batch, Work::AtLaunch), (9, other, Work::Submitted)];
        let words = in_order(vec![urgent, end], done);
        let (went_on, stands) =
            (Word::Done(9, other, Work::Submitted), Word::Done(12, batch, Work::AtLaunch));
        assert_eq!(words, [went_on, Word::Heard(urgent), stands, Word::Heard(end)]);
    }
}
