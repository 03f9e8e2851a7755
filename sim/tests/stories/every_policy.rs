//! What holds under every policy: memory, small tasks, several GPUs, whom we may touch.

use crate::{check, tell, tell_with};
use expect_test::expect;
use sched::{Settings, Span};

#[test]
fn none_touches_nothing() {
    check(
        "none",
        "0ms  a  work 50ms  due 60ms
         0ms  b  work 50ms",
        &expect![[r#"
            0s       a arrives; b arrives
            60.001ms a misses its deadline
            112.505ms a done, 52.505ms late; b done
        "#]],
    );
}

#[test]
fn who_lacks_memory_waits_for_it_instead_of_failing() {
    let story = "gpu memory 10GiB
          0ms  large  context 5ms  work 50ms  memory 8GiB  due 900ms
          1ms  other  context 5ms  work 50ms  memory 8GiB  due 900ms";
    check(
        "earliest-deadline",
        story,
        &expect![[r#"
        0s       large arrives
        1ms      other arrives; hold other, it needs 8192 MiB of GPU memory and 2048 MiB is left
        55ms     large done, 845ms float; release other
        105ms    other done, 796ms float
    "#]],
    );
    let failing = |policy| tell(policy, story).contains("runs out of GPU memory");
    assert!(failing("none"));
    assert!(!failing("fifo") && !failing("least-slack"));
}

#[test]
fn what_is_larger_than_the_gpu_fails_without_delay() {
    check(
        "least-slack",
        "gpu memory 10GiB
         0ms  giant  work 50ms  memory 20GiB
         0ms  small  work 50ms  memory 1GiB",
        &expect![[r#"
            0s       giant arrives; giant runs out of GPU memory; giant fails; small arrives
            50ms     small done
        "#]],
    );
}

#[test]
fn a_task_alone_is_never_held() {
    for policy in sched::policy::NAMES {
        let told = tell(policy, "0ms alone work 500ms due 100ms memory 1GiB");
        assert!(!told.contains("hold"), "{told}");
    }
}

#[test]
fn a_small_task_goes_through_where_holding_costs_more_than_it_saves() {
    // A pause through Docker costs 60 ms: worth it for 850 ms of kernels (13312²), not for 225 ms (8192²).
    let through_docker = || Settings { hold_cost: Span::from_millis(60), ..Settings::default() };
    for policy in ["earliest-deadline", "least-slack"] {
        let story = "0ms  urgent  work 900ms  due 1s
                     5ms  small   work 225ms  expect 225ms
                     5ms  large   work 850ms  expect 850ms";
        let told = tell_with(through_docker(), policy, story);
        assert!(!told.contains("hold small") && told.contains("hold large"), "{told}");
        assert!(tell(policy, story).contains("hold small"), "a gate costs a tenth of a millisecond");
    }
}

#[test]
fn gpus_are_judged_apart() {
    check(
        "earliest-deadline",
        "gpu memory 8GiB
         gpu memory 8GiB
         0ms  here   gpu 0  work 50ms  due 100ms
         0ms  there  gpu 1  work 50ms  due 60ms",
        &expect![[r#"
            0s       here arrives; there arrives
            50ms     here done, 50ms float; there done, 10ms float
        "#]],
    );
}

#[test]
fn what_is_not_ours_is_seen_and_never_touched() {
    for policy in sched::policy::NAMES {
        let told = tell(
            policy,
            "0ms  stranger  work 100ms  managed no
             0ms  ours      work  50ms  due 60ms",
        );
        assert!(!told.contains("hold"), "{told}");
    }
}

#[test]
fn no_setting_of_ours_lets_a_task_go_to_fail_for_lack_of_memory() {
    for policy in ["fifo", "earliest-deadline", "least-slack"] {
        let told = tell(
            policy,
            "gpu memory 10GiB
             0ms  first  context 5ms  work 400s  kernel 1s  memory 8GiB
             1ms  second  context 5ms  work 10s  kernel 1s  memory 8GiB",
        );
        assert!(!told.contains("runs out") && told.contains("second done"), "{told}");
    }
}
