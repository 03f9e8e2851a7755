//! Which tasks share the GPU, and how it is shared; and the papers' experiments, by their figures.

use crate::commands::bench::troupe::Part;
use std::fmt;
use std::time::Duration;

/// What one task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// One product of two matrices of that side.
    Matmul(u32),
    /// Many small requests, each as soon as the one before it was answered and looked at: a seventh of the GPU's time.
    Inference,
}

/// The requests of the small task: five of them use the GPU for five sevenths of the time, as in the paper for 70 %. What a request waits makes the
/// whole longer, as each asks again only once it was answered: requests that arrive at fixed times would hide that in the time between them.
const INFERENCE: [&str; 8] =
    ["serve", "--requests", "400", "--kernel-us", "1000", "--pause", "6ms", "--seed"];
/// What it takes alone, roughly: for the progress bar only.
const INFERENCE_S: f64 = 3.0;
/// A product of 13,312² takes about a second on an H200, and time grows with the third power: for the progress bar only.
const SIDE_OF_A_SECOND: f64 = 13_312.0;
/// How long a request may take. Alone it takes a little more than its millisecond.
const REQUEST_DEADLINE: &str = "50ms";

impl Work {
    /// What follows `leeway work`. Servers that ask at different moments have a number each.
    fn words(self, number: usize) -> Vec<String> {
        let (words, last): (&[&str], String) = match self {
            Work::Matmul(side) => (&["matmul", "--n"], side.to_string()),
            Work::Inference => (&INFERENCE, number.to_string()),
        };
        words.iter().map(|word| (*word).to_owned()).chain([last]).collect()
    }

    pub(super) fn about_s(self) -> f64 {
        match self {
            Work::Matmul(side) => (f64::from(side) / SIDE_OF_A_SECOND).powi(3),
            Work::Inference => INFERENCE_S,
        }
    }

    /// As a part of a run. A server's requests are tasks of their own, with a deadline each.
    pub(super) fn part(self, number: usize, deadline: Duration) -> Part {
        let deadline = format!("{}ms", deadline.as_millis());
        let labels = match self {
            Work::Matmul(_) => vec![("leeway.deadline", deadline)],
            Work::Inference => {
                vec![("leeway.deadline", REQUEST_DEADLINE.to_owned()), ("leeway.task", "burst".to_owned())]
            }
        };
        Part { name: format!("task{number}"), labels, words: self.words(number), after: Duration::ZERO }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Matmul(side) => write!(f, "{side}²"),
            Work::Inference => f.write_str("inference"),
        }
    }
}

/// Tasks that start together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case(pub(super) Vec<Work>);

impl Case {
    fn of(work: Work, count: usize) -> Self {
        Self(vec![work; count])
    }

    pub(super) fn alone(work: Work) -> Self {
        Self(vec![work])
    }

    /// From `13312:10`, or mixed from `8192:3+13312:2`; `inference:5` are small tasks.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut works = Vec::new();
        for kind in text.split('+') {
            let parsed = kind.split_once(':').and_then(|(work, count)| {
                let count = count.parse().ok().filter(|count| (1..=200).contains(count))?;
                let side = || work.parse().ok().filter(|side| (16..=100_000).contains(side));
                let work = if work == "inference" { Work::Inference } else { Work::Matmul(side()?) };
                Some((work, count))
            });
            let (work, count) = parsed
                .ok_or("accepted is a matrix's side and how many, as in 13312:10, or 8192:3+13312:2")?;
            works.extend(std::iter::repeat_n(work, count));
        }
        Ok(Self(works))
    }

    /// The kind of its tasks, if all are of one.
    pub(super) fn only(&self) -> Option<Work> {
        let first = self.0.first()?;
        self.0.iter().all(|work| work == first).then_some(*first)
    }

    /// The different kinds of its tasks.
    pub(super) fn kinds(&self) -> Vec<Work> {
        let mut kinds = self.0.clone();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    pub(super) fn about_s(&self) -> f64 {
        // What no GPU takes away: a program's own start.
        0.5 + if self.only() == Some(Work::Inference) {
            INFERENCE_S
        } else {
            self.0.iter().map(|work| work.about_s()).sum::<f64>()
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.kinds().into_iter().map(|kind| {
            let count = self.0.iter().filter(|work| **work == kind).count();
            format!("{count} × {kind}")
        });
        f.write_str(&told.collect::<Vec<_>>().join(" + "))
    }
}

/// How the GPU is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Mode {
    /// By the GPU's own time slicing, with no agent
    None,
    /// One task after another, with no agent
    Serial,
    /// By NVIDIA's Multi-Process Service, with no agent
    Mps,
    /// By an agent: first come, first served
    Fifo,
    /// By an agent: who is due first
    EarliestDeadline,
    /// By an agent: who is due first, and what cannot make it yields
    LeastSlack,
}

