//! A store of all objects of one kind, filled by the watches that every controller shares.
//!
//! Listeners run after the store has the change, so that a reconcile which they start sees it. Objects are
//! indexed by namespace: a reconcile reads its own namespace and no other. A new list replaces all objects of
//! its part of the cluster, even by older versions (after a restore of etcd).

use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use kube::api::ApiResource;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Resource, ResourceExt as _};

use super::first_lists::optional_api;
use super::parsed::watched::{self, Watched};
use super::{Parsed, WatchEnvironment, WatchName, WatchedResource, kind_of, scope, watch_error};

/// The annotation in which `kubectl apply` keeps a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A change of one object.
#[derive(Debug)]
pub struct Change<K> {
    /// The object as it is, or as it was last.
    pub object: Parsed<K>,
    /// True if spec, labels or annotations changed, or the object came or went; false if only its status did.
    pub substantial: bool,
}

type ChangeListener<K> = Box<dyn Fn(&Change<K>) -> BoxFuture<'static, ()> + Send + Sync>;

/// Objects by namespace and name.
type Namespaces<K> = HashMap<String, BTreeMap<String, Parsed<K>>>;

/// All objects of one kind.
pub struct ResourceStore<K: WatchedResource> {
    namespaces: RwLock<Namespaces<K>>,
    /// A copy of `namespaces` for kube's own machinery.
    store: Store<Parsed<K>>,
    /// Taken by the one task that fills the store.
    writer: Mutex<Option<Writer<Parsed<K>>>>,
    listeners: Mutex<Vec<ChangeListener<K>>>,
    /// Limits the watch to objects with these labels.
    labels: Option<String>,
    /// Drops the parts of an object that no controller reads, before it is stored.
    trim: fn(&mut K),
    /// True if a cluster may lack the kind: it is watched as soon as the cluster has it.
    is_optional: bool,
    /// True while the cluster lacks the kind.
    is_missing: AtomicBool,
}

impl<K: WatchedResource> Default for ResourceStore<K> {
    fn default() -> Self {
        Self::new(None, |_| ())
    }
}

impl<K: WatchedResource> ResourceStore<K> {
    /// Makes an empty store whose watch selects by `labels` and stores objects after `trim`.
    pub(super) fn new(labels: Option<String>, trim: fn(&mut K)) -> Self {
        let writer = Writer::new(());
        Self {
            namespaces: RwLock::default(),
            store: writer.as_reader(),
            writer: Mutex::new(Some(writer)),
            listeners: Mutex::default(),
            labels,
            trim,
            is_optional: false,
            is_missing: AtomicBool::new(false),
        }
    }

    /// Makes an empty store of a kind that a cluster may lack.
    pub(super) fn optional() -> Self {
        Self { is_optional: true, ..Self::default() }
    }

    /// Returns true while the cluster lacks the kind.
    pub fn is_missing(&self) -> bool {
        self.is_missing.load(Ordering::Relaxed)
    }

