//! Tests of lowering manifests to `vmcp.yaml`.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod console;
mod guards;
mod identity;
mod toolhive;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use vmcp_config::{
    Authz, EmbeddingProvider, Exposure, Finding, IntrospectedTokens, Isolation, OnDecisionFailure, OptimTool,
    Problem, ProtocolEra, ResourceIds, SentClaims, TokenBinding,
};
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::lower::{
    Backend, ClusterIssuer, EmbeddingService, HeaderValue, Identity, Lowered, PolicyCheck,
    ReferencedCompositeTool, ReferencedObjects, ReferencedWebhooks, WebhookScope,
};
use vmcp_crds::mcp_server_entry::RemoteTransport;
use vmcp_crds::virtual_mcp_server::{EmbeddingSource, TeiService};
use vmcp_crds::{
    EmbeddingServerSpec, Invalid, MCPAuthzConfigSpec, MCPOIDCConfigSpec, MCPTelemetryConfigSpec,
    VirtualMCPServer,
};

const RFC: &str = include_str!("../../../deploy/examples/rfc.yaml");

fn server(spec: &Value) -> VirtualMCPServer {
    let metadata = json!({ "name": "x", "namespace": "ns" });
    serde_json::from_value(json!({
        "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "VirtualMCPServer",
        "metadata": metadata, "spec": spec,
    }))
    .unwrap()
}

fn lower(spec: &Value, referenced: &ReferencedObjects<'_>) -> Result<Lowered, Invalid> {
    server(spec).validate()?.lower(referenced)
}

fn backend(name: &str) -> Backend {
    Backend {
        name: name.to_owned(),
        url: format!("http://mcp-{name}.ns.svc.cluster.local:8080/mcp"),
        transport: RemoteTransport::StreamableHttp,
        headers: BTreeMap::new(),
        ca_bundle: None,
        addresses: vmcp_config::addresses::ReachableAddresses::Any,
        auth: None,
        tool_config: None,
        isolation: None,
        protocol_era: None,
        questions: true,
        enabled: true,
    }
}

fn secret(name: &str, key: &str) -> SecretKeyReference {
    SecretKeyReference { name: name.to_owned(), key: key.to_owned() }
}

#[test]
fn the_manifest_of_the_rfc() {
    let server: VirtualMCPServer = serde_saphyr::from_str(RFC).unwrap();
    let lowered = server.validate().unwrap().lower(&ReferencedObjects::default()).unwrap();
    let EmbeddingProvider::Tei { endpoint, model, .. } = &lowered.config.optimizer.embeddings.provider else {
        panic!("{:?}", lowered.config.optimizer.embeddings)
    };
    assert!(lowered.config.optimizer.enabled);
    assert_eq!(endpoint.as_str(), "http://tei-service.default.svc.cluster.local:8080/");
    assert_eq!(model.as_deref(), Some("BAAI/bge-small-en-v1.5"));
}

#[test]
fn the_optimizer_is_off_unless_it_is_turned_on() {
    for spec in [json!({}), json!({ "optimizer": {} }), json!({ "optimizer": { "exposure": "All" } })] {
        let lowered = lower(&spec, &ReferencedObjects::default()).unwrap();
        assert!(!lowered.config.optimizer.enabled);
        assert!(!lowered.text.contains("/var/lib/vmcp/cache"), "no database: {}", lowered.text);
    }
}

#[test]
fn events_are_served_to_holders_of_tokens_if_the_resource_asks_for_them() {
    let without = lower(&json!({}), &ReferencedObjects::default()).unwrap();
    assert!(!without.text.contains("eventsListen"), "an earlier vmcp reads it: {}", without.text);
    let with = lower(&json!({ "events": { "enabled": true } }), &ReferencedObjects::default()).unwrap();
    let server = &with.config.server;
    assert_eq!(server.events_listen, Some("[::]:8766".parse().unwrap()));
    assert_eq!(server.admin_tokens.len(), 1, "the port is open to other machines");
}

