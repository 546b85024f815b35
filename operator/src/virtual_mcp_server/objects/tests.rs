//! Tests of the objects as `build` returns them, by the spec that asks for them.

mod added_servers;
mod events;
mod exposure;
mod scripts;
mod stateful_sets;
mod suspension;

use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_crds::lower::PolicyCheck;

use crate::runtime::{BuildSettings, Child, ChildKind, Desired};
use crate::virtual_mcp_server::build::build;
use crate::virtual_mcp_server::dereference::{GeneratedValues, References};
use crate::virtual_mcp_server::exposure_order::{CurrentExposure, Uptake, order};
use crate::virtual_mcp_server::observe::running_workload::RunningWorkload;
use crate::virtual_mcp_server::testing::{plan, references, server, settings, with_server, yaml};
use crate::virtual_mcp_server::validate::{Plan, validate};

/// Returns the desired objects, with the configuration in force.
fn desired(plan: &Plan, references: &References) -> Desired {
    let server = plan.server.as_ref().expect("valid");
    let order = order(server, plan, None, Uptake::InForce, &CurrentExposure::default());
    build(&order, plan, references, &RunningWorkload::default(), &settings())
}

/// Returns what is desired beside a workload that runs.
fn desired_beside(spec: &str, running: &RunningWorkload) -> Desired {
    let references = references();
    let plan = plan(spec, &references);
    let server = plan.server.as_ref().expect("valid");
    let order = order(server, &plan, None, Uptake::InForce, &CurrentExposure::default());
    build(&order, &plan, &references, running, &settings())
}

fn object(desired: &Desired, kind: ChildKind) -> Option<Value> {
    let child = desired.children.iter().find(|child| child.kind() == kind)?;
    Some(serde_json::to_value(child.object()).expect("JSON"))
}

fn built(spec: &str) -> Vec<(String, Value)> {
    let login = "{metadata: {name: login}, spec: {type: inline, inline: {issuer: 'https://login.example'}}}";
    let references = References { oidc: Some(Arc::new(yaml(login))), ..with_server(references(), "a") };
    let plan = plan(spec, &references);
    let desired = desired(&plan, &references);
    let named = |child: &Child| {
        let object = serde_json::to_value(child.object()).expect("JSON");
        (format!("{}/{}", child.kind().as_str(), child.name()), object)
    };
    desired.children.iter().map(named).collect()
}

/// Returns the settings of an installation that lets scripts run as Jobs.
fn settings_with_jobs() -> BuildSettings {
    BuildSettings {
        script_jobs_role: Some("ClusterRole/vmcp-operator-script-jobs".parse().expect("a role")),
        ..settings()
    }
}

/// Returns the objects of an installation that lets scripts run as Jobs.
fn built_with_jobs(spec: &str) -> Vec<(String, Value)> {
    let settings = settings_with_jobs();
    let references = references();
    let plan = validate(&server(spec), &references, PolicyCheck(&vmcp_access::policy::findings), &settings);
    let server = plan.server.as_ref().expect("valid");
    assert!(plan.configuration.is_ok(), "{:?}", plan.configuration.err());
    let order = order(server, &plan, None, Uptake::InForce, &CurrentExposure::default());
    let desired = build(&order, &plan, &references, &RunningWorkload::default(), &settings);
    let named = |child: &Child| {
        let object = serde_json::to_value(child.object()).expect("JSON");
        (format!("{}/{}", child.kind().as_str(), child.name()), object)
    };
    desired.children.iter().map(named).collect()
}

fn one(spec: &str, name: &str) -> Value {
    let built = built(spec);
    let found = built.iter().find(|(key, _)| key == name);
    found
        .unwrap_or_else(|| panic!("{name} among {:?}", built.iter().map(|(key, _)| key).collect::<Vec<_>>()))
        .1
        .clone()
}

#[test]
fn what_is_always_there() {
    let names: Vec<_> = built("{}").into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "ServiceAccount/x-vmcp",
            "ConfigMap/x-vmcp-config",
            "Secret/x-vmcp-secrets",
            "Service/vmcp-x",
            "Service/vmcp-x-peers",
            "Deployment/x",
        ]
    );
}

#[test]
fn a_pod_has_the_time_to_end_that_its_configuration_takes() {
    let grace = |spec: &str| {
        one(spec, "Deployment/x")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].clone()
    };
    assert_eq!(grace("{config: {server: {shutdownDelay: 20s, drainTimeout: 1m}}}"), 90);
    assert_eq!(grace("{terminationGracePeriodSeconds: 7}"), 7);
}