    /// Returns the object of this name if there is a well-formed one.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.known(namespace, name)?.0.ok()
    }

    /// Returns true if there is an object of this name, well-formed or not.
    pub fn exists(&self, namespace: &str, name: &str) -> bool {
        self.known(namespace, name).is_some()
    }

    /// Returns the names of the malformed objects of a namespace.
    pub fn malformed(&self, namespace: &str) -> Vec<String> {
        let namespaces = self.namespaces.read();
        let objects = namespaces.get(namespace).into_iter().flatten();
        objects.filter(|(_, object)| object.well_formed().is_none()).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the well-formed objects of a namespace, sorted by name.
    pub fn list(&self, namespace: &str) -> Vec<Arc<K>> {
        let namespaces = self.namespaces.read();
        let objects = namespaces.get(namespace).into_iter().flatten();
        objects.filter_map(|(_, object)| object.well_formed().cloned()).collect()
    }

    /// Returns the well-formed objects of all namespaces that are wanted, in no order.
    pub fn select(&self, is_wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let namespaces = self.namespaces.read();
        let objects = namespaces.values().flatten().filter_map(|(_, object)| object.well_formed());
        objects.filter(|object| is_wanted(object)).cloned().collect()
    }

    /// Returns a reader of the store, for kube's own machinery.
    pub(crate) fn store(&self) -> Store<Parsed<K>> {
        self.store.clone()
    }

    /// Calls `listener` after each change, once the store has it.
    pub(crate) fn listen(&self, listener: ChangeListener<K>) {
        self.listeners.lock().push(listener);
    }

    fn known(&self, namespace: &str, name: &str) -> Option<Parsed<K>> {
        self.namespaces.read().get(namespace)?.get(name).cloned()
    }

    /// Watches until the process ends.
    async fn fill(&self, environment: &WatchEnvironment<'_>) {
        let Some(mut writer) = self.writer.lock().take() else {
            return;
        };
        // kube's applier waits for the end of a list; controllers wait for the first lists themselves, and
        // the lists of several namespaces end at different times.
        writer.apply_watcher_event(&watcher::Event::Init);
        writer.apply_watcher_event(&watcher::Event::InitDone);
        let mut parts: Vec<_> =
            environment.scope.parts().into_iter().map(|part| (Self::watch_name(part), Vec::new())).collect();
        if self.is_optional {
            let watches: Vec<_> = parts.iter().map(|(name, _)| name.clone()).collect();
            let found = |is_found: bool| self.is_missing.store(!is_found, Ordering::Relaxed);
            optional_api::await_api(environment, &self.resource(), &watches, found).await;
        }
        let mut events: SelectAll<_> = parts
            .iter()
            .enumerate()
            .map(|(part, (name, _))| {
                let namespace = name.part.clone();
                let start = move || self.events(environment, namespace.as_deref());
                environment.history.restarting(start).map(move |event| (part, event)).boxed()
            })
            .collect();
        while let Some((part, event)) = events.next().await {
            let Some((name, listed)) = parts.get_mut(part) else { continue };
            match event {
                Err(error) => watch_error::report(environment, name, &error),
                Ok(watcher::Event::Init) => listed.clear(),
                Ok(watcher::Event::InitApply(object)) => listed.push(object),
                Ok(watcher::Event::InitDone) => {
                    let changed = self.replace(&mut writer, name.part.as_deref(), std::mem::take(listed));
                    environment.first_lists.complete(name);
                    for object in changed {
                        self.notify(Change { object, substantial: true }).await;
                    }
                }
                Ok(watcher::Event::Apply(object)) => {
                    // Compared before the store takes the new object.
                    let known = self.known(&object.namespace().unwrap_or_default(), &object.name_any());
                    let substantial = known.is_none_or(|known| is_substantial(known.meta(), object.meta()));
                    self.put(&mut writer, object.clone());
                    self.notify(Change { object, substantial }).await;
                }
                Ok(watcher::Event::Delete(object)) => {
                    self.remove(&mut writer, &object);
                    self.notify(Change { object, substantial: true }).await;
                }
            }
        }
    }

    fn watch_name(part: Option<String>) -> WatchName {
        WatchName { kind: kind_of::<K>(), is_child: false, part }
    }

    /// Watches one part of the scope.
    fn events(
        &self,
        environment: &WatchEnvironment<'_>,
        part: Option<&str>,
    ) -> BoxStream<'static, watcher::Result<watcher::Event<Parsed<K>>>> {
        let mut config = environment.scope.watch_config();
        if let Some(labels) = &self.labels {
            config = config.labels(labels);
        }
        let trim = self.trim;
        let resource = environment.api_group.resource(ApiResource::erase::<K>(&()));
        watcher(scope::api::<Watched<K>>(&environment.clients.for_watch(), part, &resource), config)
            .default_backoff()
            .map_ok(watched::parsed)
            .modify(move |parsed: &mut Parsed<K>| {
                let meta = parsed.meta_mut();
                meta.managed_fields = None;
                if let Some(annotations) = &mut meta.annotations {
                    annotations.remove(LAST_APPLIED);
                }
                if let Ok(object) = &mut parsed.0 {
                    trim(Arc::make_mut(object));
                }
            })
            .boxed()
    }

    /// Replaces all objects of one part of the scope by a complete list; returns the listed objects and the
    /// deleted ones.
    fn replace(
        &self,
        writer: &mut Writer<Parsed<K>>,
        part: Option<&str>,
        listed: Vec<Parsed<K>>,
    ) -> Vec<Parsed<K>> {
        let mut now = Namespaces::<K>::new();
        for object in &listed {
            let objects = now.entry(object.namespace().unwrap_or_default()).or_default();
            objects.insert(object.name_any(), object.clone());
        }
        // In one step: a reconcile must not see a part of a group.
        let before = {
            let mut namespaces = self.namespaces.write();
            match part {
                None => std::mem::replace(&mut *namespaces, now),
                Some(part) => {
                    let before = namespaces.remove_entry(part).into_iter().collect();
                    namespaces.extend(now);
                    before
                }
            }
        };
        let mut changed = Vec::with_capacity(listed.len());
        for gone in before.into_values().flat_map(BTreeMap::into_values) {
            let now = self.known(&gone.namespace().unwrap_or_default(), &gone.name_any());
            if now.is_none() {
                writer.apply_watcher_event(&watcher::Event::Delete(gone.clone()));
            }
            // Deleted and created again without a watch: listeners hear of both.
            if now.is_none_or(|now| now.uid() != gone.uid()) {
                changed.push(gone);
            }
        }
        for object in listed {
            writer.apply_watcher_event(&watcher::Event::Apply(object.clone()));
            changed.push(object);
        }
        changed
    }

    fn put(&self, writer: &mut Writer<Parsed<K>>, object: Parsed<K>) {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        writer.apply_watcher_event(&watcher::Event::Apply(object.clone()));
        self.namespaces.write().entry(namespace).or_default().insert(name, object);
    }

    fn remove(&self, writer: &mut Writer<Parsed<K>>, object: &Parsed<K>) {
        let namespace = object.namespace().unwrap_or_default();
        writer.apply_watcher_event(&watcher::Event::Delete(object.clone()));
        let mut namespaces = self.namespaces.write();
        if let Some(objects) = namespaces.get_mut(&namespace) {
            objects.remove(&object.name_any());
            if objects.is_empty() {
                namespaces.remove(&namespace);
            }
        }
    }

    async fn notify(&self, change: Change<K>) {
        // The futures are collected first: the lock must not be held across an await.
        let notified: Vec<_> = self.listeners.lock().iter().map(|listener| listener(&change)).collect();
        for listener in notified {
            listener.await;
        }
    }
}

