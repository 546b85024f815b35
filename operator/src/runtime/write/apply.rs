//! Server-side apply of the desired children of one owner, and deletion of its other children.
//!
//! A child whose desired fields have the desired values is not written. Two things keep that comparison from
//! writing in circles or too rarely: an annotation with the digest of the desired object shows that a field
//! is no longer desired, and [`NormalizedFields`](crate::runtime::watch::NormalizedFields) remembers values
//! that the API server has normalized (`1000m` becomes `1`). Nothing is adopted: an object of the right name
//! that belongs to another owner is left alone and reported.

mod compare;
mod ownership;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GetParams, ObjectMeta, Patch, PatchParams, Preconditions,
    PropagationPolicy, TypeMeta,
};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{CallError, Child, Verb};
use crate::runtime::context::Context;
use crate::runtime::digest::hex_digest;
use crate::runtime::failure::{Failure, Retry};
use crate::runtime::watch::{
    ChildKind, ChildType, INSTANCE_LABEL, MANAGED_BY_LABEL, OPERATOR_NAME, controller_of,
};

/// The one field manager of server-side apply and of status patches.
pub(super) const FIELD_MANAGER: &str = "vmcp-operator";
/// The annotation of a child with the digest of its desired object.
const DIGEST_ANNOTATION: &str = "toolhive.stacklok.com/desired-digest";

/// The children that should exist for one owner.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Desired {
    /// Children to apply, in this order.
    pub children: Vec<Child>,
    /// Children to leave as they are, whether or not they exist: they cannot be built now, and the last good
    /// ones serve.
    pub keep: Vec<(ChildKind, String)>,
}

/// The result of [`Context::apply`].
#[derive(Debug, Default)]
pub struct Applied {
    /// Children that were created or changed.
    pub written: Vec<(ChildKind, String)>,
    /// Deleted children, which were no longer desired.
    pub deleted: Vec<(ChildKind, String)>,
    /// Optional kinds that were desired and that this cluster lacks.
    pub missing: Vec<ChildKind>,
    /// The first error; all other children were applied all the same, except the children that wait for this
    /// one.
    pub failed: Option<ApplyError>,
}

impl Applied {
    /// Returns the first error, for callers that need every child applied.
    pub fn entirely(self) -> Result<Self, ApplyError> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// Returns true if the child was created or changed.
    pub fn wrote(&self, kind: ChildKind, name: &str) -> bool {
        self.written.iter().any(|(written, by_name)| *written == kind && by_name == name)
    }
}

/// Error of applying one child.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// An object of this name exists and has another owner; nothing is adopted.
    #[error("the {} {name} exists already and belongs to {owner}; rename or delete one of the two", kind.as_str())]
    NameTaken {
        /// The kind of the object.
        kind: ChildKind,
        /// The name of the object.
        name: String,
        /// The owner that the object names.
        owner: String,
    },
    /// An object of an earlier resource of the same name is still being deleted.
    #[error("the {} {name} is still being deleted; the operator makes a new one once its finalizers are done", kind.as_str())]
    Terminating {
        /// The kind of the object.
        kind: ChildKind,
        /// The name of the object.
        name: String,
    },
    /// The API server refused, or could not be reached.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl ApplyError {
    /// Returns true if the error lasts until a person acts, and false for a server that is busy or gone for a
    /// moment.
    pub fn needs_person(&self) -> bool {
        match self {
            Self::NameTaken { .. } => true,
            Self::Terminating { .. } => false,
            Self::Call(call) => matches!(call.code(), Some(400 | 403 | 422)),
        }
    }
}

impl Failure for ApplyError {
    fn category(&self) -> &'static str {
        match self {
            Self::NameTaken { .. } => "NameTaken",
            Self::Terminating { .. } => "Terminating",
            Self::Call(call) => call.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::NameTaken { .. } => Retry::Backoff,
            Self::Terminating { .. } => Retry::Soon,
            Self::Call(call) => call.retry(),
        }
    }
}

