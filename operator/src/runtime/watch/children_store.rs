//! A store of the children of all resources: every object with the operator's label, as its watch or the
//! operator's last write brought it.
//!
//! A write is stored at once, so that the next reconcile does not see the state before it; the watch event
//! that follows is older or equal and is ignored (resource versions are compared). The answer of a write may
//! also come after the event that the object was deleted, so that deletions are remembered for a while. A
//! list is the truth, also where it is older: it replaces everything, and the events after it bring later
//! writes again.

use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde::de::DeserializeOwned;

use super::first_lists::optional_api;
use super::stored_child::{StoredChild, version};
use super::{
    ChildKind, ChildType, MANAGED_BY_LABEL, OPERATOR_NAME, WatchEnvironment, WatchName, controller_of, scope,
    watch_error,
};

/// Time for which deleted objects are remembered: longer than any call of the API server may take.
const DELETED_MEMORY: Duration = Duration::from_mins(1);

type OwnerListener = Box<dyn Fn(&str, &str) -> BoxFuture<'static, ()> + Send + Sync>;
type ChildrenOfOwner = BTreeMap<(ChildKind, String), Arc<StoredChild>>;

/// The children of all owners, by the uid of the owner.
#[derive(Default)]
pub struct ChildrenStore {
    by_owner: RwLock<HashMap<String, ChildrenOfOwner>>,
    /// Objects that were deleted, or lost their label, by their uids: the version of that, and when.
    deleted: Mutex<HashMap<String, (u64, Instant)>>,
    /// By the kind of the owner.
    listeners: Mutex<HashMap<&'static str, OwnerListener>>,
    /// Optional kinds that the cluster lacks.
    missing: RwLock<HashSet<ChildKind>>,
    /// Kinds of which no object is made.
    disabled: HashSet<ChildKind>,
}

impl ChildrenStore {
    /// Makes an empty store. Of kinds that are `disabled` no object is made; they count as missing, and
    /// objects from before are deleted.
    pub(crate) fn without(disabled: Vec<ChildKind>) -> Self {
        Self { disabled: disabled.into_iter().collect(), ..Self::default() }
    }

    /// Returns one child of an owner, as it was seen last.
    pub fn get(&self, owner: &str, kind: ChildKind, name: &str) -> Option<DynamicObject> {
        self.stored(owner, kind, name)?.parse()
    }

    /// Returns true if an owner has this child.
    pub fn has(&self, owner: &str, kind: ChildKind, name: &str) -> bool {
        self.stored(owner, kind, name).is_some()
    }

    /// Returns one child of an owner, parsed as its type.
    pub fn typed<K: ChildType + DeserializeOwned>(&self, owner: &str, name: &str) -> Option<K> {
        self.stored(owner, K::KIND, name)?.parse()
    }

    /// Returns true if the child as it is now is known to satisfy a desired object, given by its digest.
    pub(crate) fn satisfies(&self, owner: &str, kind: ChildKind, name: &str, desired: u64) -> bool {
        self.stored(owner, kind, name).is_some_and(|child| child.satisfies(desired))
    }

    /// Remembers that the child of this version satisfies a desired object: reconciles that change nothing
    /// need not compare again, which takes most of their time.
    pub(crate) fn set_satisfies(&self, owner: &str, kind: ChildKind, object: &DynamicObject, desired: u64) {
        let child = self.stored(owner, kind, &object.name_any());
        if let Some(child) = child.filter(|child| child.version == version(&object.metadata)) {
            child.set_satisfies(desired);
        }
    }

    fn stored(&self, owner: &str, kind: ChildKind, name: &str) -> Option<Arc<StoredChild>> {
        self.read().get(owner)?.get(&(kind, name.to_owned())).cloned()
    }

