//! What is known of the children: everything with our label, watched, and what we wrote ourselves a moment ago.

use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DynamicObject, ObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::{ChildKind, ChildType, Context, interruption};

/// The label by which children are found.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Its value.
pub const OPERATOR: &str = "vmcp-operator";
/// The label that names the resource a child was made for.
pub const INSTANCE: &str = "app.kubernetes.io/instance";

/// The label that tells the kinds of workloads apart.
const NAME: &str = "app.kubernetes.io/name";

/// The labels of a workload's objects, and the selector of its pods. `name` says what runs: `vmcp`, `mcp-server`,
/// `embedding-server`; two resources of different kinds may have the same `instance`.
pub fn labels(name: &str, instance: &str) -> BTreeMap<String, String> {
    [(NAME, name), (INSTANCE, instance), (MANAGED_BY, OPERATOR)]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The metadata of a child called `child`, with the [`labels`] of its workload.
pub fn metadata_of(child: String, name: &str, instance: &str) -> ObjectMeta {
    ObjectMeta { name: Some(child), labels: Some(labels(name, instance)), ..ObjectMeta::default() }
}

/// How often it is looked for an API that the cluster lacked.
const PROBE: Duration = Duration::from_mins(1);

type Listener = Box<dyn Fn(&str, &str) -> BoxFuture<'static, ()> + Send + Sync>;
type Of = BTreeMap<(ChildKind, String), Arc<DynamicObject>>;

/// The children of everybody, by the uid of their owner.
#[derive(Default)]
pub struct Children {
    by_owner: RwLock<HashMap<String, Of>>,
    listeners: Mutex<HashMap<&'static str, Listener>>,
    missing: RwLock<HashSet<ChildKind>>,
    listed: watch::Sender<HashSet<ChildKind>>,
}

impl Children {
    /// One child of an owner, as it was seen last.
    pub fn get(&self, owner: &str, kind: ChildKind, name: &str) -> Option<Arc<DynamicObject>> {
        self.read().get(owner)?.get(&(kind, name.to_owned())).cloned()
    }

    /// The same, as its type.
    pub fn typed<K: ChildType + DeserializeOwned>(&self, owner: &str, name: &str) -> Option<K> {
        self.get(owner, K::KIND, name)?.as_ref().clone().try_parse().ok()
    }

    /// All children of an owner.
    pub fn of(&self, owner: &str) -> Vec<(ChildKind, Arc<DynamicObject>)> {
        let children = self.read();
        let Some(children) = children.get(owner) else { return Vec::new() };
        children.iter().map(|((kind, _), object)| (*kind, object.clone())).collect()
    }

    /// Whether the cluster lacks an optional kind.
    pub fn is_missing(&self, kind: ChildKind) -> bool {
        self.missing.read().contains(&kind)
    }

    /// Waits until every kind was listed once.
    pub async fn ready(&self) {
        // The sender is ours: it does not go away.
        let _ = self.listed.subscribe().wait_for(|listed| listed.len() == ChildKind::ALL.len()).await;
    }

    /// Calls `listener` with (namespace, name) of the owner, when a child of an owner of this kind changed.
    pub(super) fn listen(&self, owner_kind: &'static str, listener: Listener) {
        self.listeners.lock().insert(owner_kind, listener);
    }

    /// Takes in an object, unless a newer one is known. Tells whether it was news.
    pub(super) fn put(&self, kind: ChildKind, mut object: DynamicObject) -> bool {
        // The entries of a list do not say what they are.
        object.types.get_or_insert_with(|| kind.types());
        let Some(owner) = controller_of(&object.metadata) else { return false };
        let uid = owner.uid.clone();
        let mut children = self.write();
        let of = children.entry(uid).or_default();
        let key = (kind, object.name_any());
        if of.get(&key).is_some_and(|known| version(&known.metadata) >= version(&object.metadata)) {
            return false;
        }
        of.insert(key, Arc::new(object));
        true
    }

    fn remove(&self, kind: ChildKind, object: &DynamicObject) {
        let Some(owner) = controller_of(&object.metadata) else { return };
        let mut children = self.write();
        let Some(of) = children.get_mut(&owner.uid) else { return };
        let key = (kind, object.name_any());
        if of.get(&key).is_some_and(|known| version(&known.metadata) <= version(&object.metadata)) {
            of.remove(&key);
        }
        if of.is_empty() {
            children.remove(&owner.uid);
        }
    }

    /// Takes an object from whoever it belonged to besides the owner that it names now. Gives it as it was.
    fn lost(&self, kind: ChildKind, now: &DynamicObject) -> Option<Arc<DynamicObject>> {
        let owner = controller_of(&now.metadata).map(|owner| owner.uid.as_str());
        let key = (kind, now.name_any());
        let mut children = self.write();
        if owner.is_some_and(|owner| children.get(owner).is_some_and(|of| of.contains_key(&key))) {
            return None;
        }
        let is_it = |known: &DynamicObject| {
            known.metadata.uid == now.metadata.uid && version(&known.metadata) < version(&now.metadata)
        };
        children
            .iter_mut()
            .filter(|(uid, of)| Some(uid.as_str()) != owner && of.get(&key).is_some_and(|known| is_it(known)))
            .find_map(|(_, of)| of.remove(&key))
    }

    /// Watches one kind until the process ends; an optional one from when the cluster has it.
    pub(super) async fn watch(&self, context: &Context, kind: ChildKind) {
        if kind.is_optional() {
            while !self.probe(context, kind).await {
                self.completed(kind);
                tokio::time::sleep(PROBE).await;
            }
        }
        let api: Api<DynamicObject> = context.scope.dynamic_api(&context.client, &kind.resource());
        let config = watcher::Config::default().labels(&format!("{MANAGED_BY}={OPERATOR}"));
        let events =
            watcher(api, config).default_backoff().modify(|object| object.metadata.managed_fields = None);
        futures::pin_mut!(events);
        // What was listed since `Init`, and what was known then: what is not listed again is gone. Nobody is told before the list
        // is complete, since nobody may be listening before all lists are.
        let mut listed: Vec<ObjectMeta> = Vec::new();
        let mut before = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Err(error) => interruption::report(context, kind.as_str(), &error),
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    before = self.all(kind);
                }
                Ok(watcher::Event::InitApply(object)) => {
                    if !before.is_empty() {
                        listed.extend(self.lost(kind, &object).map(|was| was.metadata.clone()));
                    }
                    listed.push(object.metadata.clone());
                    self.put(kind, object);
                }
                Ok(watcher::Event::InitDone) => {
                    let kept: HashSet<_> = listed.iter().map(|meta| meta.uid.clone()).collect();
                    before.retain(|object: &Arc<DynamicObject>| !kept.contains(&object.metadata.uid));
                    for gone in &before {
                        self.remove(kind, gone);
                    }
                    self.completed(kind);
                    for meta in listed.drain(..).chain(before.drain(..).map(|gone| gone.metadata.clone())) {
                        self.tell(&meta).await;
                    }
                }
                Ok(watcher::Event::Apply(object)) => {
                    // Somebody took the owner reference off: the one that it named puts it back.
                    if let Some(was) = self.lost(kind, &object) {
                        self.tell(&was.metadata).await;
                    }
                    let meta = object.metadata.clone();
                    // What we wrote ourselves comes back as an event that is no news.
                    if self.put(kind, object) {
                        self.tell(&meta).await;
                    }
                }
                Ok(watcher::Event::Delete(object)) => {
                    self.remove(kind, &object);
                    self.tell(&object.metadata).await;
                }
            }
        }
    }

    async fn probe(&self, context: &Context, kind: ChildKind) -> bool {
        let resource = kind.resource();
        let there = context
            .client
            .list_api_group_resources(&resource.api_version)
            .await
            .is_ok_and(|list| list.resources.iter().any(|found| found.kind == resource.kind));
        let mut missing = self.missing.write();
        if there {
            missing.remove(&kind)
        } else {
            missing.insert(kind)
        };
        there
    }

    async fn tell(&self, meta: &ObjectMeta) {
        let Some(owner) = controller_of(meta) else { return };
        let told = {
            let listeners = self.listeners.lock();
            let Some(listener) = listeners.get(owner.kind.as_str()) else { return };
            listener(meta.namespace.as_deref().unwrap_or_default(), &owner.name)
        };
        told.await;
    }

    fn all(&self, kind: ChildKind) -> Vec<Arc<DynamicObject>> {
        let children = self.read();
        children
            .values()
            .flat_map(|of| {
                of.iter().filter(|((found, _), _)| *found == kind).map(|(_, object)| object.clone())
            })
            .collect()
    }

    fn completed(&self, kind: ChildKind) {
        self.listed.send_if_modified(|listed| listed.insert(kind));
    }

    fn read(&self) -> parking_lot::RwLockReadGuard<'_, HashMap<String, Of>> {
        self.by_owner.read()
    }

    fn write(&self) -> parking_lot::RwLockWriteGuard<'_, HashMap<String, Of>> {
        self.by_owner.write()
    }
}

