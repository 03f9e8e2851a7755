//! The page of a master: its nodes in their order, who leaves, what was placed, and that it comes back.

use crate::hall::{Hall, succeeded};
use crate::webdriver::Browser;
use crate::{in_order, picture};

/// Whether the rows are those of these nodes, in this order.
fn rows_are(nodes: &[String]) -> String {
    let rows = "[...document.querySelectorAll('#rows tr td.c-name')].map((cell) => cell.textContent).join()";
    format!("{rows} === '{}'", nodes.join(","))
}

#[test]
fn nodes_are_ranked_and_leave_and_nobody_else_is_asked() {
    let (hall, _running) = Hall::with_nodes(&[("small", "8GiB"), ("middle", "16GiB"), ("large", "24GiB")]);
    let browser = Browser::start(1280, 600);
    browser.prefers("dark");
    browser.open(&format!("http://{}/", hall.http));
    let ranked: Vec<String> = hall.nodes().into_iter().map(|node| node.node).collect();
    browser.until("nodes in their order", &rows_are(&ranked));
    browser.until("three that are ready", "document.querySelectorAll('.state.ready').length === 3");
    browser.until("live connection", "document.getElementById('status').dataset.is === 'live'");
    browser.until(
        "fresh reports, and no part of an agent's page",
        "/ago$/.test(document.querySelector('td.c-age').textContent) && !document.querySelector('.history').offsetHeight",
    );
    let placed = hall.find_place();
    let news = format!(
        "document.getElementById('news').innerText.includes('{} on {}') && /99 % within/.test(document.getElementById('facts').textContent)",
        placed.placement, placed.node
    );
    browser.until("word of the placement, and how long placements take", &news);
    browser.picture(&picture("cluster"));
    succeeded(hall.cluster(&["remove", "large"]));
    let left: Vec<String> = ["small", "middle"].map(str::to_owned).to_vec();
    browser.until(
        "two nodes",
        &format!("{} || {}", rows_are(&left), rows_are(&[left[1].clone(), left[0].clone()])),
    );
    browser.until("two agents", "/2 agents/.test(document.getElementById('facts').textContent)");
    "/mid".chars().for_each(|letter| browser.key(&letter.to_string()));
    browser.until("filter", &rows_are(&left[1..]));
    in_order(&browser, &hall.http);
}

#[test]
fn a_master_s_end_is_said_and_the_next_one_s_nodes_are_shown_on_a_telephone_too() {
    let (mut hall, _running) =
        Hall::with_nodes(&[("a-node-whose-name-is-longer-than-a-telephone-is-wide-and-goes-on", "8GiB")]);
    let browser = Browser::start(390, 780);
    browser.open(&format!("http://{}/", hall.http));
    browser.until("node that is ready", "document.querySelector('.state.ready')");
    let wide = "[document.documentElement, document.getElementById('board'), document.body].every((part) => part.scrollWidth <= part.clientWidth)";
    assert_eq!(browser.value(wide), true);
    browser.picture(&picture("cluster-telephone"));
    in_order(&browser, &hall.http);
    hall.kill_master();
    browser
        .until("word of the loss", "/connection lost/.test(document.getElementById('status').textContent)");
    hall.start_master();
    browser.until("live connection", "document.getElementById('status').dataset.is === 'live'");
    browser.until("node that is ready", "document.querySelector('.state.ready')");
}
