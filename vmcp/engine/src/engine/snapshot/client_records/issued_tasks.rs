//! Issued tasks: a bounded record of the tasks that clients of this process know, by owner and by backend. An
//! id opens without the record; `tasks/list` and the notifications of backends need it.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use vmcp_backend::SessionId;

use crate::access::identity::{Identity, Principal, PrincipalKey};

/// Most tasks in the record; beyond it the oldest is dropped: it is not listed, and its client asks for its
/// state instead of being told.
const MAX_TASKS: usize = 10_000;
/// Most tasks of one owner in the record; beyond it the oldest of the owner is dropped.
const MAX_TASKS_PER_OWNER: usize = 1_000;

/// Most tasks under one id of one backend, which look-ups go through; beyond it the oldest is dropped.
const MAX_TASKS_OF_ID: usize = 64;

/// The client that a task belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskOwner {
    /// [`Principal::binding`].
    pub binding: [u8; 32],
    /// The principal, as push streams count it.
    pub principal: PrincipalKey,
    /// The session that began the task or asked for it last.
    pub session: Option<SessionId>,
    /// True for an identity; clients without one are told apart by their sessions.
    pub is_known: bool,
}

impl TaskOwner {
    /// Returns the owner of tasks that a principal begins in a session.
    pub fn new(principal: &Principal, session: Option<SessionId>) -> TaskOwner {
        TaskOwner {
            binding: principal.binding(),
            principal: principal.key(),
            session,
            is_known: matches!(principal.identity, Identity::Known(_)),
        }
    }

    /// True if a list of `other` may show the tasks of this owner.
    fn is(&self, other: &TaskOwner) -> bool {
        self.binding == other.binding
            && self.principal == other.principal
            && (self.is_known || self.session == other.session)
    }
}

/// One task that a client knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedTask {
    /// Its owner.
    pub owner: TaskOwner,
    /// The backend that has the task.
    pub backend: Arc<str>,
    /// The tool whose call became the task, in the backend's spelling.
    pub tool: Arc<str>,
    /// The backend's own id.
    pub id: Arc<str>,
    /// The id that the client knows.
    pub shown: Arc<str>,
}

/// The tasks that clients of this process know.
#[derive(Debug, Default)]
pub struct IssuedTasks(Mutex<TaskTable>);

type BackendKey = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct TaskTable {
    /// By number, which grows.
    tasks: BTreeMap<u64, Arc<IssuedTask>>,
    of_owner: HashMap<[u8; 32], BTreeSet<u64>>,
    /// By backend and the backend's own id. Backends that tell people apart may give two the same id.
    of_backend: HashMap<BackendKey, BTreeSet<u64>>,
    last: u64,
}

impl IssuedTasks {
    /// Records a task and returns the id that its owner knows already, or now. `shown` makes the id.
    pub fn issue<E>(
        &self,
        owner: TaskOwner,
        backend: &Arc<str>,
        tool: &str,
        id: &str,
        shown: impl FnOnce() -> Result<String, E>,
    ) -> Result<Arc<str>, E> {
        let key: BackendKey = (Arc::clone(backend), id.into());
        let mut table = self.0.lock();
        if let Some(number) = table.number_of(&key, |task| task.owner.is(&owner) && *task.tool == *tool)
            && let Some(known) = table.tasks.get_mut(&number)
        {
            let latest = IssuedTask { owner, ..IssuedTask::clone(known) };
            let shown = Arc::clone(&latest.shown);
            *known = Arc::new(latest);
            return Ok(shown);
        }
        let shown: Arc<str> = shown()?.into();
        let (backend, id) = key;
        let task = IssuedTask { owner, backend, tool: tool.into(), id, shown: Arc::clone(&shown) };
        table.insert(task);
        Ok(shown)
    }

    /// Returns at most `limit` tasks of an owner after a number, with their numbers, the oldest first.
    pub fn of_owner(&self, owner: &TaskOwner, after: u64, limit: usize) -> Vec<(u64, Arc<IssuedTask>)> {
        let table = self.0.lock();
        let numbers = table.of_owner.get(&owner.binding).into_iter();
        let numbers = numbers.flat_map(|own| own.range((Bound::Excluded(after), Bound::Unbounded)));
        let tasks = numbers.filter_map(|number| Some((*number, Arc::clone(table.tasks.get(number)?))));
        tasks.filter(|(_, task)| task.owner.is(owner)).take(limit).collect()
    }

    /// Returns the id under which an owner knows a task of a backend, if it is in the record.
    pub fn shown_to(&self, owner: &TaskOwner, backend: &str, id: &str) -> Option<Arc<str>> {
        self.find(backend, id, |task| task.owner.binding == owner.binding)
    }

    /// Returns the id under which a session, or the principal that it belongs to, knows a task of a backend.
    pub fn shown_to_session(
        &self,
        session: SessionId,
        principal: PrincipalKey,
        backend: &str,
        id: &str,
    ) -> Option<Arc<str>> {
        let of_session = self.find(backend, id, |task| task.owner.session == Some(session));
        of_session.or_else(|| {
            self.find(backend, id, |task| task.owner.is_known && task.owner.principal == principal)
        })
    }

    /// Removes a task that its backend does not know any more.
    pub fn forget(&self, number: u64) {
        self.0.lock().remove(number);
    }

    fn find(&self, backend: &str, id: &str, is: impl Fn(&IssuedTask) -> bool) -> Option<Arc<str>> {
        let table = self.0.lock();
        let number = table.number_of(&(backend.into(), id.into()), is)?;
        table.tasks.get(&number).map(|task| Arc::clone(&task.shown))
    }
}

