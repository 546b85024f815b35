//! Scripts that run as Jobs: the objects and rights that a server gets for them, and a script whose pod is a
//! process of this machine, started by the test in place of a kubelet.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use vmcp_crds::VirtualMCPServer;
use vmcp_integration::free_port;
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator, SCRIPT_JOBS_ROLE, script_jobs_role};
use vmcp_script::jobs::{JobSettings, ScriptJobs as _};
use vmcp_script::pool::{Called, PoolSettings, Ran, Script, ScriptEnd, ToolHost, WorkerPool, WorkerProgram};
use vmcp_script::protocol::{CallEnd, HostCall, StartScript};
use vmcp_script::{ResourceBounds, ScriptLimits};
use vmcp_script_job::{JobLauncher, SCRIPT_PORT, ServerPod};

use super::backends::{apply, await_condition};
use super::deputies::client_as;
use super::rights::{await_right, install_part, may};

const SCRIPTS: &str = "x-vmcp-scripts";

fn account(place: &Namespace) -> String {
    format!("system:serviceaccount:{}:x-vmcp", place.name)
}

/// Starts an operator of an installation that lets scripts run as Jobs.
async fn operator_with_jobs(place: &Namespace) -> Operator {
    place.apply(&script_jobs_role().to_string()).await;
    let role = format!("Role/{SCRIPT_JOBS_ROLE}");
    Operator::with(place, "one", &[("LEADER_ELECT", "false"), ("SCRIPT_JOBS_ROLE", role.as_str())]).await
}

