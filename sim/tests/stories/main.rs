//! Stories: who does what when, and what each policy makes of it. Text in, timeline out.
//!
//! The world has no delays here, so that times are round. `UPDATE_EXPECT=1` rewrites the timelines.

mod earliest_deadline;
mod every_policy;
mod fifo;
mod least_slack;

use expect_test::Expect;
use sched::Settings;
use sim::workload::story;
use sim::world::{Costs, Setup, run};

/// Tells the story under one policy, and compares.
fn check(policy: &'static str, text: &str, expected: &Expect) {
    expected.assert_eq(&tell(policy, text));
}

fn tell(policy: &'static str, text: &str) -> String {
    tell_with(Settings::default(), policy, text)
}

fn tell_with(settings: Settings, policy: &'static str, text: &str) -> String {
    let workload = story("test", text).expect("the story is well-formed");
    let mut setup = Setup::plain(policy, Costs::INSTANT);
    setup.settings = settings;
    setup.log = true;
    setup.check = true;
    sim::told::timeline(&run(&workload, setup, |_| {}))
}