#[test]
fn a_backend_behind_a_websocket_arrives() {
    let mut live = backend("live");
    live.url = "wss://live.example.com/mcp".to_owned();
    live.transport = RemoteTransport::Websocket;
    let backends = [live];
    let referenced = ReferencedObjects { backends: &backends, ..ReferencedObjects::default() };
    let lowered = lower(&json!({}), &referenced).unwrap();
    assert_eq!(lowered.config.backends[0].transport.kind(), "websocket");
}

#[test]
fn isolation_era_and_questions_of_a_backend_arrive() {
    let mut own = backend("own");
    own.isolation = Some(Isolation::Principal);
    own.protocol_era = Some(ProtocolEra::Legacy);
    own.questions = false;
    let backends = [own, backend("usual")];
    let referenced = ReferencedObjects { backends: &backends, ..ReferencedObjects::default() };
    let lowered = lower(&json!({}), &referenced).unwrap();
    let all = lowered.config.backends.iter().map(|backend| (backend.isolation, backend.protocol_era));
    let all: Vec<_> = all.collect();
    assert_eq!(all, [(Some(Isolation::Principal), ProtocolEra::Legacy), (None, ProtocolEra::Auto)]);
    let silent: Vec<&str> = lowered.config.silent_backends.iter().map(AsRef::as_ref).collect();
    assert_eq!(silent, ["own"]);
}

#[test]
fn settings_arrive_and_text_is_the_same_each_time() {
    let mut github = backend("github");
    github.headers.insert("X-Plain".to_owned(), HeaderValue::Plain("costs ${5}".to_owned()));
    github.headers.insert("Authorization".to_owned(), HeaderValue::Secret(secret("github", "token")));
    let mut gone = backend("gone");
    gone.enabled = false;
    gone.headers.insert("Authorization".to_owned(), HeaderValue::Secret(secret("gone", "token")));
    let mut time = backend("time");
    time.auth = Some(
        serde_json::from_value(json!({ "type": "tokenExchange", "tokenExchange": {
            "tokenUrl": "https://login.example.com/oauth/token", "audience": "https://time.example.com",
            "clientId": "vmcp", "clientSecretRef": { "name": "idp", "key": "secret" }, "scopes": ["now"],
        } }))
        .unwrap(),
    );
    let telemetry: MCPTelemetryConfigSpec = serde_json::from_value(json!({
        "openTelemetry": {
            "enabled": true, "endpoint": "collector:4317", "protocol": "grpc", "insecure": true,
            "tracing": { "enabled": true },
            "sensitiveHeaders": [{ "name": "Authorization", "secretKeyRef": { "name": "otel", "key": "token" } }],
            "metrics": { "enabled": true }, "resourceAttributes": { "deployment.environment.name": "$test" },
        },
        "prometheus": {},
    }))
    .unwrap();
    let spec = json!({
        "telemetryConfigRef": { "name": "otel" },
        "incomingAuth": { "type": "anonymous" },
        "passthroughHeaders": ["X-Tenant"],
        "config": {
            "passthroughHeaders": ["X-Unused"],
            "aggregation": { "conflictResolution": "priority", "conflictResolutionConfig": { "priorityOrder": ["time", "github"] } },
            "proxy": { "toolTimeout": "20s" },
            "operational": { "logLevel": "debug", "timeouts": { "perWorkload": { "github": "45s" } } },
            "server": { "drainTimeout": "10s", "allowedHosts": ["mcp.example.com"] },
        },
        "optimizer": {
            "enabled": true, "exposure": "MetaOnly", "search": { "maxTools": 5, "hybridSemanticRatio": "0.5" },
            "embeddings": { "provider": "openai", "openai": {
                "endpoint": "http://ollama:11434/v1", "model": "nomic-embed-text",
                "apiKeySecretRef": { "name": "openai", "key": "api-key" },
            } },
            "llm": {
                "endpoint": "http://vllm:8000/v1", "model": "qwen3",
                "apiKeySecretRef": { "name": "llm", "key": "api-key" },
            },
        },
    });
    let backends = [time, gone, github];
    let referenced = ReferencedObjects {
        backends: &backends,
        telemetry: Some(&telemetry),
        ..ReferencedObjects::default()
    };
    let lowered = lower(&spec, &referenced).unwrap();
    assert_eq!(lowered.warnings, []);
    assert_eq!(lowered.config.optimizer.exposure, Exposure::MetaOnly);
    let names: Vec<_> = lowered.config.backends.iter().map(|backend| &*backend.name).collect();
    assert_eq!(names, ["github", "gone", "time"]);
    let files: Vec<_> = lowered.secrets.keys().map(String::as_str).collect();
    assert_eq!(files, ["github_token", "idp_secret", "llm_api-key", "openai_api-key", "otel_token"]);
    assert_eq!(lowered.text, lower(&spec, &referenced).unwrap().text);
    assert_snapshot("full", &lowered.text);
}

