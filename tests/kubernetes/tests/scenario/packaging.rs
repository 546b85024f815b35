//! Files that users install and copy: the chart, `deploy/` and its examples.

use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;
use vmcp_kubernetes_tests::{
    Cluster, ControlPlane, Namespace, Operator, chart, older_chart, repository, skipped,
};

/// Installs `deploy/`, and starts an operator beside the test with the rights of its ServiceAccount in place
/// of its pod.
async fn install(cluster: &Cluster, place: &Namespace, folder: &Path) -> Operator {
    let deploy = repository().join("deploy").display().to_string();
    cluster.kubectl(&["apply", "--server-side", "-k", &deploy]).await.unwrap();
    cluster.apply(OPTIONAL_RIGHTS, "").await.unwrap();
    // Before that the API server does not know the kinds, and the operator would count failures.
    cluster.await_definitions().await;
    start(cluster, place, folder, "vmcp-operator", "").await
}

/// Starts an operator beside the test as a ServiceAccount of the release; `namespaces` are those that it
/// watches, between commas.
async fn start(
    cluster: &Cluster,
    place: &Namespace,
    folder: &Path,
    account: &str,
    namespaces: &str,
) -> Operator {
    let token = ["create", "token", account, "--namespace", "vmcp-system"];
    let token = cluster.kubectl(&token).await.unwrap();

    let admin = fs::read_to_string(cluster.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&admin).unwrap();
    config["users"][0]["user"]["token"] = token.trim().into();
    let file = folder.join("operator.kubeconfig");
    fs::write(&file, config.to_string()).unwrap();
    let file = file.display().to_string();
    let variables = [
        ("KUBECONFIG", file.as_str()),
        ("WATCH_NAMESPACE", namespaces),
        ("POD_NAMESPACE", "vmcp-system"),
        ("ENABLE_HTTP_ROUTES", "true"),
        ("ENABLE_SERVICE_MONITORS", "true"),
    ];
    Operator::with(place, "installed", &variables).await
}

/// The rights that `httpRoutes.enabled` and `serviceMonitors.enabled` of the chart add.
const OPTIONAL_RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: optional}
rules:
- {apiGroups: [monitoring.coreos.com], resources: [servicemonitors], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [gateway.networking.k8s.io], resources: [httproutes], verbs: [get, list, watch, create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: optional}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: optional}
subjects: [{kind: ServiceAccount, name: vmcp-operator, namespace: vmcp-system}]";

/// Kinds of other projects that the examples use.
const FOREIGN: &str = "
- {group: monitoring.coreos.com, kind: ServiceMonitor, plural: servicemonitors}
- {group: gateway.networking.k8s.io, kind: HTTPRoute, plural: httproutes}";

/// Defines the kinds of other projects, with schemas that take everything.
pub(super) async fn define_foreign(cluster: &Cluster) {
    for kind in serde_saphyr::from_str::<Vec<Value>>(FOREIGN).unwrap() {
        let [group, kind, plural] = ["group", "kind", "plural"].map(|key| kind[key].as_str().unwrap());
        let name = format!("{plural}.{group}");
        let schema = "{type: object, x-kubernetes-preserve-unknown-fields: true}";
        let definition = format!(
            "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
              metadata: {{name: {name}, annotations: {{api-approved.kubernetes.io: unapproved}}}},
              spec: {{group: {group}, scope: Namespaced, names: {{kind: {kind}, plural: {plural}, singular: x{plural}}},
                     versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {schema}}}}}]}}}}"
        );
        cluster.apply(&definition, "").await.unwrap();
    }
    cluster.await_definitions().await;
}

/// Returns the condition that complains about an object; `None` once the operator has looked at it and found
/// it valid. Pods need not run.
fn complaint(object: &Value) -> Option<String> {
    if object.is_null() {
        return Some("it does not exist".to_owned());
    }
    let status = &object["status"];
    if status["observedGeneration"] != object["metadata"]["generation"] {
        return Some("not looked at".to_owned());
    }
    let conditions = status["conditions"].as_array()?;
    let judges = |kind: &str| kind.ends_with("Valid") || kind.ends_with("Validated");
    let wrong = conditions
        .iter()
        .find(|condition| condition["status"] == "False" && condition["type"].as_str().is_some_and(judges))?;
    Some(wrong.to_string())
}

