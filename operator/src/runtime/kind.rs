//! All objects of one kind, kept up to date by one watch that every controller shares.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource, ResourceExt as _};

use tokio::sync::watch;

use super::{Context, Guarded, Watched, interruption, kind_of};

/// What happened to an object.
#[derive(Debug)]
pub struct Change<K> {
    /// The object as it is, or as it was last.
    pub object: Guarded<K>,
    /// Whether what people write (spec, labels, annotations) changed, or the object came or went. Otherwise it is the status only.
    pub substantial: bool,
}

type Listener<K> = Box<dyn Fn(&Change<K>) -> BoxFuture<'static, ()> + Send + Sync>;

/// All objects of one kind.
pub struct Kind<K: Watched> {
    store: Store<Guarded<K>>,
    writer: Mutex<Option<Writer<Guarded<K>>>>,
    listeners: Mutex<Vec<Listener<K>>>,
    /// Whether the first list is complete. `Store::wait_until_ready` wakes only one of several that wait.
    listed: watch::Sender<bool>,
}

impl<K: Watched> Default for Kind<K> {
    fn default() -> Self {
        let writer = Writer::new(());
        Self {
            store: writer.as_reader(),
            writer: Mutex::new(Some(writer)),
            listeners: Mutex::default(),
            listed: watch::Sender::new(false),
        }
    }
}

impl<K: Watched> Kind<K> {
    /// The object of this name, when there is a well-formed one.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.store.get(&ObjectRef::new(name).within(namespace))?.0.clone().ok()
    }

    /// Whether there is an object of this name, well-formed or not.
    pub fn exists(&self, namespace: &str, name: &str) -> bool {
        self.store.get(&ObjectRef::new(name).within(namespace)).is_some()
    }

    /// The names of the malformed objects of a namespace.
    pub fn malformed(&self, namespace: &str) -> Vec<String> {
        let malformed = |object: &Guarded<K>| {
            object.well_formed().is_none() && object.meta().namespace.as_deref() == Some(namespace)
        };
        self.store.state_filter(malformed).iter().map(|object| object.name_any()).collect()
    }

    /// The well-formed objects of a namespace, by name.
    pub fn list(&self, namespace: &str) -> Vec<Arc<K>> {
        let mut found: Vec<_> = self
            .store
            .state_filter(|object| object.meta().namespace.as_deref() == Some(namespace))
            .iter()
            .filter_map(|object| object.well_formed().cloned())
            .collect();
        found.sort_by_cached_key(|object| object.name_any());
        found
    }

    pub(super) fn store(&self) -> Store<Guarded<K>> {
        self.store.clone()
    }

    /// Waits until the first list is complete.
    pub async fn ready(&self) {
        // The sender is ours: it does not go away.
        let _ = self.listed.subscribe().wait_for(|listed| *listed).await;
    }

    /// Calls `listener` after each change, when it can be seen in the store.
    pub(super) fn listen(&self, listener: Listener<K>) {
        self.listeners.lock().push(listener);
    }

    /// Watches until the process ends. Called once, after all listeners are there.
    pub(super) async fn watch(&self, context: &Context, labels: Option<&str>, trim: fn(&mut K)) {
        let Some(mut writer) = self.writer.lock().take() else {
            return;
        };
        let mut config = watcher::Config::default();
        if let Some(labels) = labels {
            config = config.labels(labels);
        }
        let api: Api<DeserializeGuard<K>> = context.scope.api(&context.client);
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
        let mut before = Vec::new();
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    interruption::report(context, kind_of::<K>(), &error);
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
                        self.tell(Change { object: object.as_ref().clone(), substantial: true }).await;
                    }
                }
                watcher::Event::Apply(ref object) => {
                    let known = self.store.get(&ObjectRef::from_obj(object));
                    let substantial = known.is_none_or(|known| substantial(known.meta(), object.meta()));
                    writer.apply_watcher_event(&event);
                    self.tell(Change { object: object.clone(), substantial }).await;
                }
                watcher::Event::Delete(ref object) => {
                    writer.apply_watcher_event(&event);
                    self.tell(Change { object: object.clone(), substantial: true }).await;
                }
            }
        }
    }

    async fn tell(&self, change: Change<K>) {
        let told: Vec<_> = self.listeners.lock().iter().map(|listener| listener(&change)).collect();
        for told in told {
            told.await;
        }
    }
}

fn substantial(before: &kube::api::ObjectMeta, now: &kube::api::ObjectMeta) -> bool {
    // Kinds without a generation (Pods have one only lately, Secrets never) change as a whole.
    now.generation.is_none()
        || before.generation != now.generation
        || before.labels != now.labels
        || before.annotations != now.annotations
        || before.deletion_timestamp != now.deletion_timestamp
}

fn convert<K: Watched>(event: watcher::Event<DeserializeGuard<K>>) -> watcher::Event<Guarded<K>> {
    match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(object.into()),
        watcher::Event::Delete(object) => watcher::Event::Delete(object.into()),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(object.into()),
        watcher::Event::InitDone => watcher::Event::InitDone,
    }
}
