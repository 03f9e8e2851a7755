//! The story: who is in it, what they do, and when they come.
//!
//! One GPU, shared by time slicing. `render` has 2 s of work and 4 s to do it in: alone it would make it with more
//! than a second to spare, and even with one other beside it, it cannot (2 s × 2 × 1.125). `batch` is beside it all the time.

use std::time::Duration;
use wire::labels;

/// One part: what becomes a container.
pub(super) struct Part {
    /// Its name.
    pub(super) name: &'static str,
    /// How long its task may take.
    pub(super) deadline: Option<&'static str>,
    /// What it does, for people.
    pub(super) does: &'static str,
    /// What there is to say should it miss its deadline.
    pub(super) missed: Option<&'static str>,
    /// How long after the first it comes, at the earliest; it also waits until the one before it is seen.
    pub(super) comes_after: Duration,
    /// What it runs: the words after `leeway`.
    pub(super) words: &'static [&'static str],
}

/// The parts, in the order they come.
pub(super) const CAST: [Part; 5] = [
    Part {
        name: "batch",
        deadline: None,
        does: "kernel after kernel, for 13 s",
        missed: None,
        comes_after: Duration::ZERO,
        words: &["work", "batch", "--kernel-us", "5000", "--depth", "4", "--for", "13s"],
    },
    Part {
        name: "serve",
        deadline: Some("20s"),
        does: "80 requests, one every 100 ms, 2 ms of GPU time each",
        missed: None,
        comes_after: Duration::from_millis(500),
        words: &["work", "serve", "--requests", "80", "--kernel-us", "2000", "--every", "100ms"],
    },
    Part {
        name: "train",
        deadline: Some("30s"),
        does: "20 products of 8192 × 8192, 4 s of GPU time",
        missed: None,
        comes_after: Duration::from_secs(1),
        words: &["work", "matmul", "--n", "8192", "--repeat", "20"],
    },
    Part {
        name: "render",
        deadline: Some("4s"),
        does: "10 products of 8192 × 8192, 2 s of GPU time",
        missed: Some("render had 2 s of work and 4 s to do it in, but never the GPU to itself."),
        comes_after: Duration::from_secs(2),
        words: &["work", "matmul", "--n", "8192", "--repeat", "10"],
    },
    Part {
        name: "report",
        deadline: Some("12s"),
        does: "5 products of 8192 × 8192, 1 s of GPU time",
        missed: None,
        comes_after: Duration::from_secs(3),
        words: &["work", "matmul", "--n", "8192", "--repeat", "5"],
    },
];

impl Part {
    /// Its label: a deadline, or that it is Leeway's to manage although it has none.
    pub(super) fn label(&self) -> (&'static str, &'static str) {
        self.deadline.map_or((labels::MANAGE, "true"), |deadline| (labels::DEADLINE, deadline))
    }
}
