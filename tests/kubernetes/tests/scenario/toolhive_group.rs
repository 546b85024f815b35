//! ToolHive's own API group: its manifests are served as they are, beside those of the other group.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use vmcp_integration::binary;
use vmcp_kubernetes_tests::{
    Cluster, ControlPlane, Namespace, Operator, PreparedControlPlane, Programs, chart,
};

/// Manifests as ToolHive's users have them, in both of its versions.
const MANIFESTS: &str = "
apiVersion: toolhive.stacklok.dev/v1beta1
kind: MCPGroup
metadata: {name: engineering}
spec: {description: Tools of the engineers}
---
apiVersion: toolhive.stacklok.dev/v1alpha1
kind: MCPServer
metadata: {name: fetch}
spec:
  groupRef: {name: engineering}
  image: ghcr.io/stackloklabs/gofetch/server:1.0.1
  transport: streamable-http
  proxyPort: 8080
  mcpPort: 8080
  permissionProfile: {type: builtin, name: network}
  resources: {limits: {cpu: 100m, memory: 128Mi}, requests: {cpu: 50m, memory: 64Mi}}
---
apiVersion: toolhive.stacklok.dev/v1beta1
kind: MCPServerEntry
metadata: {name: docs}
spec: {groupRef: {name: engineering}, remoteUrl: 'https://docs.example.com/mcp', transport: streamable-http}
---
apiVersion: toolhive.stacklok.dev/v1beta1
kind: VirtualMCPServer
metadata: {name: x}
spec:
  groupRef: {name: engineering}
  incomingAuth: {type: anonymous}
  config:
    aggregation: {conflictResolution: prefix, conflictResolutionConfig: {prefixFormat: '{workload}_'}}
    operational: {timeouts: {default: 30s}}
  optimizer: {enabled: true, embeddings: {provider: tei, tei: {managed: {}}}}";

/// Defines all kinds in ToolHive's group, with the definitions that the operator prints.
async fn define_toolhive_group(cluster: &Cluster) {
    let printed = Command::new(binary("vmcp-operator")).args(["crds", "--toolhive-group", "true"]).output();
    let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
    cluster.apply(&printed, "").await.unwrap();
    cluster.await_definitions().await;
}

/// Returns a control plane that serves ToolHive's group, for tests whose operators keep to their namespace.
async fn with_toolhive_group() -> Arc<ControlPlane> {
    static SERVING: PreparedControlPlane = PreparedControlPlane::new();
    SERVING
        .get(async || {
            let cluster = ControlPlane::start_without_controllers().await;
            define_toolhive_group(&cluster).await;
            cluster
        })
        .await
}

/// Returns the status of an object of ToolHive's group.
async fn status(place: &Namespace, plural: &str, name: &str) -> Option<Value> {
    let object = format!("{plural}.toolhive.stacklok.dev/{name}");
    Some(place.json(&object).await.get("status")?.clone())
}

