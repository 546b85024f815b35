//! Resource definitions on a real API server: accepted, refused with a remedy, defaulted.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::time::sleep;
use vmcp_crds::VirtualMCPServer;
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator, repository};

fn read(file: &str) -> String {
    std::fs::read_to_string(repository().join(file)).unwrap()
}

/// Returns the entries of a file in `crds/tests/resources` as manifests with their expected messages; each
/// has a name of its own unless it says one.
fn manifests(file: &str) -> Vec<(Value, String)> {
    let entries: Vec<Value> = serde_saphyr::from_str(&read(&format!("crds/tests/resources/{file}"))).unwrap();
    let manifest = |(index, entry): (usize, &Value)| {
        let name = entry["name"].as_str().map_or_else(|| format!("x{index}"), str::to_owned);
        let manifest = json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": entry["kind"], "metadata": { "name": name },
            "spec": entry["spec"],
        });
        (manifest, entry["says"].as_str().unwrap_or_default().to_owned())
    };
    entries.iter().enumerate().map(manifest).collect()
}

async fn place(prefix: &str) -> Namespace {
    let control_plane = ControlPlane::shared().await;
    control_plane.define_resources().await;
    control_plane.namespace(prefix).await
}

#[tokio::test]
async fn manifests_of_the_rfc_and_of_toolhive_apply_with_strict_validation() {
    let place = place("accepted").await;
    place.apply(&read("deploy/examples/rfc.yaml")).await;
    for (manifest, _) in manifests("accepted.yaml") {
        place.apply(&manifest.to_string()).await;
    }
    let kept = place.get::<VirtualMCPServer>("vmcp-with-optimizer").await.unwrap();
    let kept = serde_json::to_value(kept.spec).unwrap();
    assert_eq!(
        kept.pointer("/optimizer/embeddings/tei/model").unwrap(),
        "BAAI/bge-small-en-v1.5",
        "not pruned"
    );
}

/// The table of mistakes and messages is `crds/tests/resources/refused.yaml`.
#[tokio::test]
async fn mistakes_are_refused_at_admission_with_what_to_do() {
    let place = place("refused").await;
    for (manifest, says) in manifests("refused.yaml") {
        let refused = place.try_apply(&manifest.to_string()).await;
        let message = refused.map(drop).expect_err(&manifest.to_string()).to_string();
        assert!(message.contains(&says), "{says:?} of {manifest}: {message}");
    }
}

/// Defaults that users of the chart see without writing them.
#[tokio::test]
async fn defaults_are_filled_in() {
    let place = place("defaults").await;
    let manifest = |spec: Value| {
        json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "VirtualMCPServer", "metadata": { "name": "x" },
            "spec": spec,
        })
    };
    place.apply(&manifest(json!({ "optimizer": {}, "autoscaling": { "maxReplicas": 3 } })).to_string()).await;
    let kept = place.get::<VirtualMCPServer>("x").await.unwrap();
    let kept = serde_json::to_value(kept.spec).unwrap();
    for (path, default) in [
        ("/optimizer/enabled", json!(false)),
        ("/optimizer/exposure", json!("Auto")),
        ("/sessionAffinity", json!("ClientIP")),
        ("/serviceType", json!("ClusterIP")),
        ("/autoscaling/minReplicas", json!(1)),
        ("/autoscaling/targetCPUUtilizationPercentage", json!(80)),
    ] {
        assert_eq!(kept.pointer(path), Some(&default), "{path} of {kept}");
    }
    assert_eq!(kept.get("replicas"), None, "left to an autoscaler");
}

