//! What the page shows of a running demo and of an agent that comes and goes.

use crate::scene::{Running, Scene, eventually, free_address, leeway_program};
use crate::webdriver::Browser;
use crate::{in_order, picture};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Words of a row of the table, by the container's name.
fn row(name: &str, part: &str) -> String {
    let rows = "[...document.querySelectorAll('#rows tr')]";
    let found = format!("{rows}.find((row) => row.querySelector('a').textContent === '{name}')");
    if part.is_empty() { found } else { format!("{found}?{part}") }
}

#[test]
fn a_demo_fills_the_table_and_a_miss_turns_red() {
    let address = free_address();
    let places = tempfile::tempdir().expect("a folder");
    let mut demo = Command::new(leeway_program());
    demo.args(["demo", "--on", "cgroups", "--policy", "none", "--json", "--stay", "--http", &address]);
    let _demo = Running::start(demo.env("TMPDIR", places.path()).stdout(Stdio::null()));
    let browser = Browser::start(1280, 800);
    browser.prefers("dark");
    eventually("a page", || std::net::TcpStream::connect(&address).ok());
    browser.open(&format!("http://{address}/"));
    browser.until("five containers", "document.querySelectorAll('#rows tr').length === 5");
    for name in ["batch", "serve", "train", "render", "report"] {
        browser.until(name, &row(name, ""));
    }
    // A machine that stalls keeps the page waiting, too: how long it has, at most.
    browser.value(
        "(window.stalled = 0, window.beat = performance.now(), setInterval(() => { \
           const now = performance.now(); \
           window.stalled = Math.max(window.stalled, now - window.beat - 20); \
           window.beat = now; \
         }, 20))",
    );
    // From the moment the deadline is over, by the page's own clock, until the row is red.
    browser.until(
        "miss that is red",
        "(window.seen ??= { red: null }, \
          (window.watch ??= new MutationObserver(() => { \
            const red = [...document.querySelectorAll('#rows tr.missed a')].some((name) => name.textContent === 'render'); \
            if (red && !window.seen.red) window.seen.red = performance.timeOrigin + performance.now(); \
          })).observe(document.getElementById('rows'), { attributes: true, subtree: true }), window.seen.red)",
    );
    let told = "fetch('/v1/events?follow=false&since_us=0&event=missed').then((a) => a.text()).then((t) => window.miss = t)";
    browser.value(told);
    browser.until("word of the miss", "window.miss?.includes('render')");
    let late =
        browser.value("window.seen.red - Date.parse(JSON.parse(window.miss.match(/data:(.*)/)[1]).time)");
    let late = Duration::from_secs_f64(late.as_f64().expect("a number").max(0.0) / 1000.0);
    let stalled = browser.value("window.stalled").as_f64().expect("a number").max(0.0);
    println!("a miss was red {late:?} after the deadline; the page stood still for {stalled:.0} ms at most");
    assert!(late < Duration::from_secs(1) + Duration::from_secs_f64(stalled / 1000.0), "{late:?}");
    let colour =
        browser.value(&format!("getComputedStyle({}).color", row("render", ".querySelector('.value')")));
    assert_eq!(colour, "rgb(232, 89, 79)");
    browser.picture(&picture("demo"));
    in_order(&browser, &address);
}

#[test]
fn the_reason_of_a_hold_is_readable_in_the_table_and_on_the_container_s_page() {
    let scene = Scene::new();
    let _agent = scene.agent("policy = \"least-slack\"\n");
    let work = ["batch", "--kernel-us", "20000", "--depth", "4", "--for", "1h"];
    let _first = scene.start("first", &[("deadline", "1h")], &work);
    let browser = Browser::start(1280, 800);
    browser.open(&format!("http://{}/", scene.http));
    browser.until("first container", &row("first", ""));
    // One without a deadline waits for one that has one, and whose slack nobody knows yet.
    let _second = scene.start("second", &[("manage", "true")], &work);
    let reason = row("second", ".querySelector('.why').textContent");
    browser.until("reason", &format!("/first/.test({reason})"));
    let width = browser.value(&row("second", ".querySelector('.why').getBoundingClientRect().width"));
    assert!(width.as_f64().expect("a number") > 40.0, "{width}");
    let place = browser.value(
        "(() => { const lane = document.querySelector('th.c-lane').getBoundingClientRect(); \
           const at = [...document.querySelectorAll('#rows tr')][1].getBoundingClientRect(); \
           return [lane.right - 16, at.top + at.height / 2]; })()",
    );
    let at = |index: usize| place[index].as_f64().expect("a number") as i64;
    // What is under the pointer is told, and why it is held.
    eventually("a tip that says why", || {
        browser.point(at(0) - 1, at(1));
        browser.point(at(0), at(1));
        let tip = browser.value("document.getElementById('tip').innerText");
        let tip = tip.as_str().unwrap_or_default();
        (tip.contains("held for") && tip.contains("first") && tip.contains("start")).then_some(())
    });
    browser.picture(&picture("hold"));
    browser.value(&row("second", ".querySelector('a').click()"));
    browser.until(
        "explanation",
        "/second is (held|frozen) for .*because/.test(document.querySelector('#one .says')?.innerText)",
    );
    browser.until("hold in the list", "/first/.test(document.querySelector('td.reason')?.textContent)");
    browser.picture(&picture("container"));
    browser.key("\u{e00c}");
    browser.until("way back", "!document.getElementById('all').hidden");
    in_order(&browser, &scene.http);
}