/// The owner that controls an object.
pub(super) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

/// Versions of one kind of object are numbers that grow, whatever the documentation used to say.
fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        let children = Children::default();
        children.put(ChildKind::ConfigMap, object("10"));
        let mut orphan = object("11");
        assert!(children.lost(ChildKind::ConfigMap, &orphan).is_none(), "it is where it belongs");
        orphan.metadata.owner_references = None;
        let was = children.lost(ChildKind::ConfigMap, &orphan).expect("it belonged to somebody");
        assert_eq!(controller_of(&was.metadata).map(|owner| owner.name.as_str()), Some("o"));
        assert!(children.get("owner", ChildKind::ConfigMap, "x").is_none());
    }

    #[test]
    fn an_old_event_does_not_hide_what_was_written_since() {
        let children = Children::default();
        let known =
            || children.get("owner", ChildKind::ConfigMap, "x").and_then(|known| known.resource_version());
        assert!(children.put(ChildKind::ConfigMap, object("10")));
        assert!(!children.put(ChildKind::ConfigMap, object("9")));
        children.remove(ChildKind::ConfigMap, &object("9"));
        assert_eq!(known().as_deref(), Some("10"));
        children.remove(ChildKind::ConfigMap, &object("11"));
        assert_eq!(known(), None);
    }
}
