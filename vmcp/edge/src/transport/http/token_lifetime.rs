//! Streams that stay open end with the token that opened them: its successor opens the next one.

use std::future::pending;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use futures::stream::Stream;
use tokio::time::sleep;
use vmcp_access::identity::KnownIdentity;

use vmcp_engine::access::identity::Identity;

/// Ends `stream` when the token of `identity` expires.
pub(super) fn while_credentials_last<S: Stream>(
    stream: S,
    identity: &Identity,
) -> impl Stream<Item = S::Item> + use<S> {
    let expires = identity.as_known().and_then(KnownIdentity::expires);
    let left = expires.map(|expires| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Duration::from_secs(expires).saturating_sub(now)
    });
    stream.take_until(async move {
        match left {
            Some(left) => sleep(left).await,
            None => pending().await,
        }
    })
}