#[test]
fn an_agent_s_restart_is_said_and_survived() {
    let scene = Scene::new();
    let agent = scene.agent("policy = \"none\"\n");
    let hold = ["hold", "--for", "1h"];
    let _train = scene.start("train", &[("deadline", "1h")], &hold);
    let browser = Browser::start(1000, 700);
    browser.open(&format!("http://{}/", scene.http));
    browser.until("running container", &row("train", ".classList.contains('idle') === false"));
    browser.until("live connection", "document.getElementById('status').dataset.is === 'live'");
    in_order(&browser, &scene.http);
    agent.stop();
    browser
        .until("word of the loss", "/connection lost/.test(document.getElementById('status').textContent)");
    browser.picture(&picture("lost"));
    let _agent = scene.agent("policy = \"fifo\"\n");
    let _other = scene.start("other", &[("deadline", "1h")], &hold);
    browser.until("live connection", "document.getElementById('status').dataset.is === 'live'");
    browser.until("both containers", &format!("{} && {}", row("train", ""), row("other", "")));
    browser
        .until("news of the new agent", "/policy fifo/.test(document.getElementById('facts').textContent)");
    // Only that nobody answered was complained of, by the browser itself.
    let complaints = browser.complaints();
    let other: Vec<_> = complaints.iter().filter(|line| !line.contains("net::ERR_")).collect();
    assert!(other.is_empty(), "{other:?}");
}

#[test]
fn a_telephone_has_no_sideways_scroll_and_light_is_light() {
    let scene = Scene::new();
    let _agent = scene.agent("policy = \"none\"\n");
    let hold = ["hold", "--for", "1h"];
    let long = "a-container-whose-name-is-much-longer-than-a-telephone-is-wide-and-goes-on";
    let _long = scene.start(long, &[("deadline", "1h")], &hold);
    let _late = scene.start("late", &[("deadline", "100ms")], &hold);
    let browser = Browser::start(390, 780);
    browser.prefers("light");
    browser.open(&format!("http://{}/", scene.http));
    browser.until("late container", "document.querySelector('#rows tr.missed')");
    let wide = "[document.documentElement, document.getElementById('board'), document.body].every((part) => part.scrollWidth <= part.clientWidth) \
                && document.documentElement.clientWidth === 390";
    assert_eq!(
        browser.value(wide),
        true,
        "{}",
        browser.value("[document.documentElement.scrollWidth, document.getElementById('board').scrollWidth]")
    );
    assert_eq!(browser.value("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)");
    browser.picture(&picture("telephone"));
    browser.value(&row("late", ".querySelector('a').click()"));
    browser.until("container's page", "document.querySelector('#one h1')?.textContent === 'late'");
    assert_eq!(browser.value("document.getElementById('one').scrollWidth <= 390"), true);
    browser.picture(&picture("telephone-container"));
    in_order(&browser, &scene.http);
}

#[test]
fn the_keyboard_reaches_everything() {
    let scene = Scene::new();
    let _agent = scene.agent("policy = \"none\"\n");
    let hold = ["hold", "--for", "1h"];
    let _train = scene.start("train", &[("deadline", "1h")], &hold);
    let _other = scene.start("other", &[("deadline", "1h")], &hold);
    let browser = Browser::start(1280, 700);
    browser.open(&format!("http://{}/", scene.http));
    browser.until("two containers", "document.querySelectorAll('#rows tr').length === 2");
    "/tra".chars().for_each(|letter| browser.key(&letter.to_string()));
    browser.until("filter", "document.querySelectorAll('#rows tr').length === 1");
    browser.key("\u{e00c}");
    browser.value("document.getElementById('filter').value = ''");
    browser.value("document.getElementById('filter').dispatchEvent(new Event('input'))");
    browser.until("two containers", "document.querySelectorAll('#rows tr').length === 2");
    browser.key("-");
    browser.until("longer time", "document.querySelector('#spans [aria-pressed=true]') === null");
    browser.key("\u{e012}");
    browser.until("past", "!document.getElementById('now').hidden");
    browser.key("0");
    browser.until("now", "document.getElementById('now').hidden");
    browser.key("p");
    browser.until("pause", "document.getElementById('status').dataset.is === 'paused'");
    browser.key("p");
    // Every control and every container can be reached by the tabulator, and says what it is.
    let mut reached = Vec::new();
    for _ in 0..30 {
        browser.key("\u{e004}");
        let at = browser.value("document.activeElement.ariaLabel || document.activeElement.innerText || document.activeElement.placeholder || document.activeElement.id");
        reached.push(at.as_str().unwrap_or_default().to_owned());
    }
    for wanted in ["Pause", "train", "other", "Container", "Float", "10 min", "Keys"] {
        assert!(reached.iter().any(|words| words == wanted), "{wanted} in {reached:?}");
    }
    in_order(&browser, &scene.http);
}
