//! Stage `code`: scripts of code mode beside the same calls made by the client, operations on large results,
//! and the memory that kept results take. One process of vmcp, which a client asks over HTTP.

mod hostile_scripts;
mod kept_results;
mod scripts;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::client::mcp_client::McpClient;
use crate::progress::progress;
use crate::report::Report;
use crate::testbed::tool_server::{TOOLS, ToolServer};
use crate::testbed::vmcp_process::VmcpProcess;

/// Measures all of the stage, and adds the rows.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let server = ToolServer::start().await?;
    progress("code: scripts of one call and of 100");
    let vmcp = start(&server, json!({})).await?;
    scripts::measure(report, vmcp.clients).await?;
    progress("code: calls beside scripts that only compute");
    hostile_scripts::measure(report, vmcp.clients).await?;
    progress("code: operations on 1,000 rows");
    let mut client = McpClient::connect(vmcp.clients).await?;
    kept_results::measure_operation(report, &mut client).await?;
    vmcp.end().await?;
    progress("code: results of 50,000 rows");
    kept_results::measure_memory(report, &server).await
}

/// Starts vmcp over the server, with code mode and large results. `bounds` has further settings of
/// `largeResults`.
async fn start(server: &ToolServer, bounds: Value) -> Result<VmcpProcess> {
    let mut large_results = bounds;
    large_results.as_object_mut().context("settings are an object")?.insert("enabled".into(), json!(true));
    let vmcp = VmcpProcess::configured(json!({
        "backends": [{"name": "one", "url": server.url}],
        "optimizer": {
            "embeddings": {"provider": "none"},
            "tools": ["find_tool", "call_tool", "execute_code", "process_large_dataset"],
            "largeResults": large_results,
        },
    }))?;
    vmcp.complete_list(TOOLS.len()).await?;
    Ok(vmcp)
}

/// Calls a tool; returns the result. An error, also of the tool, ends the measurement.
async fn call(client: &mut McpClient, tool: &str, arguments: Value) -> Result<Value> {
    let body = client.request("tools/call", json!({"name": tool, "arguments": arguments})).await?;
    let mut answer: Value = serde_json::from_slice(&body)?;
    let result = answer.get_mut("result").map(Value::take);
    let result = result.with_context(|| format!("{tool}: {answer}"))?;
    ensure!(result.get("isError") != Some(&json!(true)), "{tool}: {result}");
    Ok(result)
}

/// Returns the text of a result as JSON.
fn json_text(result: &Value) -> Result<Value> {
    let text = result.pointer("/content/0/text").and_then(Value::as_str).context("a text")?;
    serde_json::from_str(text).with_context(|| format!("not JSON: {text}"))
}
