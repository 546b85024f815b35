//! A desired child: a typed object or JSON, ready to be applied.

use kube::api::{DynamicObject, ObjectMeta};
use serde_json::Value;

use crate::runtime::watch::{ChildKind, ChildType};

/// A desired object: its name, labels and content. [`Context::apply`] adds namespace, owner reference and the
/// operator's labels.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube::api::ObjectMeta;
/// # use vmcp_operator::runtime::{Child, ChildKind};
/// let metadata = ObjectMeta { name: Some("x-vmcp-config".to_owned()), ..ObjectMeta::default() };
/// let child = Child::from_object(&ConfigMap { metadata, ..ConfigMap::default() });
/// assert_eq!((child.kind(), child.name()), (ChildKind::ConfigMap, "x-vmcp-config"));
/// ```
///
/// [`Context::apply`]: crate::runtime::Context::apply
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    pub(super) kind: ChildKind,
    pub(super) object: DynamicObject,
    /// Children that must be applied before; see [`only_after`](Self::only_after).
    pub(super) after: Vec<(ChildKind, String)>,
}

impl Child {
    /// Takes the name, labels and content of a typed object.
    pub fn from_object<K: ChildType>(object: &K) -> Self {
        // Maps with string keys always become JSON, and an object with metadata is a JSON object. Should that
        // ever fail, the API server refuses the empty object by its name.
        let dynamic = serde_json::to_value(object).and_then(serde_json::from_value);
        let name = object.meta().name.clone().unwrap_or_default();
        let object = dynamic.unwrap_or_else(|_| DynamicObject::new(&name, &K::KIND.resource()));
        Self { kind: K::KIND, object, after: Vec::new() }
    }

    /// Takes JSON (everything but `apiVersion`, `kind` and `metadata`), for kinds that have no Rust type
    /// here.
    pub fn json(kind: ChildKind, metadata: ObjectMeta, content: Value) -> Self {
        let object = DynamicObject { types: Some(kind.types()), metadata, data: content };
        Self { kind, object, after: Vec::new() }
    }

    /// Puts a pod template in the place of the object's own: JSON may have fields that its type lacks.
    #[must_use]
    pub(crate) fn with_pod_template(mut self, template: Value) -> Self {
        if let Some(slot) = self.object.data.pointer_mut("/spec/template") {
            *slot = template;
        }
        self
    }

    /// Applies this child only if these earlier ones of the same owner were applied without an error, such as
    /// a right only behind the isolation of its use. Otherwise the child stays as it is.
    #[must_use]
    pub(crate) fn only_after(mut self, children: impl IntoIterator<Item = (ChildKind, String)>) -> Self {
        self.after.extend(children);
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ChildKind {
        self.kind
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the object.
    pub fn object(&self) -> &DynamicObject {
        &self.object
    }
}