#[tokio::test]
async fn toolhives_manifests_are_served_in_its_own_group() {
    let control_plane = with_toolhive_group().await;
    let place = control_plane.namespace("toolhive").await;
    let variables = [("LEADER_ELECT", "false"), ("SERVE_TOOLHIVE_GROUP", "true")];
    let operator = Operator::with(&place, "one", &variables).await;
    place.apply(MANIFESTS).await;

    let backends = place
        .eventually("both backends in the status", async || {
            let status = status(&place, "virtualmcpservers", "x").await?;
            let backends = status["discoveredBackends"].clone();
            (backends.as_array()?.len() == 2).then_some(backends)
        })
        .await;
    let names: Vec<_> = backends.as_array().unwrap().iter().map(|backend| backend["name"].clone()).collect();
    assert_eq!(names, ["docs", "fetch"]);
    // Children belong to the resources of this group, a managed EmbeddingServer among them.
    for (name, owner) in [("x", "VirtualMCPServer"), ("mcp-fetch", "MCPServer")] {
        let deployment = place
            .eventually(&format!("Deployment {name}"), async || place.get::<Deployment>(name).await)
            .await;
        let reference = &deployment.owner_references()[0];
        let found = (reference.api_version.as_str(), reference.kind.as_str());
        assert_eq!(found, ("toolhive.stacklok.dev/v1beta1", owner));
    }
    let embeddings = place
        .eventually("the managed EmbeddingServer", async || {
            let list = place.json_list("embeddingservers.toolhive.stacklok.dev").await;
            list.into_iter().next()
        })
        .await;
    assert_eq!(embeddings["metadata"]["ownerReferences"][0]["apiVersion"], "toolhive.stacklok.dev/v1beta1");
    place
        .eventually("its own status", async || {
            status(&place, "embeddingservers", embeddings["metadata"]["name"].as_str()?).await
        })
        .await;
    operator.at_rest(&place, "VirtualMCPServer", 2).await;

    // The other group is a world of its own: its servers have no backends here, and take no objects.
    let ours = |name: &str| {
        let api_version = "toolhive.stacklok.com/v1alpha1";
        json!({"apiVersion": api_version, "kind": "VirtualMCPServer", "metadata": {"name": name}, "spec": {}})
            .to_string()
    };
    place.apply(&ours("y")).await;
    place.apply(&ours("x")).await;
    place
        .eventually("a server without backends", async || {
            let server = place.json("virtualmcpservers.toolhive.stacklok.com/y").await;
            let status = server.get("status")?;
            status["discoveredBackends"].as_array().is_none_or(Vec::is_empty).then_some(())
        })
        .await;
    place
        .eventually("a name that is taken", async || {
            let server = place.json("virtualmcpservers.toolhive.stacklok.com/x").await;
            server["status"].to_string().contains("belongs to the VirtualMCPServer x").then_some(())
        })
        .await;
    let deployment = place.get::<Deployment>("x").await.unwrap();
    assert_eq!(deployment.owner_references()[0].api_version, "toolhive.stacklok.dev/v1beta1");
    // Events name the object of the right group.
    place
        .eventually("an event of the other group's object", async || {
            let events = place.json_list("events.events.k8s.io").await;
            let mut groups = events.iter().map(|event| &event["regarding"]["apiVersion"]);
            groups.any(|group| group == "toolhive.stacklok.dev/v1beta1").then_some(())
        })
        .await;
}

/// Examples of ToolHive that its own definitions refuse: they have older names of fields.
const STALE: [&str; 7] = [
    "EmbeddingServer advanced-embedding",
    "MCPExternalAuthConfig keycloak-token-exchange",
    "MCPExternalAuthConfig minimal-oauth",
    "MCPExternalAuthConfig oauth-token-exchange",
    "VirtualMCPCompositeToolDefinition fetch-and-validate",
    "VirtualMCPCompositeToolDefinition interactive-deploy",
    "VirtualMCPCompositeToolDefinition multi-source-data-processor",
];

/// Returns the documents of each file in a folder and those below it.
fn files(folder: &Path) -> Vec<Vec<Value>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&path).expect("an example");
            let read = serde_saphyr::from_multiple::<Value>(&text);
            found.push(read.unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        }
    }
    found
}

/// Returns the files of examples; `None`, and says so, without Go.
async fn examples() -> Option<Vec<Vec<Value>>> {
    let found = tokio::task::spawn_blocking(Programs::toolhive).await.expect("looking for the examples");
    if found.is_none() {
        vmcp_integration::skipped("the examples of ToolHive are in a Go module, and there is no go");
    }
    Some(files(found?.folder()))
}

/// Returns true for an MCPServer whose program the operator would look up.
fn needs_command(spec: &Value) -> bool {
    let is_stdio = spec["transport"].as_str().is_none_or(|transport| transport == "stdio");
    is_stdio && spec["command"].is_null()
}

fn is_of_toolhive(manifest: &Value) -> bool {
    manifest["apiVersion"].as_str().is_some_and(|api| api.contains("toolhive"))
}

