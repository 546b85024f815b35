//! Which backend has which task. Task ids are the backends' own; who has one that is not known here can be found by asking.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::identity::Identity;

/// Tasks that are known; beyond it those that were learnt first are forgotten first, and found again by asking.
const MOST: usize = 10_000;
/// Longer ids are always asked for, in bytes.
const LONGEST: usize = 512;

/// The backends of tasks, by who may know of a task and by its id.
#[derive(Debug, Default)]
pub struct TaskHomes(Mutex<Known>);

type Key = (Identity, Arc<str>);

#[derive(Debug, Default)]
struct Known {
    homes: HashMap<Key, Arc<str>>,
    order: VecDeque<Key>,
}

impl TaskHomes {
    /// Learns that a task is a backend's. Ids that two backends give out belong to the one that did so last.
    pub fn learn(&self, identity: Identity, task: &str, backend: &Arc<str>) {
        if task.len() > LONGEST {
            return;
        }
        let key: Key = (identity, task.into());
        let mut known = self.lock();
        if known.homes.insert(key.clone(), Arc::clone(backend)).is_none() {
            known.order.push_back(key);
        }
        if known.order.len() > MOST
            && let Some(oldest) = known.order.pop_front()
        {
            known.homes.remove(&oldest);
        }
    }

    /// The backend of a task, if it is known here.
    pub fn get(&self, identity: Identity, task: &str) -> Option<Arc<str>> {
        self.lock().homes.get(&(identity, task.into())).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_known_as_were_learnt_last() {
        let homes = TaskHomes::default();
        let get = |task: &str| homes.get(Identity::Anonymous, task);
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        homes.learn(Identity::Anonymous, "t", &one);
        homes.learn(Identity::Anonymous, "t", &other);
        assert_eq!(get("t"), Some(other));
        homes.learn(Identity::Anonymous, &"x".repeat(LONGEST + 1), &one);
        assert_eq!(get(&"x".repeat(LONGEST + 1)), None);
        for n in 0..MOST {
            homes.learn(Identity::Anonymous, &n.to_string(), &one);
        }
        assert_eq!((get("t"), get("0"), get("9999")), (None, Some(one.clone()), Some(one)));
        let known = homes.lock();
        assert_eq!((known.homes.len(), known.order.len()), (MOST, MOST));
    }
}
