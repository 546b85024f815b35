//! Renders the issuer of the cluster's ServiceAccount tokens, from `kubernetesServiceAccount` of an
//! MCPOIDCConfig.

use serde_json::json;

use crate::fields::yaml_block::Block;
use crate::lower::referenced_objects::ClusterIssuer;
use crate::lower::secret_files::SecretFiles;
use crate::shared_settings::mcp_oidc_config::KubernetesServiceAccount;

/// JSON Pointers to the parts of the claim `kubernetes.io`, by the names that policies read.
const MAPPED: [(&str, &str); 2] =
    [("namespace", NAMESPACE), ("serviceAccount", "/kubernetes.io/serviceaccount/name")];
/// JSON Pointer to the namespace of the ServiceAccount.
const NAMESPACE: &str = "/kubernetes.io/namespace";

/// Returns the settings of the issuer. Without the keys of the cluster, where they are asked for, or without
/// an issuer, the validator refuses the returned block.
pub(super) fn issuer(
    settings: &KubernetesServiceAccount,
    cluster: Option<&ClusterIssuer>,
    namespace: &str,
    secrets: &mut SecretFiles,
) -> Block {
    let KubernetesServiceAccount { service_account, namespace: given, issuer, jwks_url, use_cluster_auth: _ } =
        settings;
    let is_given = |text: &&String| !text.is_empty();
    let given = given.as_ref().filter(is_given);
    let issuer = issuer.as_ref().filter(is_given);
    let mut block = Block::new();
    if settings.takes_cluster_keys() {
        if let Some(cluster) = cluster {
            block.insert("issuer".to_owned(), json!(issuer.unwrap_or(&cluster.issuer)));
            block.insert("jwksPath".to_owned(), secrets.key_set(&cluster.keys).into());
        }
    } else {
        if let Some(issuer) = issuer {
            block.insert("issuer".to_owned(), json!(issuer));
        }
        if let Some(url) = jwks_url.as_ref().filter(is_given) {
            block.insert("jwksUrl".to_owned(), json!(url));
        }
        // Such an issuer is often in the cluster itself.
        block.insert("jwksAllowPrivateIp".to_owned(), true.into());
    }
    block.insert("claimMapping".to_owned(), MAPPED.into_iter().collect::<serde_json::Value>());
    let required = match (service_account.as_ref().filter(is_given), given) {
        (Some(account), given) => {
            let namespace = given.map_or(namespace, String::as_str);
            Some(("sub", format!("system:serviceaccount:{namespace}:{account}")))
        }
        (None, Some(namespace)) => Some((NAMESPACE, namespace.clone())),
        (None, None) => None,
    };
    if let Some((claim, value)) = required {
        block.insert("requiredClaims".to_owned(), json!({ claim: [value] }));
    }
    block
}