/// Fails if the committed text is another one; `VMCP_UPDATE_CRDS=1` writes it.
fn assert_snapshot(name: &str, text: &str) {
    let path = format!("{}/tests/snapshots/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("VMCP_UPDATE_CRDS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, committed, "{path} is out of date; regenerate it: make crds");
}

#[test]
fn what_people_write_is_never_a_reference() {
    let spec = json!({ "config": { "aggregation": { "tools": [{ "workload": "time", "overrides": {
        "now": { "description": "costs $5, ${HOME}, $$1 and ${file:/etc/passwd}" } } }] } } });
    let backends = [backend("time")];
    let lowered =
        lower(&spec, &ReferencedObjects { backends: &backends, ..ReferencedObjects::default() }).unwrap();
    let changed = &lowered.config.aggregation.per_backend["time"].overrides["now"];
    assert_eq!(changed.description.as_deref(), Some("costs $5, ${HOME}, $$1 and ${file:/etc/passwd}"));
}

#[test]
fn settings_about_absent_backends_are_left_out_and_warned_about() {
    let spec = json!({ "config": {
        "aggregation": {
            "conflictResolution": "priority",
            "conflictResolutionConfig": { "priorityOrder": ["gone"] },
            "tools": [{ "workload": "gone", "excludeAll": true }, { "workload": "time", "filter": ["now"] }],
        },
        "proxy": { "preconnectServers": ["gone", "time"] },
        "operational": { "timeouts": { "perWorkload": { "gone": "5s" } } },
    } });
    let backends = [backend("time")];
    let lowered =
        lower(&spec, &ReferencedObjects { backends: &backends, ..ReferencedObjects::default() }).unwrap();
    let paths: Vec<_> = lowered.warnings.iter().map(|warning| warning.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "spec.config.aggregation.tools[0]",
            "spec.config.aggregation.conflictResolutionConfig.priorityOrder[0]",
            "spec.config.proxy.preconnectServers[0]",
            "spec.config.operational.timeouts.perWorkload.gone",
        ]
    );
    assert_eq!(lowered.config.aggregation.per_backend.len(), 1);
}

