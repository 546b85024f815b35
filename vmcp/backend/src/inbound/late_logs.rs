//! [`LateLogs`]: log messages that come after the call in which they were written.
//!
//! A legacy server may send them on the stream of its session, which the answer of the call overtakes. A
//! modern client hears log messages only with its requests; these come with its next one.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::inbound::call_listener::CallListener;
use crate::request::ClientFacts;

/// Most messages that are kept; one more drops the oldest.
const MAX_KEPT: usize = 32;
/// Longest message that is kept, in bytes.
const MAX_LENGTH: usize = 16 * 1024;

/// Keeps the late messages of a connection, as long as one client alone calls on it.
#[derive(Debug, Default)]
pub(super) struct LateLogs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    caller: Caller,
    kept: VecDeque<Bytes>,
}

#[derive(Debug, Default)]
enum Caller {
    #[default]
    None,
    One(ClientFacts),
    /// A message may belong to any of them, and is kept for none.
    Several,
}

impl LateLogs {
    /// Records a call, and returns the messages that came since its client's last one, oldest first.
    pub(super) fn next_call(&self, listener: &CallListener) -> VecDeque<Bytes> {
        let mut state = self.0.lock();
        match &state.caller {
            Caller::None => state.caller = Caller::One(listener.client.clone()),
            Caller::One(client) if client.is_same_client(&listener.client) => {
                if listener.client.log_level.is_some() {
                    return std::mem::take(&mut state.kept);
                }
            }
            Caller::One(_) => *state = State { caller: Caller::Several, kept: VecDeque::new() },
            Caller::Several => {}
        }
        VecDeque::new()
    }

    /// Keeps a message for the next call of the client.
    pub(super) fn keep(&self, message: &[u8]) {
        let mut state = self.0.lock();
        if !matches!(state.caller, Caller::One(_)) || message.len() > MAX_LENGTH {
            return;
        }
        if state.kept.len() == MAX_KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(Bytes::copy_from_slice(message));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use vmcp_wire::owned::OwnedParams;

    use crate::request::{ClientInstance, Request};

    fn call_of(instance: ClientInstance, level: Option<&str>) -> Arc<CallListener> {
        let params = OwnedParams::default();
        let mut request = Request::new("tools/call", &params);
        request.client.instance = instance;
        request.client.log_level = level.map(Arc::from);
        CallListener::of(&request)
    }

    const FIRST: ClientInstance = ClientInstance::Number(1);

    #[test]
    fn the_next_call_of_the_client_hears_what_came_late() {
        let logs = LateLogs::default();
        logs.keep(b"before any call");
        assert!(logs.next_call(&call_of(FIRST, Some("info"))).is_empty());
        logs.keep(b"one");
        logs.keep(&vec![b'x'; MAX_LENGTH + 1]);
        assert!(logs.next_call(&call_of(FIRST, None)).is_empty(), "this call takes no log messages");
        logs.keep(b"two");
        assert_eq!(logs.next_call(&call_of(FIRST, Some("info"))), ["one", "two"]);
        assert!(logs.next_call(&call_of(FIRST, Some("info"))).is_empty(), "heard once");
        for number in 0..=MAX_KEPT {
            logs.keep(number.to_string().as_bytes());
        }
        let kept = logs.next_call(&call_of(FIRST, Some("info")));
        assert_eq!((kept.len(), kept.front().map(AsRef::as_ref)), (MAX_KEPT, Some(&b"1"[..])));
    }

    #[test]
    fn a_message_that_could_be_of_another_client_is_kept_for_none() {
        let logs = LateLogs::default();
        logs.next_call(&call_of(FIRST, Some("info")));
        logs.keep(b"of the first");
        assert!(logs.next_call(&call_of(ClientInstance::Number(2), Some("info"))).is_empty());
        logs.keep(b"of either");
        for number in [1, 2] {
            let call = call_of(ClientInstance::Number(number), Some("info"));
            assert!(logs.next_call(&call).is_empty(), "{number}");
        }
        let unknown = LateLogs::default();
        let call = call_of(ClientInstance::Unknown, Some("info"));
        unknown.next_call(&call);
        unknown.keep(b"of a client without a number");
        assert!(unknown.next_call(&call).is_empty());
    }
}
