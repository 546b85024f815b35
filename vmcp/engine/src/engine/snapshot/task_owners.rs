//! Owners of tasks: a bounded map from task ids to backends. Backends assign the ids, so the owner of an id
//! that is not in the map is found by asking the backends.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::access::identity::Identity;

/// Most tasks in the map; beyond it the oldest is dropped (FIFO), and found again by asking.
const MAX_TASKS: usize = 10_000;
/// Most bytes of an id in the map; owners of longer ids are always found by asking.
const MAX_TASK_ID_BYTES: usize = 512;

/// The backends of tasks, by the identity that may know of a task and by its id.
#[derive(Debug, Default)]
pub struct TaskOwners(Mutex<OwnerTable>);

type Key = (Identity, Arc<str>);

#[derive(Debug, Default)]
struct OwnerTable {
    owners: HashMap<Key, Arc<str>>,
    order: VecDeque<Key>,
}

impl TaskOwners {
    /// Records the backend of a task. An id that two backends assign belongs to the later one.
    pub fn learn(&self, identity: &Identity, task: &str, backend: &Arc<str>) {
        if task.len() > MAX_TASK_ID_BYTES {
            return;
        }
        let key: Key = (identity.clone(), task.into());
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

    /// Returns the backend of a task, if it is in the map.
    pub fn get(&self, identity: &Identity, task: &str) -> Option<Arc<str>> {
        self.lock().owners.get(&(identity.clone(), task.into())).cloned()
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
        let get = |task: &str| owners.get(&Identity::Anonymous, task);
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        owners.learn(&Identity::Anonymous, "t", &one);
        owners.learn(&Identity::Anonymous, "t", &other);
        assert_eq!(get("t"), Some(other));
        owners.learn(&Identity::Anonymous, &"x".repeat(MAX_TASK_ID_BYTES + 1), &one);
        assert_eq!(get(&"x".repeat(MAX_TASK_ID_BYTES + 1)), None);
        for n in 0..MAX_TASKS {
            owners.learn(&Identity::Anonymous, &n.to_string(), &one);
        }
        assert_eq!((get("t"), get("0"), get("9999")), (None, Some(one.clone()), Some(one)));
        let known = owners.lock();
        assert_eq!((known.owners.len(), known.order.len()), (MAX_TASKS, MAX_TASKS));
    }
}
