//! Stage `sessions`, first part: find_tool over HTTP with 1,000 open sessions, beside one session.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use serde_json::json;
use vmcp_edge::port::admin::Admin;
use vmcp_edge::port::serve::Ports;
use vmcp_edge::{DownstreamRouter, Edge};
use vmcp_engine::engine::Engine;

use crate::client::mcp_client::McpClient;
use crate::progress::progress;
use crate::report::{Report, Section, Unit};
use crate::samples::interleaved;
use crate::synthetic_tools::{find_arguments, generate};
use crate::testbed::synthetic_servers::SyntheticServers;

const TOOLS: usize = 500;
const SESSIONS: usize = 1000;

/// Measures find_tool, and adds the row.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    progress("find_tool over HTTP with 1,000 sessions and with one");
    let definitions = generate(TOOLS);
    let servers = SyntheticServers::start(&definitions).await?;
    // An engine each, so that nothing that many sessions leave behind is shared.
    let (of_many, of_one) = (servers.engine(TOOLS).await?, servers.engine(TOOLS).await?);
    let (many, one) = (serve(&of_many, &servers).await?, serve(&of_one, &servers).await?);
    let mut single = session(&one).await?;
    let mut crowd = Vec::new();
    for run in 0..SESSIONS {
        let mut client = session(&many).await?;
        find(&mut client, run).await?;
        crowd.push(client);
    }
    // One session of the many asks; the others stay connected.
    let mut member = crowd.pop().context("a session")?;
    let (with, without) = interleaved(
        report.runs(1000),
        async |run| find(&mut member, run).await,
        async |run| find(&mut single, run).await,
    )
    .await?;
    report.row(
        Section::FindTool,
        Unit::Seconds,
        (format!("find_tool over HTTP, {TOOLS} tools, 1,000 sessions open"), &with),
        ("one session", &without),
    );
    Ok(())
}

async fn serve(engine: &Engine, servers: &SyntheticServers) -> Result<Ports> {
    let config = servers.config(8)?;
    let edge = Edge::new(engine.clone(), DownstreamRouter::new(engine.metrics()));
    Ok(Ports::open(Arc::clone(&edge), Admin::new(engine.clone(), None), &config.server).await?)
}

async fn session(ports: &Ports) -> Result<McpClient> {
    let mut client = McpClient::connect(ports.client).await?;
    client.open_session().await?;
    client.request("tools/list", json!({})).await?;
    Ok(client)
}

async fn find(client: &mut McpClient, run: usize) -> Result<()> {
    let call = json!({"name": "optim.find_tool", "arguments": find_arguments(run)});
    client.request("tools/call", call).await?;
    Ok(())
}
