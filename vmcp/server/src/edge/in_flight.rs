//! Requests of legacy sessions that `notifications/cancelled` can reach. Modern clients close the stream instead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

/// A session and the id of one of its requests, as written.
type Key = ([u8; 16], Box<str>);

/// The requests under way.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// Counts requests, to tell those with the same id apart.
    entered: u64,
    tokens: HashMap<Key, (u64, CancellationToken)>,
}

/// Forgets its request when it is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    in_flight: Arc<InFlight>,
    key: Key,
    number: u64,
}

impl InFlight {
    /// Remembers a request until the guard is dropped. A second request with the id of a running one takes its place.
    pub(super) fn enter(
        self: &Arc<Self>,
        session: [u8; 16],
        id: &RawValue,
        token: &CancellationToken,
    ) -> Entered {
        let key = (session, Box::from(id.get()));
        let mut open = self.lock();
        open.entered += 1;
        let number = open.entered;
        open.tokens.insert(key.clone(), (number, token.clone()));
        Entered { in_flight: Arc::clone(self), key, number }
    }

    /// Cancels a request, if it still runs.
    pub(super) fn cancel(&self, session: [u8; 16], id: &RawValue) {
        if let Some((_, token)) = self.lock().tokens.get(&(session, Box::from(id.get()))) {
            token.cancel();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut open = self.in_flight.lock();
        if open.tokens.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            open.tokens.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_request_of_the_same_session_is_cancelled() {
        let in_flight = Arc::new(InFlight::default());
        let id = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let (one, other) = (CancellationToken::new(), CancellationToken::new());
        let entered = in_flight.enter([1; 16], &id("1"), &one);
        let _other = in_flight.enter([2; 16], &id("1"), &other);
        in_flight.cancel([1; 16], &id("\"1\""));
        assert!(!one.is_cancelled());
        in_flight.cancel([1; 16], &id("1"));
        assert!(one.is_cancelled() && !other.is_cancelled());
        drop(entered);
        assert_eq!(in_flight.lock().tokens.len(), 1);
    }

    #[test]
    fn of_two_requests_with_the_same_id_the_later_one_can_be_cancelled_when_the_first_has_ended() {
        let in_flight = Arc::new(InFlight::default());
        let id = RawValue::from_string("1".to_owned()).unwrap();
        let (one, other) = (CancellationToken::new(), CancellationToken::new());
        let first = in_flight.enter([1; 16], &id, &one);
        let second = in_flight.enter([1; 16], &id, &other);
        drop(first);
        in_flight.cancel([1; 16], &id);
        assert!(other.is_cancelled() && !one.is_cancelled());
        drop(second);
        assert!(in_flight.lock().tokens.is_empty());
    }
}
