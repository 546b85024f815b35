//! Benchmark of the operator in a large cluster: many VirtualMCPServers, each with many MCPServers, in many
//! namespaces. Time until all is applied, memory, writes at rest, and the work after a change of one backend.
//!
//! `-- --servers 1000 --backends 5000 --namespaces 200` are the defaults; `--quick` is a tenth of them.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and ends where something fails"
)]

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use vmcp_crds::{MCPServer, VirtualMCPServer};
use vmcp_kubernetes_tests::{Cluster, ControlPlane, Namespace, Operator};

/// Concurrent appliers.
const AT_ONCE: usize = 16;
/// Requests a second of the controllers, by Kubernetes' default, and while their work is waited for: without
/// them, no pod is made.
const USUAL: u32 = 20;
const UNTHROTTLED: u32 = 300;
/// Time for which writes at rest are counted.
const REST: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_mins(20);
/// Kinds of requests that are shown.
const SHOWN: usize = 24;
/// Pause between two looks at the whole cluster, whose answers are megabytes.
const POLL: Duration = Duration::from_secs(1);

/// Sizes of the cluster, each in all namespaces together.
#[derive(Clone, Copy)]
struct Size {
    servers: usize,
    backends: usize,
    namespaces: usize,
}

impl Size {
    fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let quick = arguments.iter().any(|argument| argument == "--quick");
        let number = |name: &str, default: usize| {
            let at = arguments.iter().position(|argument| argument == name);
            let given = at.and_then(|at| arguments.get(at + 1)?.parse().ok());
            given.unwrap_or(if quick { default / 10 } else { default })
        };
        Self {
            servers: number("--servers", 1000),
            backends: number("--backends", 5000),
            namespaces: number("--namespaces", 200),
        }
    }
}

#[tokio::main]
async fn main() {
    let size = Size::from_arguments();
    let mut cluster = ControlPlane::start().await;
    cluster.limit_controllers(UNTHROTTLED);
    let client = cluster.client().await;
    let home = cluster.namespace("operator").await;
    let variables = [("LEADER_ELECT", "false"), ("WATCH_NAMESPACE", ""), ("RESYNC_SECONDS", "300")];
    let operator = Operator::with(&home, "one", &variables).await;
    let idle = operator.process.resident_mib();
    let mut places = Vec::new();
    for _ in 0..size.namespaces {
        places.push(cluster.namespace("scale").await);
    }

    let backends = apply_all(&places, "MCPServer", "backend", size.backends).await;
    let backends_applied = all_applied::<MCPServer>(&client, size.backends, "mcp-server").await;
    // Its controllers make ReplicaSets and pods of the Deployments for a while, and each changes a status.
    operator.quiet().await;
    // As in any cluster: what the controllers do for each object is not in the way of the next.
    cluster.limit_controllers(USUAL);
    sleep(REST).await;
    let servers = apply_all(&places, "VirtualMCPServer", "server", size.servers).await;
    let servers_applied = all_applied::<VirtualMCPServer>(&client, size.servers, "vmcp").await;
    cluster.limit_controllers(UNTHROTTLED);
    sleep(REST).await;
    operator.quiet().await;
    let full = operator.process.resident_mib();
    let cpu_of_applying = operator.cpu_seconds();
    let requests = requests(&cluster).await;

    let (writes, cpu) = (operator.writes().await, operator.cpu_seconds());
    sleep(REST).await;
    let writes_at_rest = operator.writes().await - writes;
    let cpu = operator.cpu_seconds() - cpu;

    // Another port of one backend concerns the VirtualMCPServers of its namespace.
    let (changed, writes) = (Instant::now(), operator.writes().await);
    places[0].edit::<MCPServer>("backend-0", json!({"spec": {"proxyPort": 9999}})).await;
    operator.quiet().await;
    let writes_of_change = operator.writes().await - writes;
    let to_rest = changed.elapsed();

    let Size { servers: n, backends: m, namespaces } = size;
    println!("\n{n} VirtualMCPServers and {m} MCPServers in {namespaces} namespaces\n");
    row("MCPServers applied", &backends_applied.elapsed_since(backends), &format!("{m} of them"));
    row("VirtualMCPServers applied", &servers_applied.elapsed_since(servers), &format!("{n} of them"));
    row("CPU of the operator until then", &format!("{cpu_of_applying:.1} s"), "");
    row("resident memory", &format!("{full} MiB"), &format!("{idle} MiB without resources"));
    row("writes at rest, 30 s", &writes_at_rest.to_string(), &format!("{cpu:.1} s of CPU"));
    row(
        "writes after a change of one backend",
        &writes_of_change.to_string(),
        &format!(
            "{} VirtualMCPServers have it; at rest after {:.1} s",
            n / namespaces,
            to_rest.as_secs_f64()
        ),
    );
    println!("\nrequests that the API server answered until then\n");
    for (what, Answered { count, seconds }) in requests.into_iter().take(SHOWN) {
        row(
            &what,
            &count.to_string(),
            &format!("{:.1} ms each, {seconds:.0} s in all", seconds / count * 1e3),
        );
    }
    assert_eq!(writes_at_rest, 0, "MISSED: nothing is written at rest");
}

