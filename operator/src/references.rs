//! What resources refer to: values of Secrets, and the group that they belong to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kube::ResourceExt as _;
use kube::core::PartialObjectMeta;
use sha2::{Digest as _, Sha256};
use vmcp_crds::fields::references::{LocalReference, SecretKeyReference};

use crate::runtime::{CallError, Change, Conditions, Context, Custom, Kind, SecretData};

/// The Secrets that a resource refers to, as far as they are there.
#[derive(Debug, Default, Clone)]
pub struct Secrets(BTreeMap<String, SecretData>);

impl Secrets {
    /// Reads what is referred to.
    pub async fn read(
        context: &Context,
        namespace: &str,
        references: &[SecretKeyReference],
    ) -> Result<Self, CallError> {
        let mut found = BTreeMap::new();
        for name in references.iter().map(|reference| &reference.name).collect::<BTreeSet<_>>() {
            if let Some(data) = context.secret(namespace, name).await? {
                found.insert(name.clone(), data);
            }
        }
        Ok(Self(found))
    }

    /// A value.
    pub fn get(&self, reference: &SecretKeyReference) -> Option<&[u8]> {
        Some(self.0.get(&reference.name)?.get(&reference.key)?.0.as_slice())
    }

    /// What is not there and how to make it, when something is not there.
    pub fn missing(&self, namespace: &str, references: &[SecretKeyReference]) -> Option<String> {
        let missing: Vec<_> = references
            .iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter(|reference| self.get(reference).is_none())
            .map(|SecretKeyReference { name, key }| {
                if self.0.contains_key(name) {
                    return format!("the Secret {name} has no key `{key}`; add it, or correct the reference");
                }
                let command =
                    format!("kubectl create secret generic {name} -n {namespace} --from-literal={key}=…");
                format!("there is no Secret {name}; `{command}` makes it")
            })
            .collect();
        (!missing.is_empty()).then(|| missing.join(" | "))
    }

    /// Tells whether a value changed, without telling the value.
    pub fn digest(&self, references: &[SecretKeyReference]) -> String {
        let mut hash = Sha256::new();
        for reference in references.iter().collect::<BTreeSet<_>>() {
            for part in
                [reference.name.as_bytes(), reference.key.as_bytes(), self.get(reference).unwrap_or_default()]
            {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        hash.finalize().iter().take(8).fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    #[cfg(test)]
    pub(crate) fn of(values: &[(&str, &str, &str)]) -> Self {
        let mut found: BTreeMap<String, BTreeMap<String, k8s_openapi::ByteString>> = BTreeMap::new();
        for (name, key, value) in values {
            let value = k8s_openapi::ByteString(value.as_bytes().to_vec());
            found.entry((*name).to_owned()).or_default().insert((*key).to_owned(), value);
        }
        Self(found.into_iter().map(|(name, data)| (name, std::sync::Arc::new(data))).collect())
    }
}

/// The resources of a kind that refer to a Secret which changed.
pub fn users_of<K: Custom>(
    change: &Change<PartialObjectMeta<k8s_openapi::api::core::v1::Secret>>,
    kind: &Kind<K>,
    references: fn(&K) -> Vec<SecretKeyReference>,
) -> Vec<(String, String)> {
    let (namespace, name) = (change.object.namespace().unwrap_or_default(), change.object.name_any());
    let users = kind.list(&namespace).into_iter();
    users
        .filter(|user| references(user).iter().any(|reference| reference.name == name))
        .map(|user| (namespace.clone(), user.name_any()))
        .collect()
}

/// The resources of a kind that say that they belong to a group which came or went.
pub fn members_of<K: Custom>(
    change: &Change<vmcp_crds::MCPGroup>,
    kind: &Kind<K>,
    group: fn(&K) -> Option<&LocalReference>,
) -> Vec<(String, String)> {
    if !change.substantial {
        return Vec::new();
    }
    let (namespace, name) = (change.object.namespace().unwrap_or_default(), change.object.name_any());
    let members = kind.list(&namespace).into_iter();
    members
        .filter(|member| group(member).is_some_and(|group| group.name == name))
        .map(|member| (namespace.clone(), member.name_any()))
        .collect()
}

/// Whether a group exists, when one is named.
pub fn group_exists(context: &Context, namespace: &str, group: Option<&LocalReference>) -> Option<bool> {
    group.map(|group| context.resources.mcp_groups.exists(namespace, &group.name))
}

/// Sets `GroupRefValidated`; without a `groupRef` there is nothing to say. Gives what is wrong.
pub fn group_condition(
    conditions: &mut Conditions,
    group: Option<&LocalReference>,
    exists: Option<bool>,
) -> Option<String> {
    let name = &group?.name;
    if exists? {
        conditions.set("GroupRefValidated", true, "GroupFound", format!("it belongs to the MCPGroup {name}"));
        return None;
    }
    let message = format!(
        "there is no MCPGroup {name}; create it, or correct `spec.groupRef`: no VirtualMCPServer can serve the group"
    );
    conditions.set("GroupRefValidated", false, "GroupNotFound", message.clone());
    Some(message)
}