#[test]
fn pods_are_locked_down() {
    let deployment = one("{}", "Deployment/x");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["args"], json!(["serve", "--config", "/etc/vmcp/config/vmcp.yaml"]));
    assert_eq!(pod["volumes"][2], json!({"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}}));
    assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    assert_eq!(pod["terminationGracePeriodSeconds"], 45, "the drain, and what comes before and after it");
    let sized = one("{optimizer: {enabled: true, storage: {type: sqlite, sizeLimit: 3Gi}}}", "Deployment/x");
    let cache = &sized["spec"]["template"]["spec"]["volumes"][2];
    assert_eq!(*cache, json!({"name": "cache", "emptyDir": {"sizeLimit": "3Gi"}}));
}

#[test]
fn replicas_are_ours_only_when_given() {
    assert_eq!(one("{replicas: 3}", "Deployment/x")["spec"]["replicas"], 3);
    assert_eq!(one("{}", "Deployment/x")["spec"].get("replicas"), None);
    let automatic = "{autoscaling: {maxReplicas: 5}}";
    assert_eq!(one(automatic, "Deployment/x")["spec"].get("replicas"), None);
    assert_eq!(one(automatic, "HorizontalPodAutoscaler/x-vmcp")["spec"]["maxReplicas"], 5);
}

#[test]
fn several_pods_are_never_evicted_at_once() {
    let budget = "PodDisruptionBudget/x-vmcp";
    for spec in ["{replicas: 2}", "{autoscaling: {minReplicas: 2, maxReplicas: 5}}"] {
        let budget = &one(spec, budget)["spec"];
        assert_eq!(
            (&budget["maxUnavailable"], &budget["unhealthyPodEvictionPolicy"]),
            (&json!(1), &json!("AlwaysAllow"))
        );
    }
    let given = one("{replicas: 2, podDisruptionBudget: {minAvailable: 2}}", budget);
    assert_eq!(given["spec"]["minAvailable"], 2);
    for alone in ["{}", "{replicas: 1}"] {
        assert!(built(alone).iter().all(|(name, _)| name != budget), "the drain of a node would never end");
    }
}

#[test]
fn an_autoscaler_follows_cpu_and_memory() {
    let spec = "{autoscaling: {maxReplicas: 5, targetMemoryUtilizationPercentage: 70}}";
    let metrics = one(spec, "HorizontalPodAutoscaler/x-vmcp")["spec"]["metrics"].clone();
    let aims = |metric: &Value| {
        let resource = &metric["resource"];
        (resource["name"].clone(), resource["target"]["averageUtilization"].clone())
    };
    let aims: Vec<_> = metrics.as_array().expect("metrics").iter().map(aims).collect();
    assert_eq!(aims, [(json!("cpu"), json!(80)), (json!("memory"), json!(70))]);
}

#[test]
fn an_autoscaler_follows_the_requests_under_way() {
    let spec = "{autoscaling: {maxReplicas: 5, targetRequestsInFlight: 40}}";
    let metrics = one(spec, "HorizontalPodAutoscaler/x-vmcp")["spec"]["metrics"].clone();
    let pods = json!({
        "metric": {"name": "vmcp_client_requests_in_flight"},
        "target": {"type": "AverageValue", "averageValue": "40"},
    });
    assert_eq!(metrics[1], json!({"type": "Pods", "pods": pods}));
}

#[test]
fn a_template_changes_the_pods() {
    let spec = "{podTemplateSpec: {spec: {containers: [{name: vmcp, env: [{name: A, value: b}]}], nodeSelector: {disk: ssd}}}}";
    let pod = &one(spec, "Deployment/x")["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"]["disk"], "ssd");
    assert_eq!(pod["containers"][0]["image"], "vmcp:test");
    let pod_ip = json!({"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}});
    assert_eq!(pod["containers"][0]["env"], json!([pod_ip, {"name": "A", "value": "b"}]));
}

#[test]
fn labels_and_annotations_are_added_where_they_are_asked_for() {
    let spec = "{resourceOverrides: {\
        deployment: {labels: {cost: a}, annotations: {note: b}, \
            podTemplateMetadataOverrides: {labels: {cost: c}, annotations: {sidecar.istio.io/inject: 'false'}}}, \
        service: {annotations: {service.beta.kubernetes.io/aws-load-balancer-scheme: internal}}, \
        serviceAccount: {annotations: {eks.amazonaws.com/role-arn: r}}}}";
    let deployment = one(spec, "Deployment/x");
    assert_eq!(deployment["metadata"]["labels"]["cost"], "a");
    assert_eq!(deployment["metadata"]["labels"]["app.kubernetes.io/name"], "vmcp");
    assert_eq!(deployment["metadata"]["annotations"]["note"], "b");
    let pods = &deployment["spec"]["template"]["metadata"];
    assert_eq!(pods["labels"]["cost"], "c");
    assert_eq!(pods["annotations"]["sidecar.istio.io/inject"], "false");
    let start_settings = |deployment: &Value| {
        let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
        annotations["toolhive.stacklok.com/start-settings"].clone()
    };
    assert_eq!(start_settings(&deployment), start_settings(&one("{}", "Deployment/x")));
    assert_eq!(deployment["spec"]["selector"]["matchLabels"].get("cost"), None, "a selector cannot change");
    let service = one(spec, "Service/vmcp-x");
    let scheme = &service["metadata"]["annotations"]["service.beta.kubernetes.io/aws-load-balancer-scheme"];
    assert_eq!(scheme, "internal");
    assert_eq!(one(spec, "Service/vmcp-x-peers")["metadata"].get("annotations"), None);
    let account = one(spec, "ServiceAccount/x-vmcp");
    assert_eq!(account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"], "r");
}

#[test]
fn what_is_asked_for_is_made() {
    let spec = "{podDisruptionBudget: {minAvailable: 1}, networkPolicy: {enabled: true}, serviceMonitor: {enabled: true, \
                interval: 30s}, httpRoute: {parentRefs: [{name: gw}], path: /mcp}, serviceType: LoadBalancer, allowAnonymousExposure: true}";
    assert_eq!(one(spec, "PodDisruptionBudget/x-vmcp")["spec"]["minAvailable"], 1);
    assert_eq!(one(spec, "NetworkPolicy/x-vmcp")["spec"]["ingress"][0].get("from"), None, "anybody");
    assert_eq!(one(spec, "ServiceMonitor/x-vmcp")["spec"]["endpoints"][0]["interval"], "30s");
    assert_eq!(one(spec, "HTTPRoute/x-vmcp")["spec"]["rules"][0]["backendRefs"][0]["name"], "vmcp-x");
    assert_eq!(one(spec, "Service/vmcp-x")["spec"]["type"], "LoadBalancer");
}

#[test]
fn an_autoscaler_scales_as_it_is_told() {
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 600, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}});
    let spec = format!("{{autoscaling: {{maxReplicas: 5, behavior: {behavior}}}}}");
    assert_eq!(one(&spec, "HorizontalPodAutoscaler/x-vmcp")["spec"]["behavior"], behavior);
    let silent = one("{autoscaling: {maxReplicas: 5}}", "HorizontalPodAutoscaler/x-vmcp");
    assert_eq!(silent["spec"].get("behavior"), None);
}

#[test]
fn a_managed_embedding_service_is_made() {
    let spec = "{optimizer: {enabled: true, embeddings: {provider: tei, tei: {managed: {model: m}}}}}";
    assert_eq!(one(spec, "EmbeddingServer/x")["spec"]["model"], "m");
    let config = one(spec, "ConfigMap/x-vmcp-config");
    let text = config["data"]["vmcp.yaml"].as_str().expect("text");
    assert!(text.contains("http://x-tei.n.svc.cluster.local:8080"), "{text}");
}

#[test]
fn what_cannot_be_configured_stays_as_it_is() {
    let references = references();
    let plan = plan("{optimizer: {enabled: true, search: {maxTools: 1000}}}", &references);
    let desired = desired(&plan, &references);
    let kept: Vec<_> = desired.keep.iter().map(|(kind, _)| *kind).collect();
    let workloads = [ChildKind::Deployment, ChildKind::StatefulSet];
    assert_eq!(kept, [[ChildKind::ConfigMap, ChildKind::Secret], workloads].concat());
    assert_eq!(desired.children.len(), 3, "an account and two Services");
}

#[test]
fn the_last_good_configuration_stays_and_everything_else_follows() {
    let good = plan("{config: {server: {drainTimeout: 20s}}}", &references());
    let mounted = good.configuration.expect("valid").mounted;
    let references = References { mounted: Some(mounted.clone()), ..references() };
    let plan = plan("{replicas: 3, optimizer: {enabled: true, search: {maxTools: 1000}}}", &references);
    let desired = desired(&plan, &references);
    assert!(desired.keep.is_empty());
    let object = |kind: ChildKind| {
        let child = desired.children.iter().find(|child| child.kind() == kind).expect("a child");
        serde_json::to_value(child.object()).expect("JSON")
    };
    assert_eq!(object(ChildKind::ConfigMap)["data"]["vmcp.yaml"], mounted.text);
    let deployment = object(ChildKind::Deployment);
    assert_eq!(deployment["spec"]["replicas"], 3);
    assert_eq!(deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 5 + 20 + 10);
}

#[test]
fn trusted_tools_are_mounted_where_a_changed_one_waits() {
    let secret = |spec: &str| {
        let objects = built(spec);
        objects.into_iter().find(|(name, _)| name == "Secret/x-vmcp-secrets").expect("the Secret").1
    };
    assert_eq!(secret("{}").pointer("/data/trusted-tools"), None);
    for aggregation in [
        "{onToolChange: Quarantine}",
        "{tools: [{workload: a, onToolChange: Quarantine}]}",
        // Of a backend that is left out for now.
        "{tools: [{workload: absent, onToolChange: Quarantine}]}",
    ] {
        let spec = format!("{{config: {{aggregation: {aggregation}}}}}");
        assert_eq!(secret(&spec).pointer("/data/trusted-tools"), Some(&json!("e30=")), "{aggregation}");
    }
}