/// Requests of one kind that the API server answered, and the time that they took in all.
#[derive(Default, Clone, Copy)]
struct Answered {
    count: f64,
    seconds: f64,
}

/// Returns what the API server answered, by verb and resource, what took longest in all first. Watches go on,
/// and are left out.
async fn requests(cluster: &Cluster) -> Vec<(String, Answered)> {
    const COUNT: &str = "apiserver_request_duration_seconds_count{";
    const SUM: &str = "apiserver_request_duration_seconds_sum{";
    let metrics =
        cluster.kubectl(&["get", "--raw", "/metrics"]).await.expect("the metrics of the API server");
    let mut answered: HashMap<String, Answered> = HashMap::new();
    for line in metrics.lines() {
        let (is_count, line) = match (line.strip_prefix(COUNT), line.strip_prefix(SUM)) {
            (Some(line), _) => (true, line),
            (_, Some(line)) => (false, line),
            _ => continue,
        };
        let (labels, value) = line.rsplit_once("} ").expect("a value");
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            rest.split_once('"').map(|(value, _)| value.to_owned())
        };
        let [verb, resource, subresource] =
            ["verb", "resource", "subresource"].map(|name| label(name).unwrap_or_default());
        if verb == "WATCH" {
            continue;
        }
        let slash = if subresource.is_empty() { "" } else { "/" };
        let entry = answered.entry(format!("{verb} {resource}{slash}{subresource}")).or_default();
        *(if is_count { &mut entry.count } else { &mut entry.seconds }) +=
            value.parse::<f64>().unwrap_or_default();
    }
    let mut answered: Vec<_> = answered.into_iter().collect();
    answered.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
    answered
}

/// A moment at which something was complete.
struct Moment(Instant);

impl Moment {
    fn elapsed_since(&self, began: Instant) -> String {
        format!("{:.1} s", self.0.duration_since(began).as_secs_f64())
    }
}

fn row(what: &str, figure: &str, beside: &str) {
    println!("{what:<38} {figure:>12}   {beside}");
}

/// Applies `count` resources, spread over all namespaces; returns when it began.
async fn apply_all(places: &[Namespace], kind: &str, name: &str, count: usize) -> Instant {
    let began = Instant::now();
    let spec = match kind {
        "MCPServer" => json!({"image": "none:1", "transport": "streamable-http", "mcpPort": 8080}),
        _ => json!({"optimizer": {"enabled": true}}),
    };
    let applied = stream::iter(0..count).map(async |number| {
        let place = &places[number % places.len()];
        let name = format!("{name}-{}", number / places.len());
        let resource = json!({"apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec});
        place.apply(&resource.to_string()).await
    });
    applied.buffer_unordered(AT_ONCE).for_each(async |_| ()).await;
    began
}

/// Waits for the Deployment and the status of each resource. Watches, for lists of thousands, asked for again
/// and again, would be what the API server is busy with.
async fn all_applied<K>(client: &Client, count: usize, workload: &str) -> Moment
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + serde::Serialize
        + std::fmt::Debug
        + Send
        + 'static,
{
    let began = Instant::now();
    let resources: Api<K> = Api::all(client.clone());
    let mut changes = pin!(watcher(resources, watcher::Config::default()).applied_objects());
    let mut told = HashSet::new();
    while told.len() < count {
        let change = timeout(LIMIT, changes.next()).await.expect("applied in time").expect("a watch");
        let resource = change.expect("a resource");
        let json = serde_json::to_value(&resource).unwrap();
        if json.pointer("/status/observedGeneration") == json.pointer("/metadata/generation") {
            told.insert((resource.namespace(), resource.name_any()));
        }
    }
    let labels = format!("app.kubernetes.io/managed-by=vmcp-operator,app.kubernetes.io/name={workload}");
    let deployments: Api<Deployment> = Api::all(client.clone());
    loop {
        let now = Instant::now();
        assert!(began.elapsed() < LIMIT, "not applied in time");
        let there = deployments.list_metadata(&ListParams::default().labels(&labels)).await.expect("a list");
        if there.items.len() == count {
            return Moment(now);
        }
        sleep(POLL).await;
    }
}