#[test]
fn mistakes_have_the_path_of_the_resource() {
    for (spec, path) in [
        (
            json!({ "optimizer": { "enabled": true, "llm": { "endpoint": "http://vllm/v1" } } }),
            "spec.optimizer.llm.model",
        ),
        (
            json!({ "optimizer": { "enabled": true, "search": { "mode": "foo" } } }),
            "spec.optimizer.search.mode",
        ),
        (json!({ "optimizer": { "enabled": true, "exposure": "Foo" } }), "spec.optimizer.exposure"),
        (
            json!({ "optimizer": { "enabled": true, "search": { "hybridSemanticRatio": "1.5" } } }),
            "spec.optimizer.search.hybridSemanticRatio",
        ),
        (
            json!({ "config": { "optimizer": { "hybridSearchSemanticRatio": "1.5" } } }),
            "spec.config.optimizer.hybridSearchSemanticRatio",
        ),
        (
            json!({ "config": { "aggregation": { "conflictResolution": "x" } } }),
            "spec.config.aggregation.conflictResolution",
        ),
        (json!({ "config": { "server": { "drainTimeout": "2d" } } }), "spec.config.server.drainTimeout"),
        (json!({ "incomingAuth": { "type": "oidc" } }), "spec.incomingAuth.oidcConfigRef"),
    ] {
        let invalid = lower(&spec, &ReferencedObjects::default()).unwrap_err();
        let paths: Vec<_> = invalid.0.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, [path], "{invalid}");
    }
    let mut broken = backend("time");
    broken.headers.insert("Host".to_owned(), HeaderValue::Plain("x".to_owned()));
    let referenced = ReferencedObjects { backends: &[backend("a"), broken], ..ReferencedObjects::default() };
    let invalid = lower(&json!({}), &referenced).unwrap_err();
    assert_eq!(invalid.0[0].path, "backend time: headers.Host", "{invalid}");
}

#[test]
fn contradictions_are_refused_with_a_remedy() {
    let tei = |tei: Value| json!({ "optimizer": { "enabled": true, "embeddings": { "provider": "tei", "tei": tei } } });
    let reference = json!({ "name": "tei" });
    for (spec, path) in [
        (json!({ "groupRef": { "name": "a" }, "config": { "groupRef": "b" } }), "spec.config.groupRef"),
        (json!({ "optimizer": {}, "config": { "optimizer": {} } }), "spec.config.optimizer"),
        (json!({ "replicas": 2, "autoscaling": { "maxReplicas": 3 } }), "spec.replicas"),
        (json!({ "autoscaling": { "minReplicas": 4, "maxReplicas": 3 } }), "spec.autoscaling.minReplicas"),
        (json!({ "podDisruptionBudget": {} }), "spec.podDisruptionBudget"),
        (
            json!({ "backendSelector": { "matchExpressions": [{ "key": "a", "operator": "In" }] } }),
            "spec.backendSelector.matchExpressions",
        ),
        (tei(json!({})), "spec.optimizer.embeddings.tei"),
        (tei(json!({ "endpoint": "http://t", "managed": {} })), "spec.optimizer.embeddings.tei"),
        (
            json!({ "optimizer": { "enabled": true, "embeddings": { "local": {}, "provider": "none" } } }),
            "spec.optimizer.embeddings.local",
        ),
        (
            json!({ "embeddingServerRef": reference, "optimizer": { "enabled": true, "embeddings": {} } }),
            "spec.optimizer.embeddings.provider",
        ),
    ] {
        let invalid = server(&spec).validate().unwrap_err();
        let paths: Vec<_> = invalid.0.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, [path], "{invalid}");
    }
}

#[test]
fn embedding_services_that_the_operator_runs() {
    let managed = json!({ "optimizer": { "enabled": true, "embeddings": { "provider": "tei", "tei": {
        "managed": { "model": "BAAI/bge-base-en-v1.5" } } } } });
    let referenced = json!({ "embeddingServerRef": { "name": "tei" } });
    let toolhive = json!({ "embeddingServerRef": { "name": "tei" }, "config": { "optimizer": {} } });
    let service = EmbeddingService {
        endpoint: "http://x-tei.ns.svc.cluster.local:8080".to_owned(),
        model: Some("m".to_owned()),
    };
    for (spec, expected) in [
        (
            managed,
            TeiService::Managed(Box::new(EmbeddingServerSpec {
                model: "BAAI/bge-base-en-v1.5".to_owned(),
                ..EmbeddingServerSpec::default()
            })),
        ),
        (referenced, TeiService::Referenced("tei".to_owned())),
        (toolhive, TeiService::Referenced("tei".to_owned())),
    ] {
        let validated = server(&spec).validate().unwrap();
        let EmbeddingSource::Tei { service: found, .. } = &validated.optimizer.as_ref().unwrap().embeddings
        else {
            panic!("{:?}", validated.optimizer)
        };
        assert_eq!(*found, expected);
        let referenced =
            ReferencedObjects { embedding_service: Some(&service), ..ReferencedObjects::default() };
        let lowered = validated.lower(&referenced).unwrap();
        assert!(
            lowered.text.contains("endpoint: http://x-tei.ns.svc.cluster.local:8080"),
            "{}",
            lowered.text
        );
        assert!(lowered.text.contains("model: m"), "{}", lowered.text);
    }
}

