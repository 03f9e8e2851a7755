//! Five hundred containers and ten thousand tasks: how soon the page is there, and how long it takes to show what is new.

use crate::picture;
use crate::scene::{Container, Scene, eventually};
use crate::webdriver::Browser;
use node::ledger::{File, Retention, Row};
use std::time::Duration;
use wire::labels::Mode;

const CONTAINERS: usize = 500;
const TASKS: usize = 10_000;
/// What is promised, in milliseconds, of a machine that has nothing else to do.
const FIRST_PAINT_MAX: f64 = 1000.0;
const UPDATE_MAX: f64 = 100.0;
/// What may be said of a busy one: what the first paint takes, in tables that are written anew meanwhile.
const PAINT_TABLES_MAX: f64 = 5.0;
/// How often it is looked whether that holds.
const TRIES: usize = 3;
/// How many updates and tables are enough to tell. A machine that stalls shows several comings and goings in one update.
const UPDATES_MIN: usize = 10;
const TABLES_MIN: usize = 4;
/// How many come and go until there are so many.
const COMINGS: std::ops::RangeInclusive<usize> = 12..=120;

/// How slow the machine is at the moment: in the same page, twice a second, a table of as many rows is written and laid out, out of sight.
const WRITE_TABLES: &str = "(() => {
    window.written = [];
    setInterval(() => {
        const since = performance.now();
        requestAnimationFrame(() => {
            const table = document.createElement('table');
            table.style.cssText = 'position: fixed; visibility: hidden';
            const row = (_, number) => `<tr>${`<td>${number}</td>`.repeat(9)}</tr>`;
            table.innerHTML = Array.from({ length: ROWS }, row).join('');
            document.body.append(table);
            table.getBoundingClientRect();
            table.remove();
            window.written.push(performance.now() - since);
        });
    }, 500);
})()";

/// Ten thousand tasks that ended within the last hour, of the containers that there will be.
fn fill_the_ledger(scene: &Scene) {
    let folder = scene.place("state");
    std::fs::create_dir_all(&folder).expect("a folder");
    let now_us = jiff::Timestamp::now().as_microsecond();
    let row = |number: usize| {
        let name = name(number % CONTAINERS);
        let end_us = now_us - 3_500_000_000 + number as i64 * 345_000;
        let run_us = 200_000 + (number as i64 * 7919) % 1_200_000;
        Row {
            container: Some(scene.id(&name)),
            name: Some(name),
            pid: 100_000 + number as u32,
            gpu: 0,
            mode: Mode::Process,
            start_us: end_us - run_us,
            end_us: Some(end_us),
            now_us: 0,
            deadline_us: Some(1_200_000),
            held_us: 0,
            held: false,
            gpu_memory_bytes: 64 << 20,
            core_permille: 500,
            approximate: false,
        }
    };
    let rows: Vec<Row> = (0..TASKS).map(row).collect();
    File::open(folder.join("ledger.db"), Retention { days: 30, rows: 1_000_000 }).write(&rows);
}

fn name(number: usize) -> String {
    format!("box-{number:03}")
}

#[test]
fn five_hundred_containers_and_ten_thousand_tasks_are_shown_at_once() {
    let scene = Scene::new();
    fill_the_ledger(&scene);
    let _agent = scene.agent("policy = \"none\"\n");
    let hold = ["hold", "--memory", "1MiB", "--for", "1h"];
    let crowd: Vec<Container> =
        (0..CONTAINERS).map(|number| scene.start(&name(number), &[("deadline", "30m")], &hold)).collect();
    eventually("all of them", || {
        let node: serde_json::Value = wire::client::get(&scene.socket(), "/v1/node").ok()?;
        (node["gpus"][0]["tasks"] == CONTAINERS).then_some(())
    });
    // Whatever else the machine does meanwhile, an update takes less than writing the table anew.
    let quick = (1..=TRIES).any(|tried| {
        let Took { paint, update, table } = look(&scene, tried);
        (paint < FIRST_PAINT_MAX || paint < PAINT_TABLES_MAX * table)
            && (update < UPDATE_MAX || update < table)
    });
    assert!(quick, "in none of {TRIES} tries it was quick enough");
    drop(crowd);
}

/// How long things took in the page, in milliseconds.
struct Took {
    /// Until the first paint.
    paint: f64,
    /// From news to their frame, at p95.
    update: f64,
    /// What a table costs that is written anew, at p95.
    table: f64,
}

