//! Step 2 of a reconcile, validate: checks credentials with the values of their Secrets. Pure.
//!
//! The validator of `vmcp.yaml` itself decides, on a file with one backend that has these credentials: one
//! mistake would make the file of a VirtualMCPServer invalid as a whole.

use std::collections::BTreeMap;

use vmcp_crds::lower::{Backend, ReferencedObjects};
use vmcp_crds::mcp_server_entry::RemoteTransport;
use vmcp_crds::virtual_mcp_server::AuthServerConfig;
use vmcp_crds::{Invalid, MCPExternalAuthConfig, VirtualMCPServer, VirtualMCPServerSpec};

use crate::references::ReferencedSecrets;
use crate::runtime::{BuildSettings, unchecked, unfollowed};

/// Refusal of credentials.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidAuth {
    /// The reason of the condition `Valid`.
    pub reason: &'static str,
    /// The place of the mistake and the remedy.
    pub message: String,
}

/// Name of the backend in the file that is checked.
const ANY: &str = "any";

/// Checks credentials. `secrets` holds the values that they refer to, as far as they exist.
pub(crate) fn validate(
    config: &MCPExternalAuthConfig,
    secrets: &ReferencedSecrets,
    settings: &BuildSettings,
) -> Result<(), InvalidAuth> {
    let mut refused = unfollowed(config);
    refused.extend(unchecked("MCPExternalAuthConfig", &config.spec, settings));
    if !refused.is_empty() {
        return Err(InvalidAuth { reason: "ConfigInvalid", message: Invalid(refused).to_string() });
    }
    let namespace = config.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(missing) = secrets.missing(namespace, &config.spec.secret_references()) {
        return Err(InvalidAuth { reason: "SecretNotFound", message: missing });
    }
    if let Some(server) = config.spec.auth_server() {
        return validate_auth_server(server, secrets);
    }
    let backend = Backend {
        name: ANY.to_owned(),
        url: "https://example.com/mcp".to_owned(),
        transport: RemoteTransport::StreamableHttp,
        headers: BTreeMap::new(),
        ca_bundle: None,
        addresses: vmcp_config::addresses::ReachableAddresses::Any,
        auth: Some(config.spec.clone()),
        tool_config: None,
        isolation: None,
        protocol_era: None,
        questions: true,
        enabled: true,
    };
    let around = ReferencedObjects { backends: &[backend], ..ReferencedObjects::default() };
    // Each VirtualMCPServer decides for itself whether it has the provider.
    let auth_server_config = config.spec.upstream_provider().map(AuthServerConfig::stand_in);
    let spec = VirtualMCPServerSpec { auth_server_config, ..VirtualMCPServerSpec::default() };
    let server = VirtualMCPServer::new(ANY, spec);
    let validated = server
        .validate()
        .and_then(|server| server.lower(&around))
        .and_then(|lowered| lowered.check_values(|reference| secrets.get(reference)));
    let problems = match validated {
        Ok(refused) if refused.is_empty() => return Ok(()),
        Ok(refused) => {
            let message = format!("spec: {}", refused.join(" | "));
            return Err(InvalidAuth { reason: "ConfigInvalid", message });
        }
        Err(Invalid(problems)) => problems,
    };
    let prefix = format!("outgoingAuth.backends.{ANY}");
    let message = |problem: vmcp_crds::Problem| {
        let path = problem.path.rsplit_once(&prefix).map_or(String::new(), |(_, path)| path.to_owned());
        format!("spec{path}: {}; {}", problem.message, problem.remedy)
    };
    let message = problems.into_iter().map(message).collect::<Vec<_>>().join(" | ");
    Err(InvalidAuth { reason: "ConfigInvalid", message })
}