#[tokio::test]
async fn a_server_with_jobs_may_make_them_and_nothing_else() {
    let place = ControlPlane::shared().await.namespace("jobs").await;
    let _operator = operator_with_jobs(&place).await;
    apply(
        &place,
        "VirtualMCPServer",
        "x",
        "{config: {code: {engine: job, job: {runtimeClassName: gvisor}}}}",
    )
    .await;
    let binding = place.eventually("the right", async || place.get::<RoleBinding>(SCRIPTS).await).await;
    assert_eq!(binding.role_ref.name, SCRIPT_JOBS_ROLE);

    let user = account(&place);
    let [own, other] = [place.name.as_str(), "default"];
    for (verb, group, resource) in [
        ("create", "batch", "jobs"),
        ("delete", "batch", "jobs"),
        ("list", "", "pods"),
        ("list", "", "events"),
    ] {
        await_right(&place, &user, (verb, group, resource), true).await;
        assert!(!may(&place, &user, verb, group, resource, other).await, "{verb} {resource} elsewhere");
    }
    for (verb, group, resource) in [
        ("get", "", "secrets"),
        ("list", "", "secrets"),
        ("create", "", "pods"),
        ("create", "", "pods/exec"),
        ("list", "batch", "jobs"),
        ("patch", "batch", "jobs"),
        ("create", "apps", "deployments"),
        ("create", "rbac.authorization.k8s.io", "rolebindings"),
    ] {
        assert!(!may(&place, &user, verb, group, resource, own).await, "{verb} {resource}");
    }

    let policy = place.get::<NetworkPolicy>(SCRIPTS).await.expect("a NetworkPolicy").spec.expect("a spec");
    let policy = serde_json::to_value(policy).expect("JSON");
    assert_eq!(policy["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy.get("egress"), None, "no connection goes out");
    // The second is the port of tunnels in Istio's ambient mode.
    let ports = [SCRIPT_PORT, 15008].map(|port| json!({ "port": port, "protocol": "TCP" }));
    assert_eq!(policy["ingress"][0]["ports"], json!(ports));

    let deployment = place.eventually("the pods", async || place.get::<Deployment>("x").await).await;
    let pod = serde_json::to_value(deployment).expect("JSON")["spec"]["template"].take();
    assert_eq!(pod["spec"]["automountServiceAccountToken"], true);
    assert_eq!(
        policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/instance"],
        "x"
    );
    // The server knows its pod by the variables of the operator.
    let variables = pod["spec"]["containers"][0]["env"].as_array().expect("variables").clone();
    let variable = |name: &str| {
        let found = variables.iter().find(|variable| variable["name"] == name)?;
        let field = found["valueFrom"]["fieldRef"]["fieldPath"].as_str();
        found["value"].as_str().or(field).map(str::to_owned)
    };
    let server = ServerPod::from_variables(variable).expect("a server with Jobs");
    assert_eq!((server.server.as_str(), server.uid.as_str()), ("x", "metadata.uid"));
    assert_eq!(server.script_user, Some(65_532));

    let worker = json!({ "spec": { "config": { "code": { "engine": "worker", "job": null } } } });
    place.edit::<VirtualMCPServer>("x", worker).await;
    place
        .eventually("the right to go", async || {
            let (binding, policy) =
                tokio::join!(place.get::<RoleBinding>(SCRIPTS), place.get::<NetworkPolicy>(SCRIPTS));
            (binding.is_none() && policy.is_none()).then_some(())
        })
        .await;
    await_right(&place, &user, ("create", "batch", "jobs"), false).await;
    place
        .eventually("the token to go", async || {
            let pod = place.get::<Deployment>("x").await?.spec?.template.spec?;
            (pod.automount_service_account_token == Some(false)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn without_an_isolation_there_is_no_right() {
    let place = ControlPlane::shared().await.namespace("unisolated").await;
    place
        .apply(
            "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: x-vmcp-scripts}, \
             spec: {podSelector: {}, egress: [{}]}}",
        )
        .await;
    let _operator = operator_with_jobs(&place).await;
    apply(&place, "VirtualMCPServer", "x", "{config: {code: {engine: job}}}").await;
    let message = await_condition::<VirtualMCPServer>(&place, "x", "Ready", "False", "NameTaken").await;
    assert!(message.contains(SCRIPTS), "{message}");
    assert!(place.get::<RoleBinding>(SCRIPTS).await.is_none());
    place.delete::<NetworkPolicy>(SCRIPTS).await;
    place.eventually("the right", async || place.get::<RoleBinding>(SCRIPTS).await).await;
}

#[tokio::test]
async fn an_account_of_the_author_gets_no_right() {
    let place = ControlPlane::shared().await.namespace("ownaccount").await;
    let _operator = operator_with_jobs(&place).await;
    apply(&place, "VirtualMCPServer", "x", "{serviceAccount: own, config: {code: {engine: job}}}").await;
    await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "False", "ScriptJobsServiceAccount")
        .await;
    let user = format!("system:serviceaccount:{}:own", place.name);
    assert!(!may(&place, &user, "create", "batch", "jobs", &place.name).await);
    assert!(place.get::<RoleBinding>(SCRIPTS).await.is_none());
}

#[tokio::test]
async fn jobs_take_a_word_of_the_installation() {
    let place = ControlPlane::shared().await.namespace("nojobs").await;
    let _operator = Operator::start(&place).await;
    apply(&place, "VirtualMCPServer", "x", "{config: {code: {engine: job}}}").await;
    let condition =
        await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "False", "ScriptJobsDisabled").await;
    assert!(condition.contains("`scriptJobs.enabled: true`"), "{condition}");
    assert!(!may(&place, &account(&place), "create", "batch", "jobs", &place.name).await);
}

/// Starts the program of a pod, as a kubelet would, and reports that it runs.
async fn run_pod(place: &Namespace, pod: &Pod) -> Child {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first()).expect("a container");
    let words = container.command.as_ref().expect("a command");
    let mut command = Command::new(words.first().expect("a program"));
    command.args(words.iter().skip(1)).stdin(Stdio::null()).kill_on_drop(true);
    for variable in container.env.iter().flatten() {
        command.env(&variable.name, variable.value.as_deref().unwrap_or_default());
    }
    let pod_name = pod.metadata.name.as_deref().expect("a name");
    // In place of the pod's own `/tmp`.
    command.env("TMPDIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join(pod_name));
    let child = command.spawn().expect("python3");
    let running = json!({ "status": { "phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [{
        "name": container.name, "image": "i", "imageID": "", "ready": true, "restartCount": 0,
        "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
    }]}});
    let reported =
        place.api::<Pod>().patch_status(pod_name, &PatchParams::default(), &Patch::Merge(running)).await;
    reported.expect("the status of the pod");
    child
}

/// A host without tools.
struct NoTools;

impl ToolHost for NoTools {
    type Asking = ();

    async fn call(&self, call: HostCall) -> Called<()> {
        Called::Ended(CallEnd::Value(serde_json::to_value(call).expect("JSON")))
    }

    async fn go_on(&self, (): ()) -> Called<()> {
        unreachable!("nothing asks")
    }
}

async fn run_script(jobs: &JobLauncher, code: &str) -> Ran {
    let settings = JobSettings {
        image: "docker.io/library/python:3.13-slim".to_owned(),
        image_pull_secrets: Vec::new(),
        runtime_class_name: None,
        cpu_millicores: 500,
        memory: 64 << 20,
        ephemeral_storage: 1 << 20,
        start_timeout: Duration::from_mins(2),
        max_timeout: Duration::from_mins(2),
    };
    let limits = ScriptLimits { timeout: Duration::from_mins(2), ..ScriptLimits::default() };
    let script = StartScript {
        code: code.to_owned(),
        context: None,
        namespaces: Vec::new(),
        tool_script: None,
        limits: limits.clone(),
    };
    let program = WorkerProgram { program: "/nonexistent".into(), arguments: Vec::new() };
    let bounds = ResourceBounds { memory: 64 << 20, cpu_seconds: 600 };
    let places = PoolSettings { warm: 0, running: 1, running_per_principal: 1, bounds };
    let pool = Arc::new(WorkerPool::new(program));
    let launch = jobs.launch(&settings, &limits);
    match pool.run_in(&"me", places, launch, Script::New(script), &NoTools).await {
        ScriptEnd::Ended(ran) => ran,
        ScriptEnd::Waits(_) => unreachable!("a Job never waits"),
    }
}

/// Installs the chart's part about Jobs; its policy is one of the cluster, and names its servers by a mark.
async fn install_rights(place: &Namespace) -> bool {
    let roles = [(SCRIPTS, SCRIPT_JOBS_ROLE)];
    install_part(place, "scriptJobs.enabled=true", "script-jobs.yaml", &roles).await
}

/// Returns the launcher of a server's pod, which exists, with the rights of its ServiceAccount.
async fn launcher(place: &Namespace, script_port: u16) -> JobLauncher {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: x-1}, spec: {containers: [{name: c, image: i}]}}";
    // Refused until the namespace has its default account.
    place.eventually("the pod to be taken", async || place.try_apply(pod).await.ok()).await;
    let uid = place.get::<Pod>("x-1").await.expect("the pod").metadata.uid.expect("a UID");
    let server = ServerPod {
        name: "x-1".to_owned(),
        namespace: place.name.clone(),
        uid,
        server: "x".to_owned(),
        script_user: Some(65_532),
        script_port,
    };
    JobLauncher::new(server, client_as(place.cluster(), &account(place)).await)
}

