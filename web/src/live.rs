//! `/v1/live`: everything once, and from then on what has changed, for those who show it.
//!
//! What only grows older is no change: a float runs down by itself, and whoever shows it knows when it is due.

use crate::feed::{Dated, Feed};
use crate::news::following;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{FutureExt, Stream, StreamExt, stream};
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;
use wire::agent::LiveLine;

/// News is told this soon after it came, with what else came meanwhile.
const NEWS_WAIT: Duration = Duration::from_millis(30);

/// Whose changes are told: it remembers what one follower has heard.
pub trait Source: Send + 'static {
    /// Writes into the line what the follower has not heard; everything where `line.all` says so. `news` will be told with it.
    /// None when there is nobody left to ask.
    fn look(&mut self, line: &mut LiveLine, news: &[Dated]) -> impl Future<Output = Option<()>> + Send;
}

/// What one follower hears.
struct Follower<S> {
    source: S,
    news: Pin<Box<dyn Stream<Item = Dated> + Send>>,
    begun: bool,
    look_every: Duration,
}

/// Tells what changes, with the news since a moment. It is looked so often, and when there is news.
pub fn follow<S: Source>(
    feed: &Feed,
    since_us: i64,
    look_every: Duration,
    source: S,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<S>> {
    let (past, receiver) = feed.follow(since_us);
    let news = Box::pin(stream::iter(past).chain(following(receiver)));
    let follower = Follower { source, news, begun: false, look_every };
    let updates = stream::unfold(follower, |mut follower| async move {
        let line = follower.next().await?;
        Some((Ok(Event::default().json_data(&line).unwrap_or_default()), follower))
    });
    Sse::new(updates).keep_alive(KeepAlive::default())
}

impl<S: Source> Follower<S> {
    /// What has changed, once something has.
    async fn next(&mut self) -> Option<LiveLine> {
        loop {
            let mut line = LiveLine { all: !self.begun, ..LiveLine::default() };
            let mut news = Vec::new();
            if self.begun {
                // Woken by news, or by the time.
                tokio::select! {
                    dated = self.news.next() => news.push(dated?),
                    () = tokio::time::sleep(self.look_every) => {}
                }
                if !news.is_empty() {
                    tokio::time::sleep(NEWS_WAIT).await;
                }
            }
            while let Some(dated) = self.news.next().now_or_never() {
                news.push(dated?);
            }
            self.source.look(&mut line, &news).await?;
            line.events = news.into_iter().map(|(_, event)| (*event).clone()).collect();
            self.begun = true;
            if line != LiveLine::default() {
                line.time = jiff::Timestamp::now().to_string();
                return Some(line);
            }
        }
    }
}
