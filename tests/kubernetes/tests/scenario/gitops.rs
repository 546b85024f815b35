//! Health of the resources as Argo CD and Flux see it: their own libraries judge what the API server holds,
//! Argo CD with the health checks that `deploy/gitops` ships.

use std::process::Stdio;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use vmcp_crds::{MCPServer, MCPServerEntry, VirtualMCPServer};
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator, Programs, repository, skipped};

use super::backends::{apply, await_condition, set_pod_status};
use super::stand_in::StandIn;

/// The health of an object in the words of Argo CD and of Flux.
type Verdict = (&'static str, &'static str);

const UNDER_WAY: Verdict = ("Progressing", "InProgress");
const IN_FORCE: Verdict = ("Healthy", "Current");
const FAILED: Verdict = ("Degraded", "Failed");
const ENDING: Verdict = ("Progressing", "Terminating");

/// The program that asks both libraries.
struct Judge(Programs);

impl Judge {
    /// Returns the program; `None`, and the test is skipped, where it cannot be built.
    async fn find() -> Option<Self> {
        let found = tokio::task::spawn_blocking(Programs::gitops).await.expect("looking for the program");
        if found.is_none() {
            skipped("the libraries of Argo CD and Flux are Go modules, and there is no go");
        }
        found.map(Self)
    }

    async fn verdicts(&self, object: &Value) -> Value {
        let checks = repository().join("deploy/gitops/argocd-health.yaml");
        let mut command = Command::new(self.0.path("gitops-health"));
        command.arg(checks).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.kill_on_drop(true).spawn().expect("gitops-health");
        let mut input = running.stdin.take().expect("its standard input");
        input.write_all(object.to_string().as_bytes()).await.expect("written");
        drop(input);
        let output = running.wait_with_output().await.expect("gitops-health");
        assert!(output.status.success(), "{}\n{object}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("verdicts")
    }

    /// Waits until both see an object so; returns the message of Argo CD.
    async fn sees(&self, place: &Namespace, object: &str, (argo, flux): Verdict) -> String {
        place
            .eventually(&format!("{object} to be {argo} and {flux}"), async || {
                let mut verdicts = self.verdicts(&place.json(object).await).await;
                let agree = verdicts["argo"]["status"] == argo && verdicts["flux"]["status"] == flux;
                agree.then(|| verdicts["argo"]["message"].take().as_str().unwrap_or_default().to_owned())
            })
            .await
    }
}

/// Writes into the status of the pod with this image that the image cannot be pulled.
async fn fail_pod(place: &Namespace, image: &str) {
    let with_image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some(image);
    let found = async || place.list::<Pod>("").await.into_iter().find(with_image);
    let pod = place.eventually("a pod with the new image", found).await;
    let container = pod.spec.as_ref().unwrap().containers[0].name.clone();
    let waiting = json!({ "waiting": { "reason": "ErrImagePull", "message": "not found" } });
    let status = json!({ "status": { "phase": "Pending", "containerStatuses": [
        { "name": container, "image": image, "imageID": "", "ready": false, "restartCount": 0, "state": waiting, "lastState": {} },
    ] } });
    let (pods, patch) = (place.api::<Pod>(), Patch::Merge(status));
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.expect("patched");
}

/// Keeps an object in its deletion.
fn finalizer() -> Value {
    json!({ "metadata": { "finalizers": ["test.example.com/kept"] } })
}

const SERVER: &str = "{image: 'x:1', transport: streamable-http, mcpPort: 3000}";

#[tokio::test]
async fn argo_and_flux_follow_a_server_from_its_creation_to_its_end() {
    let cluster = ControlPlane::shared().await;
    let Some(judge) = Judge::find().await else { return };
    if cluster.skips_without_controllers() {
        return;
    }
    let place = cluster.namespace("gitops").await;
    cluster.define_resources().await;
    // No operator yet: nothing has seen the resource, and no client may take it for a resource in force.
    apply(&place, "MCPServer", "time", SERVER).await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    judge.sees(&place, "mcpserver/time", UNDER_WAY).await;
    judge.sees(&place, "vmcp/x", UNDER_WAY).await;

    let _operator = Operator::start(&place).await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    stand_in.set_report(json!({ "tools": 1, "configuration": { "digest": "old" } }));
    judge.sees(&place, "mcpserver/time", UNDER_WAY).await;
    set_pod_status(&place, "time", true, json!({ "state": { "running": {} } })).await;
    judge.sees(&place, "mcpserver/time", IN_FORCE).await;
    let message = judge.sees(&place, "vmcp/x", UNDER_WAY).await;
    assert!(message.contains("pods take up the newest configuration"), "{message}");
    let map =
        place.get::<ConfigMap>("x-vmcp-config").await.and_then(|map| map.data).expect("a configuration");
    let digest = vmcp_config::status::digest(&map["vmcp.yaml"]);
    stand_in.set_report(json!({ "tools": 1, "configuration": { "digest": digest } }));
    judge.sees(&place, "vmcp/x", IN_FORCE).await;

    apply(&place, "VirtualMCPServer", "paused", "{suspend: true}").await;
    await_condition::<VirtualMCPServer>(&place, "paused", "Ready", "False", "Suspended").await;
    let message = judge.sees(&place, "vmcp/paused", UNDER_WAY).await;
    assert!(message.contains("spec.suspend is true"), "{message}");

    // The old pods serve on, so that `Ready` is true throughout.
    for (object, image) in [("mcpserver/time", "time:typo"), ("vmcp/x", "vmcp:typo")] {
        let edit = json!({ "spec": { "image": image } });
        match object {
            "vmcp/x" => drop(place.edit::<VirtualMCPServer>("x", edit).await),
            _ => drop(place.edit::<MCPServer>("time", edit).await),
        }
        judge.sees(&place, object, UNDER_WAY).await;
        fail_pod(&place, image).await;
        let message = judge.sees(&place, object, FAILED).await;
        assert!(message.contains(&format!("cannot pull image {image}")), "{message}");
        assert_eq!(place.condition(object, "Ready").await["status"], "True");
    }
    place.edit::<MCPServer>("time", json!({ "spec": { "image": "x:1" } })).await;
    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "image": null } })).await;
    judge.sees(&place, "mcpserver/time", IN_FORCE).await;
    judge.sees(&place, "vmcp/x", IN_FORCE).await;

    let typo = json!({ "spec": { "podTemplateSpec": { "spec": { "nodeSelektor": { "a": "b" } } } } });
    place.edit::<MCPServer>("time", typo.clone()).await;
    place.edit::<VirtualMCPServer>("x", typo).await;
    for object in ["mcpserver/time", "vmcp/x"] {
        let message = judge.sees(&place, object, FAILED).await;
        assert!(message.contains("nodeSelektor"), "{message}");
    }

    place.edit::<MCPServer>("time", finalizer()).await;
    place.edit::<VirtualMCPServer>("x", finalizer()).await;
    place.delete::<MCPServer>("time").await;
    place.delete::<VirtualMCPServer>("x").await;
    judge.sees(&place, "mcpserver/time", ENDING).await;
    judge.sees(&place, "vmcp/x", ENDING).await;
    let kept = json!({ "metadata": { "finalizers": null } });
    place.edit::<MCPServer>("time", kept.clone()).await;
    place.edit::<VirtualMCPServer>("x", kept).await;
    place.remove().await;
}

