//! Who may come in over TCP: on loopback whoever calls it by its own name, elsewhere who has the token; and what they may change.
//!
//! A page of somebody else, open in a browser on this machine, can send requests to loopback. It cannot read the answers, unless its
//! name is made to mean this machine; so on loopback the name that was asked for must be loopback's own. And it cannot send JSON
//! without asking first, which is refused; but in doubt, what changes something must come from a page of ours.

use crate::listening::NotOpened;
use crate::page;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

/// Shorter ones could be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// What is asked of those who come.
#[derive(Clone, Debug, Default)]
pub struct Door {
    /// Whoever has no token must be on this machine.
    pub(crate) token: Option<String>,
}

/// Whether anybody who reaches an address could ask, for nobody is asked for a token.
pub fn is_open_to_all(address: SocketAddr, token_file: Option<&Path>) -> bool {
    !address.ip().is_loopback() && token_file.is_none()
}

/// The token in a file that only those who may know it can read.
pub(crate) fn read_token(file: &Path) -> Result<String, NotOpened> {
    let wrong = |why: String| NotOpened::Token(file.display().to_string(), why);
    let about = std::fs::metadata(file).map_err(|error| wrong(error.to_string()))?;
    if about.permissions().mode() & 0o007 != 0 {
        return Err(wrong("anybody may read it; `chmod 600` it".to_owned()));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let token = text.trim().to_owned();
    if token.len() < TOKEN_BYTES_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(wrong(format!("a token has at least {TOKEN_BYTES_MIN} visible ASCII characters")));
    }
    Ok(token)
}

/// Puts a door before all paths.
pub(crate) fn before<S>(routes: Router<S>, door: Option<Door>) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    let routes = match door {
        Some(door) => routes.layer(middleware::from_fn_with_state(Arc::new(door), examine)),
        None => routes,
    };
    routes.layer(middleware::map_response(|mut answer: Response| async {
        for (name, value) in page::HEADERS {
            answer.headers_mut().insert(name, value);
        }
        answer
    }))
}

async fn examine(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let (headers, path) = (request.headers(), request.uri().path());
    let refused = match &door.token {
        None if !is_loopback(host(headers)) => {
            Some((StatusCode::FORBIDDEN, "ask for this by localhost, 127.0.0.1 or [::1]\n"))
        }
        Some(token) if !page::has(path) && path != "/healthz" && !has_token(headers, token) => {
            Some((StatusCode::UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN\n"))
        }
        _ if request.method() != Method::GET && !is_own_page(headers) => {
            Some((StatusCode::FORBIDDEN, "another page may not change anything\n"))
        }
        _ => None,
    };
    match refused {
        Some(refused) => refused.into_response(),
        None => next.run(request).await,
    }
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whether a host, with or without a port, is this machine by its own name.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    // In the same time wherever they differ: how long it takes must not say how much was right.
    let same = given.len() == token.len();
    same && given.bytes().zip(token.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// Browsers say where a request comes from; other programs need not.
fn is_own_page(headers: &HeaderMap) -> bool {
    let origin = headers.get(header::ORIGIN).map(|value| value.to_str().unwrap_or_default());
    origin.is_none_or(|origin| origin.split_once("://").is_some_and(|(_, from)| from == host(headers)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_loopback() {
        for host in ["localhost", "localhost:9465", "127.0.0.1:80", "127.8.8.8", "[::1]", "[::1]:9465"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org:80",
            "10.0.0.1",
            "[fe80::1]:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_whole_token_counts() {
        for (given, right) in [
            ("Bearer secret", true),
            ("Bearer secre", false),
            ("Bearer secret2", false),
            ("secret", false),
            ("", false),
        ] {
            assert_eq!(has_token(&headers(&[("authorization", given)]), "secret"), right, "{given}");
        }
        assert!(!has_token(&HeaderMap::new(), "secret"));
    }

    #[test]
    fn another_page_changes_nothing() {
        assert!(is_own_page(&headers(&[("host", "localhost:1")])));
        assert!(is_own_page(&headers(&[("host", "localhost:1"), ("origin", "http://localhost:1")])));
        for origin in ["http://example.org", "null", "http://localhost:2"] {
            assert!(!is_own_page(&headers(&[("host", "localhost:1"), ("origin", origin)])), "{origin}");
        }
    }
}