impl TaskTable {
    fn number_of(&self, key: &BackendKey, is: impl Fn(&IssuedTask) -> bool) -> Option<u64> {
        let mut numbers = self.of_backend.get(key)?.iter().rev();
        numbers.find(|number| self.tasks.get(*number).is_some_and(|task| is(task))).copied()
    }

    fn insert(&mut self, task: IssuedTask) {
        self.last += 1;
        let number = self.last;
        let own = self.of_owner.entry(task.owner.binding).or_default();
        own.insert(number);
        let oldest = own.first().copied().filter(|_| own.len() > MAX_TASKS_PER_OWNER);
        let key = (Arc::clone(&task.backend), Arc::clone(&task.id));
        let same = self.of_backend.entry(key).or_default();
        same.insert(number);
        let oldest_of_id = same.first().copied().filter(|_| same.len() > MAX_TASKS_OF_ID);
        self.tasks.insert(number, Arc::new(task));
        for oldest in oldest.into_iter().chain(oldest_of_id) {
            self.remove(oldest);
        }
        if self.tasks.len() > MAX_TASKS
            && let Some(oldest) = self.tasks.keys().next().copied()
        {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, number: u64) {
        let Some(task) = self.tasks.remove(&number) else { return };
        let key = (Arc::clone(&task.backend), Arc::clone(&task.id));
        if let Some(same) = self.of_backend.get_mut(&key) {
            same.remove(&number);
            if same.is_empty() {
                self.of_backend.remove(&key);
            }
        }
        if let Some(own) = self.of_owner.get_mut(&task.owner.binding) {
            own.remove(&number);
            if own.is_empty() {
                self.of_owner.remove(&task.owner.binding);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn known(subject: &str) -> Principal {
        Identity::known("https://idp", subject, serde_json::Map::new(), None).into()
    }

    fn issue(tasks: &IssuedTasks, owner: TaskOwner, id: &str) -> Arc<str> {
        let shown = || Ok::<_, Infallible>(format!("shown {id}"));
        tasks.issue(owner, &"one".into(), "work", id, shown).unwrap()
    }

    fn ids(tasks: &IssuedTasks, owner: &TaskOwner) -> Vec<String> {
        tasks.of_owner(owner, 0, usize::MAX).iter().map(|(_, task)| task.id.to_string()).collect()
    }

    #[test]
    fn an_owner_lists_its_own_tasks() {
        let tasks = IssuedTasks::default();
        let [alice, bob] = ["alice", "bob"].map(|name| TaskOwner::new(&known(name), None));
        issue(&tasks, alice, "1");
        issue(&tasks, bob, "1");
        issue(&tasks, bob, "2");
        assert_eq!(
            (ids(&tasks, &alice), ids(&tasks, &bob)),
            (vec!["1".into()], vec!["1".into(), "2".into()])
        );
        assert!(tasks.of_owner(&alice, u64::MAX, 9).is_empty(), "after the last number that there is");
        let elsewhere = TaskOwner { session: Some([1; 16]), ..alice };
        assert_eq!(ids(&tasks, &elsewhere), ["1"], "in any session");
        let [one, other] = [[1; 16], [2; 16]].map(|id| TaskOwner::new(&Principal::default(), Some(id)));
        issue(&tasks, one, "3");
        assert_eq!(
            (ids(&tasks, &one), ids(&tasks, &other)),
            (vec!["3".into()], vec![]),
            "without an identity"
        );
        assert_eq!(tasks.shown_to(&alice, "one", "2"), None);
        assert_eq!(tasks.shown_to(&bob, "one", "2").as_deref(), Some("shown 2"));
        let told = |session, owner: &TaskOwner, id| {
            tasks.shown_to_session(session, owner.principal, "one", id).is_some()
        };
        assert!(told([1; 16], &one, "3") && !told([2; 16], &other, "3"));
        assert!(told([9; 16], &bob, "2") && !told([9; 16], &alice, "2"));
    }

    #[test]
    fn a_task_keeps_the_id_that_its_owner_knows() {
        let tasks = IssuedTasks::default();
        let alice = TaskOwner::new(&known("alice"), None);
        let issue = |shown: &str| {
            let shown = || Ok::<_, Infallible>(shown.to_owned());
            tasks.issue(alice, &"one".into(), "work", "1", shown).unwrap()
        };
        assert_eq!((&*issue("first"), &*issue("second")), ("first", "first"));
    }

    #[test]
    fn the_record_is_bounded_for_each_owner_and_for_all() {
        let tasks = IssuedTasks::default();
        let greedy = TaskOwner::new(&known("greedy"), None);
        issue(&tasks, TaskOwner::new(&known("alice"), None), "a");
        for id in 0..=MAX_TASKS_PER_OWNER {
            issue(&tasks, greedy, &id.to_string());
        }
        let own = ids(&tasks, &greedy);
        assert_eq!((own.len(), own.first().map(String::as_str)), (MAX_TASKS_PER_OWNER, Some("1")));
        assert_eq!(ids(&tasks, &TaskOwner::new(&known("alice"), None)), ["a"], "not at another's expense");
        for n in 0..MAX_TASKS {
            issue(&tasks, TaskOwner::new(&known(&n.to_string()), None), &format!("x{n}"));
        }
        let table = tasks.0.lock();
        assert_eq!((table.tasks.len(), table.of_owner.len()), (MAX_TASKS, MAX_TASKS));
        assert_eq!(table.of_backend.len(), MAX_TASKS);
    }

    #[test]
    fn one_id_of_a_backend_has_a_bounded_number_of_owners() {
        let tasks = IssuedTasks::default();
        for n in 0..=MAX_TASKS_OF_ID {
            issue(&tasks, TaskOwner::new(&known(&n.to_string()), None), "x");
        }
        assert_eq!(tasks.0.lock().tasks.len(), MAX_TASKS_OF_ID);
    }
}
