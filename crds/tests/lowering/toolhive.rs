//! Fields of ToolHive that are followed by another name of vmcp.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_crds::MCPTelemetryConfigSpec;
use vmcp_crds::lower::ReferencedObjects;

use super::{lower, secret};

#[test]
fn toolhives_key_of_openai_is_the_variable_of_the_container() {
    let key = json!({ "name": "embedding-api-key", "key": "apiKey" });
    let variable = json!({ "name": "OPENAI_API_KEY", "valueFrom": { "secretKeyRef": key } });
    let pods = json!({ "spec": { "containers": [{ "name": "vmcp", "env": [variable] }] } });
    let optimizer = json!({
        "embeddingProvider": "openai", "embeddingService": "http://llm/v1", "embeddingModel": "m",
    });
    let with_pods = |pods: &Value| {
        let spec = json!({ "config": { "optimizer": optimizer }, "podTemplateSpec": pods });
        lower(&spec, &ReferencedObjects::default()).unwrap()
    };
    let lowered = with_pods(&pods);
    let references: Vec<_> = lowered.secrets.values().cloned().collect();
    assert_eq!(references, [secret("embedding-api-key", "apiKey")]);
    assert!(lowered.text.contains("apiKey:"), "{}", lowered.text);
    assert!(with_pods(&json!({})).secrets.is_empty());
}

#[test]
fn long_time_limits_and_health_checks_of_toolhive_take_effect() {
    let operational = json!({
        "timeouts": { "default": "30m" },
        "failureHandling": {
            "healthCheckInterval": "45s", "healthCheckTimeout": "7s", "unhealthyThreshold": 2,
            "statusReportingInterval": "30s",
        },
    });
    let spec = json!({ "config": { "operational": operational } });
    let lowered = lower(&spec, &ReferencedObjects::default()).unwrap();
    let (proxy, operational) = (&lowered.config.proxy, &lowered.config.operational);
    let minutes = Duration::from_mins;
    assert_eq!((proxy.tool_timeout, proxy.max_tool_timeout), (minutes(30), minutes(30)));
    assert_eq!(proxy.refresh_interval, Duration::from_secs(45));
    assert_eq!(proxy.connection_timeout, Duration::from_secs(7));
    assert_eq!(operational.circuit_breaker.failure_threshold, 2);

    let wrong =
        json!({ "config": { "operational": { "failureHandling": { "healthCheckInterval": "10ms" } } } });
    let problem = lower(&wrong, &ReferencedObjects::default()).unwrap_err().to_string();
    assert!(
        problem.starts_with("spec.config.operational.failureHandling.healthCheckInterval: "),
        "{problem}"
    );
    let above = json!({ "config": {
        "operational": { "timeouts": { "default": "30m" } }, "proxy": { "maxToolTimeout": "20m" },
    } });
    assert!(lower(&above, &ReferencedObjects::default()).is_err(), "a limit that is given holds");
}

#[test]
fn attributes_of_a_telemetry_config_reach_the_file() {
    let config: MCPTelemetryConfigSpec = serde_json::from_value(json!({ "openTelemetry": {
        "enabled": true, "endpoint": "http://otel:4318", "resourceAttributes": { "team": "tools" },
    } }))
    .unwrap();
    let referenced = ReferencedObjects { telemetry: Some(&config), ..ReferencedObjects::default() };
    let spec = json!({ "telemetryConfigRef": { "name": "otel" } });
    let lowered = lower(&spec, &referenced).unwrap();
    let attributes = &lowered.config.telemetry.resource_attributes;
    assert_eq!(attributes.get("team").map(String::as_str), Some("tools"));
}

#[test]
fn a_collector_of_a_private_authority_is_trusted_by_a_mounted_file() {
    let config: MCPTelemetryConfigSpec = serde_json::from_value(json!({ "openTelemetry": {
        "enabled": true, "endpoint": "https://otel:4318", "tracing": { "enabled": true },
        "caBundleRef": { "configMapRef": { "name": "authority" } },
    } }))
    .unwrap();
    let spec = json!({ "telemetryConfigRef": { "name": "otel" } });
    let file = |pem: &'static str| {
        let referenced = ReferencedObjects {
            telemetry: Some(&config),
            telemetry_certificates: Some(pem),
            ..ReferencedObjects::default()
        };
        let lowered = lower(&spec, &referenced).unwrap();
        let path = lowered.config.telemetry.traces.clone().unwrap().ca_bundle_path.unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(lowered.certificates.get(&name).map(String::as_str), Some(pem));
        name
    };
    assert_ne!(file("ONE"), file("OTHER"), "other certificates are another configuration, and roll the pods");
}
