//! A real Prometheus scrapes a server; the dashboards of the chart get an answer to each of their questions.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use vmcp_integration::{Fixture, Process, Vmcp, eventually, free_port, http_client, skipped};

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

fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the folder of `prometheus` and `promtool`, or why they are missing.
async fn programs() -> Result<PathBuf, String> {
    let found = Command::new(repository().join("scripts/prometheus.sh")).output().await.expect("a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if found.status.success() { Ok(text(&found.stdout).into()) } else { Err(text(&found.stderr)) }
}

/// Returns what `promtool check metrics` complains about.
async fn complaints(programs: &std::path::Path, metrics: &str) -> String {
    let mut promtool = Command::new(programs.join("promtool"));
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().expect("promtool");
    let mut stdin = promtool.stdin.take().expect("a pipe");
    stdin.write_all(metrics.as_bytes()).await.expect("promtool reads");
    drop(stdin);
    let said = promtool.wait_with_output().await.expect("promtool ends");
    let said = [said.stdout, said.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

/// A running Prometheus.
struct Prometheus {
    url: String,
    _process: Process,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Starts one that scrapes `target` four times a second.
    fn start(programs: &std::path::Path, target: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let target = target.trim_start_matches("http://");
        let config = json!({
            "global": {"scrape_interval": "250ms", "scrape_timeout": "250ms"},
            "scrape_configs": [{"job_name": "gateway", "static_configs": [{"targets": [target]}]}],
        });
        let file = folder.path().join("prometheus.json");
        std::fs::write(&file, config.to_string()).expect("a file");
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = Command::new(programs.join("prometheus"));
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"));
        let process = Process::start("prometheus", &mut command);
        Self { url: format!("http://{address}/api/v1/query"), _process: process, _folder: folder }
    }

    /// Returns the series that a query yields; `None` while Prometheus does not answer.
    async fn query(&self, query: &str) -> Option<Vec<Value>> {
        let query_string =
            url::form_urlencoded::Serializer::new(String::new()).append_pair("query", query).finish();
        let answer = http_client().get(format!("{}?{query_string}", self.url)).send().await.ok()?;
        let mut answer: Value = answer.json().await.ok()?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        serde_json::from_value(answer["data"]["result"].take()).ok()
    }

    /// Waits until it has scraped `more` times from now on.
    async fn scrapes(&self, more: u64) {
        let scrapes = async || -> Option<u64> {
            let series = self.query("sum(count_over_time(up[1h]))").await?;
            series.first()?["value"][1].as_str()?.parse().ok()
        };
        let before = eventually("a scrape", scrapes).await;
        eventually("further scrapes", async || (scrapes().await? >= before + more).then_some(())).await;
    }
}

/// Returns the queries of a dashboard, for every namespace.
fn queries(dashboard: &str) -> Vec<String> {
    let file = repository().join("charts/vmcp-operator/dashboards").join(dashboard);
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
    let programs = match programs().await {
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
    assert_eq!(complaints(&programs, &metrics).await, "");

    let prometheus = Prometheus::start(&programs, &vmcp.admin);
    prometheus.scrapes(2).await;
    // A series that a rate is taken of has to grow between two scrapes.
    work(&vmcp, &echo, "again").await;
    prometheus.scrapes(3).await;
    let mut without_answer = BTreeSet::new();
    for query in ["vmcp.json", "vmcp-tools.json", "vmcp-security.json"].into_iter().flat_map(queries) {
        let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if words.into_iter().any(|word| ABSENT.iter().any(|absent| word.starts_with(absent))) {
            continue;
        }
        // The last family of a burst may arrive with the next scrape.
        let answered = async || !prometheus.query(&query).await.unwrap_or_default().is_empty();
        if !answered().await {
            tokio::time::sleep(Duration::from_secs(2)).await;
            if !answered().await {
                without_answer.insert(query);
            }
        }
    }
    assert_eq!(without_answer, BTreeSet::new());
}
