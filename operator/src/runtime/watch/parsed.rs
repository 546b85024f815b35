//! Objects as the API server sent them: parsed as their Rust type, or kept with the parse error.
//!
//! One malformed object (written under another version of its definition) must not stop the watch of all
//! others.

pub(super) mod watched;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::error_boundary::InvalidObject;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A namespaced resource that is watched as a Rust type.
pub trait WatchedResource:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> WatchedResource for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// One of the operator's own resources: a controller reads it and writes its status.
pub trait CustomResource: WatchedResource + Serialize {}

impl<K: WatchedResource + Serialize> CustomResource for K {}

/// Returns the kind as the API server spells it, which is also the metrics' label.
pub fn kind_of<K: Resource<DynamicType = ()>>() -> &'static str {
    match K::kind(&()) {
        Cow::Borrowed(kind) => kind,
        // No type of kube, k8s-openapi or vmcp-crds computes its kind.
        Cow::Owned(_) => "Object",
    }
}

/// An object that was parsed as `K`, or its metadata and the parse error.
#[derive(Debug, Clone)]
pub struct Parsed<K>(pub(crate) Result<Arc<K>, Arc<InvalidObject>>);

impl<K> Parsed<K> {
    /// Returns the object if it could be parsed.
    pub fn well_formed(&self) -> Option<&Arc<K>> {
        self.0.as_ref().ok()
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Parsed<K> {
    /// Fails only for an object without readable metadata.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let error = match K::deserialize(&object) {
            Ok(object) => return Ok(Self(Ok(Arc::new(object)))),
            Err(error) => error.to_string(),
        };
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let metadata = ObjectMeta::deserialize(metadata).map_err(serde::de::Error::custom)?;
        Ok(Self(Err(Arc::new(InvalidObject { error, metadata }))))
    }
}

impl<K: Resource + Clone> Resource for Parsed<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    /// Forwarded, so that the watch of a `PartialObjectMeta` asks for metadata alone.
    fn metadata_api() -> bool {
        K::metadata_api()
    }

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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, Secret};
    use kube::core::PartialObjectMeta;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_malformed_object_keeps_its_metadata() {
        let pod = json!({ "metadata": { "name": "p", "namespace": "n" }, "spec": { "containers": "none" } });
        let parsed: Parsed<Pod> = serde_json::from_value(pod).expect("metadata");
        assert!(parsed.well_formed().is_none());
        assert_eq!(parsed.meta().name.as_deref(), Some("p"));
    }

    #[test]
    fn metadata_alone_is_asked_for_where_the_type_holds_no_more() {
        assert!(Parsed::<PartialObjectMeta<Secret>>::metadata_api());
        assert!(!Parsed::<Pod>::metadata_api());
    }
}