#[test]
fn the_store_of_rate_limits_arrives_with_a_reference_to_its_password() {
    let spec = json!({
        "config": { "rateLimiting": { "shared": { "maxTokens": 5, "refillPeriod": "1m" } } },
        "sessionStorage": {
            "provider": "redis", "address": "rediss://redis:6380", "passwordRef": { "name": "redis", "key": "pw" },
        },
    });
    let lowered = lower(&spec, &ReferencedObjects::default()).unwrap();
    let store = lowered.config.rate_limiting.store.as_ref().unwrap();
    assert_eq!((store.host.as_str(), store.port, store.tls), ("redis", 6380, true));
    assert_eq!(store.key_prefix, "ns/x:");
    assert!(lowered.secrets.values().any(|reference| *reference == secret("redis", "pw")));
    assert!(lowered.text.contains("password: ${file:"), "{}", lowered.text);
    let without = json!({ "sessionStorage": { "provider": "redis" } });
    let refused = lower(&without, &ReferencedObjects::default()).unwrap_err().to_string();
    assert!(refused.starts_with("spec.sessionStorage.address: missing"), "{refused}");
}

#[test]
fn composite_tools_arrive_as_written_with_the_referenced_ones() {
    let step = json!({ "id": "say", "tool": "echo.echo", "arguments": { "text": "costs ${5}, {{.params.who}}", "n": [1, {}] } });
    let own = json!({ "name": "own", "steps": [step] });
    let definition = |name: &str| {
        let tool = json!({ "name": name, "steps": [{ "id": "a", "tool": "x.y" }] });
        serde_json::from_value(tool).unwrap()
    };
    let one = ReferencedCompositeTool { resource: "res".to_owned(), definition: definition("other") };
    let referenced = ReferencedObjects { composite_tools: &[one], ..ReferencedObjects::default() };
    let lowered = lower(&json!({ "config": { "compositeTools": [own] } }), &referenced).unwrap();
    let names: Vec<_> = lowered.config.composite_tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["own", "other"]);
    let file: Value = serde_saphyr::from_str(&lowered.text).unwrap();
    let text = file.pointer("/compositeTools/0/steps/0/arguments/text").unwrap();
    assert_eq!(*text, json!("costs $${5}, {{.params.who}}"), "no reference of the file");
    assert!(lower(&json!({}), &ReferencedObjects::default()).unwrap().text.find("compositeTools").is_none());
}

#[test]
fn a_mistake_of_a_composite_tool_is_told_by_its_place() {
    let circle = json!([{ "id": "a", "tool": "x", "dependsOn": ["b"] }, { "id": "b", "tool": "x", "dependsOn": ["a"] }]);
    let spec = json!({ "config": { "compositeTools": [{ "name": "t", "steps": circle }] } });
    let mistake = lower(&spec, &ReferencedObjects::default()).unwrap_err().to_string();
    assert!(mistake.starts_with("spec.config.compositeTools[0].steps: a circle"), "{mistake}");
    let definition = serde_json::from_value(json!({ "name": "t", "steps": circle })).unwrap();
    let one = ReferencedCompositeTool { resource: "res".to_owned(), definition };
    let referenced = ReferencedObjects { composite_tools: &[one], ..ReferencedObjects::default() };
    let mistake = lower(&json!({}), &referenced).unwrap_err().to_string();
    assert!(mistake.starts_with("VirtualMCPCompositeToolDefinition res: spec.steps: a circle"), "{mistake}");
}

