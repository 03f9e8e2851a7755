//! What was placed on a node that its reports do not show yet: a virtual clock.
//!
//! Problem: between a placement and the first report that shows it, the node looks as free as before,
//! and gets everything. Approach: each reservation puts its work on the node's clock (`busy_until =
//! max(busy_until, now) + work`); what the clock is ahead of time is the node's backlog. Time works it
//! off by itself, which is why this beats counting placements: nobody has to say when they end.

use alloc::vec::Vec;

use super::{Request, SPAN_MAX, Settings, bounded};
use crate::time::{Instant, Span};

/// Names one reservation, so that it can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(pub(super) u64);

/// The reservations of one node, in the order they were made.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    made: Vec<Reservation>,
    /// When the work of all of them is done, if nothing else runs there.
    busy_until: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Reservation {
    id: ReservationId,
    at: Instant,
    deadline: Option<Span>,
    work: Span,
    memory: u64,
}

impl Reservations {
    pub(super) fn add(&mut self, now: Instant, id: ReservationId, request: &Request) {
        let work = Span::from_micros(bounded(request.work()));
        let made = Reservation { id, at: now, deadline: request.deadline, work, memory: request.memory };
        self.busy_until = after(self.busy_until, &made);
        self.made.push(made);
    }

    /// Whether it was there to be taken back.
    pub(super) fn cancel(&mut self, id: ReservationId) -> bool {
        self.keep(|reservation| reservation.id != id)
    }

    /// A report accounts for what had had time to start when it was taken.
    pub(super) fn accounted(&mut self, taken: Instant, settings: &Settings) {
        self.keep(|reservation| taken < reservation.at + settings.starts_within);
    }

    /// Drops those whose container never came.
    pub(super) fn expire(&mut self, now: Instant, settings: &Settings) {
        self.keep(|reservation| now < reservation.at + settings.reservation_life);
    }

    /// When the next of them expires.
    pub(super) fn next_expiry(&self, settings: &Settings) -> Option<Instant> {
        self.made.first().map(|first| first.at + settings.reservation_life)
    }

    pub(super) fn busy_until(&self) -> Instant {
        self.busy_until
    }

    /// The shortest deadline among them: those containers have no more float than that.
    pub(super) fn deadline_least(&self) -> i64 {
        let deadlines = self.made.iter().filter_map(|reservation| reservation.deadline);
        deadlines.map(bounded).min().unwrap_or(i64::MAX)
    }

    pub(super) fn memory(&self) -> u64 {
        self.made.iter().fold(0, |sum, reservation| sum.saturating_add(reservation.memory))
    }

    /// Keeps some, and sets the clock to what these alone would have made it.
    fn keep(&mut self, wanted: impl Fn(&Reservation) -> bool) -> bool {
        let before = self.made.len();
        self.made.retain(wanted);
        let changed = self.made.len() != before;
        if changed {
            self.busy_until = self.made.iter().fold(Instant::ZERO, after);
        }
        changed
    }
}

/// The clock once this reservation's work is on it; never so far ahead that float means nothing.
fn after(busy_until: Instant, made: &Reservation) -> Instant {
    let done = busy_until.max(made.at) + made.work;
    done.min(made.at + Span::from_micros(SPAN_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64) -> Instant {
        Instant::from_micros(second * 1_000_000)
    }

    fn request(work: i64, deadline: i64) -> Request {
        let span = |secs| Some(Span::from_secs(secs));
        Request { deadline: span(deadline), memory: 10, forecast: span(work) }
    }

    #[test]
    fn work_queues_up_on_the_clock_and_time_works_it_off() {
        let mut reservations = Reservations::default();
        reservations.add(second(10), ReservationId(1), &request(2, 9));
        reservations.add(second(11), ReservationId(2), &request(3, 5));
        assert_eq!(reservations.busy_until(), second(15));
        assert_eq!(reservations.deadline_least(), 5_000_000);
        assert_eq!(reservations.memory(), 20);
        reservations.add(second(30), ReservationId(3), &request(1, 9));
        assert_eq!(reservations.busy_until(), second(31));
    }

    #[test]
    fn a_report_from_before_the_container_started_does_not_account_for_it() {
        let settings = Settings { starts_within: Span::from_secs(1), ..Settings::default() };
        let mut reservations = Reservations::default();
        reservations.add(second(10), ReservationId(1), &request(2, 9));
        reservations.add(second(11), ReservationId(2), &request(3, 5));
        reservations.accounted(second(10), &settings);
        assert_eq!(reservations.busy_until(), second(15));
        reservations.accounted(second(11), &settings);
        assert_eq!(reservations.busy_until(), second(14), "only the second is left, from second 11 on");
        reservations.accounted(second(12), &settings);
        assert_eq!(reservations.memory(), 0);
    }

    #[test]
    fn a_container_that_never_came_is_forgotten() {
        let settings = Settings { reservation_life: Span::from_secs(5), ..Settings::default() };
        let mut reservations = Reservations::default();
        reservations.add(second(10), ReservationId(1), &request(2, 9));
        assert_eq!(reservations.next_expiry(&settings), Some(second(15)));
        reservations.expire(second(15), &settings);
        assert_eq!(reservations.next_expiry(&settings), None);
    }

    #[test]
    fn a_reservation_is_taken_back_once() {
        let mut reservations = Reservations::default();
        reservations.add(second(10), ReservationId(1), &request(2, 9));
        assert!(reservations.cancel(ReservationId(1)));
        assert!(!reservations.cancel(ReservationId(1)));
        assert_eq!(reservations.busy_until(), Instant::ZERO);
    }
}