#[tokio::test]
async fn a_script_runs_as_a_job_and_leaves_none() {
    let cluster = ControlPlane::shared().await;
    if cluster.skips_without_controllers() {
        return;
    }
    let place = cluster.namespace("script").await;
    if !install_rights(&place).await {
        return;
    }
    let jobs = launcher(&place, free_port()).await;
    let of_scripts = "app.kubernetes.io/name=vmcp-script,app.kubernetes.io/instance=x";
    let kubelet = async {
        let pod = place
            .eventually("the pod of the script", async || {
                place.list::<Pod>(of_scripts).await.into_iter().next()
            })
            .await;
        let made = place.list::<Job>(of_scripts).await;
        (run_pod(&place, &pod).await, pod, made)
    };
    let (ran, (_child, pod, made)) =
        tokio::join!(run_script(&jobs, "sum(x**2 for x in range(1000))"), kubelet);
    assert_eq!(ran.finished.end.expect("a value"), json!(332_833_500));
    let spec = pod.spec.expect("a spec");
    assert_eq!(spec.automount_service_account_token, Some(false));
    assert!(spec.volumes.expect("volumes").iter().all(|volume| volume.empty_dir.is_some()), "no token");
    let job = made.first().expect("a Job");
    let owners = job.metadata.owner_references.as_ref().expect("an owner");
    assert_eq!(owners.first().expect("an owner").name, "x-1");
    place
        .eventually("the Job to go", async || place.list::<Job>(of_scripts).await.is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn a_quota_is_named() {
    let cluster = ControlPlane::shared().await;
    if cluster.skips_without_controllers() {
        return;
    }
    let place = cluster.namespace("quota").await;
    if !install_rights(&place).await {
        return;
    }
    let jobs = launcher(&place, free_port()).await;
    place
        .apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: small}, spec: {hard: {pods: '1'}}}")
        .await;
    place
        .eventually("the quota to count", async || {
            (place.json("resourcequota/small").await["status"]["used"]["pods"] == "1").then_some(())
        })
        .await;
    let failure = run_script(&jobs, "1").await.finished.end.expect_err("refused");
    assert_eq!(failure.error_type, "StartError");
    assert!(failure.error.contains("exceeded quota: small"), "{}", failure.error);
    assert!(failure.error.contains("raise the ResourceQuota"), "{}", failure.error);
}

/// A change of a manifest.
type Change = fn(&mut Value);

