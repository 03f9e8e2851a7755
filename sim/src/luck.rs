//! Luck from one seed: a generator of its own for every purpose.
//!
//! A new fault that draws from its own generator does not reshuffle what the others draw, so an old
//! seed stays the same story.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// What luck is drawn for. The numbers are part of every seed's story: add, never renumber.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// When tasks arrive.
    Arrivals = 1,
    /// How much work they have.
    Work = 2,
    /// How long they may take.
    Deadlines = 3,
    /// How far declared run times are off.
    Estimates = 4,
    /// The shape of a fuzzed world.
    Shape = 5,
    /// Which faults exist in a fuzzed world.
    Faults = 6,
    /// What becomes of answers.
    Answers = 7,
    /// What becomes of Docker's events.
    Docker = 8,
    /// What becomes of GPU readings.
    Readings = 9,
    /// Who is killed, and when.
    Kills = 10,
    /// When the agent restarts.
    Restarts = 11,
    /// Where containers of a cluster go.
    Placement = 12,
    /// Who pauses and stops containers by hand.
    Hands = 14,
    /// When in its period each node of a cluster reports.
    Reports = 15,
    /// Which facts about launches cross.
    Crossing = 16,
    /// How long somebody thinks before asking again.
    Pauses = 17,
}

/// One seed.
#[derive(Clone, Copy, Debug)]
pub struct Luck(pub u64);

impl Luck {
    /// The generator for one purpose.
    pub fn stream(self, purpose: Purpose) -> ChaCha8Rng {
        let mut generator = ChaCha8Rng::seed_from_u64(self.0);
        generator.set_stream(purpose as u64);
        generator
    }
}
