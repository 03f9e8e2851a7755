//! The worker's last word: may this container join, or would somebody be late?
//!
//! Problem: the master places by reports that are a moment old, and several masters may place at once.
//! Only the worker knows who is really there. Approach: a sufficient test for earliest deadline first
//! with blocking (in the manner of Baker and of Jeffay). For every task i that the newcomer affects,
//!
//! ```text
//! sum of C/D over tasks due no later than i  +  (longest blocking of tasks due later + delay) / D of i  <=  0.9
//! ```
//!
//! where C is measured, never claimed: a short deadline must not buy priority for free. Units: load is
//! in parts per million of the GPU's time, rounded up, so that rounding never admits.

use crate::forecast::Source;
use crate::time::Span;
use crate::tracker::Container;
use core::fmt;

/// The most of a GPU's time that deadlines may claim. The rest is for work without a deadline, which
/// must not starve, and for what the forecasts did not see.
pub const LOAD_MAX_PPM: u64 = 900_000;

/// A whole GPU.
const WHOLE_PPM: u64 = 1_000_000;

/// What one container asks of the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// How long its task may take (D).
    pub deadline: Span,
    /// How long its task takes alone, as measured (C); its deadline if nobody has measured it.
    pub run: Span,
    /// The longest it keeps the GPU after it was told to wait: queued work runs on.
    pub blocking: Span,
}

impl Demand {
    /// What a container asks; none if it has no deadline. What it declared is no measurement.
    pub fn of(container: &Container, blocking: Span) -> Option<Demand> {
        let deadline = container.terms.deadline?.span();
        let forecast = container.forecast();
        let measured = matches!(forecast.source, Source::Measured(_));
        Some(Demand { deadline, run: if measured { forecast.upper } else { deadline }, blocking })
    }
}

/// Whether the newcomer may join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may; this is the greatest load that anyone it affects then sees.
    Admitted {
        /// In parts per million; at most [`LOAD_MAX_PPM`].
        load_ppm: u64,
    },
    /// It may not.
    Refused(Refusal),
}

/// Who would be endangered, and by how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose deadline is in danger.
    pub endangered: Endangered,
    /// The deadline that is in danger.
    pub deadline: Span,
    /// The load until that deadline, in parts per million; more than [`LOAD_MAX_PPM`].
    pub load_ppm: u64,
}

/// Whose deadline is in danger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endangered {
    /// The newcomer's own.
    Newcomer,
    /// That of the resident at this position.
    Resident(usize),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.endangered {
            Endangered::Newcomer => write!(f, "its deadline of {}", self.deadline)?,
            Endangered::Resident(_) => write!(f, "a resident's deadline of {}", self.deadline)?,
        }
        let percent = self.load_ppm.div_ceil(10_000);
        write!(
            f,
            " would be in danger: it needs {percent} % of the GPU, {} % may be promised",
            LOAD_MAX_PPM / 10_000
        )
    }
}

/// Tests whether `newcomer` can join `residents`; `delay` is how long it takes to notice and to hold.
///
/// Only those whose sum the newcomer changes are tested. A resident that was in danger before, and that
/// the newcomer does not touch, is no reason to refuse. There are a few dozen residents at most, so
/// that comparing each with each is cheaper than sorting them.
pub fn admit(newcomer: &Demand, residents: &[Demand], delay: Span) -> Admission {
    let own = load_ppm(newcomer, newcomer, residents, delay);
    if own > LOAD_MAX_PPM {
        return refused(Endangered::Newcomer, newcomer, own);
    }
    let mut greatest = own;
    for (position, resident) in residents.iter().enumerate() {
        if !affects(newcomer, resident, residents) {
            continue;
        }
        let load = load_ppm(resident, newcomer, residents, delay);
        if load > LOAD_MAX_PPM {
            return refused(Endangered::Resident(position), resident, load);
        }
        greatest = greatest.max(load);
    }
    Admission::Admitted { load_ppm: greatest }
}

fn refused(endangered: Endangered, of: &Demand, load_ppm: u64) -> Admission {
    Admission::Refused(Refusal { endangered, deadline: of.deadline, load_ppm })
}

/// A resident due no earlier than the newcomer now waits for it; one due earlier feels it only if the
/// newcomer blocks for longer than anyone there.
fn affects(newcomer: &Demand, resident: &Demand, residents: &[Demand]) -> bool {
    resident.deadline >= newcomer.deadline
        || newcomer.blocking > longest_blocking(resident.deadline, residents.iter())
}

