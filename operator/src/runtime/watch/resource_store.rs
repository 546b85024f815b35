//! A store of all objects of one kind, filled by one watch that every controller shares (kube's reflector).
//!
//! Listeners run after the store has the change, so that a reconcile which they start sees it.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use kube::api::ApiResource;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource, ResourceExt as _};
use tokio::sync::watch;

use super::{Parsed, WatchEnvironment, WatchedResource, kind_of, watch_error};

/// A change of one object.
#[derive(Debug)]
pub struct Change<K> {
    /// The object as it is, or as it was last.
    pub object: Parsed<K>,
    /// True if spec, labels or annotations changed, or the object came or went; false if only its status did.
    pub substantial: bool,
}

type ChangeListener<K> = Box<dyn Fn(&Change<K>) -> BoxFuture<'static, ()> + Send + Sync>;

/// All objects of one kind.
pub struct ResourceStore<K: WatchedResource> {
    store: Store<Parsed<K>>,
    /// Taken by the one watch that fills the store.
    writer: Mutex<Option<Writer<Parsed<K>>>>,
    listeners: Mutex<Vec<ChangeListener<K>>>,
    /// True once the first list is complete. `Store::wait_until_ready` wakes only one of several that wait.
    listed: watch::Sender<bool>,
    /// Limits the watch to objects with these labels.
    labels: Option<String>,
    /// Drops the parts of an object that no controller reads, before it is stored.
    trim: fn(&mut K),
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
            store: writer.as_reader(),
            writer: Mutex::new(Some(writer)),
            listeners: Mutex::default(),
            listed: watch::Sender::new(false),
            labels,
            trim,
        }
    }

    /// Returns the object of this name if there is a well-formed one.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.store.get(&ObjectRef::new(name).within(namespace))?.0.clone().ok()
    }

    /// Returns true if there is an object of this name, well-formed or not.
    pub fn exists(&self, namespace: &str, name: &str) -> bool {
        self.store.get(&ObjectRef::new(name).within(namespace)).is_some()
    }

    /// Returns the names of the malformed objects of a namespace.
    pub fn malformed(&self, namespace: &str) -> Vec<String> {
        let malformed = |object: &Parsed<K>| {
            object.well_formed().is_none() && object.meta().namespace.as_deref() == Some(namespace)
        };
        self.store.state_filter(malformed).iter().map(|object| object.name_any()).collect()
    }

    /// Returns the well-formed objects of a namespace, sorted by name.
    pub fn list(&self, namespace: &str) -> Vec<Arc<K>> {
        let mut objects: Vec<_> = self
            .store
            .state_filter(|object| object.meta().namespace.as_deref() == Some(namespace))
            .iter()
            .filter_map(|object| object.well_formed().cloned())
            .collect();
        objects.sort_by_cached_key(|object| object.name_any());
        objects
    }

    /// Returns a reader of the store, for kube's own machinery.
    pub(crate) fn store(&self) -> Store<Parsed<K>> {
        self.store.clone()
    }

    /// Calls `listener` after each change, once the store has it.
    pub(crate) fn listen(&self, listener: ChangeListener<K>) {
        self.listeners.lock().push(listener);
    }

    /// Watches until the process ends.
    async fn fill(&self, environment: &WatchEnvironment<'_>) {
        let Some(mut writer) = self.writer.lock().take() else {
            return;
        };
        let mut config = watcher::Config::default();
        if let Some(labels) = &self.labels {
            config = config.labels(labels);
        }
        let trim = self.trim;
        let api: Api<DeserializeGuard<K>> = environment.scope.api(environment.client);
        let events = watcher(api, config)
            .default_backoff()
            .modify(move |guard| {
                guard.meta_mut().managed_fields = None;
                if let Ok(object) = &mut guard.0 {
                    trim(object);
                }
            })
            .map_ok(|event| convert(event));
        futures::pin_mut!(events);
        // Objects that were known when a list began: one that the list does not name was deleted while nobody
        // watched.
        let mut before = Vec::new();
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    watch_error::report(environment.metrics, kind_of::<K>(), &error);
                    continue;
                }
            };
            match event {
                watcher::Event::Init => {
                    before = self.store.state();
                    writer.apply_watcher_event(&event);
                }
                watcher::Event::InitApply(_) => writer.apply_watcher_event(&event),
                watcher::Event::InitDone => {
                    writer.apply_watcher_event(&event);
                    self.listed.send_replace(true);
                    let now = self.store.state();
                    let kept: HashSet<_> = now.iter().map(|object| object.meta().uid.clone()).collect();
                    let gone = before.drain(..).filter(|object| !kept.contains(&object.meta().uid));
                    for object in now.into_iter().chain(gone) {
                        self.notify(Change { object: object.as_ref().clone(), substantial: true }).await;
                    }
                }
                watcher::Event::Apply(ref object) => {
                    // Compared before the store takes the new object.
                    let known = self.store.get(&ObjectRef::from_obj(object));
                    let substantial = known.is_none_or(|known| is_substantial(known.meta(), object.meta()));
                    writer.apply_watcher_event(&event);
                    self.notify(Change { object: object.clone(), substantial }).await;
                }
                watcher::Event::Delete(ref object) => {
                    writer.apply_watcher_event(&event);
                    self.notify(Change { object: object.clone(), substantial: true }).await;
                }
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

    /// Fills the store until the process ends. Called once, after all listeners are registered.
    fn watch<'a>(&'a self, environment: &'a WatchEnvironment<'a>) -> BoxFuture<'a, ()>;

    /// Waits until the first list is complete.
    fn ready(&self) -> BoxFuture<'_, ()>;
}

impl<K: WatchedResource> AnyResourceStore for ResourceStore<K> {
    fn resource(&self) -> ApiResource {
        ApiResource::erase::<K>(&())
    }

    fn watch<'a>(&'a self, environment: &'a WatchEnvironment<'a>) -> BoxFuture<'a, ()> {
        self.fill(environment).boxed()
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        async {
            // The sender lives in `self`, so that the wait cannot fail.
            let _ = self.listed.subscribe().wait_for(|listed| *listed).await;
        }
        .boxed()
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

fn convert<K: WatchedResource>(event: watcher::Event<DeserializeGuard<K>>) -> watcher::Event<Parsed<K>> {
    match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(object.into()),
        watcher::Event::Delete(object) => watcher::Event::Delete(object.into()),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(object.into()),
        watcher::Event::InitDone => watcher::Event::InitDone,
    }
}
