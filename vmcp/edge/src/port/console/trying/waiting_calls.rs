//! [`WaitingCalls`]: tried calls whose servers wait for an operator's answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use vmcp_console::pages::try_tool::TryTool;
use vmcp_engine::random::random;

use super::tried_call::TriedCall;

/// Time that a call waits for an answer; then it is dropped, which cancels it at its server.
pub(super) const WAIT: Duration = Duration::from_mins(5);
/// Calls that wait at a time; a further one is cancelled.
const MAX_WAITING: usize = 32;
/// Calls of one person that wait at a time; a further one is cancelled.
const MAX_WAITING_OF_ONE: usize = 8;

/// A call that waits, with the page that asks.
pub(super) struct WaitingCall {
    /// The call.
    pub(super) call: TriedCall,
    /// The page, without the question.
    pub(super) page: TryTool,
    /// The person who made the call, and alone answers for it.
    pub(super) person: String,
}

/// The calls of this process that wait for an answer, by their random name.
#[derive(Default)]
pub(in crate::port::console) struct WaitingCalls {
    calls: Mutex<HashMap<String, KeptCall>>,
}

struct KeptCall {
    waiting: WaitingCall,
    /// Drops the call after [`WAIT`].
    _timer: AbortOnDropHandle<()>,
}

impl WaitingCalls {
    /// Keeps a call until it is answered, for [`WAIT`] at most. Returns the name under which the answer finds
    /// it; `None` at a limit, where the call is dropped.
    pub(super) fn keep(self: &Arc<Self>, waiting: WaitingCall) -> Option<String> {
        let mut calls = self.calls.lock();
        let of_one = calls.values().filter(|kept| kept.waiting.person == waiting.person).count();
        if calls.len() >= MAX_WAITING || of_one >= MAX_WAITING_OF_ONE {
            drop(calls);
            return None;
        }
        let name = hex::encode(random::<16>());
        let (table, ended) = (Arc::downgrade(self), name.clone());
        let timer = tokio::spawn(async move {
            sleep(WAIT).await;
            let Some(table) = table.upgrade() else { return };
            // Dropped outside of the lock: this cancels the call.
            let late = table.calls.lock().remove(&ended);
            drop(late);
        });
        calls.insert(name.clone(), KeptCall { waiting, _timer: AbortOnDropHandle::new(timer) });
        Some(name)
    }

    /// Takes the call of a person; `None` if it waits no longer, or is another person's.
    pub(super) fn take(&self, name: &str, person: &str) -> Option<WaitingCall> {
        let mut calls = self.calls.lock();
        if calls.get(name)?.waiting.person != person {
            return None;
        }
        calls.remove(name).map(|kept| kept.waiting)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;
    use vmcp_engine::access::identity::Principal;
    use vmcp_engine::testing::{KEYWORDS, engine};

    use super::*;
    use crate::port::admin::operator_call::OperatorCall;

    #[tokio::test]
    async fn a_call_waits_for_its_own_person_for_a_time_within_bounds() {
        let engine = engine(KEYWORDS).await;
        tokio::time::pause();
        let table = Arc::<WaitingCalls>::default();
        let keep = |person: &str| {
            let call = OperatorCall { name: "gone".to_owned(), arguments: Map::new(), confirmed: false };
            let call = TriedCall::begin(engine.clone(), Principal::default(), call);
            table.keep(WaitingCall { call, page: TryTool::default(), person: person.to_owned() })
        };
        let name = keep("ann").unwrap();
        assert!(table.take(&name, "bob").is_none(), "another person");
        assert!(table.take("gone", "ann").is_none());
        assert!(table.take(&name, "ann").is_some());
        assert!(table.take(&name, "ann").is_none(), "once");
        let kept: Vec<_> = (0..20).filter_map(|_| keep("ann")).collect();
        assert_eq!(kept.len(), MAX_WAITING_OF_ONE);
        let others: Vec<_> = (0..50).filter_map(|number| keep(&format!("person {number}"))).collect();
        assert_eq!(kept.len() + others.len(), MAX_WAITING);
        sleep(WAIT + Duration::from_secs(1)).await;
        assert!(table.calls.lock().is_empty(), "each is dropped after its time");
    }
}
