//! Benchmark of the operator with many servers at once: time until all is applied, writes at rest, memory;
//! beside the time to apply the same objects by hand, one after another.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and ends where something fails"
)]

use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vmcp_crds::VirtualMCPServer;
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator};

/// Concurrent appliers, as in an impatient CI.
const AT_ONCE: usize = 16;
/// Time for which writes at rest are counted.
const REST: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_mins(10);
/// Kinds of the objects that the operator makes of a server without settings.
const KINDS: &str = "serviceaccounts,configmaps,secrets,services,deployments";

#[tokio::main]
async fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let count = if quick { 20 } else { 200 };
    let cluster = ControlPlane::start().await;

    let place = cluster.namespace("bench").await;
    let operator = Operator::start(&place).await;
    let idle = operator.process.resident_mib();
    let began = Instant::now();
    apply_servers(&place, count).await;
    let accepted = began.elapsed();
    place.eventually_within(LIMIT, "all servers", async || all_applied(&place, count).await).await;
    let applied = began.elapsed();
    operator.quiet().await;
    let to_rest = began.elapsed();
    let full = operator.process.resident_mib();
    let writes = operator.writes().await;

    let (cpu, reconciles) =
        (operator.cpu_seconds(), total(&operator, "vmcp_operator_reconciles_total").await);
    sleep(REST).await;
    let writes_at_rest = operator.writes().await - writes;
    let reconciles = total(&operator, "vmcp_operator_reconciles_total").await - reconciles;
    let cpu = operator.cpu_seconds() - cpu;
    drop(operator);

    // A restarted operator finds everything as it should be.
    let again = Operator::with(&place, "again", &[("LEADER_ELECT", "false")]).await;
    let looked = count as u64;
    place
        .eventually_within(LIMIT, "another look at all", async || {
            (total(&again, "vmcp_operator_reconciles_total").await >= looked).then_some(())
        })
        .await;
    again.quiet().await;
    let writes_of_restart = again.writes().await;
    drop(again);

    let by_hand = one_after_another(&cluster, &place, count).await;

    println!("\n{count} VirtualMCPServers at once\n");
    row(
        "all objects there, statuses written",
        &seconds(applied),
        &format!("{} one apply after another", seconds(by_hand)),
    );
    row("ratio", &format!("{:.2}", applied.as_secs_f64() / by_hand.as_secs_f64()), "of the time by hand");
    row("of that, until all were accepted", &seconds(accepted), "");
    row("until nothing is written any more", &seconds(to_rest), "");
    row("writes in all", &writes.to_string(), &format!("{:.1} a server", writes as f64 / count as f64));
    row(
        "writes at rest, 30 s",
        &writes_at_rest.to_string(),
        &format!("{reconciles} reconciles, {cpu:.2} s of CPU"),
    );
    row("writes after a restart", &writes_of_restart.to_string(), "");
    row("resident memory", &format!("{full} MiB"), &format!("{idle} MiB without servers"));
    assert_eq!(writes_at_rest, 0, "MISSED: nothing is written at rest");
}

fn row(what: &str, figure: &str, beside: &str) {
    println!("{what:<38} {figure:>12}   {beside}");
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

async fn apply_servers(place: &Namespace, count: usize) {
    let applied = stream::iter(0..count).map(async |number| {
        let server = json!({"apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "VirtualMCPServer",
            "metadata": {"name": format!("server-{number}")}, "spec": {"optimizer": {"enabled": true}}});
        place.apply(&server.to_string()).await
    });
    applied.buffer_unordered(AT_ONCE).for_each(async |_| ()).await;
}

async fn all_applied(place: &Namespace, count: usize) -> Option<()> {
    let deployments = place.list::<Deployment>("app.kubernetes.io/name=vmcp").await.len();
    let servers = place.list::<VirtualMCPServer>("").await;
    let told = servers.iter().filter(|server| {
        server.status.as_ref().is_some_and(|status| status.observed_generation == server.metadata.generation)
    });
    (deployments == count && told.count() == count).then_some(())
}

async fn total(operator: &Operator, name: &str) -> u64 {
    operator.metric(name, &[]).await as u64
}

/// Applies the objects of one server `count` times, in a namespace that no operator watches, one after
/// another.
async fn one_after_another(cluster: &ControlPlane, place: &Namespace, count: usize) -> Duration {
    let selector = "app.kubernetes.io/instance=server-0,app.kubernetes.io/managed-by=vmcp-operator";
    let listed = cluster.kubectl(&["get", KINDS, "-n", &place.name, "-l", selector, "-o", "json"]).await;
    let listed: Value = serde_json::from_str(&listed.expect("the objects of a server")).unwrap();
    let templates: Vec<String> =
        listed["items"].as_array().unwrap().iter().cloned().map(as_written).collect();
    let by_hand = cluster.namespace("by-hand").await;
    let began = Instant::now();
    for number in 0..count {
        for template in &templates {
            by_hand.apply(&template.replace("server-0", &format!("server-{number}"))).await;
        }
    }
    began.elapsed()
}

/// Returns an object as a user would write it.
fn as_written(mut object: Value) -> String {
    let metadata = json!({"name": object["metadata"]["name"], "labels": object["metadata"]["labels"]});
    object["metadata"] = metadata;
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        && spec.get("clusterIP").is_some_and(|address| address != "None")
    {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    object.to_string()
}
