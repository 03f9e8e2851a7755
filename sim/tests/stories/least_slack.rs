//! `least-slack`: earliest deadline first among those that can still make it.

use crate::check;
use expect_test::expect;

#[test]
fn who_cannot_make_it_yields_and_says_so() {
    check(
        "least-slack",
        " 0ms  doomed  work 100ms  expect 100ms  due  80ms
         10ms  good    work  50ms  expect  50ms  due 120ms",
        &expect![[r#"
            0s       doomed arrives
            10ms     good arrives; hold doomed, it cannot make its deadline any more and yields to good
            60ms     good done, 70ms float; release doomed
            80.001ms doomed misses its deadline
            150ms    doomed done, 70ms late
        "#]],
    );
}

#[test]
fn the_one_with_the_most_work_left_yields_so_that_the_others_make_it() {
    check(
        "least-slack",
        " 0ms  large  work 100ms  expect 100ms  due 130ms
         20ms  one    work  30ms  expect  30ms  due 120ms
         20ms  two    work  30ms  expect  30ms  due 120ms",
        &expect![[r#"
            0s       large arrives
            20ms     one arrives; two arrives; hold large, it cannot make its deadline any more and yields to one; hold two, one is due sooner
            62.501ms one done, 77.499ms float; release two
            82.501ms two done, 57.499ms float; release large
            130.001ms large misses its deadline
            162.501ms large done, 32.501ms late
        "#]],
    );
}

#[test]
fn a_first_run_is_never_given_up() {
    check(
        "least-slack",
        "0ms  unknown  work 100ms  due 50ms
         0ms  good     work  30ms  expect 30ms  due 300ms",
        &expect![[r#"
            0s       unknown arrives; good arrives; hold good, unknown is due sooner
            50.001ms unknown misses its deadline; hold unknown, good has only 229.999ms to spare; release good
            73.127ms good done, 226.873ms float; release unknown
            133.127ms unknown done, 83.127ms late
        "#]],
    );
}

#[test]
fn background_work_runs_beside_a_task_with_slack_to_spare() {
    check(
        "least-slack",
        " 0ms  train    work 60ms
         20ms  relaxed  work 20ms  expect 20ms  due 900ms",
        &expect![[r#"
            0s       train arrives
            20ms     relaxed arrives
            65.002ms relaxed done, 854.998ms float
            85.002ms train done
        "#]],
    );
}

#[test]
fn background_work_waits_when_slack_is_thin() {
    check(
        "least-slack",
        " 0ms  train   work 60ms
         20ms  urgent  work 20ms  expect 20ms  due 40ms",
        &expect![[r#"
            0s       train arrives
            20ms     urgent arrives; hold train, urgent has only 20ms to spare
            40ms     urgent done, 20ms float; release train
            80ms     train done
        "#]],
    );
}

#[test]
fn the_deadline_orders_and_slack_does_not_so_nobody_overtakes_twice() {
    check(
        "least-slack",
        "0ms  short  work 20ms  expect 20ms  due 100ms
         0ms  long   work 80ms  expect 80ms  due 110ms",
        &expect![[r#"
            0s       short arrives; long arrives; hold long, short is due sooner
            32.501ms short done, 67.499ms float; release long
            102.501ms long done, 7.499ms float
        "#]],
    );
}

#[test]
fn brief_tasks_share_while_there_is_slack_to_spare() {
    check(
        "least-slack",
        "0ms  one   work 4ms  expect 4ms  due 100ms
         1ms  two   work 4ms  expect 4ms  due 100ms
         1ms  long  work 40ms  expect 40ms  due 400ms",
        &expect![[r#"
            0s       one arrives
            1ms      two arrives; long arrives; hold long, one is due sooner
            11.126ms one done, 88.874ms float
            13.376ms two done, 87.624ms float; release long
            49.376ms long done, 351.624ms float
        "#]],
    );
}

#[test]
fn brief_tasks_are_ordered_where_slack_is_thin() {
    check(
        "least-slack",
        "0ms  one  work 4ms  kernel 1ms  expect 4ms  due 12ms
         1ms  two  work 4ms  kernel 1ms  expect 4ms  due  9ms",
        &expect![[r#"
            0s       one arrives
            1ms      two arrives; hold one, two is due sooner
            5ms      two done, 5ms float; release one
            8ms      one done, 4ms float
        "#]],
    );
}
