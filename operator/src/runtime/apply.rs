//! Making the cluster hold what `build` asked for, and writing nothing when it does already.
//!
//! An object is left alone when the fields that we ask for have the values that we ask for. Two things keep that from writing in
//! circles or too rarely: an annotation with the digest of what was asked for shows that a field is not asked for any more, and
//! what the API server made of our values (`1000m` becomes `1`) is remembered.

mod compare;
mod ownership;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, Preconditions, PropagationPolicy,
};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::children::{INSTANCE, MANAGED_BY, OPERATOR, controller_of};
use super::{CallError, Child, ChildKind, ChildType, Context, Failure, Retry, Verb};

/// The one field manager.
pub const FIELD_MANAGER: &str = "vmcp-operator";
/// The annotation with the digest of what was asked for.
const DIGEST: &str = "toolhive.stacklok.com/desired-digest";

/// What should exist for one owner.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Desired {
    /// To be applied, in this order.
    pub children: Vec<Child>,
    /// To be left as they are, whether or not they are there: what cannot be built now, while the last good one serves.
    pub keep: Vec<(ChildKind, String)>,
}

/// What became of it.
#[derive(Debug, Default)]
pub struct Applied {
    /// What was written: created, or changed.
    pub written: Vec<(ChildKind, String)>,
    /// What was deleted because it is not wanted any more.
    pub deleted: Vec<(ChildKind, String)>,
    /// Optional kinds that were asked for and that this cluster lacks.
    pub missing: Vec<ChildKind>,
    /// The first of the errors; everything else was done all the same.
    pub failed: Option<ApplyError>,
}

impl Applied {
    /// For whom a part is not enough.
    pub fn entirely(self) -> Result<Self, ApplyError> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// Whether an object was written.
    pub fn wrote(&self, kind: ChildKind, name: &str) -> bool {
        self.written.iter().any(|(written, by_name)| *written == kind && by_name == name)
    }
}

