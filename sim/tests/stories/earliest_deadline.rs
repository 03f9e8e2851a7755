//! `earliest-deadline`: the task due first runs; the others wait.

use crate::check;
use expect_test::expect;

#[test]
fn a_short_deadline_borrows_the_gpu() {
    check(
        "earliest-deadline",
        "  0ms  train  work 400ms  due 900ms
         100ms  infer  work  50ms  due 200ms",
        &expect![[r#"
            0s       train arrives
            100ms    infer arrives; hold train, infer is due sooner
            150ms    infer done, 150ms float; release train
            450ms    train done, 450ms float
        "#]],
    );
}

#[test]
fn a_task_that_prepares_its_input_keeps_nobody_waiting() {
    check(
        "earliest-deadline",
        "0ms  soon   host 100ms  work 50ms  due 300ms
         0ms  later  work 80ms  due 900ms",
        &expect![[r#"
            0s       soon arrives; later arrives; hold soon, later has work on the GPU that is soon done
            37.5ms   release soon
            80ms     later done, 820ms float
            150ms    soon done, 150ms float
        "#]],
    );
}

#[test]
fn input_is_copied_while_another_task_computes() {
    check(
        "earliest-deadline",
        "0ms  first   input 20ms  work 50ms  kernel 50ms  due 200ms
         0ms  second  input 60ms  work 50ms  kernel 50ms  due 300ms",
        &expect![[r#"
            0s       first arrives; second arrives; hold second, first is due sooner
            70ms     first done, 130ms float; release second
            120ms    second done, 180ms float
        "#]],
    );
}

#[test]
fn who_can_wait_lets_finish_what_is_on_the_gpu() {
    check(
        "earliest-deadline",
        " 0ms  early  work 400ms  kernel 400ms  due 9s
         10ms  next   host 5ms  work 100ms  kernel 100ms  due 2s
         20ms  tight  host 5ms  work 100ms  kernel 100ms  due 300ms",
        &expect![[r#"
            0s       early arrives
            10ms     next arrives; hold next, early has work on the GPU that is soon done
            15ms     hold early, next is due sooner
            20ms     tight arrives; hold tight, early has work on the GPU that is soon done
            57.5ms   release tight
            282.501ms tight done, 37.499ms float; release next
            507.502ms next done, 1.502s float; release early
            650.002ms early done, 8.349s float
        "#]],
    );
}

#[test]
fn work_already_queued_cannot_be_called_back() {
    check(
        "earliest-deadline",
        " 0ms  deep   work 80ms  kernel 10ms  depth 4  due 900ms
         10ms  infer  work 10ms  due 100ms",
        &expect![[r#"
            0s       deep arrives
            10ms     infer arrives; hold deep, infer is due sooner
            32.501ms infer done, 77.499ms float; release deep
            92.501ms deep done, 807.499ms float
        "#]],
    );
}

#[test]
fn work_without_a_deadline_runs_in_what_is_left_over() {
    check(
        "earliest-deadline",
        " 0ms  train  work 60ms
         20ms  infer  work 20ms  due 100ms",
        &expect![[r#"
            0s       train arrives
            20ms     infer arrives; hold train, infer has a deadline to make
            40ms     infer done, 80ms float; release train
            80ms     train done
        "#]],
    );
}

#[test]
fn who_has_missed_gives_way_to_who_can_still_make_it() {
    check(
        "earliest-deadline",
        " 0ms  late  work 100ms  due 30ms
         50ms  good  work  20ms  due 60ms",
        &expect![[r#"
            0s       late arrives
            30.001ms late misses its deadline
            50ms     good arrives; hold late, good has a deadline to make
            70ms     good done, 40ms float; release late
            120ms    late done, 90ms late
        "#]],
    );
}

#[test]
fn tasks_without_a_deadline_take_turns() {
    check(
        "earliest-deadline",
        "0ms  one  work 1500ms  kernel 500ms
         0ms  two  work 1500ms  kernel 500ms",
        &expect![[r#"
            0s       one arrives; two arrives; hold two, it is the turn of one
            1s       hold one, it is the turn of two; release two
            2s       release one; hold two, it is the turn of one
            2.281s   two done
            3.156s   one done
        "#]],
    );
}

#[test]
fn a_stream_of_urgent_requests_starves_nobody() {
    let request = |n: u32| format!("{}ms r{n} work 100ms due 400ms\n", 100 * n + 1);
    let requests: String = (0..120).map(request).collect();
    let told = crate::tell("earliest-deadline", &format!("5ms patient work 100ms kernel 50ms\n{requests}"));
    let about_patient: Vec<&str> = told.lines().filter(|line| line.contains("patient")).collect();
    expect![[r#"
        5ms      patient arrives; hold patient, r0 has a deadline to make
        5.125s   release patient, it has waited 5s
        5.225s   hold patient, r49 has a deadline to make
        5.249s   patient done
    "#]]
    .assert_eq(&(about_patient.join("\n") + "\n"));
}

#[test]
fn of_many_who_wait_each_has_its_while() {
    let request = |n: u32| format!("{}ms r{n} work 100ms due 400ms\n", 100 * n + 1);
    let requests: String = (0..260).map(request).collect();
    let patient = |n: u32| format!("5ms p{n} work 400ms kernel 50ms\n");
    let patients: String = (1..=4).map(patient).collect();
    let told = crate::tell("earliest-deadline", &(patients + &requests));
    let waited: Vec<&str> = told.lines().filter(|line| line.contains("it has waited")).collect();
    for n in 1..=4 {
        let its_while = format!("release p{n}, it has waited");
        assert!(waited.iter().any(|line| line.contains(&its_while)), "{waited:#?}");
    }
}

#[test]
fn a_server_is_held_at_its_next_request() {
    let told = crate::tell(
        "earliest-deadline",
        "0ms  server  task burst  work 2s  kernel 10ms  gap 20ms  due 20s
         5ms  urgent  work 1s  kernel 10ms  due 3s",
    );
    let end = told.lines().find(|line| line.contains("urgent done")).expect("it ends");
    assert!(end.starts_with("1.01"), "one kernel of the server is in its way, no more: {told}");
}

#[test]
fn who_computes_while_another_prepares_is_held_once_at_most() {
    let told = crate::tell(
        "earliest-deadline",
        "0ms  soon   host 5s  work 10ms  due 10s
         0ms  later  work 1s  kernel 10ms  gap 5ms  due 20s",
    );
    assert!(told.matches("hold later").count() <= 1, "{told}");
}
