//! Which backend has which task. Task ids are the backends' own; who has one that is not known here can be found by asking.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::identity::Identity;

/// Tasks that are known; beyond it those that were learnt first are forgotten first, and found again by asking.
const MAX_TASKS: usize = 10_000;
/// Longer ids are always asked for, in bytes.
const MAX_TASK_ID_BYTES: usize = 512;

/// The backends of tasks, by who may know of a task and by its id.
#[derive(Debug, Default)]
pub struct TaskOwners(Mutex<OwnerTable>);

type Key = (Identity, Arc<str>);

#[derive(Debug, Default)]
struct OwnerTable {
    owners: HashMap<Key, Arc<str>>,
    order: VecDeque<Key>,
}

impl TaskOwners {
    /// Learns that a task is a backend's. Ids that two backends give out belong to the one that did so last.
    pub fn learn(&self, identity: Identity, task: &str, backend: &Arc<str>) {
        if task.len() > MAX_TASK_ID_BYTES {
            return;
        }
        let key: Key = (identity, task.into());
        let mut known = self.lock();
        if known.owners.insert(key.clone(), Arc::clone(backend)).is_none() {
            known.order.push_back(key);
        }
        if known.order.len() > MAX_TASKS
            && let Some(oldest) = known.order.pop_front()
        {
            known.owners.remove(&oldest);
        }
    }

    /// The backend of a task, if it is known here.
    pub fn get(&self, identity: Identity, task: &str) -> Option<Arc<str>> {
        self.lock().owners.get(&(identity, task.into())).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, OwnerTable> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_known_as_were_learnt_last() {
        let owners = TaskOwners::default();
        let get = |task: &str| owners.get(Identity::Anonymous, task);
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        owners.learn(Identity::Anonymous, "t", &one);
        owners.learn(Identity::Anonymous, "t", &other);
        assert_eq!(get("t"), Some(other));
        owners.learn(Identity::Anonymous, &"x".repeat(MAX_TASK_ID_BYTES + 1), &one);
        assert_eq!(get(&"x".repeat(MAX_TASK_ID_BYTES + 1)), None);
        for n in 0..MAX_TASKS {
            owners.learn(Identity::Anonymous, &n.to_string(), &one);
        }
        assert_eq!((get("t"), get("0"), get("9999")), (None, Some(one.clone()), Some(one)));
        let known = owners.lock();
        assert_eq!((known.owners.len(), known.order.len()), (MAX_TASKS, MAX_TASKS));
    }
}
