//! Whether telemetry settings can be used as they are written: judged by the validator of `vmcp.yaml` itself.

use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::lower::Surroundings;
use vmcp_crds::virtual_mcp_server::TelemetryConfigReference;
use vmcp_crds::{Invalid, MCPTelemetryConfig, VirtualMCPServer, VirtualMCPServerSpec};

use crate::references::Secrets;

/// The Secrets that the settings refer to.
pub(super) fn secret_references(config: &MCPTelemetryConfig) -> Vec<SecretKeyReference> {
    let headers = config.spec.open_telemetry.iter().flat_map(|export| &export.sensitive_headers);
    headers.map(|header| header.secret_key_ref.clone()).collect()
}

/// Reason and message of the condition when there is something wrong. `secrets` are those that are there.
pub(super) fn judge(config: &MCPTelemetryConfig, secrets: &Secrets) -> Result<(), (&'static str, String)> {
    let namespace = config.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(missing) = secrets.missing(namespace, &secret_references(config)) {
        return Err(("SecretNotFound", missing));
    }
    let mut spec = config.spec.clone();
    if let Some(export) = &mut spec.open_telemetry {
        // The values are judged as well: one that is no header would make the whole file invalid.
        for header in std::mem::take(&mut export.sensitive_headers) {
            let value = secrets.get(&header.secret_key_ref).unwrap_or_default();
            let value = String::from_utf8_lossy(value).trim_end_matches(['\r', '\n']).to_owned();
            export.headers.insert(header.name, value);
        }
    }
    let around = Surroundings { telemetry: Some(&spec), ..Surroundings::default() };
    // Any server will do: nothing else of it is wrong.
    let reference = TelemetryConfigReference { name: "any".to_owned(), service_name: None };
    let server =
        VirtualMCPServerSpec { telemetry_config_ref: Some(reference), ..VirtualMCPServerSpec::default() };
    let judged = VirtualMCPServer::new("any", server).validate().and_then(|server| server.lower(&around));
    let Err(Invalid(problems)) = judged else { return Ok(()) };
    let ours = problems
        .into_iter()
        .map(|problem| format!("spec.openTelemetry: {}; {}", problem.message, problem.remedy));
    Err(("ConfigInvalid", ours.collect::<Vec<_>>().join(" | ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(export: &serde_json::Value, secrets: &Secrets) -> Result<(), (&'static str, String)> {
        let config = json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPTelemetryConfig",
            "metadata": { "name": "otel", "namespace": "tools" }, "spec": { "openTelemetry": export },
        });
        judge(&serde_json::from_value(config).unwrap(), secrets)
    }

    #[test]
    fn what_the_server_would_refuse_is_refused() {
        let header = json!({ "name": "Authorization", "secretKeyRef": { "name": "otel", "key": "header" } });
        let export = json!({
            "enabled": true, "endpoint": "https://collector:4318", "tracing": { "enabled": true },
            "sensitiveHeaders": [header],
        });
        assert_eq!(judged(&export, &Secrets::default()).unwrap_err().0, "SecretNotFound");
        assert_eq!(judged(&export, &Secrets::of(&[("otel", "header", "Bearer x\n")])), Ok(()));
        let (reason, message) =
            judged(&export, &Secrets::of(&[("otel", "header", "hunter\u{7}2")])).unwrap_err();
        assert_eq!(reason, "ConfigInvalid");
        assert!(message.contains("not a header value") && !message.contains("hunter"), "{message}");

        let wrong = json!({ "enabled": true, "endpoint": "ftp://collector", "tracing": { "enabled": true } });
        let (_, message) = judged(&wrong, &Secrets::default()).unwrap_err();
        assert!(message.starts_with("spec.openTelemetry: "), "{message}");
    }
}
