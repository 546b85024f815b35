//! [`SoleProgram`]: programs that may run only once, because they bind a fixed port or lock a profile.
//!
//! vmcp starts a program to list it, and another process for each client. The second process of such a
//! program ends at once, or runs without its port. So the first client takes over the process that vmcp
//! started, where that listens on a fixed port; and all clients share it, where a second one ends at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::policy::facts::Facts;
use crate::sharing::placement::OwnerKey;
use crate::transport::LinkError;

/// Words in lower case by which programs say that another process of theirs is in the way.
const IN_THE_WAY: [&str; 6] = [
    "eaddrinuse",
    "address already in use",
    "address in use",
    "already running",
    "another instance",
    "only one usage of each socket address",
];

/// Knowledge about one backend's program.
#[derive(Debug, Default)]
pub(crate) struct SoleProgram {
    /// A second process ended at once: all clients share the first.
    is_shared: AtomicBool,
    /// A second process has served a client.
    has_run_twice: AtomicBool,
    holder: Mutex<Option<Holder>>,
}

/// The client that has the main connection for itself.
#[derive(Debug)]
struct Holder {
    key: OwnerKey,
    main: Weak<Connection>,
    last_used: Instant,
}

impl Holder {
    fn has(&self, main: &Arc<Connection>) -> bool {
        std::ptr::eq(self.main.as_ptr(), Arc::as_ptr(main))
    }
}

impl SoleProgram {
    /// True if the main connection serves the client of `key`.
    pub(crate) fn serves(&self, main: &Arc<Connection>, key: OwnerKey) -> bool {
        if self.is_shared.load(Ordering::Relaxed) {
            return true;
        }
        let mut holder = self.holder.lock();
        let of_client = holder.as_mut().filter(|holder| holder.key == key && holder.has(main));
        of_client.map(|holder| holder.last_used = Instant::now()).is_some()
    }

    /// Gives the main connection to the client of `key`, if its program listens on a fixed port and has no
    /// client yet. Returns true if the client has it now.
    pub(crate) async fn take_over(&self, facts: &Facts, main: &Arc<Connection>, key: OwnerKey) -> bool {
        let is_single = facts.spec.starts_process() && facts.spec.isolation.is_none();
        if !is_single || matches!(key, OwnerKey::Call(_)) {
            return false;
        }
        if !self.is_held(main) {
            let Some(port) = facts.activity.fixed_port().await else { return false };
            let mut holder = self.holder.lock();
            // Another client may have been quicker.
            if !holder.as_ref().is_some_and(|holder| holder.has(main)) {
                *holder = Some(Holder { key, main: Arc::downgrade(main), last_used: Instant::now() });
                tracing::info!(
                    port,
                    "the program listens on a fixed port: its first client takes its process"
                );
            }
        }
        self.serves(main, key)
    }

    fn is_held(&self, main: &Arc<Connection>) -> bool {
        self.holder.lock().as_ref().is_some_and(|holder| holder.has(main))
    }

    /// Records that a second process of the program has served a client.
    pub(crate) fn ran_twice(&self) {
        self.has_run_twice.store(true, Ordering::Relaxed);
    }

    /// Returns what the end of a second process means, which ended with `error` before it served a client.
    pub(crate) fn classify(&self, facts: &Facts, main: &Connection, error: &LinkError) -> SecondProcess {
        let (LinkError::Closed { detail } | LinkError::Gone { detail }) = error else {
            return SecondProcess::Unclear;
        };
        let is_single = facts.spec.starts_process() && facts.spec.isolation.is_none();
        if !is_single || main.channel.closed.is_cancelled() || self.has_run_twice.load(Ordering::Relaxed) {
            return SecondProcess::Unclear;
        }
        if is_in_the_way(detail) { SecondProcess::Impossible } else { SecondProcess::EndedAtOnce }
    }

    /// Lets all clients share the main connection from now on.
    pub(crate) fn share(&self, error: &LinkError) {
        if !self.is_shared.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                error = error.detail(),
                "a second process of the program ends at once: all clients share the first; \
                 `isolation: shared` says so in the configuration"
            );
        }
    }

    /// Takes the main connection from the client of `key`. Its process may hold the client's state: the
    /// caller closes the connection, and the connector makes another.
    pub(crate) fn release(&self, key: OwnerKey) -> Option<Arc<Connection>> {
        self.holder.lock().take_if(|holder| holder.key == key)?.main.upgrade()
    }

    /// Takes the main connection from a client that has not used it for `idle`.
    pub(crate) fn release_idle(&self, idle: Duration) -> Option<Arc<Connection>> {
        self.holder.lock().take_if(|holder| holder.last_used.elapsed() >= idle)?.main.upgrade()
    }

    /// Returns advice for the operator, if the program may run only once.
    pub(crate) fn advice(&self) -> Option<String> {
        if self.is_shared.load(Ordering::Relaxed) {
            return Some(
                "a second process of the program ends at once, so all clients share one, and its questions \
                 are refused; set `isolation: shared` if that is right"
                    .to_owned(),
            );
        }
        let is_held = self.holder.lock().as_ref().is_some_and(|holder| holder.main.strong_count() > 0);
        is_held.then(|| {
            "the program listens on a fixed port, so the first client has the process with the port, which \
             asks it nothing; set `isolation: shared` if all clients may share it"
                .to_owned()
        })
    }
}

/// Meaning of the end of a second process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondProcess {
    /// The program said that the first process is in the way.
    Impossible,
    /// It ended while the first process lives: impossible too, if it does so again.
    EndedAtOnce,
    /// Nothing that concerns the number of processes.
    Unclear,
}

fn is_in_the_way(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    IN_THE_WAY.into_iter().any(|saying| words.contains(saying))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_say_in_many_ways_that_another_process_is_in_the_way() {
        for words in [
            "exited with exit status: 1: Error: listen EADDRINUSE: address already in use 127.0.0.1:8765",
            "OSError: [Errno 98] Address already in use",
            "bind: Only one usage of each socket address (protocol/network address/port) is permitted",
            "Another instance is using the profile",
        ] {
            assert!(is_in_the_way(words), "{words}");
        }
        assert!(!is_in_the_way("exited with exit status: 1: Error: API_KEY is not set"));
    }
}