    /// Returns kinds and names of all children of an owner.
    pub fn of_owner(&self, owner: &str) -> Vec<(ChildKind, String)> {
        self.read().get(owner).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// Returns true if the cluster lacks this optional kind, or none of it is made.
    pub fn is_missing(&self, kind: ChildKind) -> bool {
        self.disabled.contains(&kind) || self.missing.read().contains(&kind)
    }

    /// Calls `listener` with (namespace, name) of the owner when a child of an owner of this kind changed.
    pub(crate) fn listen(&self, owner_kind: &'static str, listener: OwnerListener) {
        self.listeners.lock().insert(owner_kind, listener);
    }

    /// Stores an object unless a newer one is known; returns true if it was stored.
    pub(crate) fn put(&self, kind: ChildKind, object: DynamicObject) -> bool {
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let deleted = self.deleted.lock().get(uid).map(|(version, _)| *version);
        let is_deleted = deleted.is_some_and(|deleted| version(&object.metadata) <= deleted);
        !is_deleted && self.insert(kind, object, |known, new| known < new)
    }

    /// Stores an object of a list, in place of any other.
    fn put_listed(&self, kind: ChildKind, object: DynamicObject) {
        // It is there again, after a restore of etcd.
        if let Some(uid) = &object.metadata.uid {
            self.deleted.lock().remove(uid);
        }
        self.insert(kind, object, |_, _| true);
    }

    fn insert(&self, kind: ChildKind, mut object: DynamicObject, replaces: fn(u64, u64) -> bool) -> bool {
        // The entries of a list come without `apiVersion` and `kind`.
        object.types.get_or_insert_with(|| kind.types());
        let Some(owner) = controller_of(&object.metadata) else { return false };
        let new = StoredChild::from_object(&object);
        let mut children = self.write();
        let of = children.entry(owner.uid.clone()).or_default();
        let key = (kind, object.name_any());
        if of.get(&key).is_some_and(|known| !replaces(known.version, new.version)) {
            return false;
        }
        of.insert(key, Arc::new(new));
        true
    }

    /// Removes a deleted object unless a newer one of its name is known.
    fn remove(&self, kind: ChildKind, object: &DynamicObject) {
        if let Some(uid) = object.uid() {
            let (mut deleted, now) = (self.deleted.lock(), Instant::now());
            deleted.retain(|_, (_, since)| now.duration_since(*since) < DELETED_MEMORY);
            deleted.insert(uid, (version(&object.metadata), now));
        }
        let Some(owner) = controller_of(&object.metadata) else { return };
        let mut children = self.write();
        let Some(of) = children.get_mut(&owner.uid) else { return };
        let key = (kind, object.name_any());
        if of.get(&key).is_some_and(|known| known.version <= version(&object.metadata)) {
            of.remove(&key);
        }
        if of.is_empty() {
            children.remove(&owner.uid);
        }
    }

    /// Removes an object from an owner that it no longer names, and returns it as that owner had it.
    fn take_from_former_owner(&self, kind: ChildKind, now: &DynamicObject) -> Option<Arc<StoredChild>> {
        let owner = controller_of(&now.metadata).map(|owner| owner.uid.as_str());
        let key = (kind, now.name_any());
        let mut children = self.write();
        if owner.is_some_and(|owner| children.get(owner).is_some_and(|of| of.contains_key(&key))) {
            return None;
        }
        let is_it =
            |known: &StoredChild| known.uid == now.metadata.uid && known.version < version(&now.metadata);
        children
            .iter_mut()
            .filter(|(uid, of)| Some(uid.as_str()) != owner && of.get(&key).is_some_and(|known| is_it(known)))
            .find_map(|(_, of)| of.remove(&key))
    }

    /// Watches one kind in one part of the scope until the process ends; an optional kind as soon as the
    /// cluster has it.
    pub(crate) async fn watch(
        &self,
        environment: &WatchEnvironment<'_>,
        kind: ChildKind,
        part: Option<String>,
    ) {
        let name = Self::watch_name(kind, part);
        if kind.is_optional() {
            self.await_api(environment, kind, &name).await;
        }
        let resource = environment.api_group.resource(kind.resource());
        let client = environment.clients.for_watch();
        let api = scope::api::<DynamicObject>(&client, name.part.as_deref(), &resource);
        let config = environment.scope.watch_config().labels(&format!("{MANAGED_BY_LABEL}={OPERATOR_NAME}"));
        let events = environment.history.restarting(|| {
            let events = watcher(api.clone(), config.clone()).default_backoff();
            events.modify(|object| object.metadata.managed_fields = None)
        });
        futures::pin_mut!(events);
        // `listed` since `Init`, `before` as of `Init`: an object that is not listed again is gone. Owners
        // are told once the list is complete, since controllers start to listen when all lists are.
        let mut listed: Vec<ObjectMeta> = Vec::new();
        let mut before = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Err(error) => watch_error::report(environment, &name, &error),
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    before = self.all(kind, name.part.as_deref());
                }
                Ok(watcher::Event::InitApply(object)) => {
                    if !before.is_empty() {
                        listed.extend(self.take_from_former_owner(kind, &object).map(|was| was.metadata()));
                    }
                    listed.push(object.metadata.clone());
                    self.put_listed(kind, object);
                }
                Ok(watcher::Event::InitDone) => {
                    let kept: HashSet<_> = listed.iter().map(|meta| meta.uid.clone()).collect();
                    let gone = before.drain(..).filter(|child: &Arc<StoredChild>| !kept.contains(&child.uid));
                    let gone: Vec<_> = gone.map(|child| child.metadata()).collect();
                    for gone in &gone {
                        self.forget(kind, gone);
                    }
                    environment.first_lists.complete(&name);
                    for meta in listed.drain(..).chain(gone) {
                        self.notify_owner(&meta).await;
                    }
                }
                Ok(watcher::Event::Apply(object)) => {
                    // A person took the owner reference off: the reconcile of the former owner puts it back.
                    if let Some(was) = self.take_from_former_owner(kind, &object) {
                        self.notify_owner(&was.metadata()).await;
                    }
                    let meta = object.metadata.clone();
                    // The operator's own write comes back as an event without a change.
                    if self.put(kind, object) {
                        self.notify_owner(&meta).await;
                    }
                }
                Ok(watcher::Event::Delete(object)) => {
                    self.remove(kind, &object);
                    self.notify_owner(&object.metadata).await;
                }
            }
        }
    }

    /// Waits until the cluster has an optional kind.
    async fn await_api(&self, environment: &WatchEnvironment<'_>, kind: ChildKind, name: &WatchName) {
        let found = |is_found: bool| {
            let mut missing = self.missing.write();
            if is_found {
                missing.remove(&kind);
            } else {
                missing.insert(kind);
            }
        };
        optional_api::await_api(environment, &kind.resource(), std::slice::from_ref(name), found).await;
    }

    /// Returns the name of the watch of a kind in one part of the scope.
    pub(crate) fn watch_name(kind: ChildKind, part: Option<String>) -> WatchName {
        WatchName { kind: kind.as_str(), is_child: true, part }
    }

    async fn notify_owner(&self, meta: &ObjectMeta) {
        let Some(owner) = controller_of(meta) else { return };
        // The future is made first: the lock must not be held across an await.
        let notified = {
            let listeners = self.listeners.lock();
            let Some(listener) = listeners.get(owner.kind.as_str()) else { return };
            listener(meta.namespace.as_deref().unwrap_or_default(), &owner.name)
        };
        notified.await;
    }

    /// Removes an object that a list no longer names, unless another one has taken its name.
    fn forget(&self, kind: ChildKind, gone: &ObjectMeta) {
        let Some(owner) = controller_of(gone) else { return };
        let mut children = self.write();
        let Some(of) = children.get_mut(&owner.uid) else { return };
        let key = (kind, gone.name.clone().unwrap_or_default());
        if of.get(&key).is_some_and(|known| known.uid == gone.uid) {
            of.remove(&key);
        }
        if of.is_empty() {
            children.remove(&owner.uid);
        }
    }

    /// Returns all children of a kind in one part of the scope, of all owners.
    fn all(&self, kind: ChildKind, part: Option<&str>) -> Vec<Arc<StoredChild>> {
        let children = self.read();
        let objects = children.values().flatten();
        objects
            .filter(|((found, _), object)| {
                *found == kind && (part.is_none() || object.namespace.as_deref() == part)
            })
            .map(|(_, object)| object.clone())
            .collect()
    }

    fn read(&self) -> parking_lot::RwLockReadGuard<'_, HashMap<String, ChildrenOfOwner>> {
        self.by_owner.read()
    }

    fn write(&self) -> parking_lot::RwLockWriteGuard<'_, HashMap<String, ChildrenOfOwner>> {
        self.by_owner.write()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(version: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "x", "namespace": "n", "uid": "u", "resourceVersion": version,
                "ownerReferences": [{"apiVersion": "g/v", "kind": "K", "name": "o", "uid": "owner", "controller": true}],
            },
        }))
        .expect("an object")
    }

    #[test]
    fn an_object_without_its_owner_is_nobodys() {
        let children = ChildrenStore::default();
        children.put(ChildKind::ConfigMap, object("10"));
        let mut orphan = object("11");
        assert!(
            children.take_from_former_owner(ChildKind::ConfigMap, &orphan).is_none(),
            "it is where it belongs"
        );
        orphan.metadata.owner_references = None;
        let was =
            children.take_from_former_owner(ChildKind::ConfigMap, &orphan).expect("it belonged to somebody");
        assert_eq!(controller_of(&was.metadata()).map(|owner| owner.name.as_str()), Some("o"));
        assert!(children.get("owner", ChildKind::ConfigMap, "x").is_none());
    }

    #[test]
    fn a_kind_that_is_switched_off_is_known_and_never_made() {
        let children = ChildrenStore::without(vec![ChildKind::ConfigMap]);
        assert!(children.put(ChildKind::ConfigMap, object("10")), "made before, and to be deleted");
        assert!(children.is_missing(ChildKind::ConfigMap) && !children.is_missing(ChildKind::Secret));
        assert_eq!(children.of_owner("owner"), [(ChildKind::ConfigMap, "x".to_owned())]);
    }

    #[test]
    fn an_old_event_does_not_hide_what_was_written_since() {
        let children = ChildrenStore::default();
        let known =
            || children.get("owner", ChildKind::ConfigMap, "x").and_then(|known| known.resource_version());
        assert!(children.put(ChildKind::ConfigMap, object("10")));
        assert!(!children.put(ChildKind::ConfigMap, object("9")));
        children.remove(ChildKind::ConfigMap, &object("9"));
        assert_eq!(known().as_deref(), Some("10"));
        // A list is the truth: after a restore of etcd, versions are lower.
        children.put_listed(ChildKind::ConfigMap, object("3"));
        assert_eq!(known().as_deref(), Some("3"));
        children.remove(ChildKind::ConfigMap, &object("11"));
        assert_eq!(known(), None);
    }

    #[test]
    fn an_answer_that_comes_after_the_deletion_does_not_bring_the_object_back() {
        let children = ChildrenStore::default();
        let known = || children.get("owner", ChildKind::ConfigMap, "x").is_some();
        children.remove(ChildKind::ConfigMap, &object("11"));
        assert!(!children.put(ChildKind::ConfigMap, object("10")), "written, seen by a person, and deleted");
        assert!(!known());
        assert!(children.put(ChildKind::ConfigMap, object("12")), "its label was lost, and is back");
        children.put_listed(ChildKind::ConfigMap, object("3"));
        assert!(children.put(ChildKind::ConfigMap, object("4")), "restored from a backup");
    }
}