#[tokio::test]
async fn kubectl_knows_short_names_and_shows_what_matters() {
    let place = place("columns").await;
    place.apply(&read("deploy/examples/rfc.yaml")).await;
    let cluster = place.cluster();
    let examples = manifests("accepted.yaml");
    for (kind, names, columns) in [
        (
            "VirtualMCPServer",
            &["vmcp", "virtualmcp"][..],
            &["PHASE", "URL", "BACKENDS", "TOOLS", "READY", "AGE", "REASON", "MESSAGE"][..],
        ),
        ("MCPGroup", &["mcpg"], &["SERVERS", "ENTRIES", "PROXIES", "PHASE", "AGE"]),
        ("MCPServer", &["mcpserver"], &["STATUS", "READY", "REPLICAS", "URL", "AGE", "MESSAGE"]),
        ("MCPServerEntry", &["mcpentry"], &["PHASE", "TRANSPORT", "REMOTE URL", "GROUP", "AGE", "MESSAGE"]),
        ("MCPRemoteProxy", &["rp", "mcprp"], &["PHASE", "REMOTE URL", "READY", "AGE", "MESSAGE"]),
        ("EmbeddingServer", &["emb", "embedding"], &["STATUS", "MODEL", "READY", "URL", "AGE", "MESSAGE"]),
        ("MCPOIDCConfig", &["mcpoidc"], &["ISSUER", "VALID", "AGE"]),
        ("MCPTelemetryConfig", &["mcpotel"], &["ENDPOINT", "VALID", "TRACING", "METRICS", "AGE"]),
        ("MCPToolConfig", &["tc", "toolconfig"], &["VALID", "AGE"]),
        ("MCPAuthzConfig", &["authzcfg"], &["TYPE", "VALID", "AGE"]),
        (
            "VirtualMCPCompositeToolDefinition",
            &["vmcpctd", "compositetool"],
            &["WORKFLOW", "STATUS", "AGE", "READY"],
        ),
    ] {
        let example = examples.iter().find(|(manifest, _)| manifest["kind"] == kind);
        place.apply(&example.unwrap().0.to_string()).await;
        for name in names {
            let shown = cluster
                .kubectl(&["get", name, "--namespace", &place.name, "--output", "wide"])
                .await
                .unwrap();
            let head = shown.lines().next().unwrap_or_default();
            for column in columns {
                assert!(head.contains(column), "{column} of {name}: {head}");
            }
        }
    }
    let scaled = ["scale", "vmcp", "vmcp-with-optimizer", "--replicas", "2", "--namespace", &place.name];
    cluster.kubectl(&scaled).await.unwrap();
    let explained = cluster.kubectl(&["explain", "vmcp.spec.optimizer.search.maxTools"]).await.unwrap();
    assert!(explained.contains("Tools returned by a search"), "{explained}");
}

/// The operator finds the mistake where an older schema lets it pass; mounted configuration stays.
#[tokio::test]
async fn a_mistake_that_slips_past_an_older_schema_changes_nothing_that_runs() {
    // The schema is changed for the whole cluster, so it must not be the shared one.
    let control_plane = ControlPlane::start_without_controllers().await;
    let place = control_plane.namespace("older").await;
    let _operator = Operator::start(&place).await;
    let mut older: Value =
        serde_saphyr::from_str(&read("crds/virtualmcpservers.toolhive.stacklok.com.yaml")).unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    *older.pointer_mut(&format!("{spec}/optimizer/properties/search")).unwrap() =
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    place.apply(&older.to_string()).await;

    let manifest = |name: &str, search: Value| {
        let manifest = json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "VirtualMCPServer", "metadata": { "name": name },
            "spec": { "optimizer": { "enabled": true, "search": search } },
        });
        manifest.to_string()
    };
    let mistake = json!({ "mode": "foo" });
    let refusal = async |name: &str| {
        let conditions = place.get::<VirtualMCPServer>(name).await?.status?.conditions;
        conditions
            .into_iter()
            .find(|condition| condition.type_ == "ConfigValid" && condition.status == "False")
    };
    // It takes a moment until the API server uses the older schema, and until the watch of the operator has
    // reconnected: the old one cuts off what its schema does not know, so only a later change shows it.
    place
        .eventually("the mistake to pass", async || {
            place.try_apply(&manifest("probe", mistake.clone())).await.ok()
        })
        .await;
    let changes = AtomicU32::new(0);
    let seen = async || {
        let change = changes.fetch_add(1, Ordering::Relaxed).to_string();
        let change = json!({ "metadata": { "annotations": { "change": change } } });
        place.edit::<VirtualMCPServer>("probe", change).await;
        sleep(Duration::from_secs(1)).await;
        refusal("probe").await
    };
    drop(place.eventually("the operator to see it", seen).await);

    place.apply(&manifest("x", json!({ "maxTools": 5 }))).await;
    let before = place
        .eventually("the configuration", async || {
            Some((place.get::<ConfigMap>("x-vmcp-config").await?, place.get::<Deployment>("x").await?))
        })
        .await;
    place.apply(&manifest("x", mistake.clone())).await;
    let condition = place.eventually("the condition", async || refusal("x").await).await;
    assert!(condition.message.contains("spec.optimizer.search.mode"), "{condition:?}");
    assert_eq!(place.get::<ConfigMap>("x-vmcp-config").await.unwrap().data, before.0.data);
    assert_eq!(place.get::<Deployment>("x").await.unwrap().spec, before.1.spec);
}
