//! What agents and masters serve alike: a socket, a door for those who come over TCP, the page, the news, and what has changed.
//!
//! Neither knows of the other; both know this. Read the modules in the order below.

mod listening;

mod door;

mod page;

mod feed;

mod news;

mod live;

pub use door::{Door, is_open_to_all};
pub use feed::{Dated, Feed};
pub use listening::{NotOpened, at_address, at_socket};
pub use live::{Source, follow};
pub use news::{Asked, events};

use axum::Router;

/// These paths and the page's, behind a door where there is one.
pub fn with_page<S: Clone + Send + Sync + 'static>(routes: Router<S>, door: Option<Door>) -> Router<S> {
    door::before(routes.merge(page::routes()), door)
}
