//! Secrets of a backend's entry, which its server repeats: they reach neither log nor status nor metrics.

use serde_json::json;
use vmcp_integration::{Fixture, Vmcp, eventually, free_port};

const SECRETS: [&str; 4] = ["variable-s3cret", "argument-s3cret", "query-s3cret", "header-s3cret"];

/// Says on both of its streams with what it was started, and fails.
const INDISCREET: &str = r#"echo "no such key: $LEAKY_KEY, $2" >&2; echo "started with $2"; exit 3"#;

#[tokio::test]
async fn what_a_server_repeats_of_its_secrets_is_masked() {
    let refusal =
        json!({"do": "error", "code": -32001, "message": "no rights: header-s3cret", "method": "tools/call"});
    let mut echo = Fixture::http("echo", "echo").fault(&refusal).start().await;
    echo.backend["headers"] = json!({"X-Api-Key": "header-s3cret"});
    let command = ["sh", "-c", INDISCREET, "sh", "--api-key", "argument-s3cret"];
    let leaky = json!({"name": "leaky", "command": command, "env": {"LEAKY_KEY": "${SCENARIO_VALUE}"}});
    let away = format!("http://127.0.0.1:{}/mcp?token=query-s3cret", free_port());
    let settings = json!({"operational": {"logLevel": "debug"}});
    let vmcp =
        Vmcp::new().backend(&echo).backend_entry(leaky).backend_entry(json!({"name": "away", "url": away}));
    let vmcp = vmcp.config(settings).env("SCENARIO_VALUE", "variable-s3cret").start().await;
    let client = vmcp.with_tool("echo_add").await;
    let refused = client.call_tool("echo_add", json!({"a": 1, "b": 2})).await;
    assert!(refused.text.contains("header-s3cret"), "the answer is the client's own: {}", refused.text);

    let status = eventually("both failures are known", async || {
        let status = vmcp.status().await;
        let error = |name: &str| {
            let backends = status["backends"].as_array()?;
            backends.iter().find(|backend| backend["name"] == name)?["lastError"].as_str().map(str::to_owned)
        };
        (error("leaky")?.contains("no such key: ***, ***") && error("away").is_some())
            .then_some(status.clone())
    })
    .await;
    let log = eventually("the program's words are in the log", async || {
        let log = vmcp.process.output();
        (log.contains("no such key: ***, ***") && log.contains("started with ***")).then_some(log)
    })
    .await;
    let figures = eventually("the failure is counted", async || {
        let figures = vmcp.admin_json("admin/tool-metrics").await.to_string();
        figures.contains("no rights").then_some(figures)
    })
    .await;
    assert!(figures.contains("no rights: ***"), "{figures}");
    let backends = vmcp.cli(&["backends", "-o", "json"]).await.stdout;
    for secret in SECRETS {
        for (place, text) in [
            ("status", status.to_string()),
            ("log", log.clone()),
            ("figures", figures.clone()),
            ("metrics", vmcp.metrics().await),
            ("backends", backends.clone()),
        ] {
            assert!(!text.contains(secret), "{secret} is in {place}: {text}");
        }
    }
}
