//! [`WarmProcesses`]: processes that are started ahead of the client sessions that will own them.
//!
//! A process takes a second or so to start, which the first call of each client session would wait for. While
//! sessions are opened one after the other, some processes are kept ready; they have not been introduced to a
//! client, so that nothing in them belongs to one. A backend with one client has none.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::inbound::owner::Owner;
use crate::transport::Channel;

/// Time between two sessions within which another is expected; after it without one, no process is kept.
const BUSY_PERIOD: Duration = Duration::from_mins(5);

/// The processes of one backend that no client owns yet.
#[derive(Debug)]
pub(crate) struct WarmProcesses<Process = Channel>(Mutex<WarmTable<Process>>);

#[derive(Debug)]
struct WarmTable<Process> {
    ready: Vec<Process>,
    /// Processes that are being started.
    starting: usize,
    /// The time at which the last session was opened.
    last_opened: Option<Instant>,
    /// True once the backend stops.
    closed: bool,
}

impl<Process> Default for WarmProcesses<Process> {
    fn default() -> Self {
        Self(Mutex::new(WarmTable { ready: Vec::new(), starting: 0, last_opened: None, closed: false }))
    }
}

impl WarmProcesses {
    /// Hands a process that still runs over to its owner.
    pub(crate) fn take(&self, owner: Owner) -> Option<Channel> {
        let mut table = self.0.lock();
        let running = std::iter::from_fn(|| table.ready.pop()).find(|one| !one.closed.is_cancelled())?;
        running.inbound.belongs_to(owner);
        Some(running)
    }
}

impl<Process> WarmProcesses<Process> {
    /// Records that a session was opened. Returns the number of processes to start, for `wanted` to be ready;
    /// each is to be [added](Self::add).
    pub(crate) fn opened(&self, wanted: usize, now: Instant) -> usize {
        let mut table = self.0.lock();
        let is_busy = table.last_opened.replace(now).is_some_and(|last| now - last < BUSY_PERIOD);
        let missing = wanted.saturating_sub(table.ready.len() + table.starting);
        let started = if is_busy { missing } else { 0 };
        table.starting += started;
        started
    }

    /// Adds a process; `None` if it could not be started.
    pub(crate) fn add(&self, process: Option<Process>) {
        let mut table = self.0.lock();
        table.starting -= 1;
        if !table.closed {
            table.ready.extend(process);
        }
    }

    /// Ends the processes if no session was opened for a while.
    pub(crate) fn end_unneeded(&self, now: Instant) {
        let mut table = self.0.lock();
        let ended = match table.last_opened {
            Some(last) if now - last >= BUSY_PERIOD => std::mem::take(&mut table.ready),
            _ => Vec::new(),
        };
        drop((table, ended));
    }

    /// Takes all processes, and keeps no more.
    pub(crate) fn close(&self) -> Vec<Process> {
        let mut table = self.0.lock();
        table.closed = true;
        std::mem::take(&mut table.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_kept_while_sessions_follow_each_other() {
        let (warm, start) = (WarmProcesses::<u8>::default(), Instant::now());
        let after = |minutes| start + Duration::from_mins(minutes);
        assert_eq!(warm.opened(1, start), 0, "the only client");
        assert_eq!(warm.opened(1, after(6)), 0, "long after the first");
        assert_eq!(warm.opened(2, after(7)), 2);
        assert_eq!(warm.opened(2, after(7)), 0, "they are being started");
        warm.add(Some(1));
        warm.add(None);
        assert_eq!(warm.opened(2, after(8)), 1, "one could not be started");
        warm.add(Some(2));
        warm.end_unneeded(after(12));
        assert_eq!(warm.0.lock().ready, [1, 2]);
        warm.end_unneeded(after(13));
        assert!(warm.0.lock().ready.is_empty());
        assert_eq!(warm.opened(1, after(14)), 0);
        assert_eq!(warm.opened(1, after(15)), 1);
        assert!(warm.close().is_empty());
        warm.add(Some(3));
        assert!(warm.0.lock().ready.is_empty(), "it came too late");
    }
}