/// Checks an embedded authorization server, as an otherwise empty VirtualMCPServer has it.
fn validate_auth_server(server: &AuthServerConfig, secrets: &ReferencedSecrets) -> Result<(), InvalidAuth> {
    let spec =
        VirtualMCPServerSpec { auth_server_config: Some(server.clone()), ..VirtualMCPServerSpec::default() };
    let validated = VirtualMCPServer::new(ANY, spec)
        .validate()
        .and_then(|server| server.lower(&ReferencedObjects::default()))
        .and_then(|lowered| lowered.check_values(|reference| secrets.get(reference)));
    let Err(Invalid(problems)) = validated else { return Ok(()) };
    let message = |problem: vmcp_crds::Problem| {
        let path = problem.path.replace("authServerConfig", "embeddedAuthServer");
        format!(
            "{}: {}; {}",
            path.replace("authServer.", "spec.embeddedAuthServer."),
            problem.message,
            problem.remedy
        )
    };
    let message = problems.into_iter().map(message).collect::<Vec<_>>().join(" | ");
    Err(InvalidAuth { reason: "ConfigInvalid", message })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn validated(spec: &Value, secrets: &ReferencedSecrets) -> Result<(), InvalidAuth> {
        let config = json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPExternalAuthConfig",
            "metadata": { "name": "auth", "namespace": "tools" }, "spec": spec,
        });
        validate(&serde_json::from_value(config).unwrap(), secrets, &BuildSettings::default())
    }

    fn secret(value: &str) -> ReferencedSecrets {
        ReferencedSecrets::from_values(&[("idp", "secret", value)])
    }

    #[test]
    fn every_kind_of_credentials_is_one_that_the_server_takes() {
        let reference = json!({ "name": "idp", "key": "secret" });
        for spec in [
            json!({ "type": "unauthenticated" }),
            json!({ "type": "headerInjection", "headerInjection": { "headerName": "X-Key", "valueSecretRef": reference } }),
            json!({ "type": "bearerToken", "bearerToken": { "tokenSecretRef": reference } }),
            json!({ "type": "clientCredentials", "clientCredentials": {
                "tokenUrl": "https://idp.example/token", "clientId": "vmcp", "clientSecretRef": reference, "scopes": ["a"] } }),
            json!({ "type": "tokenExchange", "tokenExchange": {
                "tokenUrl": "https://idp.example/token", "audience": "b", "clientId": "vmcp", "clientSecretRef": reference,
                "subjectTokenType": "jwt" } }),
            json!({ "type": "xaa", "xaa": {
                "idpTokenUrl": "https://idp.example/token", "targetTokenUrl": "https://as.example/token",
                "targetAudience": "https://as.example", "targetClientId": "v", "targetClientSecretRef": reference } }),
            json!({ "type": "obo", "obo": {
                "tenantId": "t", "clientId": "v", "clientSecretRef": reference, "audience": "api://b" } }),
            json!({ "type": "awsSts", "awsSts": {
                "region": "us-east-1", "fallbackRoleArn": "arn:aws:iam::123456789012:role/reader",
                "roleMappings": [{ "claim": "admins", "roleArn": "arn:aws:iam::123456789012:role/admin", "priority": 1 }],
                "sessionDuration": 900 } }),
            json!({ "type": "upstreamInject", "upstreamInject": { "providerName": "corp" } }),
            json!({ "type": "tokenExchange", "tokenExchange": {
                "tokenUrl": "https://idp.example/token", "audience": "b", "subjectProviderName": "corp" } }),
        ] {
            assert_eq!(validated(&spec, &secret("hunter2")), Ok(()), "{spec}");
        }
    }

    #[test]
    fn a_mistake_is_named_without_the_secret() {
        let reference = json!({ "name": "idp", "key": "secret" });
        let spec = json!({ "type": "bearerToken", "bearerToken": { "tokenSecretRef": reference } });
        assert_eq!(validated(&spec, &ReferencedSecrets::default()).unwrap_err().reason, "SecretNotFound");
        let error = validated(&spec, &secret("hunter\u{7}2")).unwrap_err();
        assert_eq!(error.reason, "ConfigInvalid");
        assert!(
            error.message.contains("not a header value") && !error.message.contains("hunter"),
            "{error:?}"
        );
        let spec = json!({ "type": "clientCredentials", "clientCredentials": {
            "tokenUrl": "http://idp.example/token", "clientId": "vmcp", "clientSecretRef": reference } });
        let error = validated(&spec, &secret("hunter2")).unwrap_err();
        assert!(error.message.starts_with("spec.clientCredentials.tokenUrl: "), "{error:?}");
    }
}
