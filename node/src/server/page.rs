//! The page: a few files that are part of the program, and what browsers are told about them.

use super::Desk;
use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;

/// Where each file is asked for, what kind it is, and what it says.
const FILES: [(&str, &str, &str); 9] = [
    ("/", "text/html; charset=utf-8", include_str!("../../../web/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("../../../web/style.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("../../../web/page.js")),
    ("/model.js", "text/javascript; charset=utf-8", include_str!("../../../web/model.js")),
    ("/table.js", "text/javascript; charset=utf-8", include_str!("../../../web/table.js")),
    ("/container.js", "text/javascript; charset=utf-8", include_str!("../../../web/container.js")),
    ("/lanes.js", "text/javascript; charset=utf-8", include_str!("../../../web/lanes.js")),
    ("/words.js", "text/javascript; charset=utf-8", include_str!("../../../web/words.js")),
    ("/icon.svg", "image/svg+xml", include_str!("../../../web/icon.svg")),
];

/// Nothing from anywhere else, nothing inline, nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What every answer says, beside what it is.
pub(super) const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    // A newer agent has a newer page.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
];

pub(super) fn routes() -> Router<Desk> {
    FILES.into_iter().fold(Router::new(), |routes, (path, kind, text)| {
        routes.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text).into_response() }))
    })
}

/// Whether a path is one of the page's, which says nothing of the machine.
pub(super) fn has(path: &str) -> bool {
    FILES.iter().any(|(known, ..)| *known == path)
}
