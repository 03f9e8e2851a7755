//! The page: a few files that are part of the program, and what browsers are told about them.

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;

/// Where each file is asked for, what kind it is, and what it says.
const FILES: [(&str, &str, &str); 11] = [
    ("/", "text/html; charset=utf-8", include_str!("../index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("../style.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("../page.js")),
    ("/model.js", "text/javascript; charset=utf-8", include_str!("../model.js")),
    ("/table.js", "text/javascript; charset=utf-8", include_str!("../table.js")),
    ("/containers.js", "text/javascript; charset=utf-8", include_str!("../containers.js")),
    ("/nodes.js", "text/javascript; charset=utf-8", include_str!("../nodes.js")),
    ("/container.js", "text/javascript; charset=utf-8", include_str!("../container.js")),
    ("/lanes.js", "text/javascript; charset=utf-8", include_str!("../lanes.js")),
    ("/words.js", "text/javascript; charset=utf-8", include_str!("../words.js")),
    ("/icon.svg", "image/svg+xml", include_str!("../icon.svg")),
];

/// Nothing from anywhere else, nothing inline, nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What every answer says, beside what it is.
pub(crate) const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    // A newer program has a newer page.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.into_iter().fold(Router::new(), |routes, (path, kind, text)| {
        routes.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text).into_response() }))
    })
}

/// Whether a path is one of the page's, which says nothing of the machine.
pub(crate) fn has(path: &str) -> bool {
    FILES.iter().any(|(known, ..)| *known == path)
}
