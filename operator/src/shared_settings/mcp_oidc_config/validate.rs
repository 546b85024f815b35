//! Checks the settings of an identity provider. Pure.
//!
//! The validator of `vmcp.yaml` itself decides, on a file that holds nothing else.

use serde_json::json;
use vmcp_crds::lower::{ClusterIssuer, ReferencedObjects};
use vmcp_crds::{Invalid, MCPOIDCConfigSpec, VirtualMCPServer, VirtualMCPServerSpec};

/// Checks the settings; the error names the mistake and the remedy.
pub(crate) fn validate(spec: &MCPOIDCConfigSpec) -> Result<(), String> {
    // The real issuer and keys are the cluster's: nothing of them is the author's.
    let cluster = ClusterIssuer { issuer: "https://kubernetes.default.svc".to_owned(), keys: String::new() };
    let around = ReferencedObjects {
        oidc: Some(spec),
        cluster_issuer: Some(&cluster),
        ..ReferencedObjects::default()
    };
    let block = if spec.inline.is_some() { "spec.inline" } else { "spec.kubernetesServiceAccount" };
    // An otherwise empty VirtualMCPServer: every problem that is found lies in the settings.
    let mut server = VirtualMCPServerSpec::default();
    server.incoming_auth.insert("type".to_owned(), "oidc".into());
    server.incoming_auth.insert("oidcConfigRef".to_owned(), json!({ "name": "any", "audience": "any" }));
    let validated = VirtualMCPServer::new("any", server).validate().and_then(|server| server.lower(&around));
    let Err(Invalid(problems)) = validated else { return Ok(()) };
    let messages =
        problems.into_iter().map(|problem| format!("{block}: {}; {}", problem.message, problem.remedy));
    Err(messages.collect::<Vec<_>>().join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_that_the_server_would_refuse_is_refused() {
        let validated = |inline: &str| {
            validate(&serde_saphyr::from_str(&format!("{{type: inline, inline: {inline}}}")).unwrap())
        };
        assert_eq!(validated("{issuer: 'https://idp.example/realms/team'}"), Ok(()));
        let refused = validated("{issuer: 'http://idp.example'}").unwrap_err();
        assert!(refused.starts_with("spec.inline: ") && refused.contains("plain HTTP"), "{refused}");
        assert_eq!(validated("{issuer: 'http://idp.example', insecureAllowHTTP: true}"), Ok(()));
        assert!(validated("{issuer: 'https://idp.example', jwksUrl: 'ftp://idp.example'}").is_err());
    }

    #[test]
    fn tokens_of_service_accounts_need_no_settings_unless_keys_come_from_elsewhere() {
        let validated = |settings: &str| {
            let text = format!("{{type: kubernetesServiceAccount, kubernetesServiceAccount: {settings}}}");
            validate(&serde_saphyr::from_str(&text).unwrap())
        };
        assert_eq!(validated("{}"), Ok(()));
        assert_eq!(validated("{useClusterAuth: false, issuer: 'https://eks.example/id/1'}"), Ok(()));
        let refused = validated("{useClusterAuth: false}").unwrap_err();
        assert!(refused.starts_with("spec.kubernetesServiceAccount: missing"), "{refused}");
    }
}