impl Context {
    /// Applies the desired children of `owner` and deletes its other children. Writes nothing where nothing
    /// differs.
    pub async fn apply<K: Resource<DynamicType = ()> + Sync>(&self, owner: &K, desired: Desired) -> Applied {
        let owner = ChildOwner::from_object(owner, self.resource_of::<K>());
        let mut applied = Applied::default();
        let mut wanted = desired.keep;
        let mut present: Vec<(ChildKind, String)> = Vec::new();
        for child in desired.children {
            if self.children.is_missing(child.kind) {
                // Unwanted now: an object from before the kind was switched off is deleted below.
                applied.missing.push(child.kind);
                continue;
            }
            let key = (child.kind, child.name().to_owned());
            if !child.after.iter().all(|needed| present.contains(needed)) {
                // Still desired: an existing one is not deleted below.
                wanted.push(key);
                continue;
            }
            match self.apply_one(&owner, child).await {
                Ok(written) => {
                    present.push(key.clone());
                    applied.written.extend(written.then(|| key.clone()));
                }
                // The other children are applied all the same: one foreign object does not hold them up.
                Err(error) => applied.failed = applied.failed.or(Some(error)),
            }
            // Also after an error: a child that could not be applied is still desired, and is not deleted
            // below.
            wanted.push(key);
        }
        for key in self.children.of_owner(&owner.uid) {
            let (kind, name) = &key;
            let unwanted = (!wanted.contains(&key)).then(|| self.children.get(&owner.uid, *kind, name));
            let unwanted = unwanted.flatten().filter(|object| object.metadata.deletion_timestamp.is_none());
            if let Some(object) = unwanted {
                match self.delete(&owner, *kind, &object).await {
                    Ok(()) => applied.deleted.push(key),
                    Err(error) => applied.failed = applied.failed.or(Some(error.into())),
                }
            }
        }
        applied
    }

    /// Applies one child; returns true if it was written.
    async fn apply_one(&self, owner: &ChildOwner, child: Child) -> Result<bool, ApplyError> {
        let (kind, name) = (child.kind, child.name().to_owned());
        let (desired, digest) = owner.complete(child.object, self.resource_of_child(kind));
        let short_digest = u64::from_str_radix(digest.get(..16).unwrap_or_default(), 16).unwrap_or_default();
        if self.children.satisfies(&owner.uid, kind, &name, short_digest) {
            return Ok(false);
        }
        let api = self.api_of(owner, kind);
        let live = self.live(owner, kind, &name).await?;
        let key = (owner.uid.clone(), kind, name.clone());
        if let Some(live) = &live {
            if live.metadata.deletion_timestamp.is_some() {
                return Err(ApplyError::Terminating { kind, name });
            }
            let stored = compare::project(&to_json(live), &desired);
            if compare::same(&stored, &desired)
                || self.normalized_fields.holds(&key, &digest, &digest_of(&stored))
            {
                self.children.set_satisfies(&owner.uid, kind, live, short_digest);
                return Ok(false);
            }
        }
        tracing::debug!(kind = kind.as_str(), name, owner = owner.name, created = live.is_none(), "applying");
        if live.is_some() && ownership::leaves_replicas(kind, &desired) {
            self.disown(&api, kind, &name, ownership::replicas).await?;
        }
        let written = match self.write(&api, kind, &name, &desired).await {
            // Entries of a list are told apart by a key, such as the port of a Service. If a person edited
            // the key of an entry, the entry belongs to that person and collides with the desired entry. A
            // merge patch then writes the lists as a whole, and the operator gives up the ownership of that
            // patch.
            Err(refused) if refused.code() == Some(422) && live.is_some() => {
                let params =
                    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
                let whole = Patch::Merge(&desired);
                let patched = api.patch(&name, &params, &whole);
                if self.call(Verb::Patch, kind.as_str(), &name, patched).await.is_err() {
                    return Err(refused.into());
                }
                self.disown(&api, kind, &name, ownership::updates).await?;
                self.write(&api, kind, &name, &desired).await?
            }
            written => written?,
        };
        let stored = compare::project(&to_json(&written), &desired);
        let normalized = (!compare::same(&stored, &desired)).then(|| digest_of(&stored));
        self.normalized_fields.remember(key, digest, normalized);
        // Stored at once, so that the next reconcile does not see the state before this write.
        let written =
            DynamicObject { metadata: ObjectMeta { managed_fields: None, ..written.metadata }, ..written };
        self.children.put(kind, written.clone());
        self.children.set_satisfies(&owner.uid, kind, &written, short_digest);
        Ok(true)
    }

