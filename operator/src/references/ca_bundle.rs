//! ConfigMaps that resources refer to: certificates of private authorities, by a `caBundleRef`, and policies,
//! by an `authzConfig`.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use vmcp_crds::fields::references::{CaBundleReference, ConfigMapKeyReference};
use vmcp_crds::virtual_mcp_server::authz::PolicyFile;
use vmcp_egress::ca_certificates;

use super::concerned;
use crate::runtime::{CallError, Change, Context, CustomResource, ResourceStore};

/// The certificates that a `caBundleRef` leads to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum CaBundle {
    /// The reference is absent.
    #[default]
    OfTheSystem,
    /// PEM.
    Found(String),
    /// The ConfigMap is missing or holds no certificates: the fault, and the remedy.
    Unusable(String),
}

impl CaBundle {
    /// Returns the certificates as PEM.
    pub(crate) fn pem(&self) -> Option<&str> {
        match self {
            Self::Found(pem) => Some(pem),
            Self::OfTheSystem | Self::Unusable(_) => None,
        }
    }

    /// Reads the certificates that the field at `path` refers to.
    pub(crate) async fn read(
        context: &Context,
        namespace: &str,
        reference: Option<&CaBundleReference>,
        path: &str,
    ) -> Result<CaBundle, CallError> {
        let Some(CaBundleReference { config_map_ref: ConfigMapKeyReference { name, key } }) = reference
        else {
            return Ok(CaBundle::OfTheSystem);
        };
        let data = context.config_map(namespace, name).await?;
        let Some(value) = data.as_ref().and_then(|data| data.get(key)) else {
            return Ok(CaBundle::Unusable(format!(
                "{path}: there is no key {key} in a ConfigMap {name}; create it: kubectl create configmap {name} \
                 -n {namespace} --from-file={key}=…"
            )));
        };
        Ok(match check(&value.0) {
            Ok(pem) => CaBundle::Found(pem),
            Err(reason) => CaBundle::Unusable(format!(
                "{path}: the key {key} of the ConfigMap {name} holds no certificates that can be used: {reason}; \
                 store certificates as PEM"
            )),
        })
    }
}

/// Reads the text of policies in a ConfigMap; `None` without a ConfigMap, the key or text.
pub(crate) async fn policies_in_config_map(
    context: &Context,
    namespace: &str,
    file: Option<PolicyFile>,
) -> Result<Option<String>, CallError> {
    let Some(PolicyFile { name, key }) = file else { return Ok(None) };
    let data = context.config_map(namespace, &name).await?;
    let value = data.as_ref().and_then(|data| data.get(&key));
    Ok(value.and_then(|value| String::from_utf8(value.0.clone()).ok()))
}

/// Returns the resources (namespace, name) of a kind whose `caBundleRef` names a ConfigMap that changed.
pub(crate) fn users_of_config_map<K: CustomResource>(
    change: &Change<PartialObjectMeta<ConfigMap>>,
    kind: &ResourceStore<K>,
    reference: fn(&K) -> Option<&CaBundleReference>,
) -> Vec<(String, String)> {
    concerned(change, kind, |user, name| {
        reference(user).is_some_and(|bundle| bundle.config_map_ref.name == name)
    })
}

/// Reads the certificates as `vmcp` will.
fn check(pem: &[u8]) -> Result<String, String> {
    ca_certificates(pem)?;
    String::from_utf8(pem.to_vec()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_vmcp_could_not_use_is_refused() {
        let signed = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let pem = signed.cert.pem();
        assert_eq!(check(pem.as_bytes()).unwrap(), pem);
        assert!(check(b"hello").is_err());
        for content in ["!", "AAAA"] {
            let block = format!("{pem}-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
            assert!(check(block.as_bytes()).is_err(), "{content}");
        }
    }
}
