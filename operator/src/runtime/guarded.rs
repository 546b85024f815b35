//! An object as it came: well-formed, or not.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What every object that is watched as a type is.
pub trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// One of our own resources.
pub trait Custom: Watched + Serialize {}

impl<K: Watched + Serialize> Custom for K {}

/// The kind as the API server spells it; the label of metrics.
pub fn kind_of<K: Resource<DynamicType = ()>>() -> &'static str {
    match K::kind(&()) {
        Cow::Borrowed(kind) => kind,
        // Types of kube and k8s-openapi borrow theirs.
        Cow::Owned(_) => "Object",
    }
}

/// An object that perhaps could not be read: a malformed one must not stop the watch of all others.
#[derive(Debug, Clone)]
pub struct Guarded<K>(pub(super) Result<Arc<K>, Arc<InvalidObject>>);

impl<K> Guarded<K> {
    /// The object, when it could be read.
    pub fn well_formed(&self) -> Option<&Arc<K>> {
        self.0.as_ref().ok()
    }
}

impl<K> From<DeserializeGuard<K>> for Guarded<K> {
    fn from(guard: DeserializeGuard<K>) -> Self {
        Self(guard.0.map(Arc::new).map_err(Arc::new))
    }
}

impl<K: Resource + Clone> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(invalid) => &invalid.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => Arc::make_mut(object).meta_mut(),
            Err(invalid) => &mut Arc::make_mut(invalid).metadata,
        }
    }
}
