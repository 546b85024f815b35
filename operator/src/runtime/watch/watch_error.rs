//! Reports of interrupted watches: a warning and a count for a failure, a debug line for an ordinary expiry
//! (410 Gone).

use kube::runtime::watcher;

use super::WatchEnvironment;
use super::first_lists::WatchName;
use vmcp_error_chain::error_chain;

/// Logs and counts that a watch was interrupted; the watcher itself starts it again with backoff.
pub(super) fn report(environment: &WatchEnvironment<'_>, watch: &WatchName, error: &watcher::Error) {
    let (kind, text) = (watch.kind, error_chain(error));
    if is_expiry(error) {
        tracing::debug!(kind, error = text, "watch expired, listing again");
    } else {
        environment.first_lists.failed(watch, &text);
        environment.metrics.watch_failed(kind);
        tracing::warn!(kind, namespace = watch.part, error = text, "watch interrupted, trying again");
    }
}

/// Returns true if the server no longer knows the version that the watch started from: 410 Gone.
///
/// An expired watch is part of the protocol and no failure: the API server ends one after a compaction or
/// while the cache of a new definition fills, and the watcher lists again
/// (<https://kubernetes.io/docs/reference/using-api/api-concepts/#410-gone-responses>).
fn is_expiry(error: &watcher::Error) -> bool {
    let (watcher::Error::WatchError(status)
    | watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    status.code == 410
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn an_expired_version_is_no_failure_and_anything_else_is_one() {
        let status = |code| {
            Box::new(Status::failure("too old resource version: 310 (312)", "Expired").with_code(code))
        };
        assert!(is_expiry(&watcher::Error::WatchError(status(410))));
        assert!(is_expiry(&watcher::Error::WatchStartFailed(kube::Error::Api(status(410)))));
        assert!(!is_expiry(&watcher::Error::WatchError(status(403))));
        assert!(!is_expiry(&watcher::Error::InitialListFailed(kube::Error::Api(status(500)))));
        assert!(!is_expiry(&watcher::Error::NoResourceVersion));
    }
}
