//! [`InFlightRequests`]: requests that `notifications/cancelled` can reach, by session and id.
//!
//! Requests of legacy sessions outlive their connections, so the limit on connections does not bound them;
//! the limits here do. On HTTP a modern client cancels by closing the stream; on stdio both eras cancel by
//! notification.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use vmcp_backend::SessionId;
use vmcp_wire::codes;
use vmcp_wire::rpc::RpcError;

/// Requests of one session in flight; one more is refused.
pub(crate) const MAX_REQUESTS_PER_SESSION: usize = 256;
/// Requests of all sessions in flight; one more is refused.
const MAX_REQUESTS: usize = 20_000;

/// The requests in flight of this process.
#[derive(Debug, Default)]
pub(crate) struct InFlightRequests {
    table: Mutex<RequestTable>,
}

/// Requests in flight, by session.
#[derive(Debug, Default)]
struct RequestTable {
    /// Number of the last request, to tell requests with the same id apart.
    entered: u64,
    /// Requests in `sessions`, all together.
    count: usize,
    /// Each request looks itself up three times, by an id that vmcp drew: foldhash is several times faster
    /// than SipHash.
    sessions: HashMap<SessionId, Vec<InFlightRequest>, RandomState>,
}

/// One request in flight.
#[derive(Debug)]
struct InFlightRequest {
    number: u64,
    /// The JSON-RPC id, as the client wrote it.
    id: Box<str>,
    token: CancellationToken,
}

/// A request beyond a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooManyRequests {
    #[error(
        "too many requests at a time: at most {MAX_REQUESTS_PER_SESSION} in a session; wait for some to end"
    )]
    OfSession,
    #[error("too many requests at a time: this server has {MAX_REQUESTS}; try again later")]
    OfProcess,
}

impl From<TooManyRequests> for RpcError {
    fn from(limit: TooManyRequests) -> RpcError {
        RpcError::new(codes::INTERNAL_ERROR, limit.to_string())
    }
}

/// Removes its request from the table when dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    in_flight: Arc<InFlightRequests>,
    session: SessionId,
    number: u64,
}

impl InFlightRequests {
    /// Registers a request until the returned guard is dropped; an error at a limit.
    pub(crate) fn enter(
        self: &Arc<Self>,
        session: SessionId,
        id: &RawValue,
        token: &CancellationToken,
    ) -> Result<InFlightGuard, TooManyRequests> {
        let mut table = self.lock();
        let of_session = table.sessions.get(&session).map_or(0, Vec::len);
        if of_session >= MAX_REQUESTS_PER_SESSION {
            return Err(TooManyRequests::OfSession);
        }
        if table.count >= MAX_REQUESTS {
            return Err(TooManyRequests::OfProcess);
        }
        table.entered += 1;
        table.count += 1;
        let number = table.entered;
        let running = InFlightRequest { number, id: id.get().into(), token: token.clone() };
        table.sessions.entry(session).or_default().push(running);
        Ok(InFlightGuard { in_flight: Arc::clone(self), session, number })
    }

    /// Cancels a request that is still in flight; of several with the same id the last.
    pub(crate) fn cancel(&self, session: SessionId, id: &RawValue) {
        let table = self.lock();
        let mut requests = table.sessions.get(&session).into_iter().flatten();
        if let Some(running) = requests.rfind(|running| *running.id == *id.get()) {
            running.token.cancel();
        }
    }

    /// Cancels all requests of a session, which has ended.
    pub(crate) fn cancel_session(&self, session: SessionId) {
        for running in self.lock().sessions.get(&session).into_iter().flatten() {
            running.token.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, RequestTable> {
        self.table.lock()
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut table = self.in_flight.lock();
        table.count -= 1;
        if let Some(requests) = table.sessions.get_mut(&self.session) {
            requests.retain(|running| running.number != self.number);
            if requests.is_empty() {
                table.sessions.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_request_of_the_same_session_is_cancelled() {
        let in_flight = Arc::new(InFlightRequests::default());
        let id = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let (one, other) = (CancellationToken::new(), CancellationToken::new());
        let entered = in_flight.enter([1; 16], &id("1"), &one).unwrap();
        let _other = in_flight.enter([2; 16], &id("1"), &other).unwrap();
        in_flight.cancel([1; 16], &id("\"1\""));
        assert!(!one.is_cancelled());
        in_flight.cancel([1; 16], &id("1"));
        assert!(one.is_cancelled() && !other.is_cancelled());
        in_flight.cancel_session([1; 16]);
        assert!(!other.is_cancelled());
        in_flight.cancel_session([2; 16]);
        assert!(other.is_cancelled());
        drop(entered);
        assert_eq!(in_flight.lock().count, 1);
    }

    #[test]
    fn of_two_requests_with_the_same_id_the_later_one_can_be_cancelled_when_the_first_has_ended() {
        let in_flight = Arc::new(InFlightRequests::default());
        let id = RawValue::from_string("1".to_owned()).unwrap();
        let (one, other) = (CancellationToken::new(), CancellationToken::new());
        let first = in_flight.enter([1; 16], &id, &one).unwrap();
        let second = in_flight.enter([1; 16], &id, &other).unwrap();
        drop(first);
        in_flight.cancel([1; 16], &id);
        assert!(other.is_cancelled() && !one.is_cancelled());
        drop(second);
        assert!(in_flight.lock().sessions.is_empty());
    }

    #[test]
    fn one_session_has_no_more_than_its_share() {
        let in_flight = Arc::new(InFlightRequests::default());
        let (id, token) = (RawValue::from_string("1".to_owned()).unwrap(), CancellationToken::new());
        let enter = |session: u8| in_flight.enter([session; 16], &id, &token);
        let mut entered: Vec<_> = (0..MAX_REQUESTS_PER_SESSION).map(|_| enter(1).unwrap()).collect();
        assert_eq!(enter(1).err(), Some(TooManyRequests::OfSession));
        assert!(enter(2).is_ok());
        entered.pop();
        assert!(enter(1).is_ok());
        drop(entered);
        let table = in_flight.lock();
        assert!(table.sessions.is_empty() && table.count == 0);
    }

    #[test]
    fn a_refusal_names_the_limit_that_was_reached() {
        let in_flight = Arc::new(InFlightRequests::default());
        let (id, token) = (RawValue::from_string("1".to_owned()).unwrap(), CancellationToken::new());
        let session = |number: usize| (number as u128).to_be_bytes();
        let enter = |number| in_flight.enter(session(number), &id, &token);
        let full: Vec<_> =
            (0..MAX_REQUESTS).map(|at| enter(at / MAX_REQUESTS_PER_SESSION).unwrap()).collect();
        let refused = |number| enter(number).unwrap_err().to_string();
        let of_process = refused(MAX_REQUESTS);
        assert!(
            of_process.contains("this server has 20000") && !of_process.contains("session"),
            "{of_process}"
        );
        let of_session = refused(0);
        assert!(of_session.contains("at most 256 in a session"), "{of_session}");
        drop(full);
    }
}
