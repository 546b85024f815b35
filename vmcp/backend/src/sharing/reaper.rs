//! The reaper: ends upstream sessions that no client needs any more.
//!
//! A session ends when it was idle for `session_idle`, unless its client listens. Programs end sooner where a
//! client opened a session for one call and left it: many agents open one for each call and end none.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

use crate::request::Principal;
use crate::sharing::placement::OwnerKey;
use crate::sharing::session::UpstreamSession;
use crate::sharing::session_pool::SessionPool;

/// Bounds of the pause between two runs of the reaper, which is a quarter of `session_idle`.
const MIN_REAP_INTERVAL: Duration = Duration::from_millis(50);
const MAX_REAP_INTERVAL: Duration = Duration::from_mins(1);
/// Divisor of `session_idle`: an idle session's GET stream is closed after `session_idle /
/// STREAM_IDLE_DIVISOR`; the session itself lives on.
const STREAM_IDLE_DIVISOR: u32 = 30;
/// Divisor of `session_idle`: a program that served one call is ended after `session_idle /
/// ONE_CALL_DIVISOR`.
const ONE_CALL_DIVISOR: u32 = 6;
/// Programs of one principal that served one call and were idle for `session_idle / STREAM_IDLE_DIVISOR`;
/// beyond this number the longest idle programs end.
const MAX_ONE_CALL: usize = 8;
/// Idle programs from which on the operator is told of them.
const MANY_IDLE: usize = 5;

/// A program's session whose client neither calls nor listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IdleProgram {
    key: OwnerKey,
    principal: Principal,
    idle: Duration,
    calls: u64,
}

/// Returns the programs that are ended although they were idle for less than `session_idle`.
fn forgotten(mut programs: Vec<IdleProgram>, session_idle: Duration) -> Vec<OwnerKey> {
    programs.retain(|program| program.calls <= 1 && program.idle >= session_idle / STREAM_IDLE_DIVISOR);
    programs.sort_by_key(|program| program.idle);
    let mut kept = HashMap::<_, usize>::new();
    let mut is_forgotten = |program: &IdleProgram| {
        let of_principal = kept.entry(program.principal).or_default();
        *of_principal += 1;
        *of_principal > MAX_ONE_CALL || program.idle >= session_idle / ONE_CALL_DIVISOR
    };
    programs.iter().filter(|program| is_forgotten(program)).map(|program| program.key).collect()
}

impl SessionPool {
    /// Starts the reaper, unless it runs.
    pub(super) fn start_reaper(self: &Arc<Self>) {
        if self.reaping.swap(true, Ordering::Relaxed) {
            return;
        }
        let idle = self.facts.settings().session_idle;
        let (stop, pool) = (self.facts.stop.clone(), Arc::clone(self));
        let reap = async move {
            loop {
                sleep((idle / 4).clamp(MIN_REAP_INTERVAL, MAX_REAP_INTERVAL)).await;
                pool.end_idle(idle);
                pool.warm.end_unneeded(Instant::now());
            }
        };
        tokio::spawn(stop.run_until_cancelled_owned(reap).instrument(self.facts.task_span()));
    }

    /// Ends sessions idle for `idle`, and closes the streams of those idle for a part of it. A session whose
    /// client listens is not idle: the server may have something to say.
    fn end_idle(&self, idle: Duration) {
        let forgotten = forgotten(self.idle_programs(), idle);
        let mut sessions = self.sessions.lock();
        let unused = |session: &UpstreamSession, time| {
            session.idle_since().is_some_and(|since| since.elapsed() >= time) && !self.is_listening(session)
        };
        let is_over = |key: &OwnerKey, session: &UpstreamSession| {
            let is_forgotten = forgotten.contains(key);
            unused(session, if is_forgotten { idle / STREAM_IDLE_DIVISOR } else { idle })
        };
        let ended: Vec<_> = sessions.extract_if(|key, session| is_over(key, session)).collect();
        for session in sessions.values() {
            if unused(session, idle / STREAM_IDLE_DIVISOR) {
                session.stream.close_idle();
            }
        }
        drop(sessions);
        for (_, session) in ended {
            session.end();
            self.drop_listing(&session);
        }
        if let Some(main) = self.sole.release_idle(idle) {
            main.channel.closed.cancel();
        }
    }

    fn idle_programs(&self) -> Vec<IdleProgram> {
        if !self.facts.spec.starts_process() {
            return Vec::new();
        }
        let sessions = self.sessions.lock();
        let programs = sessions.iter().filter_map(|(key, session)| {
            let idle = session.idle_since().filter(|_| !self.is_listening(session))?.elapsed();
            let principal = session.placement.principal;
            Some(IdleProgram { key: *key, principal, idle, calls: session.calls_served() })
        });
        programs.collect()
    }

    /// Returns advice for the operator about the programs of clients.
    pub(crate) fn advice(&self) -> Vec<String> {
        let settled = self.facts.settings().session_idle / STREAM_IDLE_DIVISOR;
        let idle = self.idle_programs().iter().filter(|program| program.idle >= settled).count();
        let many_idle = (idle >= MANY_IDLE).then(|| {
            format!(
                "{idle} processes wait for clients that have not called for a while; a client that ends its \
                 session (DELETE) frees its process at once, and `maxSessions` limits them"
            )
        });
        self.sole.advice().into_iter().chain(many_idle).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION_IDLE: Duration = Duration::from_mins(30);

    fn program(number: u8, idle_secs: u64, calls: u64) -> IdleProgram {
        let (key, idle) = (OwnerKey::Session([number; 16]), Duration::from_secs(idle_secs));
        IdleProgram { key, principal: Principal::Anonymous, idle, calls }
    }

    #[test]
    fn a_program_that_served_one_call_is_forgotten_sooner() {
        let programs = vec![program(1, 299, 1), program(2, 300, 1), program(3, 1700, 2)];
        assert_eq!(forgotten(programs, SESSION_IDLE), [OwnerKey::Session([2; 16])]);
    }

    #[test]
    fn of_many_that_served_one_call_the_longest_idle_are_forgotten() {
        let mut programs: Vec<_> = (0..20).map(|number| program(number, 60 + u64::from(number), 1)).collect();
        programs.push(program(20, 59, 1));
        programs.extend((21..40).map(|number| program(number, 250, 3)));
        let forgotten = forgotten(programs.clone(), SESSION_IDLE);
        assert_eq!(forgotten.len(), 20 - MAX_ONE_CALL);
        assert!(forgotten.contains(&OwnerKey::Session([19; 16])));
        assert!(!forgotten.contains(&OwnerKey::Session([0; 16])));
        let other = Principal::Address([10, 0, 0, 1].into());
        for program in programs.iter_mut().take(10) {
            program.principal = other;
        }
        assert_eq!(super::forgotten(programs, SESSION_IDLE).len(), 2 + 2, "each principal has its own");
    }
}
