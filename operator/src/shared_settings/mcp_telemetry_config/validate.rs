//! Step 2 of a reconcile, validate: checks the settings with the values of their Secrets. Pure.
//!
//! The validator of `vmcp.yaml` itself decides, on a file that holds nothing else, with the values of the
//! Secrets: one invalid header would make the file of a VirtualMCPServer invalid as a whole.

use vmcp_crds::lower::ReferencedObjects;
use vmcp_crds::virtual_mcp_server::TelemetryConfigReference;
use vmcp_crds::{Invalid, MCPTelemetryConfig, VirtualMCPServer, VirtualMCPServerSpec};

use super::dereference::secret_references;
use crate::references::{CaBundle, ReferencedSecrets};
use crate::runtime::{BuildSettings, unchecked, unfollowed};

/// Refusal of the settings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidTelemetry {
    /// The reason of the condition `Valid`.
    pub reason: &'static str,
    /// The place of the mistake and the remedy.
    pub message: String,
}

/// Checks the settings. `secrets` holds the values that [`secret_references`] names, as far as they exist;
/// `certificates` is the bundle of its `caBundleRef`.
pub(crate) fn validate(
    config: &MCPTelemetryConfig,
    secrets: &ReferencedSecrets,
    certificates: &CaBundle,
    settings: &BuildSettings,
) -> Result<(), InvalidTelemetry> {
    let mut refused = unfollowed(config);
    refused.extend(unchecked("MCPTelemetryConfig", &config.spec, settings));
    if !refused.is_empty() {
        return Err(InvalidTelemetry { reason: "ConfigInvalid", message: Invalid(refused).to_string() });
    }
    let namespace = config.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(missing) = secrets.missing(namespace, &secret_references(config)) {
        return Err(InvalidTelemetry { reason: "SecretNotFound", message: missing });
    }
    if let CaBundle::Unusable(message) = certificates {
        return Err(InvalidTelemetry { reason: "CABundleInvalid", message: message.clone() });
    }
    let mut spec = config.spec.clone();
    if let Some(export) = &mut spec.open_telemetry {
        // Values of Secrets are checked as if they were written in the resource.
        for header in std::mem::take(&mut export.sensitive_headers) {
            let value = secrets.get(&header.secret_key_ref).unwrap_or_default();
            let value = String::from_utf8_lossy(value).trim_end_matches(['\r', '\n']).to_owned();
            export.headers.insert(header.name, value);
        }
    }
    let around = ReferencedObjects { telemetry: Some(&spec), ..ReferencedObjects::default() };
    // An otherwise empty VirtualMCPServer: every problem that is found lies in the settings.
    let reference = TelemetryConfigReference { name: "any".to_owned(), service_name: None };
    let server =
        VirtualMCPServerSpec { telemetry_config_ref: Some(reference), ..VirtualMCPServerSpec::default() };
    let validated = VirtualMCPServer::new("any", server).validate().and_then(|server| server.lower(&around));
    let Err(Invalid(problems)) = validated else { return Ok(()) };
    let messages = problems
        .into_iter()
        .map(|problem| format!("spec.openTelemetry: {}; {}", problem.message, problem.remedy));
    let message = messages.collect::<Vec<_>>().join(" | ");
    Err(InvalidTelemetry { reason: "ConfigInvalid", message })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn validated(export: &serde_json::Value, secrets: &ReferencedSecrets) -> Result<(), InvalidTelemetry> {
        let config = json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPTelemetryConfig",
            "metadata": { "name": "otel", "namespace": "tools" }, "spec": { "openTelemetry": export },
        });
        let (config, settings) = (serde_json::from_value(config).unwrap(), BuildSettings::default());
        validate(&config, secrets, &CaBundle::OfTheSystem, &settings)
    }

    #[test]
    fn what_the_server_would_refuse_is_refused() {
        let header = json!({ "name": "Authorization", "secretKeyRef": { "name": "otel", "key": "header" } });
        let export = json!({
            "enabled": true, "endpoint": "https://collector:4318", "tracing": { "enabled": true },
            "sensitiveHeaders": [header],
        });
        assert_eq!(validated(&export, &ReferencedSecrets::default()).unwrap_err().reason, "SecretNotFound");
        assert_eq!(
            validated(&export, &ReferencedSecrets::from_values(&[("otel", "header", "Bearer x\n")])),
            Ok(())
        );
        let InvalidTelemetry { reason, message } =
            validated(&export, &ReferencedSecrets::from_values(&[("otel", "header", "hunter\u{7}2")]))
                .unwrap_err();
        assert_eq!(reason, "ConfigInvalid");
        assert!(message.contains("not a header value") && !message.contains("hunter"), "{message}");

        let wrong = json!({ "enabled": true, "endpoint": "ftp://collector", "tracing": { "enabled": true } });
        let InvalidTelemetry { message, .. } = validated(&wrong, &ReferencedSecrets::default()).unwrap_err();
        assert!(message.starts_with("spec.openTelemetry: "), "{message}");
    }
}