async fn assert_sensible(place: &Namespace, object: &DynamicObject) {
    let kind = &object.types.as_ref().unwrap().kind;
    let name = object.metadata.name.as_deref().unwrap();
    let mut last = String::new();
    let sensible = format!("{kind} {name} to be found sensible");
    place
        .eventually(&sensible, async || {
            let found = complaint(&place.json(&format!("{}/{name}", kind.to_lowercase())).await);
            if let Some(complaint) = found.as_ref().filter(|complaint| **complaint != last) {
                last.clone_from(complaint);
                eprintln!("{kind} {name}: {complaint}");
            }
            found.is_none().then_some(())
        })
        .await;
}

/// Returns the files of the examples.
fn examples() -> Vec<PathBuf> {
    let files = fs::read_dir(repository().join("deploy/examples")).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

/// Makes a namespace for each example.
async fn example_places(cluster: &Cluster) -> Vec<Namespace> {
    let mut places = Vec::new();
    for _ in examples() {
        places.push(cluster.namespace("example").await);
    }
    places
}

/// Applies each example in a namespace of its own, and waits until the operator has made everything of it
/// without an error.
async fn assert_examples(cluster: &Cluster, places: &[Namespace], operator: &Operator) {
    let mut seen = 0;
    for (file, place) in examples().into_iter().zip(places) {
        // The Secret that a comment in the example of three servers tells to make.
        place
            .apply("{apiVersion: v1, kind: Secret, metadata: {name: github}, stringData: {authorization: Bearer x}}")
            .await;
        let applied = place.apply(&fs::read_to_string(&file).unwrap()).await;
        let own = applied.iter().filter(|object| {
            object.types.as_ref().is_some_and(|types| types.api_version.starts_with("toolhive.stacklok.com/"))
        });
        for object in own {
            assert_sensible(place, object).await;
            seen += 1;
        }
        eprintln!("{} is fine", file.display());
    }
    assert!(seen > 15, "{seen} objects");

    let all =
        ["get", "hpa,pdb,netpol,servicemonitors,httproutes,statefulsets,pvc,events", "-A", "-o", "name"];
    let made = cluster.kubectl(&all).await.unwrap();
    for kind in [
        "horizontalpodautoscaler",
        "poddisruptionbudget",
        "networkpolicy",
        "servicemonitor",
        "httproute",
        "statefulset",
    ] {
        assert!(made.contains(kind), "no {kind} was made:\n{made}");
    }
    let events = cluster
        .kubectl(&["get", "events.events.k8s.io", "-A", "-o", "jsonpath={..reportingController}"])
        .await;
    assert!(events.unwrap().contains("vmcp-operator"), "the operator may not publish events");
    assert!(operator.metric("vmcp_operator_errors_total", &[]).await < 0.5);
    let output = operator.process.output();
    // The API server answers so for a moment after a definition was installed.
    let is_new = |line: &&str| line.contains("storage is (re)initializing");
    let failed: Vec<_> = output.lines().filter(|line| line.contains("watch interrupted")).collect();
    assert!(failed.iter().all(is_new), "{failed:?}");
    assert!(!output.to_lowercase().contains("forbidden"), "{output}");
}

/// The operator has the rights of the chart, and no others.
#[tokio::test]
async fn every_example_is_applied_as_it_is_written_and_reconciled_without_an_error() {
    let cluster = ControlPlane::start().await;
    let folder = tempfile::tempdir().unwrap();
    define_foreign(&cluster).await;
    let first = cluster.namespace("examples").await;
    let operator = install(&cluster, &first, folder.path()).await;
    assert_examples(&cluster, &example_places(&cluster).await, &operator).await;
}

/// As above, with the Roles of a release for a list of namespaces.
#[tokio::test]
async fn a_namespaced_release_reconciles_every_example_with_its_roles() {
    let cluster = ControlPlane::start().await;
    if let Err(missing) = cluster.helm(&["version"]).await {
        skipped(&format!("there is no helm ({missing})"));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    define_foreign(&cluster).await;
    let home = cluster.namespace("home").await;
    let places = example_places(&cluster).await;
    let namespaces = places.iter().map(|place| place.name.as_str()).collect::<Vec<_>>().join(",");
    let values = format!(
        "scope=namespace,namespaces={{{namespaces}}},replicas=0,httpRoutes.enabled=true,serviceMonitors.enabled=true"
    );
    let chart = chart();
    let install =
        ["install", "tools", &chart, "-n", "vmcp-system", "--create-namespace", "--wait", "--set", &values];
    cluster.helm(&install).await.unwrap();
    let roles = cluster.kubectl(&["get", "clusterroles", "-o", "name"]).await.unwrap();
    assert!(!roles.contains("tools-operator"), "no right beyond the namespaces: {roles}");

    let operator = start(&cluster, &home, folder.path(), "tools-operator", &namespaces).await;
    assert_examples(&cluster, &places, &operator).await;
}

/// Nothing is installed: the chart is rendered, and what Helm does with it follows from annotations.
#[tokio::test]
async fn values_for_day_two_are_followed_or_refused() {
    let cluster = ControlPlane::shared().await;
    if let Err(missing) = cluster.helm(&["version"]).await {
        skipped(&format!("there is no helm ({missing})"));
        return;
    }
    let chart = chart();
    let render = async |values: &str| {
        let version = ["--kube-version", "1.34"];
        let arguments = ["template", "vmcp", &chart, "--namespace", "vmcp-system", "--set-json", values];
        let arguments = [&arguments[..], &version[..]].concat();
        cluster.helm(&arguments).await
    };
    let objects = |text: &str| -> Vec<Value> {
        let has_text = |text: &&str| text.lines().any(|line| !line.is_empty() && !line.starts_with('#'));
        let documents = text.split("\n---").filter(has_text);
        let documents = documents.map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        documents.filter(Value::is_object).collect()
    };
    let extra = r#"extraObjects=[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"of-{{ .Release.Name }}"}}]"#;
    let rendered = objects(&render(extra).await.unwrap());
    let of = |kind: &'static str| rendered.iter().filter(move |object| object["kind"] == kind);
    assert!(of("ConfigMap").any(|object| object["metadata"]["name"] == "of-vmcp"), "extraObjects");
    let mut hooks = of("Pod").map(|pod| &pod["metadata"]["annotations"]["helm.sh/hook"]);
    assert!(hooks.any(|hook| hook == "test"), "helm test");
    let kept = |object: &Value| object["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
    let definitions: Vec<_> = of("CustomResourceDefinition").collect();
    assert_eq!(definitions.len(), vmcp_crds::definitions::all().len());
    assert!(definitions.iter().all(|definition| kept(definition)));
    // The definitions of ToolHive's own group too.
    let both = objects(&render(r#"toolhiveGroup={"enabled":true}"#).await.unwrap());
    let both: Vec<_> = both.iter().filter(|object| object["kind"] == "CustomResourceDefinition").collect();
    assert_eq!(both.len(), 2 * definitions.len());
    assert!(both.iter().all(|definition| kept(definition)));

    let refused = render(r#"namespaces=["a"]"#).await.unwrap_err();
    assert!(refused.contains("namespaces is for scope: namespace"), "{refused}");
    // The selector of the Deployment and the names of Services, which the API server would refuse.
    for (values, field) in [
        (r#"podLabels={"app.kubernetes.io/name":"other"}"#, "podLabels"),
        (r#"commonLabels={"app.kubernetes.io/instance":"other"}"#, "commonLabels"),
        (r#"fullnameOverride="9lives""#, "fullnameOverride"),
        (r#"nameOverride="Tools""#, "nameOverride"),
    ] {
        let refused = render(values).await.unwrap_err();
        assert!(refused.contains(field), "{values}: {refused}");
    }
}

/// Helm takes names of releases that no Service may have.
#[tokio::test]
async fn every_name_of_a_release_is_one_that_the_api_server_takes() {
    let cluster = ControlPlane::shared().await;
    if let Err(missing) = cluster.helm(&["version"]).await {
        skipped(&format!("there is no helm ({missing})"));
        return;
    }
    let place = cluster.namespace("names").await;
    let chart = chart();
    let long = "9".repeat(53);
    // Without quotes, YAML reads some as numbers or booleans, which no label may be.
    for release in ["operator", "my-operator", "9lives", "a.b", "true", "1e3", long.as_str()] {
        let release = ["template", release, chart.as_str(), "--kube-version", "1.34"];
        let only = ["--show-only", "templates/metrics.yaml", "--namespace", place.name.as_str()];
        let arguments = [&release[..], &only[..]].concat();
        let rendered = cluster.helm(&arguments).await.unwrap();
        place.apply(&rendered).await;
    }
    let names: Vec<_> = place.list::<Service>("").await.iter().map(Service::name_any).collect();
    assert_eq!(names.len(), 7, "{names:?}");
    for name in ["vmcp-operator", "my-operator", "vmcp-9lives-operator", "a-b-operator", "true-operator"] {
        assert!(names.contains(&format!("{name}-metrics")), "{name}: {names:?}");
    }
    place.remove().await;
}

#[tokio::test]
async fn a_release_is_installed_upgraded_with_its_definitions_and_uninstalled() {
    let cluster = ControlPlane::start().await;
    if let Err(missing) = cluster.helm(&["version"]).await {
        skipped(&format!("there is no helm ({missing})"));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (older, chart) = (older_chart(folder.path()), chart());

    // No pod is asked for: this cluster lacks nodes. With `--wait` the definitions are served before the
    // sample is made.
    let extra = "replicas=0,sample.enabled=true,embeddingServer.enabled=true";
    let install =
        ["install", "vmcp", &older, "-n", "vmcp-system", "--create-namespace", "--wait", "--set", extra];
    let notes = cluster.helm(&install).await.unwrap();
    assert!(notes.contains("get vmcp sample"), "{notes}");
    assert_eq!(cluster.longest_description().await, "512");
    // These resources are of kinds that the release itself defined.
    let sample = ["get", "vmcp/sample", "emb/embeddings", "-n", "vmcp-system", "-o", "name"];
    assert_eq!(cluster.kubectl(&sample).await.unwrap().lines().count(), 2);

    let upgrade = ["upgrade", "vmcp", &chart, "--namespace", "vmcp-system", "--reuse-values"];
    cluster.helm(&upgrade).await.unwrap();
    assert_eq!(cluster.longest_description().await, "1024");
    assert_eq!(cluster.kubectl(&sample).await.unwrap().lines().count(), 2);

    let unknown = ["upgrade", "vmcp", &chart, "-n", "vmcp-system", "--set", "nonsense=1"];
    let refused = cluster.helm(&unknown).await.unwrap_err();
    assert!(refused.contains("nonsense"), "{refused}");

    cluster.helm(&["uninstall", "vmcp", "--namespace", "vmcp-system", "--wait"]).await.unwrap();
    let kinds = "deployments,services,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,crd,vmcp,\
         validatingadmissionpolicies,validatingadmissionpolicybindings";
    let left = cluster.kubectl(&["get", kinds, "-A", "-o", "name"]).await.unwrap();
    let ours = |name: &&str| name.contains("vmcp") || name.contains("toolhive");
    let (definitions, rest): (Vec<_>, Vec<_>) =
        left.lines().filter(ours).partition(|name| name.starts_with("customresourcedefinition"));
    assert_eq!(definitions.len(), vmcp_crds::definitions::all().len(), "{definitions:?}");
    // Once made, the sample belongs to its user.
    assert_eq!(rest, ["virtualmcpserver.toolhive.stacklok.com/sample"]);
}
