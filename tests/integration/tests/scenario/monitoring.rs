//! A real Prometheus scrapes a server; the dashboards of the chart get an answer to each of their questions.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vmcp_integration::{
    Fixture, Prometheus, PrometheusPrograms, Vmcp, WAIT_TIMEOUT, eventually, http_client, skipped,
};

/// Families of parts that the server of this test does without.
const ABSENT: [&str; 9] = [
    "vmcp_decision_point_questions_total",
    "vmcp_embedding_duration_seconds_bucket",
    "vmcp_embedding_errors_total",
    "vmcp_identity_provider_up",
    "vmcp_policy_failures_total",
    "vmcp_policy_shadow_decisions_total",
    "vmcp_rate_limit_store_up",
    "vmcp_webhook_questions_total",
    // Of the operator, whose dashboard is not asked.
    "vmcp_operator_",
];

/// Returns the queries of a dashboard, for every namespace.
fn queries(dashboard: &str) -> Vec<String> {
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/vmcp-operator/dashboards"))
        .join(dashboard);
    let board: Value = serde_json::from_slice(&std::fs::read(file).expect("a dashboard")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().expect("a query").replace("$namespace", ".*")).collect()
}

/// Does what leaves a trace in each family: calls that succeed, fail, misfit and are denied, and a tool that
/// changes.
async fn work(vmcp: &Vmcp, echo: &Fixture, round: &str) {
    echo.control(json!({"do": "describe", "tool": "sleep", "description": format!("Sleeps, {round}")})).await;
    let client = vmcp.modern();
    client.find_tool(json!({"tool_description": "echo a message"})).await;
    client.call_found("echo_echo", json!({"message": "hi"})).await;
    client.call_found("echo_echo", json!({"message": {"no": "text"}})).await;
    client.call_found("echo_nowhere", json!({})).await;
    client.call_tool("echo_fail", json!({"message": "it failed"})).await;
    client.call_tool("echo_echo", json!({"message": "secret"})).await;
    let foreign = http_client().post(&vmcp.url).header("Origin", "https://elsewhere.example").body("{}");
    assert_eq!(foreign.send().await.expect("an answer").status(), 403);
}

#[tokio::test]
async fn prometheus_answers_every_question_of_the_dashboards() {
    let programs = match PrometheusPrograms::find().await {
        Ok(programs) => programs,
        Err(reason) => return skipped(&reason),
    };
    let echo = Fixture::http("echo", "echo").start().await;
    let policies = [
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource) when { context has arg_message && context.arg_message == "secret" };"#,
    ];
    let settings = json!({
        "incomingAuth": {"authz": {"policies": policies}},
        "optimizer": {"exposure": "All"},
    });
    let vmcp = Vmcp::new().backend(&echo).config(settings).start().await;
    vmcp.with_tool("echo_echo").await;
    work(&vmcp, &echo, "at first").await;
    let metrics = eventually("the change of a tool", async || {
        let metrics = vmcp.metrics().await;
        metrics.contains("vmcp_catalog_changes_total{").then_some(metrics)
    })
    .await;
    assert_eq!(programs.complaints(&metrics).await, "");

    let prometheus = Prometheus::start(&programs, &vmcp.admin);
    prometheus.scrapes(2).await;
    // A series that a rate is taken of has to grow between two scrapes.
    work(&vmcp, &echo, "again").await;
    prometheus.scrapes(3).await;
    let mut without_answer = BTreeSet::new();
    // For all queries together, so that a family that is missing for good costs the time once.
    let patience = Instant::now() + WAIT_TIMEOUT;
    for query in ["vmcp.json", "vmcp-tools.json", "vmcp-security.json"].into_iter().flat_map(queries) {
        let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if words.into_iter().any(|word| ABSENT.iter().any(|absent| word.starts_with(absent))) {
            continue;
        }
        // The last family of a burst may arrive with a later scrape.
        let answered = async {
            while prometheus.query(&query).await.unwrap_or_default().is_empty() {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let left = patience.saturating_duration_since(Instant::now()).max(Duration::from_secs(5));
        if tokio::time::timeout(left, answered).await.is_err() {
            without_answer.insert(query);
        }
    }
    assert_eq!(without_answer, BTreeSet::new());
}
