//! Triggers of a controller: the changes after which it reconciles an object.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};

use crate::runtime::context::Context;
use crate::runtime::watch::{Change, CustomResource, Parsed, ResourceStore, WatchedResource, kind_of};

/// The length of a controller's queue; a full one holds up the watches that fill it, so that no change is
/// lost.
const QUEUE_LENGTH: usize = 1024;

/// Makes a controller reconcile an object (namespace, name).
pub(crate) type Requeue = Box<dyn Fn(&str, &str) -> BoxFuture<'static, ()> + Send + Sync>;

/// The changes after which a controller reconciles an object of kind `K`, and the queue that they fill.
pub struct Triggers<K: CustomResource> {
    pub(super) context: Arc<Context>,
    pub(super) store: Store<Parsed<K>>,
    send: tokio::sync::mpsc::Sender<ObjectRef<Parsed<K>>>,
    pub(super) receive: tokio::sync::mpsc::Receiver<ObjectRef<Parsed<K>>>,
}

impl<K: CustomResource> Triggers<K> {
    /// Triggers on edits of the objects themselves, and on every change of the children that
    /// [`Context::apply`] made for them.
    pub fn new(context: &Arc<Context>, kind: &ResourceStore<K>) -> Self {
        let (send, receive) = tokio::sync::mpsc::channel(QUEUE_LENGTH);
        let triggers = Self { context: context.clone(), store: kind.store(), send, receive };
        // Weak, since the stores inside the context own the listeners: a strong reference would be a cycle.
        let (to_self, store, weak) = (triggers.send.clone(), kind.store(), Arc::downgrade(context));
        kind.listen(Box::new(move |change| {
            if store.get(&ObjectRef::from_obj(&change.object)).is_none()
                && let (Some(context), Some(uid)) = (weak.upgrade(), &change.object.meta().uid)
            {
                context.forget(uid);
            }
            let send = to_self.clone();
            let object = change.substantial.then(|| ObjectRef::from_obj(&change.object));
            async move {
                if let Some(object) = object {
                    let _ = send.send(object).await;
                }
            }
            .boxed()
        }));
        let to_owner = triggers.send.clone();
        context.children.listen(
            kind_of::<K>(),
            Box::new(move |namespace, name| {
                let (send, owner) = (to_owner.clone(), ObjectRef::new(name).within(namespace));
                async move { drop(send.send(owner).await) }.boxed()
            }),
        );
        triggers
    }

    /// Returns a way to trigger reconciles from a task of the controller.
    pub(crate) fn requeue(&self) -> Requeue {
        let send = self.send.clone();
        Box::new(move |namespace, name| {
            let (send, object) = (send.clone(), ObjectRef::new(name).within(namespace));
            async move { drop(send.send(object).await) }.boxed()
        })
    }

    /// Adds changes of another kind; `concerns` returns the objects (namespace, name) to reconcile.
    #[must_use]
    pub fn on<Other, Concerned>(
        self,
        kind: &ResourceStore<Other>,
        concerns: impl Fn(&Change<Other>, &Context) -> Concerned + Send + Sync + 'static,
    ) -> Self
    where
        Other: WatchedResource,
        Concerned: IntoIterator<Item = (String, String)>,
    {
        let (context, send) = (Arc::downgrade(&self.context), self.send.clone());
        kind.listen(Box::new(move |change| {
            let concerned: Vec<_> = context
                .upgrade()
                .map(|context| concerns(change, &context).into_iter().collect())
                .unwrap_or_default();
            let send = send.clone();
            async move {
                for (namespace, name) in concerned {
                    let _ = send.send(ObjectRef::new(&name).within(&namespace)).await;
                }
            }
            .boxed()
        }));
        self
    }
}