    /// Server-side apply by force: fields that another manager set to another value become the operator's.
    async fn write(
        &self,
        api: &Api<DynamicObject>,
        kind: ChildKind,
        name: &str,
        desired: &Value,
    ) -> Result<DynamicObject, CallError> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(desired);
        self.call(Verb::Apply, kind.as_str(), name, api.patch(name, &params, &patch)).await
    }

    /// Returns the live child of `owner`, whether or not the watch sees it; `None` if it does not exist or
    /// has another owner.
    pub async fn child<K: ChildType + DeserializeOwned, Owner: Resource<DynamicType = ()> + Sync>(
        &self,
        owner: &Owner,
        name: &str,
    ) -> Result<Option<K>, CallError> {
        match self.live(&ChildOwner::from_object(owner, self.resource_of::<Owner>()), K::KIND, name).await {
            Ok(live) => Ok(live.and_then(|live| live.try_parse().ok())),
            Err(ApplyError::Call(error)) => Err(error),
            Err(ApplyError::NameTaken { .. } | ApplyError::Terminating { .. }) => Ok(None),
        }
    }

    /// Returns the object from the store, else from the API server; an error if it has another owner.
    async fn live(
        &self,
        owner: &ChildOwner,
        kind: ChildKind,
        name: &str,
    ) -> Result<Option<DynamicObject>, ApplyError> {
        if let Some(known) = self.children.get(&owner.uid, kind, name) {
            return Ok(Some(known));
        }
        // The watch does not see an object without the operator's label, or of another owner: only the API
        // server knows.
        let api = self.api_of(owner, kind);
        // From the API server's cache, in which the newest objects may be missing. Secrets are read from
        // etcd, because their generated values must not be generated again.
        let params = if kind == ChildKind::Secret { GetParams::default() } else { GetParams::any() };
        let read = api.get_with(name, &params);
        let found = match self.call(Verb::Get, kind.as_str(), name, read).await {
            Err(error) if error.code() == Some(404) => None,
            found => Some(found?),
        };
        owner.check(kind, name, found.as_ref())?;
        Ok(found)
    }

    fn api_of(&self, owner: &ChildOwner, kind: ChildKind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &owner.namespace, &self.resource_of_child(kind))
    }

    fn resource_of_child(&self, kind: ChildKind) -> ApiResource {
        self.settings.api_group.resource(kind.resource())
    }

    /// Deletes a child. Its uid is a precondition: an object that replaced it meanwhile is not touched.
    async fn delete(
        &self,
        owner: &ChildOwner,
        kind: ChildKind,
        object: &DynamicObject,
    ) -> Result<(), CallError> {
        let name = object.name_any();
        let api = self.api_of(owner, kind);
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        tracing::info!(
            kind = kind.as_str(),
            name,
            owner = owner.name,
            "deleting a child that is no longer desired"
        );
        self.normalized_fields.remember((owner.uid.clone(), kind, name.clone()), String::new(), None);
        match self.call(Verb::Delete, kind.as_str(), &name, api.delete(&name, &params)).await {
            Err(error) if error.code() != Some(404) => Err(error),
            _ => Ok(()),
        }
    }
}

/// The resource that children are applied for.
struct ChildOwner {
    namespace: String,
    name: String,
    uid: String,
    api_version: String,
    kind: String,
}

impl ChildOwner {
    fn from_object<K: Resource<DynamicType = ()>>(object: &K, resource: ApiResource) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            api_version: resource.api_version,
            kind: resource.kind,
        }
    }

    /// Adds `apiVersion`, namespace, owner reference, labels, and the digest of the result; returns the
    /// object and the digest.
    fn complete(&self, mut object: DynamicObject, resource: ApiResource) -> (Value, String) {
        object.types = Some(TypeMeta { api_version: resource.api_version, kind: resource.kind });
        let meta = &mut object.metadata;
        meta.namespace = Some(self.namespace.clone());
        let labels = meta.labels.get_or_insert_default();
        labels.insert(MANAGED_BY_LABEL.into(), OPERATOR_NAME.into());
        labels.insert(INSTANCE_LABEL.into(), self.name.clone());
        meta.owner_references = Some(vec![OwnerReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }]);
        let digest = digest_of(&to_json(&object));
        object.metadata.annotations.get_or_insert_default().insert(DIGEST_ANNOTATION.into(), digest.clone());
        (to_json(&object), digest)
    }

    /// Returns an error for an object that exists and is not a child of this owner.
    fn check(&self, kind: ChildKind, name: &str, found: Option<&DynamicObject>) -> Result<(), ApplyError> {
        let Some(found) = found else { return Ok(()) };
        let taken = |owner| Err(ApplyError::NameTaken { kind, name: name.to_owned(), owner });
        match controller_of(&found.metadata) {
            Some(owner) if owner.uid == self.uid => Ok(()),
            // The owner was deleted and created again under its name: the garbage collector is about to
            // delete the old child.
            Some(owner)
                if owner.kind == self.kind
                    && owner.name == self.name
                    && owner.api_version == self.api_version =>
            {
                Err(ApplyError::Terminating { kind, name: name.to_owned() })
            }
            Some(owner) => taken(format!("the {} {}", owner.kind, owner.name)),
            // A person took the owner reference off; digest and label show that the operator made the object.
            None if found.annotations().contains_key(DIGEST_ANNOTATION)
                && found.labels().get(INSTANCE_LABEL).is_some_and(|instance| *instance == self.name) =>
            {
                Ok(())
            }
            None => taken("no owner that this operator knows".to_owned()),
        }
    }
}

fn to_json(object: &DynamicObject) -> Value {
    // An object that was parsed from JSON always serializes.
    serde_json::to_value(object).unwrap_or_default()
}

/// Returns the first 16 bytes of the SHA-256 of a value, in hex.
fn digest_of(value: &Value) -> String {
    hex_digest(value.to_string(), 32)
}