impl Mode {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Mode::None => "none",
            Mode::Serial => "serial",
            Mode::Mps => "mps",
            Mode::Fifo => "fifo",
            Mode::EarliestDeadline => "earliest-deadline",
            Mode::LeastSlack => "least-slack",
        }
    }

    /// The agent's policy, where there is an agent.
    pub(super) fn policy(self) -> Option<&'static str> {
        matches!(self, Mode::Fifo | Mode::EarliestDeadline | Mode::LeastSlack).then(|| self.name())
    }

    /// All that there are here.
    pub(super) fn all(with_mps: bool) -> Vec<Mode> {
        let mut all = vec![Mode::None, Mode::Serial, Mode::Fifo, Mode::EarliestDeadline, Mode::LeastSlack];
        if with_mps {
            all.push(Mode::Mps);
        }
        all
    }
}

/// An experiment of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Preset {
    /// Paper 001, Table 1 and Figures 2, 3 and 4: 1 to 10 × 13312² without any control, phase by phase
    #[value(name = "001-table-1")]
    Table1,
    /// Paper 001, Figure 7: 1 to 5 × 19456², shared and managed
    #[value(name = "001-figure-7")]
    Figure7,
    /// Paper 001, Figure 8: 1 to 10 × 13312², shared and managed
    #[value(name = "001-figure-8")]
    Figure8,
    /// Paper 001, Figure 9: 1 to 20 × 8192², shared and managed
    #[value(name = "001-figure-9")]
    Figure9,
    /// Paper 000, Figure 3: 1 to 20 × 8192², mean and deviation
    #[value(name = "000-figure-3")]
    Monitor3,
    /// Paper 000, Figure 4: 1 to 5 small inference tasks, which leave the GPU idle for two sevenths of the time
    #[value(name = "000-figure-4")]
    Monitor4,
}

impl Preset {
    /// The task, and how many of them there are at most.
    fn tasks(self) -> (Work, u32) {
        match self {
            Preset::Table1 | Preset::Figure8 => (Work::Matmul(13_312), 10),
            Preset::Figure7 => (Work::Matmul(19_456), 5),
            Preset::Figure9 | Preset::Monitor3 => (Work::Matmul(8_192), 20),
            Preset::Monitor4 => (Work::Inference, 5),
        }
    }

    /// From one up, or with these numbers of tasks only.
    pub(super) fn cases(self, counts: &[u32]) -> Vec<Case> {
        let (work, most) = self.tasks();
        let all = (1..=most).filter(|count| counts.is_empty() || counts.contains(count));
        all.map(|count| Case::of(work, count as usize)).collect()
    }

    pub(super) fn modes(self) -> Vec<Mode> {
        match self {
            Preset::Table1 | Preset::Monitor3 => vec![Mode::None],
            _ => vec![Mode::None, Mode::Fifo, Mode::LeastSlack],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_as_it_is_told() {
        let told = |text: &str| Case::parse(text).map(|case| case.to_string());
        assert_eq!(told("13312:10").unwrap(), "10 × 13312²");
        assert_eq!(told("13312:2+8192:3").unwrap(), "3 × 8192² + 2 × 13312²");
        assert_eq!(told("inference:5").unwrap(), "5 × inference");
        for wrong in ["", "13312", "13312:0", "x:1", "8192:3+", "8192:3,4096:1"] {
            assert!(told(wrong).unwrap_err().contains("as in 13312:10"), "{wrong}");
        }
    }

    #[test]
    fn presets_are_the_papers() {
        assert_eq!(Preset::Figure9.cases(&[]).len(), 20);
        let ends = Preset::Figure7.cases(&[1, 5]);
        assert_eq!(ends.iter().map(Case::to_string).collect::<Vec<_>>(), ["1 × 19456²", "5 × 19456²"]);
    }
}
