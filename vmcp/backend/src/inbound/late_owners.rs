//! Sessions that are told later how something of theirs ended: a visit to a URL, a task. On a connection that
//! clients share, only the id in the announcement says whose it is.

use parking_lot::Mutex;

use lru::LruCache;
use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_wire::era::Era;
use vmcp_wire::keys::ELICITATION_ID;
use vmcp_wire::lists::tasks::{self, TASK, TASK_ID};
use vmcp_wire::translate;

use crate::request::{Request, RpcOutcome, SessionId};

/// Visits and tasks of one connection whose session is remembered; one more forgets the least recently used,
/// whose end is then told to no client.
const MAX_REMEMBERED: usize = 10_000;
/// Length of an id in bytes up to which it is remembered.
const MAX_ID_LENGTH: usize = 256;

/// A thing that ends after the call in which it began, by the backend's id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Late {
    Visit(Box<str>),
    Task(Box<str>),
}

/// The sessions of visits and tasks that began on one connection.
#[derive(Debug)]
pub(crate) struct LateOwners(Mutex<LruCache<Late, SessionId>>);

impl Default for LateOwners {
    fn default() -> Self {
        // Grows with its entries: most connections never have one.
        Self(Mutex::new(LruCache::unbounded()))
    }
}

impl LateOwners {
    /// Records that `session` was asked the question with these parameters.
    pub(crate) fn learn_question(&self, session: SessionId, params: Option<&RawValue>) {
        if let Some(id) = id(params, ELICITATION_ID) {
            self.learn(Late::Visit(id), session);
        }
    }

    /// Records the visits that a call of `session` demands, and the task that it became.
    pub(crate) fn learn_outcome(&self, session: SessionId, request: &Request<'_>, outcome: &RpcOutcome) {
        match outcome {
            RpcOutcome::Error(error) => {
                for id in translate::required_visit_ids(error) {
                    self.learn(Late::Visit(id.into()), session);
                }
            }
            RpcOutcome::Result(result) if request.params.get(TASK).is_some() => {
                if let Some(id) = tasks::created(result, Era::Legacy) {
                    self.learn(Late::Task(id.into()), session);
                }
            }
            RpcOutcome::Result(_) | RpcOutcome::Arriving(_) => {}
        }
    }

    /// Returns the session whose visit `notifications/elicitation/complete` is about.
    pub(crate) fn of_visit(&self, params: Option<&RawValue>) -> Option<SessionId> {
        self.0.lock().get(&Late::Visit(id(params, ELICITATION_ID)?)).copied()
    }

    /// Returns the session whose task `notifications/tasks/status` is about.
    pub(crate) fn of_task(&self, params: Option<&RawValue>) -> Option<SessionId> {
        self.0.lock().get(&Late::Task(id(params, TASK_ID)?)).copied()
    }

    fn learn(&self, late: Late, session: SessionId) {
        let (Late::Visit(id) | Late::Task(id)) = &late;
        if id.len() > MAX_ID_LENGTH {
            return;
        }
        let mut known = self.0.lock();
        known.put(late, session);
        if known.len() > MAX_REMEMBERED {
            known.pop_lru();
        }
    }
}

fn id(params: Option<&RawValue>, key: &str) -> Option<Box<str>> {
    Some(Object::parse(params?).ok()?.get_str(key)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn the_oldest_is_forgotten_and_ids_of_different_things_differ() {
        let owners = LateOwners::default();
        let visit = |id: usize| params(&format!(r#"{{"elicitationId":"{id}","taskId":"{id}"}}"#));
        for id in 0..=MAX_REMEMBERED {
            owners.learn_question([1; 16], Some(&visit(id)));
        }
        assert_eq!(owners.of_visit(Some(&visit(0))), None);
        assert_eq!(owners.of_visit(Some(&visit(1))), Some([1; 16]));
        assert_eq!(owners.of_task(Some(&visit(1))), None);
        let long = params(&format!(r#"{{"elicitationId":"{}"}}"#, "x".repeat(MAX_ID_LENGTH + 1)));
        owners.learn_question([1; 16], Some(&long));
        assert_eq!(owners.of_visit(Some(&long)), None);
    }
}
