//! [`History`]: notices that etcd was restored from a backup, and has every watch list again.
//!
//! A watch follows from the last resource version that it has seen. Versions are revisions of etcd, which are
//! lower after a restore: the API server then silently withholds events until its revision has passed that
//! version. The documentation of Kubernetes tells people to restart every controller after a restore.

use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams};
use tokio::sync::watch;
use vmcp_crds::VirtualMCPServer;
use vmcp_error_chain::error_chain;

use super::{WatchEnvironment, scope};

/// The interval at which the API server is asked for its revision.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// The interval after a question without an answer: a restore takes the API server down, and its revision
/// should not have passed that of before when it is asked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The longest that one question may take.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of times that the history went back since the process started.
pub(crate) struct History(watch::Sender<u64>);

impl Default for History {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl History {
    /// Asks for the revision until the process ends. Calls `forget` when it went back, before the watches
    /// list: values that were cached by version are of another history.
    pub(crate) async fn follow(&self, environment: &WatchEnvironment<'_>, forget: impl Fn()) {
        let resource = environment.api_group.resource(ApiResource::erase::<VirtualMCPServer>(&()));
        let part = environment.scope.parts().into_iter().next().flatten();
        let api = scope::api::<DynamicObject>(environment.clients.for_calls(), part.as_deref(), &resource);
        let mut known = None;
        loop {
            match tokio::time::timeout(POLL_TIMEOUT, revision(&api)).await {
                Ok(Ok(now)) => {
                    if went_back(known, now) {
                        tracing::warn!(
                            before = known,
                            now,
                            "the history of the API server went back, as after a restore of etcd; listing everything anew"
                        );
                        forget();
                        self.0.send_modify(|restores| *restores += 1);
                    }
                    known = now.or(known);
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Ok(Err(error)) => {
                    tracing::debug!(error = error_chain(&error), "no revision, asking again");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                Err(_) => tracing::debug!("no revision within {} s, asking again", POLL_TIMEOUT.as_secs()),
            }
        }
    }

    /// Returns the items of the stream that `start` makes, and of a new one whenever the history went back.
    pub(super) fn restarting<S: Stream + Send>(
        &self,
        start: impl Fn() -> S + Send,
    ) -> impl Stream<Item = S::Item> + Send {
        let restores = self.0.subscribe();
        stream::unfold((restores, None, start), |(mut restores, running, start)| async move {
            let mut running = running.unwrap_or_else(|| Box::pin(start()));
            loop {
                tokio::select! {
                    biased;
                    // The sender lives as long as the process.
                    Ok(()) = restores.changed() => running = Box::pin(start()),
                    item = running.next() => return Some((item?, (restores, Some(running), start))),
                }
            }
        })
    }
}

/// Returns the revision of etcd: without a version, a list is read as of now, of whatever length.
async fn revision(api: &Api<DynamicObject>) -> kube::Result<Option<u64>> {
    let list = api.list_metadata(&ListParams::default().limit(1)).await?;
    Ok(list.metadata.resource_version.and_then(|version| version.parse().ok()))
}

/// Returns true if the history is another one than that of the version that was seen last.
fn went_back(known: Option<u64>, now: Option<u64>) -> bool {
    matches!((known, now), (Some(known), Some(now)) if now < known)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn a_lower_revision_is_another_history() {
        assert!(went_back(Some(7), Some(6)));
        for (known, now) in [(None, Some(6)), (Some(6), Some(6)), (Some(6), Some(7)), (Some(6), None)] {
            assert!(!went_back(known, now), "{known:?} {now:?}");
        }
    }

    #[tokio::test]
    async fn streams_begin_anew_when_the_history_went_back() {
        let history = History::default();
        let mut items = pin!(history.restarting(|| stream::iter([1, 2]).chain(stream::pending())));
        assert_eq!((items.next().await, items.next().await), (Some(1), Some(2)));
        history.0.send_modify(|restores| *restores += 1);
        assert_eq!((items.next().await, items.next().await), (Some(1), Some(2)));
    }
}