#[test]
fn certificates_of_a_backend_are_mounted_and_named() {
    let backends = [
        Backend {
            url: "https://a.example/mcp".to_owned(),
            ca_bundle: Some("PEM".to_owned()),
            ..backend("a")
        },
        Backend {
            url: "https://b.example/mcp".to_owned(),
            ca_bundle: Some("PEM".to_owned()),
            ..backend("b")
        },
        backend("c"),
    ];
    let referenced = ReferencedObjects { backends: &backends, ..ReferencedObjects::default() };
    let lowered = lower(&json!({}), &referenced).unwrap();
    let paths: Vec<_> =
        lowered.config.backends.iter().map(|backend| backend.ca_bundle_path.clone()).collect();
    let [Some(first), Some(second), None] = paths.as_slice() else { panic!("{paths:?}") };
    assert_eq!(first, second, "equal certificates are one file");
    let (file, pem) = lowered.certificates.first_key_value().unwrap();
    assert!(first.ends_with(file) && pem == "PEM" && lowered.certificates.len() == 1, "{paths:?}");

    let other = [Backend { ca_bundle: Some("OTHER".to_owned()), ..backends[0].clone() }];
    let referenced = ReferencedObjects { backends: &other, ..ReferencedObjects::default() };
    let renewed = lower(&json!({}), &referenced).unwrap();
    assert_ne!(renewed.config.backends[0].ca_bundle_path.as_ref(), Some(first), "a change is another file");
}

#[test]
fn code_mode_offers_scripts_with_and_without_an_optimizer() {
    let lowered = |spec: Value| lower(&spec, &ReferencedObjects::default()).unwrap().config;
    let toolhive = json!({ "enabled": true, "parallelMaxConcurrency": 4, "stepLimit": 5 });
    let alone = lowered(json!({ "config": { "codeMode": toolhive } }));
    assert_eq!(alone.optimizer.tools, [OptimTool::ExecuteToolScript]);
    assert_eq!(alone.optimizer.exposure, Exposure::All);
    assert!(matches!(alone.optimizer.embeddings.provider, EmbeddingProvider::None));
    let limits = (alone.code.timeout, alone.code.call_timeout, alone.code.max_parallel);
    assert_eq!(limits, (Duration::from_mins(1), Some(Duration::from_secs(30)), 4));
    let beside =
        lowered(json!({ "optimizer": { "enabled": true }, "config": { "codeMode": { "enabled": true } } }));
    assert_eq!(
        beside.optimizer.tools,
        [OptimTool::FindTool, OptimTool::CallTool, OptimTool::ExecuteToolScript]
    );
    let tools = json!({ "enabled": true, "tools": ["execute_code", "execute_tool_script"] });
    let code = json!({ "timeout": "5s", "maxCalls": 7 });
    let both =
        lowered(json!({ "optimizer": tools, "config": { "code": code, "codeMode": { "enabled": true } } }));
    assert_eq!(both.optimizer.tools, [OptimTool::ExecuteCode, OptimTool::ExecuteToolScript]);
    assert_eq!((both.code.timeout, both.code.max_calls), (Duration::from_secs(5), 7));
    assert!(!lowered(json!({ "config": { "codeMode": { "enabled": false } } })).optimizer.enabled);
}

#[test]
fn mistakes_of_code_mode_have_the_path_of_the_resource() {
    for (config, expected) in [
        (
            json!({ "code": { "maxCalls": 5 }, "codeMode": { "enabled": true, "toolCallTimeout": "5s" } }),
            "spec.config.codeMode.toolCallTimeout: `spec.config.code` is given too",
        ),
        (json!({ "code": { "maxCalls": 0 } }), "spec.config.code.maxCalls"),
        (
            json!({ "codeMode": { "enabled": true, "toolCallTimeout": "2h" } }),
            "spec.config.codeMode.toolCallTimeout",
        ),
    ] {
        let invalid = lower(&json!({ "config": config }), &ReferencedObjects::default()).unwrap_err();
        assert!(invalid.to_string().contains(expected), "{invalid}");
    }
}
