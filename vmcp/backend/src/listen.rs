//! Hears of changes: a legacy server's GET stream, a modern server's `subscriptions/listen`. One per connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::time::sleep;
use tracing::Instrument as _;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::methods;

use crate::backoff;
use crate::connection::{Channel, Connection, Server};
use crate::error::LinkError;
use crate::request::{Outcome, Request};
use crate::transport::Link;

/// How long to wait before a stream is opened again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// A server that ends its subscriptions this often at once has no use for them, and each costs a listing.
const MOST_SHORT_STREAMS: u32 = 5;
/// A stream that ends sooner is reopened with longer pauses.
const STABLE: Duration = Duration::from_secs(30);

/// Listens in the background until the connection ends. Other legacy links bring such messages by themselves.
pub(crate) fn start(connection: &Connection) {
    let channel = Arc::clone(&connection.channel);
    let closed = channel.closed.clone();
    match (connection.server.era(), &channel.link) {
        (Era::Legacy, Link::Http(http)) => {
            let http = http.clone();
            let changed = Arc::clone(&channel.inbound.changed);
            let follow = async move { http.follow(|| changed.notify_one()).await };
            tokio::spawn(closed.run_until_cancelled_owned(follow).in_current_span());
        }
        (Era::Legacy, Link::Duplex(_)) => {}
        (Era::Modern, _) => {
            if let Some(filter) = filter(&connection.server) {
                let subscribe = subscribe(channel, filter);
                tokio::spawn(closed.run_until_cancelled_owned(subscribe).in_current_span());
            }
        }
    }
}

/// What to ask for: only what the server promises, so that one which never changes holds no stream open.
fn filter(server: &Server) -> Option<Box<RawValue>> {
    let wanted: Vec<String> = ["tools", "prompts", "resources"]
        .into_iter()
        .filter(|capability| server.announces_changes(capability))
        .map(|capability| format!(r#""{capability}ListChanged":true"#))
        .collect();
    let filter = format!(r#"{{"notifications":{{{}}}}}"#, wanted.join(","));
    RawValue::from_string(filter).ok().filter(|_| !wanted.is_empty())
}

async fn subscribe(channel: Arc<Channel>, filter: Box<RawValue>) {
    let request = Request::new(methods::LISTEN, &filter);
    let mut failures = 0;
    loop {
        let since = Instant::now();
        // Ends when the stream does.
        match channel.exchange(Revision::MODERN, &request, None).await {
            Ok(Outcome::Error(error)) => {
                return tracing::info!(error = error.get(), "the backend announces no changes");
            }
            Err(error) if is_final(&error) => {
                return tracing::info!(error = error.detail(), "the backend announces no changes");
            }
            // It is gone: the connector finds out more.
            Err(error) if error.nothing_executed() => return channel.closed.cancel(),
            Ok(Outcome::Result(_)) if failures >= MOST_SHORT_STREAMS && since.elapsed() < STABLE => {
                return tracing::info!("the backend keeps no subscription open");
            }
            Ok(Outcome::Result(_)) | Err(_) => {}
        }
        failures = if since.elapsed() < STABLE { failures + 1 } else { 1 };
        sleep(backoff::delay(FIRST_PAUSE, failures)).await;
        // What changed meanwhile was announced to nobody.
        channel.inbound.changed.notify_one();
    }
}

/// Whether asking again is useless. A gateway in between that answers 502 will not for ever.
fn is_final(error: &LinkError) -> bool {
    match error {
        LinkError::Refused(_) | LinkError::Protocol(_) => true,
        LinkError::Status(status) => status.is_client_error(),
        _ => false,
    }
}
