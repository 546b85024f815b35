//! The client of scenarios about authorization: a person signs in by `vmcp login`, with a browser that agrees
//! to everything.
#![expect(clippy::indexing_slicing, reason = "a JSON value that is missing is null")]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use vmcp_integration::{Vmcp, eventually, http_client, vmcp_command};

/// Scenarios whose server must not get a token: the login has to fail.
const REFUSED: [&str; 6] = [
    "resource-mismatch",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
    "metadata-issuer-mismatch",
];
/// Time for a login.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// A vmcp, and the folder of its logins.
pub(super) struct SignedIn {
    pub(super) vmcp: Vmcp,
    _home: tempfile::TempDir,
}

/// Starts vmcp before the server of a scenario, and signs in there; `None` if the login had to fail, and did.
pub(super) async fn sign_in(scenario: &str, url: &str) -> anyhow::Result<Option<SignedIn>> {
    let home = tempfile::tempdir()?;
    let folder = home.path().display().to_string();
    let vmcp = Vmcp::new()
        .backend_entry(json!({"name": "backend", "url": url}))
        .config(
            json!({"aggregation": {"conflictResolution": "passthrough"}, "optimizer": {"enabled": false}}),
        )
        .config(client()?)
        .env("XDG_CONFIG_HOME", &folder)
        .start()
        .await;
    let outcome = login(&vmcp.config_file(), &folder, &[]).await;
    if REFUSED.contains(&scenario) {
        ensure!(outcome.is_err(), "vmcp signed in to a server that it must not trust");
        return Ok(None);
    }
    outcome?;
    if scenario == "scope-retry-limit" {
        // No token is ever enough, and none is asked for by vmcp itself.
        refused(&vmcp, "HTTP 403").await;
        return Ok(None);
    }
    if scenario == "authorization-server-migration" {
        // Another authorization server stands for the server now: the person signs in there.
        refused(&vmcp, "HTTP 401").await;
        login(&vmcp.config_file(), &folder, &[]).await?;
    }
    eventually("the backend to be connected", async || {
        let status = vmcp.status().await;
        (status["backends"][0]["state"] == "connected").then_some(())
    })
    .await;
    if scenario == "scope-step-up" {
        // The person reads in the failed call which scope is missing.
        let client = vmcp.modern();
        let (tool, _) = eventually("a tool", async || client.tools().await.into_iter().next()).await;
        let failed = client.call_tool(&tool, json!({})).await;
        ensure!(failed.text.contains("lacks the scope `mcp:write`"), "{}", failed.text);
        login(&vmcp.config_file(), &folder, &["--scope", "mcp:write"]).await?;
        // The renewed login replaces the connection.
        eventually("the scope to be there", async || {
            let answer = client.call_tool(&tool, json!({})).await;
            (!answer.text.contains("lacks the scope")).then_some(())
        })
        .await;
    }
    Ok(Some(SignedIn { vmcp, _home: home }))
}

/// Waits until the server has refused the token of a login. Before the login it refused as well, without a
/// token.
async fn refused(vmcp: &Vmcp, status: &str) {
    eventually("a refusal", async || {
        let status_report = vmcp.status().await;
        let backend = &status_report["backends"][0];
        let has_login = backend["credentials"] == "oauth";
        (has_login && backend["lastError"].as_str()?.contains(status)).then_some(())
    })
    .await;
}

/// Returns the settings of a client that is registered by hand, if the scenario has one.
fn client() -> anyhow::Result<Value> {
    let Ok(context) = std::env::var("MCP_CONFORMANCE_CONTEXT") else { return Ok(json!({})) };
    let context: Value = serde_json::from_str(&context)?;
    if context["client_id"].is_null() {
        return Ok(json!({}));
    }
    let client = json!({"clientId": context["client_id"], "clientSecret": context["client_secret"]});
    Ok(json!({"outgoingAuth": {"backends": {"backend": {"type": "oauth", "oauth": client}}}}))
}

async fn login(config: &Path, home: &str, more: &[&str]) -> anyhow::Result<()> {
    let mut login = vmcp_command();
    login.args(["login", "backend", "--no-browser", "--config"]).arg(config).args(more);
    login.env("XDG_CONFIG_HOME", home);
    login.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut login = login.spawn()?;
    let mut lines = BufReader::new(login.stderr.take().context("a pipe")?).lines();
    let mut said = String::new();
    let finished = tokio::time::timeout(LOGIN_TIMEOUT, async {
        while let Some(line) = lines.next_line().await? {
            if line.trim().starts_with("http") {
                // Redirects lead to the loopback address at which vmcp waits.
                http_client().get(line.trim()).send().await?;
            }
            said.push_str(&line);
            said.push('\n');
        }
        anyhow::Ok(login.wait().await?)
    });
    match finished.await.context("the login did not end")?? {
        status if status.success() => Ok(()),
        status => bail!("vmcp login: {status}: {said}"),
    }
}
