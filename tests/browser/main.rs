//! The page in a real browser: what it shows, how soon, that it comes back, and that it asks nobody else.
//!
//! Pictures of what was seen are kept in `target/pictures`.

#[allow(dead_code, reason = "shared with tests/seeing; each uses its part")]
#[path = "../seeing/scene.rs"]
mod scene;
mod webdriver;

mod access;
mod crowd;
mod shown;

use std::path::PathBuf;

/// Where a picture is kept.
fn picture(name: &str) -> PathBuf {
    scene::repository().join("target/pictures").join(format!("{name}.png"))
}
