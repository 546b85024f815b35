//! Report about a namespace, printed when a test in it fails.

use crate::Cluster;
use vmcp_integration::last_lines;

/// Returns the objects without managed fields, then the events, then the last 60 lines of the log of each
/// pod.
pub(crate) async fn namespace_report(cluster: &Cluster, namespace: &str) -> String {
    let ask = async |arguments: &[&str]| {
        let arguments = [&["--namespace", namespace], arguments].concat();
        cluster.kubectl(&arguments).await.unwrap_or_else(|error| error)
    };
    let mut text = format!("--- namespace {namespace}\n");
    let kinds = ask(&["api-resources", "--namespaced", "--verbs", "list", "--output", "name"]).await;
    let kinds = kinds.lines().filter(|kind| !matches!(*kind, "events" | "events.events.k8s.io" | "secrets"));
    let kinds = kinds.filter(|kind| !kind.ends_with(".metrics.k8s.io")).collect::<Vec<_>>().join(",");
    text += &last_lines(&ask(&["get", &kinds, "--output", "yaml"]).await, 1500);
    text += "\n--- events\n";
    text += &ask(&["get", "events", "--sort-by", ".lastTimestamp"]).await;
    for pod in ask(&["get", "pods", "--output", "name"]).await.lines() {
        text = text + "\n--- log of " + pod + "\n";
        text += &ask(&["logs", pod, "--all-containers", "--prefix", "--tail", "60"]).await;
    }
    text
}