/// Why the cluster does not hold what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Nothing is adopted.
    #[error("the {} {name} exists already and belongs to {owner}; rename or delete one of the two", kind.as_str())]
    NameTaken {
        /// The kind of the object.
        kind: ChildKind,
        /// Its name.
        name: String,
        /// Whose it is.
        owner: String,
    },
    /// An object of an earlier resource of the same name is still being deleted.
    #[error("the {} {name} is being deleted; a new one is made when it is gone, for which its finalizers wait", kind.as_str())]
    Terminating {
        /// The kind of the object.
        kind: ChildKind,
        /// Its name.
        name: String,
    },
    /// The API server said no.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl ApplyError {
    /// Whether it is so until somebody does something, as opposed to a server that is busy or gone for a moment.
    pub fn needs_somebody(&self) -> bool {
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

/// What the API server made of values that it did not keep as they were: by (owner's uid, kind, name), the digests of what was
/// asked for and of what it became.
#[derive(Default)]
pub(super) struct Settled(Mutex<HashMap<Key, (String, String)>>);

/// Uid of the owner, kind and name.
type Key = (String, ChildKind, String);

impl Context {
    /// Applies what is desired for `owner`, deletes what it owns besides, and writes nothing where nothing differs.
    pub async fn apply<K: Resource<DynamicType = ()> + Sync>(&self, owner: &K, desired: Desired) -> Applied {
        let owner = Owner::of(owner);
        let mut applied = Applied::default();
        let mut wanted = desired.keep;
        for child in desired.children {
            if self.children.is_missing(child.kind) {
                applied.missing.push(child.kind);
                continue;
            }
            let key = (child.kind, child.name().to_owned());
            match self.apply_one(&owner, child).await {
                Ok(true) => applied.written.push(key.clone()),
                Ok(false) => {}
                // The others are applied all the same: one foreign object does not hold up the rest.
                Err(error) => applied.failed = applied.failed.or(Some(error)),
            }
            wanted.push(key);
        }
        for (kind, object) in self.children.of(&owner.uid) {
            let key = (kind, object.name_any());
            if !wanted.contains(&key) && object.metadata.deletion_timestamp.is_none() {
                match self.delete(&owner, kind, &object).await {
                    Ok(()) => applied.deleted.push(key),
                    Err(error) => applied.failed = applied.failed.or(Some(error.into())),
                }
            }
        }
        applied
    }

    async fn apply_one(&self, owner: &Owner, child: Child) -> Result<bool, ApplyError> {
        let (kind, name) = (child.kind, child.name().to_owned());
        let (desired, digest) = owner.complete(child.object);
        let api = self.api_of(owner, kind);
        let live = self.live(owner, kind, &name).await?;
        let key = (owner.uid.clone(), kind, name.clone());
        if let Some(live) = &live {
            if live.metadata.deletion_timestamp.is_some() {
                return Err(ApplyError::Terminating { kind, name });
            }
            let is = compare::project(&to_json(live), &desired);
            if compare::same(&is, &desired) || self.settled.is(&key, &digest, &is) {
                return Ok(false);
            }
        }
        tracing::debug!(kind = kind.as_str(), name, owner = owner.name, created = live.is_none(), "applying");
        if live.is_some() && ownership::leaves_replicas(kind, &desired) {
            self.disown(&api, kind, &name, ownership::replicas).await?;
        }
        let written = match self.write(&api, kind, &name, &desired).await {
            // Entries of a list are told apart by a key, such as the port of a Service. One whose key somebody edited is not ours
            // any more and stands in the way of ours: then the lists are written as a whole.
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
        let is = compare::project(&to_json(&written), &desired);
        self.settled.remember(key, digest, (!compare::same(&is, &desired)).then_some(&is));
        self.children.put(
            kind,
            DynamicObject { metadata: ObjectMeta { managed_fields: None, ..written.metadata }, ..written },
        );
        Ok(true)
    }

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

    /// A child as it is, whether or not the watch sees it; `None` when there is none that is ours.
    pub async fn child<K: ChildType + DeserializeOwned>(
        &self,
        owner: &(impl Resource<DynamicType = ()> + Sync),
        name: &str,
    ) -> Result<Option<K>, CallError> {
        match self.live(&Owner::of(owner), K::KIND, name).await {
            Ok(live) => Ok(live.and_then(|live| live.as_ref().clone().try_parse().ok())),
            Err(ApplyError::Call(error)) => Err(error),
            Err(ApplyError::NameTaken { .. } | ApplyError::Terminating { .. }) => Ok(None),
        }
    }

    async fn live(
        &self,
        owner: &Owner,
        kind: ChildKind,
        name: &str,
    ) -> Result<Option<Arc<DynamicObject>>, ApplyError> {
        if let Some(known) = self.children.get(&owner.uid, kind, name) {
            return Ok(Some(known));
        }
        // Perhaps it is there without our label, or belongs to somebody else: only the API server knows.
        let api = self.api_of(owner, kind);
        let found = self.call(Verb::Get, kind.as_str(), name, api.get_opt(name)).await?;
        owner.check(kind, name, found.as_ref())?;
        Ok(found.map(Arc::new))
    }

    fn api_of(&self, owner: &Owner, kind: ChildKind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &owner.namespace, &kind.resource())
    }

    async fn delete(&self, owner: &Owner, kind: ChildKind, object: &DynamicObject) -> Result<(), CallError> {
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
            "deleting what is not wanted any more"
        );
        self.settled.remember((owner.uid.clone(), kind, name.clone()), String::new(), None);
        match self.call(Verb::Delete, kind.as_str(), &name, api.delete(&name, &params)).await {
            Err(error) if error.code() != Some(404) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Settled {
    fn is(&self, key: &Key, digest: &str, is: &Value) -> bool {
        let settled = self.0.lock();
        settled.get(key).is_some_and(|(asked, became)| asked == digest && *became == digest_of(is))
    }

    fn remember(&self, key: Key, digest: String, became: Option<&Value>) {
        let mut settled = self.0.lock();
        match became {
            Some(became) => settled.insert(key, (digest, digest_of(became))),
            None => settled.remove(&key),
        };
    }

    /// Forgets an owner that is gone.
    pub(super) fn forget(&self, owner: &str) {
        self.0.lock().retain(|(uid, _, _), _| uid != owner);
    }
}

/// Whose children they are.
struct Owner {
    namespace: String,
    name: String,
    uid: String,
    api_version: String,
    kind: String,
}

impl Owner {
    fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
        }
    }

    /// Adds namespace, owner, labels, and the digest of it all.
    fn complete(&self, mut object: DynamicObject) -> (Value, String) {
        let meta = &mut object.metadata;
        meta.namespace = Some(self.namespace.clone());
        let labels = meta.labels.get_or_insert_default();
        labels.insert(MANAGED_BY.into(), OPERATOR.into());
        labels.insert(INSTANCE.into(), self.name.clone());
        meta.owner_references = Some(vec![OwnerReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }]);
        let digest = digest_of(&to_json(&object));
        object.metadata.annotations.get_or_insert_default().insert(DIGEST.into(), digest.clone());
        (to_json(&object), digest)
    }

    /// Refuses what is not ours.
    fn check(&self, kind: ChildKind, name: &str, found: Option<&DynamicObject>) -> Result<(), ApplyError> {
        let Some(found) = found else { return Ok(()) };
        let taken = |owner| Err(ApplyError::NameTaken { kind, name: name.to_owned(), owner });
        match controller_of(&found.metadata) {
            Some(owner) if owner.uid == self.uid => Ok(()),
            // Of a resource of our name that was deleted: the garbage collector is on its way.
            Some(owner)
                if owner.kind == self.kind
                    && owner.name == self.name
                    && owner.api_version == self.api_version =>
            {
                Err(ApplyError::Terminating { kind, name: name.to_owned() })
            }
            Some(owner) => taken(format!("the {} {}", owner.kind, owner.name)),
            // Ours, if somebody took the owner reference off.
            None if found.annotations().contains_key(DIGEST)
                && found.labels().get(INSTANCE).is_some_and(|instance| *instance == self.name) =>
            {
                Ok(())
            }
            None => taken("nobody that this operator knows".to_owned()),
        }
    }
}

fn to_json(object: &DynamicObject) -> Value {
    // What came from JSON goes back to it.
    serde_json::to_value(object).unwrap_or_default()
}

fn digest_of(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string());
    digest.iter().take(16).fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