/// Returns changes of a pod that the policy refuses, each with a part of the refusal.
fn pods_beyond_a_script() -> [(Change, &'static str); 13] {
    [
        (|pod| pod["automountServiceAccountToken"] = json!(true), "no token"),
        (|pod| pod["serviceAccountName"] = json!("admin"), "no ServiceAccount"),
        (|pod| pod["volumes"] = json!([{ "name": "s", "secret": { "secretName": "s" } }]), "no Secret"),
        (|pod| pod["containers"][0]["envFrom"] = json!([{ "secretRef": { "name": "s" } }]), "no Secret"),
        (
            |pod| {
                let key = json!({ "secretKeyRef": { "name": "s", "key": "k" } });
                pod["containers"][0]["env"] = json!([{ "name": "A", "valueFrom": key }]);
            },
            "no Secret",
        ),
        (|pod| pod["hostNetwork"] = json!(true), "nothing of its node"),
        (
            |pod| {
                pod["containers"][0]["securityContext"] = json!({ "privileged": true });
            },
            "no privileges",
        ),
        (|pod| pod["securityContext"] = json!({}), "no privileges"),
        (|pod| pod["securityContext"]["seccompProfile"]["type"] = json!("Unconfined"), "no privileges"),
        (
            |pod| {
                let unconfined = json!({ "type": "Unconfined" });
                pod["containers"][0]["securityContext"]["seccompProfile"] = unconfined;
            },
            "no privileges",
        ),
        (|pod| pod["nodeName"] = json!("n"), "names no node"),
        (|pod| pod["tolerations"] = json!([{ "operator": "Exists" }]), "tolerates no taint"),
        (|pod| pod["priorityClassName"] = json!("system-cluster-critical"), "no priority"),
    ]
}

/// Returns changes of a Job that the policy refuses, each with a part of the refusal. Without the labels of
/// its server, no NetworkPolicy isolates the pod; by another label, a Service could lead to it.
fn jobs_beyond_a_script() -> [(Change, &'static str); 5] {
    [
        (
            |job| {
                for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
                    job.pointer_mut(labels).expect("labels")["app.kubernetes.io/instance"] = json!("other");
                }
            },
            "their server's",
        ),
        (|job| job["metadata"]["labels"]["app.kubernetes.io/instance"] = json!("other"), "their server's"),
        (
            |job| {
                job["spec"]["template"]["metadata"]["labels"] =
                    json!({ "app.kubernetes.io/name": "vmcp-script" });
            },
            "their server's",
        ),
        (|job| job["spec"]["template"]["metadata"]["labels"]["app"] = json!("web"), "their server's"),
        (
            |job| {
                job["spec"]["manualSelector"] = json!(true);
                job["spec"]["selector"] = json!({ "matchLabels": { "app.kubernetes.io/instance": "x" } });
            },
            "its own pods alone",
        ),
    ]
}

/// A server under an attacker keeps its rights, and the right to make Jobs would reach further: a Job runs
/// any pod.
#[tokio::test]
async fn a_job_gains_its_server_nothing() {
    let place = ControlPlane::shared().await.namespace("escape").await;
    if !install_rights(&place).await {
        return;
    }
    let labels = BTreeMap::from([
        ("app.kubernetes.io/name", "vmcp-script"),
        ("app.kubernetes.io/instance", "x"),
        ("app.kubernetes.io/managed-by", "vmcp"),
    ]);
    let job = |change: &dyn Fn(&mut Value)| {
        let mut job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": { "generateName": "j-", "labels": labels },
            "spec": { "template": { "metadata": { "labels": labels }, "spec": {
                "restartPolicy": "Never", "automountServiceAccountToken": false,
                "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                "containers": [{ "name": "c", "image": "i", "securityContext": { "allowPrivilegeEscalation": false } }],
            }}},
        });
        change(&mut job);
        serde_json::from_value::<Job>(job).expect("a Job")
    };
    let jobs: Api<Job> = Api::namespaced(client_as(place.cluster(), &account(&place)).await, &place.name);
    let refusal = async |change: &dyn Fn(&mut Value)| {
        let made = jobs.create(&PostParams::default(), &job(change)).await;
        made.err().map(|error| error.to_string()).unwrap_or_default()
    };
    place
        .eventually("the policy", async || {
            let refused = refusal(&|job| job["metadata"]["labels"] = json!({ "app": "other" })).await;
            refused.contains("Jobs of scripts alone").then_some(())
        })
        .await;
    assert_eq!(refusal(&|_| {}).await, "");
    for (attempt, expected) in pods_beyond_a_script() {
        let refused = refusal(&|job| attempt(&mut job["spec"]["template"]["spec"])).await;
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
    for (attempt, expected) in jobs_beyond_a_script() {
        let refused = refusal(&attempt).await;
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
    // Jobs of others stay.
    place
        .apply(
            "{apiVersion: batch/v1, kind: Job, metadata: {name: nightly}, spec: {template: {spec: {restartPolicy: Never, \
             containers: [{name: c, image: i}]}}}}",
        )
        .await;
    let refused = jobs.delete("nightly", &kube::api::DeleteParams::default()).await.unwrap_err().to_string();
    assert!(refused.contains("Jobs of scripts alone"), "{refused}");
}