#[tokio::test]
async fn argo_and_flux_notice_settings_that_are_wrong() {
    let cluster = ControlPlane::shared().await;
    let Some(judge) = Judge::find().await else { return };
    let place = cluster.namespace("settings").await;
    let _operator = Operator::start(&place).await;
    let secret = "{name: absent, key: token}";
    let bearer = format!("{{type: bearerToken, bearerToken: {{tokenSecretRef: {secret}}}}}");
    let header =
        format!("headerForward: {{addHeadersFromSecret: [{{headerName: A, valueSecretRef: {secret}}}]}}");
    let remote = format!("{{remoteUrl: 'https://a.example/mcp', transport: streamable-http, {header}}}");
    let wrong = [
        ("MCPServerEntry", remote.as_str()),
        ("MCPRemoteProxy", remote.as_str()),
        ("MCPExternalAuthConfig", bearer.as_str()),
        ("MCPTelemetryConfig", "{openTelemetry: {enabled: true, endpoint: 'ftp://c'}}"),
        ("MCPOIDCConfig", "{type: inline, inline: {issuer: 'http://idp.example'}}"),
        ("MCPAuthzConfig", "{type: cedarv1, config: {policies: ['permit(']}}"),
        (
            "VirtualMCPCompositeToolDefinition",
            "{name: t, steps: [{id: a, tool: x, dependsOn: [b]}, {id: b, tool: x, dependsOn: [a]}]}",
        ),
    ];
    for (kind, spec) in wrong {
        apply(&place, kind, "wrong", spec).await;
        let message = judge.sees(&place, &format!("{kind}/wrong"), FAILED).await;
        assert!(!message.is_empty(), "{kind}");
    }
    apply(&place, "MCPGroup", "tools", "{}").await;
    judge.sees(&place, "mcpgroup/tools", IN_FORCE).await;
    place.apply("{apiVersion: v1, kind: Secret, metadata: {name: absent}, stringData: {token: x}}").await;
    for kind in ["MCPServerEntry", "MCPRemoteProxy", "MCPExternalAuthConfig"] {
        judge.sees(&place, &format!("{kind}/wrong"), IN_FORCE).await;
    }
    place
        .edit::<MCPServerEntry>("wrong", json!({ "spec": { "remoteUrl": "http://169.254.169.254/" } }))
        .await;
    let message = judge.sees(&place, "mcpserverentry/wrong", FAILED).await;
    assert!(message.contains("link-local"), "{message}");
    place.remove().await;
}