#[tokio::test]
async fn every_example_that_toolhive_takes_is_taken_here() {
    let Some(examples) = examples().await else { return };
    let mut manifests = examples.concat();
    manifests.retain(is_of_toolhive);
    let control_plane = with_toolhive_group().await;
    let place = control_plane.namespace("examples").await;
    let (mut accepted, mut refused) = (0, Vec::new());
    for (number, mut manifest) in manifests.into_iter().enumerate() {
        let example = [&manifest["kind"], &manifest["metadata"]["name"]].map(|text| text.as_str().unwrap());
        let example = example.join(" ");
        // Examples of several files have one name.
        manifest["metadata"] = json!({ "name": format!("example-{number}") });
        match place.try_apply(&manifest.to_string()).await {
            Ok(_) => accepted += 1,
            Err(_) if STALE.contains(&example.as_str()) => {}
            Err(error) => refused.push(format!("{example}: {error}")),
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(accepted >= 110, "{accepted}");
}

/// Returns why a server has no pods: its file lacks an object that it refers to, or another object there has
/// a field that nothing follows.
fn own_reason(status: &Value) -> Option<String> {
    let mut conditions = status["conditions"].as_array()?.iter();
    let lacking = conditions.find(|condition| {
        let message = condition["message"].as_str().unwrap_or_default();
        let is_about_it = ["Ready", "ConfigValid"].iter().any(|kind| condition["type"] == *kind);
        let is_own = message.contains("there is no ") || message.contains("nothing follows this field");
        is_about_it && condition["status"] == "False" && is_own
    })?;
    lacking["message"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn every_server_of_toolhives_examples_has_pods_or_names_what_its_file_lacks() {
    let Some(examples) = examples().await else { return };
    let control_plane = ControlPlane::start_without_controllers().await;
    define_toolhive_group(&control_plane).await;
    let mut servers = Vec::new();
    for manifests in examples {
        // Names are those of the file.
        let place = Arc::new(control_plane.namespace("example").await);
        for mut manifest in manifests {
            let kind = manifest["kind"].as_str().unwrap_or_default().to_owned();
            if !is_of_toolhive(&manifest) && !["Secret", "ConfigMap"].contains(&kind.as_str()) {
                continue;
            }
            manifest["metadata"]["namespace"] = json!(&place.name);
            // The images are in a registry that no test asks.
            if kind == "MCPServer" && needs_command(&manifest["spec"]) {
                manifest["spec"]["command"] = json!(["run"]);
            }
            let name = manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let is_taken = place.try_apply(&manifest.to_string()).await.is_ok();
            let known = match kind.as_str() {
                "VirtualMCPServer" => Some(("virtualmcpservers", "")),
                "MCPServer" => Some(("mcpservers", "mcp-")),
                _ => None,
            };
            if let (true, Some((plural, prefix))) = (is_taken, known) {
                servers.push((Arc::clone(&place), plural, prefix, name));
            }
        }
    }
    assert_eq!(servers.len(), 16 + 49);
    let place = control_plane.namespace("operator").await;
    let variables = [("LEADER_ELECT", "false"), ("SERVE_TOOLHIVE_GROUP", "true"), ("WATCH_NAMESPACE", "")];
    let _operator = Operator::with(&place, "one", &variables).await;
    let mut without_pods = Vec::new();
    for (place, plural, prefix, name) in servers {
        let child = format!("{prefix}{name}");
        let decided = async || {
            if place.get::<Deployment>(&child).await.is_some() {
                return Some(None);
            }
            Some(Some(own_reason(&status(&place, plural, &name).await?)?))
        };
        let what = format!("pods of {plural} {name}, or the reason");
        let reason = place.eventually(&what, decided).await;
        without_pods.extend(reason.map(|reason| format!("{plural} {name}: {reason}")));
    }
    eprintln!("without pods: {without_pods:#?}");
    assert!(without_pods.len() <= 8, "{without_pods:#?}");
}

#[tokio::test]
async fn the_chart_defines_what_the_operator_prints() {
    let cluster = ControlPlane::shared().await;
    let chart = chart();
    let show = [
        "template",
        "vmcp",
        &chart,
        "--kube-version",
        "1.34",
        "--show-only",
        "templates/crds.yaml",
        "--set",
        "crds.keep=false",
    ];
    if let Err(missing) = cluster.helm(&["version"]).await {
        return vmcp_integration::skipped(&format!("there is no helm ({missing})"));
    }
    let rendered =
        cluster.helm(&[&show[..], &["--set", "toolhiveGroup.enabled=true"]].concat()).await.unwrap();
    let mut rendered: Vec<Value> = serde_saphyr::from_multiple(&rendered).unwrap();
    rendered.retain(|definition| definition["spec"]["group"] == "toolhive.stacklok.dev");
    let printed = Command::new(binary("vmcp-operator")).args(["crds", "--toolhive-group", "true"]).output();
    let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
    let mut printed: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
    for definitions in [&mut rendered, &mut printed] {
        definitions.sort_by_key(|definition| definition["metadata"]["name"].to_string());
    }
    assert!(printed.len() > 7, "{} definitions", printed.len());
    for (rendered, printed) in rendered.iter().zip(&printed) {
        assert!(rendered == printed, "{} differs", printed["metadata"]["name"]);
    }
    assert_eq!(rendered.len(), printed.len());
}
