//! The page in a real browser: what it shows, how soon, that it comes back, and that it asks nobody else.
//!
//! Pictures of what was seen are kept in `target/pictures`.

#[allow(dead_code, reason = "shared with tests/cluster; each uses its part")]
#[path = "../cluster/hall.rs"]
mod hall;
#[path = "../agent/running.rs"]
mod running;
#[allow(dead_code, reason = "shared with tests/seeing; each uses its part")]
#[path = "../seeing/scene.rs"]
mod scene;
mod webdriver;

mod access;
mod cluster;
mod crowd;
mod shown;

use std::path::PathBuf;
use webdriver::Browser;

/// Where a picture is kept.
fn picture(name: &str) -> PathBuf {
    scene::repository().join("target/pictures").join(format!("{name}.png"))
}

/// Nothing was complained of, and nobody else was asked.
fn in_order(browser: &Browser, address: &str) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let requests = browser.requests();
    let own = format!("http://{address}/");
    // What the browser has inside of itself, it asks nobody for.
    let inside = |url: &str| ["chrome:", "data:", "blob:"].iter().any(|kind| url.starts_with(kind));
    let others: Vec<_> = requests.iter().filter(|url| !url.starts_with(&own) && !inside(url)).collect();
    assert!(requests.iter().any(|url| url.starts_with(&own)), "{requests:?}");
    assert!(others.is_empty(), "{others:?}");
}
