//! Decides whether a failed attempt of a call is repeated.
//!
//! An attempt that the backend provably did not execute is repeated once its connection was replaced. One
//! that may have been executed is repeated only if its caller calls it idempotent.

use crate::request::Transmission;

/// Retries of a call at a server without sessions.
const MAX_RETRIES: u32 = 1;
/// Retries at a server with sessions. Two losses may follow each other there: a restarted server ends the
/// connection first, then knows the client's session no more.
const MAX_SESSION_RETRIES: u32 = 2;

/// One attempt that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) transmission: Transmission,
    /// The connection, or the session, ended: the next attempt gets another.
    pub(crate) connection_lost: bool,
    /// The caller allows the call to be executed twice.
    pub(crate) idempotent: bool,
    /// The server has sessions.
    pub(crate) keeps_state: bool,
    /// Retries before this attempt.
    pub(crate) retries: u32,
}

impl FailedAttempt {
    /// True if the call may be sent once more.
    pub(crate) fn may_repeat(self) -> bool {
        let bound = if self.keeps_state { MAX_SESSION_RETRIES } else { MAX_RETRIES };
        let safe = match self.transmission {
            Transmission::NotSent => true,
            Transmission::Unknown => self.idempotent,
            Transmission::Sent => false,
        };
        self.connection_lost && safe && self.retries < bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: FailedAttempt = FailedAttempt {
        transmission: Transmission::NotSent,
        connection_lost: true,
        idempotent: false,
        keeps_state: false,
        retries: 0,
    };

    #[test]
    fn a_call_that_may_have_been_executed_is_repeated_only_if_it_is_idempotent() {
        assert!(LOST.may_repeat());
        for (transmission, idempotent, repeated) in [
            (Transmission::Unknown, false, false),
            (Transmission::Unknown, true, true),
            (Transmission::Sent, true, false),
        ] {
            assert_eq!(FailedAttempt { transmission, idempotent, ..LOST }.may_repeat(), repeated);
        }
        assert!(!FailedAttempt { connection_lost: false, ..LOST }.may_repeat(), "the next would fail alike");
    }

    #[test]
    fn retries_are_bounded() {
        assert!(!FailedAttempt { retries: 1, ..LOST }.may_repeat());
        assert!(FailedAttempt { retries: 1, keeps_state: true, ..LOST }.may_repeat());
        assert!(!FailedAttempt { retries: 2, keeps_state: true, ..LOST }.may_repeat());
    }
}
