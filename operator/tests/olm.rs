//! Tests that the bundle of OLM installs the objects of the chart.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// Reads the objects of a file of the repository.
fn objects(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    serde_saphyr::from_multiple(&fs::read_to_string(path).unwrap()).unwrap()
}

fn service_version() -> Value {
    objects("deploy/olm/manifests/vmcp-operator.clusterserviceversion.yaml").remove(0)
}

/// Returns the objects that the bundle installs by its strategy: `deployments`, `permissions`,
/// `clusterPermissions`.
fn installed(what: &str) -> Value {
    let version = service_version();
    version.pointer("/spec/install/spec").unwrap().get(what).cloned().unwrap_or_default()
}

/// OLM binds `permissions` in the namespaces that it is told, or in the cluster.
#[test]
fn the_bundle_grants_the_rights_that_the_chart_grants() {
    let roles = objects("deploy/rbac.yaml");
    let of = |kind: &str, name: &Value| {
        roles.iter().find(|role| role["kind"] == kind && role["metadata"]["name"] == *name).unwrap()
    };
    let bindings = roles.iter().filter(|role| role["kind"].as_str().unwrap().ends_with("Binding"));
    let granted = bindings.flat_map(|binding| {
        let role = of(binding["roleRef"]["kind"].as_str().unwrap(), &binding["roleRef"]["name"]);
        role["rules"].as_array().unwrap()
    });
    let granted: Vec<_> = granted.collect();
    assert!(granted.len() > 8, "{granted:?}");
    assert_eq!(
        installed("permissions"),
        json!([{ "serviceAccountName": "vmcp-operator", "rules": granted }])
    );
    assert_eq!(installed("clusterPermissions"), Value::Null, "a right that no OperatorGroup bounds");
}

#[test]
fn the_bundle_runs_the_deployment_of_the_chart_but_for_namespaces_and_user() {
    let mut chart = objects("deploy/deployment.yaml").remove(0);
    let pod = &mut chart["spec"]["template"]["spec"];
    for fixed in ["runAsUser", "runAsGroup"] {
        assert!(pod["securityContext"].as_object_mut().unwrap().remove(fixed).is_some(), "{fixed}");
    }
    // The bundle lacks the admission policies, which check authors.
    let variables = pod["containers"][0]["env"].as_array_mut().unwrap();
    let position = variables.iter().position(|variable| variable["name"] == "AUTHORS_CHECKED").unwrap();
    assert_eq!(variables.remove(position)["value"], "true");
    let mut deployments = installed("deployments");
    assert_eq!(deployments[0]["name"], chart["metadata"]["name"]);
    assert_eq!(deployments[0]["label"], chart["metadata"]["labels"]);

    let variables =
        deployments[0]["spec"]["template"]["spec"]["containers"][0]["env"].as_array_mut().unwrap();
    let mut take = |name: &str| {
        let position = variables.iter().position(|variable| variable["name"] == name).unwrap();
        variables.remove(position)
    };
    assert_eq!(take("FIXED_USER")["value"], "false");
    let namespaces = &take("WATCH_NAMESPACE")["valueFrom"]["fieldRef"]["fieldPath"];
    assert_eq!(*namespaces, "metadata.annotations['olm.targetNamespaces']");
    assert_eq!(deployments[0]["spec"], chart["spec"]);
}

#[test]
fn the_bundle_owns_every_kind_and_shows_an_example_of_each() {
    let version = service_version();
    let owned = version["spec"]["customresourcedefinitions"]["owned"].as_array().unwrap();
    let mut kinds = BTreeSet::new();
    for definition in vmcp_crds::definitions::all() {
        let name = definition.metadata.name.as_deref().unwrap();
        let entry = owned.iter().find(|entry| entry["name"] == name).unwrap();
        assert_eq!(entry["kind"], definition.spec.names.kind);
        assert_eq!(
            objects(&format!("deploy/olm/manifests/{name}.yaml")),
            objects(&format!("crds/{name}.yaml"))
        );
        kinds.insert(definition.spec.names.kind);
    }
    assert_eq!(owned.len(), kinds.len());

    let examples = version["metadata"]["annotations"]["alm-examples"].as_str().unwrap();
    let examples: Vec<Value> = serde_json::from_str(examples).unwrap();
    let shown = examples.iter().map(|example| example["kind"].as_str().unwrap().to_owned());
    assert_eq!(shown.collect::<BTreeSet<_>>(), kinds);
}