/// Opens the page, and lets some come and go.
fn look(scene: &Scene, tried: usize) -> Took {
    let browser = Browser::start(1440, 900);
    browser.open(&format!("http://{}/", scene.http));
    let all = format!("parseInt(document.getElementById('count').textContent) >= {CONTAINERS}");
    browser.until("five hundred containers", &all);
    assert_eq!(browser.value("document.querySelector('#rows tr a').textContent"), name(0));
    let paint = browser.value("performance.getEntriesByName('first-contentful-paint')[0]?.startTime");
    let filled = browser.value("performance.getEntriesByName('update')[0]?.startTime + performance.getEntriesByName('update')[0]?.duration");
    let (paint, filled) = (paint.as_f64().expect("a paint"), filled.as_f64().expect("a fill"));
    // The whole hour, with every task of it.
    browser.value("document.querySelector('#spans button:nth-child(3)').click()");
    browser.until(
        "ten thousand tasks",
        &format!("Number(document.getElementById('rate-words').textContent.match(/[0-9]+/)?.[0]) >= {TASKS}"),
    );
    eventually("a timeline of an hour", || {
        let drawn = browser.value("(() => { const c = document.getElementById('lanes'); const d = c.getContext('2d').getImageData(c.width - 300, 60, 260, 400).data; let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; })()");
        (drawn.as_u64()? > 5_000).then_some(())
    });
    browser.picture(&picture("crowd"));
    // Meanwhile some come and go, and the page must keep up.
    browser.value("performance.clearMeasures('update')");
    browser.value(&WRITE_TABLES.replace("ROWS", &CONTAINERS.to_string()));
    for come in 1..=*COMINGS.end() {
        let name = format!("new-{tried}-{come}");
        let _one = scene.start(&name, &[("deadline", "30m")], &["hold", "--for", "200ms"]);
        std::thread::sleep(Duration::from_millis(300));
        let are_enough = || updates(&browser).len() >= UPDATES_MIN && tables(&browser).len() >= TABLES_MIN;
        if COMINGS.contains(&come) && are_enough() {
            break;
        }
    }
    // Whoever is at the other end of the table is found by going there.
    let name = format!("the-last-{tried}");
    let _last = scene.start(&name, &[("deadline", "30m")], &["hold", "--for", "1h"]);
    let is_there = format!(
        "(document.getElementById('board').scrollTo(0, 1e6), [...document.querySelectorAll('#rows a')].some((link) => link.textContent === '{name}'))"
    );
    browser.until("the last container", &is_there);
    let (updates, tables) = (updates(&browser), tables(&browser));
    println!(
        "{CONTAINERS} containers, {TASKS} tasks: first paint {paint:.0} ms, rows {filled:.0} ms; {} updates: p50 {:.1} ms, p95 {:.1} ms, worst {:.1} ms; {} tables written anew: p50 {:.1} ms, p95 {:.1} ms",
        updates.len(),
        quantile(&updates, 0.5),
        quantile(&updates, 0.95),
        quantile(&updates, 1.0),
        tables.len(),
        quantile(&tables, 0.5),
        quantile(&tables, 0.95),
    );
    assert!(updates.len() >= UPDATES_MIN && tables.len() >= TABLES_MIN, "{updates:?} {tables:?}");
    // That this test reads the canvas is the browser's only complaint.
    let complaints = browser.complaints();
    let other: Vec<_> = complaints.iter().filter(|line| !line.contains("getImageData")).collect();
    assert!(other.is_empty(), "{other:?}");
    Took { paint, update: quantile(&updates, 0.95), table: quantile(&tables, 0.95) }
}

/// How long each update of the page took so far.
fn updates(browser: &Browser) -> Vec<f64> {
    sorted(browser, "performance.getEntriesByName('update').map((update) => update.duration)")
}

/// How long each table took so far that was written anew.
fn tables(browser: &Browser) -> Vec<f64> {
    sorted(browser, "window.written")
}

/// Some numbers of the page, from the smallest to the largest.
fn sorted(browser: &Browser, numbers: &str) -> Vec<f64> {
    let numbers = browser.value(numbers);
    let mut numbers: Vec<f64> =
        numbers.as_array().expect("a list").iter().filter_map(serde_json::Value::as_f64).collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1]
}
