//! `fifo`: paper 001, Algorithm 2.

use crate::check;
use expect_test::expect;

#[test]
fn the_first_runs_and_all_others_wait_at_once() {
    check(
        "fifo",
        "0ms  a  work 600ms  memory 1GiB
         0ms  b  work 600ms  memory 1GiB
         0ms  c  work 600ms  memory 1GiB",
        &expect![[r#"
            0s       a arrives; b arrives; c arrives; hold b, a came first; hold c, a came first
            623.751ms a done; release b
            1.213s   b done; release c
            1.803s   c done
        "#]],
    );
}

#[test]
fn while_the_core_is_not_full_tasks_are_let_in_one_by_one() {
    check(
        "fifo",
        "0ms  a  work 100ms  kernel 10ms  gap 50ms  memory 1GiB
         0ms  b  work 100ms  kernel 10ms  gap 50ms  memory 1GiB
         0ms  c  work 100ms  kernel 10ms  gap 50ms  memory 1GiB",
        &expect![[r#"
            0s       a arrives; b arrives; c arrives; hold b, a came first; hold c, a came first
            200ms    release b
            400ms    release c
            649.555ms a done
            768.814ms b done
            908.271ms c done
        "#]],
    );
}

#[test]
fn above_95_percent_memory_the_last_one_let_in_waits_again() {
    check(
        "fifo",
        "gpu memory 10GiB
           0ms  a  work 600ms  kernel 10ms  gap 10ms  memory 3GiB
         250ms  b  host 300ms  work 200ms  kernel 10ms  gap 10ms  memory 6758MiB",
        &expect![[r#"
            0s       a arrives
            250ms    b arrives
            600ms    hold b, the GPU memory is nearly full
            1.19s    a done; release b
            1.52s    b done
        "#]],
    );
}

#[test]
fn a_deadline_means_nothing_to_it() {
    check(
        "fifo",
        " 0ms  train  work 400ms  memory 1GiB
         10ms  infer  input 5ms  work 10ms  due 50ms  memory 1GiB",
        &expect![[r#"
            0s       train arrives
            10ms     infer arrives; hold infer, train came first
            60.001ms infer misses its deadline
            400ms    train done; release infer
            410ms    infer done, 350ms late
        "#]],
    );
}

#[test]
fn for_memory_only_the_last_one_let_in_waits_again() {
    check(
        "fifo",
        "gpu memory 10GiB
           0ms  a  work 3s  kernel 10ms  gap 40ms  memory 3000MiB
         250ms  b  host 1s  work 1s  kernel 10ms  gap 40ms  memory 2400MiB
         500ms  c  host 1s  work 1s  kernel 10ms  gap 40ms  memory 2400MiB
         750ms  d  host 1s  work 1s  kernel 10ms  gap 40ms  memory 2400MiB",
        &expect![[r#"
            0s       a arrives
            250ms    b arrives
            500ms    c arrives; hold c, a came first
            600ms    release c
            750ms    d arrives; hold d, a came first
            800ms    release d
            1.8s     hold d, the GPU memory is nearly full
            8.496s   b done
            8.6s     release d
            8.706s   c done
            14.749s  d done
            18.499s  a done
        "#]],
    );
}