/// A [`ResourceStore`] of any kind, as [`ResourceStores`](super::ResourceStores) lists them.
pub(super) trait AnyResourceStore: Send + Sync {
    /// Returns the group and plural that are watched.
    fn resource(&self) -> ApiResource;

    /// Returns the name of the watch of one part of the scope.
    fn watch_name(&self, part: Option<String>) -> WatchName;

    /// Fills the store until the process ends. Called once, after all listeners are registered.
    fn watch<'a>(&'a self, environment: &'a WatchEnvironment<'a>) -> BoxFuture<'a, ()>;
}

impl<K: WatchedResource> AnyResourceStore for ResourceStore<K> {
    fn resource(&self) -> ApiResource {
        ApiResource::erase::<K>(&())
    }

    fn watch_name(&self, part: Option<String>) -> WatchName {
        Self::watch_name(part)
    }

    fn watch<'a>(&'a self, environment: &'a WatchEnvironment<'a>) -> BoxFuture<'a, ()> {
        self.fill(environment).boxed()
    }
}

/// Returns true if more than the status differs between two states of an object.
fn is_substantial(before: &kube::api::ObjectMeta, now: &kube::api::ObjectMeta) -> bool {
    // Kinds without a generation (Pods have one only lately, Secrets never) change as a whole.
    now.generation.is_none()
        || before.generation != now.generation
        || before.labels != now.labels
        || before.annotations != now.annotations
        || before.deletion_timestamp != now.deletion_timestamp
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::runtime::reflector::ObjectRef;
    use serde_json::json;

    use super::*;

    fn map(namespace: &str, name: &str, version: &str) -> Parsed<ConfigMap> {
        serde_json::from_value(json!({ "metadata": {
            "namespace": namespace, "name": name, "uid": format!("{namespace}/{name}"), "resourceVersion": version,
        } }))
        .expect("an object")
    }

    #[test]
    fn a_list_wins_over_what_was_known_also_with_lower_versions() {
        let store = ResourceStore::<ConfigMap>::default();
        let mut writer = store.writer.lock().take().expect("a writer");
        writer.apply_watcher_event(&watcher::Event::Init);
        writer.apply_watcher_event(&watcher::Event::InitDone);
        for (namespace, name) in [("n", "kept"), ("n", "gone"), ("other", "kept")] {
            store.put(&mut writer, map(namespace, name, "90"));
        }
        // Both views of the store, the index and kube's own, have the same versions.
        let version = |namespace: &str, name: &str| {
            let ours = store.get(namespace, name).and_then(|object| object.resource_version());
            let key = ObjectRef::new(name).within(namespace);
            let of_kube = store.store().get(&key).and_then(|object| object.resource_version());
            assert_eq!(ours, of_kube, "{namespace}/{name}");
            ours
        };

        // After a restore of etcd: objects are older, and one was never made.
        let changed =
            store.replace(&mut writer, Some("n"), vec![map("n", "kept", "7"), map("n", "back", "6")]);
        assert_eq!(version("n", "kept").as_deref(), Some("7"));
        assert_eq!(version("n", "back").as_deref(), Some("6"));
        assert_eq!(version("n", "gone"), None);
        assert_eq!(version("other", "kept").as_deref(), Some("90"), "the list of another namespace");
        let names: Vec<_> = changed.iter().map(kube::ResourceExt::name_any).collect();
        assert_eq!(names, ["gone", "kept", "back"], "listeners hear of each");

        store.replace(&mut writer, None, vec![map("other", "kept", "8")]);
        assert_eq!((version("n", "kept"), version("other", "kept").as_deref()), (None, Some("8")));
    }
}
