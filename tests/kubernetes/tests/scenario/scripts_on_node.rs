//! Scripts as Jobs on a real node: CPython in a pod, calls of tools over the connection to it, and a worker
//! in place of a Job that does not start.

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};
use vmcp_crds::VirtualMCPServer;
use vmcp_integration::Client;
use vmcp_kubernetes_tests::Cluster;

use super::{client, ready};

const SERVERS: &str = "apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPGroup
metadata: {name: tools}
spec: {}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServer
metadata: {name: web}
spec:
  groupRef: {name: tools}
  image: localhost/vmcp-tests/servers:1
  transport: streamable-http
  command: [vmcp-fixture, --transport, http, --host, 0.0.0.0, --port, '8080', --name, web]
  mcpPort: 8080
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: x}
spec:
  groupRef: {name: tools}
  optimizer: {enabled: true, tools: [find_tool, call_tool, execute_code], embeddings: {provider: none}}
  config:
    code:
      engine: job
      memoryMebibytes: 64
      job: {image: localhost/vmcp-tests/servers:1, cpuMillicores: 100}
";
/// Labels of the Jobs of the server's scripts.
const OF_SCRIPTS: &str = "app.kubernetes.io/name=vmcp-script,app.kubernetes.io/instance=x";

async fn run(client: &Client, code: &str, timeout_ms: u64) -> Value {
    let arguments = json!({ "code": code, "timeout_ms": timeout_ms });
    client.call_tool("optim.execute_code", arguments).await.structured().clone()
}

#[tokio::test]
async fn a_script_runs_in_cpython_in_a_pod_and_in_a_worker_where_no_pod_starts() {
    let cluster = Cluster::from_environment();
    let place = cluster.served("scripts").await;
    place.apply(SERVERS).await;
    ready(&place, "x").await;
    let (_way, client) = client(&place, "x").await;
    let listed = async || client.tools().await.contains_key("web_echo").then_some(());
    place.eventually("the tool of the server", listed).await;

    let code = "import os, sys\n\
                said = web.echo(message='hello')\n\
                token = os.path.exists('/var/run/secrets/kubernetes.io')\n\
                addresses = [name for name in os.environ if name.startswith('KUBERNETES_')]\n\
                [sys.implementation.name, said, token, addresses, os.getuid()]";
    let ran = run(&client, code, 30_000).await;
    assert_eq!(ran["result"], json!(["cpython", "hello", false, [], 65_532]), "{ran}");
    assert_eq!(ran["calls"], 1, "{ran}");
    let refused = run(&client, "open('/opt/x', 'w')", 30_000).await;
    assert_eq!(refused["success"], false, "the root is read-only: {refused}");
    let hangs = run(&client, "while True: pass", 1_000).await;
    let shape = json!({
        "success": false, "error": "Code execution timed out after 1 seconds", "error_type": "TimeoutError", "timeout": 1.0,
    });
    assert_eq!(hangs, shape);
    let gone = async || place.list::<Job>(OF_SCRIPTS).await.is_empty().then_some(());
    place.eventually("the Jobs to go", gone).await;

    // An image that no registry has.
    let job = |fallback: &str| {
        let job = json!({ "image": "localhost/vmcp-tests/absent:1", "startTimeout": "10s", "onStartFailure": fallback });
        json!({ "spec": { "config": { "code": { "job": job } } } })
    };
    place.edit::<VirtualMCPServer>("x", job("error")).await;
    let fails = async || {
        let failed = run(&client, "1 + 1", 30_000).await;
        (failed["error_type"] == "StartError").then_some(failed)
    };
    let failed = place.eventually("a script without a pod to fail", fails).await;
    assert!(failed["error"].as_str().is_some_and(|error| error.contains("image")), "{failed}");
    place.edit::<VirtualMCPServer>("x", job("worker")).await;
    let falls_back = async || {
        let ran = run(&client, "1 + 1", 30_000).await;
        ran.get("warning").is_some().then_some(ran)
    };
    let ran = place.eventually("a worker to run the script", falls_back).await;
    assert_eq!(ran["result"], "2", "{ran}");
    place.eventually("no Job to be left", gone).await;
    place.remove().await;
}