/// The load that `of` sees, with the newcomer there.
fn load_ppm(of: &Demand, newcomer: &Demand, residents: &[Demand], delay: Span) -> u64 {
    let everyone = || residents.iter().chain([newcomer]);
    let before = everyone()
        .filter(|other| other.deadline <= of.deadline)
        .fold(0_u64, |load, other| load.saturating_add(share_ppm(other.run, other.deadline)));
    let blocking = longest_blocking(of.deadline, everyone()) + delay;
    before.saturating_add(share_ppm(blocking, of.deadline))
}

/// The longest anyone due later keeps the GPU from somebody with this deadline.
fn longest_blocking<'a>(deadline: Span, all: impl Iterator<Item = &'a Demand>) -> Span {
    let later = all.filter(|other| other.deadline > deadline);
    later.map(|other| other.blocking).max().unwrap_or(Span::ZERO)
}

/// What part `work` is of `deadline`; no deadline that has passed can be met, whatever the work.
fn share_ppm(work: Span, deadline: Span) -> u64 {
    let (work, deadline) = (work.or_zero().as_micros() as u128, deadline.or_zero().as_micros() as u128);
    if deadline == 0 {
        return u64::MAX;
    }
    let share = (work * u128::from(WHOLE_PPM)).div_ceil(deadline);
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn demand(deadline: i64, run: i64, blocking: i64) -> Demand {
        let millis = Span::from_millis;
        Demand { deadline: millis(deadline), run: millis(run), blocking: millis(blocking) }
    }

    #[test]
    fn a_claim_buys_nothing_until_it_was_measured() {
        use crate::node_under_test::{Watch, arrives, exits, ms, on_terms, terms};
        use crate::{fact::Terms, task::Mode};
        let mut watch = Watch::new();
        watch.hears(0, on_terms(1, Terms { expect: Some(ms(1)), ..terms(Mode::Process, 100) }));
        let run = |watch: &Watch| Demand::of(watch.container(1), ms(0)).map(|demand| demand.run);
        assert_eq!(run(&watch), Some(ms(100)));
        watch.hears(0, arrives(1, 1));
        watch.hears(20, exits(1));
        assert_eq!(run(&watch), Some(ms(30)), "one run, stretched by half");
    }

    #[test]
    fn an_idle_gpu_admits_up_to_nine_tenths() {
        let just = admit(&demand(1_000, 900, 0), &[], Span::ZERO);
        assert_eq!(just, Admission::Admitted { load_ppm: LOAD_MAX_PPM });
        let over = admit(&demand(1_000, 900, 0), &[], Span::from_micros(1));
        assert!(matches!(over, Admission::Refused(Refusal { endangered: Endangered::Newcomer, .. })));
    }

    #[test]
    fn a_newcomer_due_first_endangers_a_resident_due_later() {
        let residents = [demand(100, 10, 0), demand(2_000, 1_200, 0)];
        let Admission::Refused(refusal) = admit(&demand(1_000, 300, 0), &residents, Span::ZERO) else {
            panic!("0.1 + 0.3 + 0.6 is more than 0.9");
        };
        assert_eq!(refusal.endangered, Endangered::Resident(1));
        assert_eq!(refusal.load_ppm, 1_000_000);
        assert_eq!(
            refusal.to_string(),
            "a resident's deadline of 2s would be in danger: it needs 100 % of the GPU, 90 % may be promised"
        );
    }

    #[test]
    fn a_newcomer_that_blocks_for_long_endangers_a_resident_due_sooner() {
        let residents = [demand(100, 50, 5)];
        let polite = admit(&demand(10_000, 1_000, 30), &residents, Span::from_millis(1));
        assert_eq!(polite, Admission::Admitted { load_ppm: 810_000 });
        let rude = admit(&demand(10_000, 1_000, 60), &residents, Span::from_millis(1));
        assert!(matches!(rude, Admission::Refused(Refusal { endangered: Endangered::Resident(0), .. })));
    }

    #[test]
    fn a_resident_in_danger_all_along_is_no_reason_to_refuse() {
        let residents = [demand(100, 10, 0), demand(5_000, 100, 95)];
        let harmless = admit(&demand(10_000, 100, 0), &residents, Span::ZERO);
        assert_eq!(harmless, Admission::Admitted { load_ppm: 130_000 });
    }

    #[test]
    fn a_deadline_that_has_passed_admits_nobody_behind_it() {
        let late = demand(-5, 100, 0);
        assert!(matches!(admit(&demand(1_000, 1, 0), &[late], Span::ZERO), Admission::Refused(_)));
    }
}
