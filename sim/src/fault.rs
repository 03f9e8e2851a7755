//! What goes wrong, by a seed's luck. Each seed picks which faults exist in its world; then they stop,
//! and everything must converge.

use crate::luck::{Luck, Purpose};
use crate::workload::Workload;
use crate::world::Hand;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sched::{Instant, Span};

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It comes, that late.
    Late(Span),
    /// It comes, and again that much later.
    Twice(Span),
    /// It never comes.
    Lost,
}

/// The faults of one world.
#[derive(Debug)]
pub struct Faults {
    luck: Luck,
    /// From then on nothing goes wrong any more.
    quiet_from: Instant,
    late_answers: bool,
    double_answers: bool,
    lost_answers: bool,
    failing_holds: bool,
    lost_docker_events: bool,
    stale_readings: bool,
    kills: bool,
    restarts: bool,
    hands: bool,
    crossing_facts: bool,
    crossing: ChaCha8Rng,
    answers: ChaCha8Rng,
    docker: ChaCha8Rng,
    readings: ChaCha8Rng,
}

/// How late an answer can be.
const LATE_MAX_US: i64 = 3_000_000;

/// How much later one fact of a launch can be than the next.
const CROSSED_MAX_US: i64 = 400;

impl Faults {
    /// A world in which nothing goes wrong.
    pub fn none() -> Faults {
        Faults::with(Luck(0), Instant::ZERO, [false; 9], false)
    }

    /// The faults a seed picks; they stop at `quiet_from`.
    pub fn picked(seed: u64, quiet_from: Instant) -> Faults {
        let mut picks = Luck(seed).stream(Purpose::Faults);
        let which = std::array::from_fn(|_| picks.random_ratio(1, 3));
        let crossing = Luck(seed).stream(Purpose::Crossing).random_ratio(1, 3);
        Faults::with(Luck(seed), quiet_from, which, crossing)
    }

    fn with(luck: Luck, quiet_from: Instant, which: [bool; 9], crossing_facts: bool) -> Faults {
        let [late_answers, double_answers, lost_answers, failing_holds, lost_docker_events, ..] = which;
        let [.., stale_readings, kills, restarts, hands] = which;
        Faults {
            luck,
            quiet_from,
            late_answers,
            double_answers,
            lost_answers,
            failing_holds,
            lost_docker_events,
            stale_readings,
            kills,
            restarts,
            hands,
            crossing_facts,
            crossing: luck.stream(Purpose::Crossing),
            answers: luck.stream(Purpose::Answers),
            docker: luck.stream(Purpose::Docker),
            readings: luck.stream(Purpose::Readings),
        }
    }

    /// Whether these faults can let a task run out of memory without anybody being to blame: a hold that
    /// fails, an agent that is away, a container nobody told of.
    pub fn excuse_lack_of_memory(&self) -> bool {
        self.failing_holds || self.restarts || self.lost_docker_events || self.hands
    }

    /// Whether Docker's word of a container can get lost in this world.
    pub fn lose_docker_events(&self) -> bool {
        self.lost_docker_events
    }

    /// Whether the agent dies in this world, so that tasks begin or end unseen.
    pub fn restart_the_agent(&self) -> bool {
        self.restarts
    }

    pub(crate) fn fate_of_answer(&mut self, now: Instant) -> Fate {
        if now >= self.quiet_from {
            return Fate::Late(Span::ZERO);
        }
        let late = Span::from_micros(self.answers.random_range(0..LATE_MAX_US));
        match self.answers.random_range(0..10) {
            0 if self.lost_answers => Fate::Lost,
            1 | 2 if self.double_answers => Fate::Twice(late),
            3..=5 if self.late_answers => Fate::Late(late),
            _ => Fate::Late(Span::ZERO),
        }
    }

    /// How much later than others a launch is told of, so that what two processors saw crosses.
    pub(crate) fn crosses(&mut self, now: Instant) -> Span {
        let crosses = now < self.quiet_from && self.crossing_facts && self.crossing.random_ratio(1, 4);
        if crosses { Span::from_micros(self.crossing.random_range(0..CROSSED_MAX_US)) } else { Span::ZERO }
    }

    pub(crate) fn hold_fails(&mut self, now: Instant) -> bool {
        now < self.quiet_from && self.failing_holds && self.answers.random_ratio(1, 10)
    }

    pub(crate) fn loses_docker_event(&mut self, now: Instant) -> bool {
        now < self.quiet_from && self.lost_docker_events && self.docker.random_ratio(1, 3)
    }

    pub(crate) fn reading_is_stale(&mut self, now: Instant) -> bool {
        now < self.quiet_from && self.stale_readings && self.readings.random_ratio(1, 2)
    }

    /// Who is killed, and when.
    pub(crate) fn kills(&self, workload: &Workload) -> Vec<(Instant, usize)> {
        let mut luck = self.luck.stream(Purpose::Kills);
        let some = (0..workload.tasks.len()).filter(|_| luck.random_ratio(1, 5)).collect::<Vec<_>>();
        let when = |index: usize| {
            let task = &workload.tasks[index];
            let after = luck.random_range(0..=task.phases.solo().as_micros() * 2);
            (Instant::ZERO + task.arrives + Span::from_micros(after), index)
        };
        if self.kills { some.into_iter().map(when).collect() } else { Vec::new() }
    }

    /// When the agent dies.
    pub(crate) fn restarts(&self, _: &Workload) -> Vec<Instant> {
        let mut luck = self.luck.stream(Purpose::Restarts);
        let times = if self.restarts { luck.random_range(1..=2) } else { 0 };
        let until = self.quiet_from.as_micros().max(1);
        (0..times).map(|_| Instant::from_micros(luck.random_range(0..until))).collect()
    }

    /// What people do by hand: when, what, and to the container of which task.
    pub(crate) fn hands(&self, workload: &Workload) -> Vec<(Instant, Hand, usize)> {
        let mut luck = self.luck.stream(Purpose::Hands);
        let mut hands = Vec::new();
        for (index, task) in workload.tasks.iter().enumerate() {
            let after = Span::from_micros(luck.random_range(0..=task.phases.solo().as_micros()));
            let when = Instant::ZERO + task.arrives + after;
            match luck.random_range(0..8) {
                0 => hands.push((when, Hand::Stop, index)),
                1 => {
                    hands.push((when, Hand::Pause, index));
                    hands.push((when + Span::from_millis(700), Hand::Resume, index));
                }
                _ => {}
            }
        }
        if self.hands { hands } else { Vec::new() }
    }
}
