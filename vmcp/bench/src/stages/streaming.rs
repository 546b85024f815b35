//! Stage `streaming`: results of 10 MB that a backend sends slowly. The time until the body begins to arrive,
//! and the memory of ten such calls at once.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use serde_json::json;
use tokio::time::sleep;
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::replay_client::{Endpoint, Exactness, ExpectedResult, PreparedRequest, ReplayClient};
use crate::progress::progress;
use crate::report::{Report, Row, Section, Unit, format_value};
use crate::roles::Role;
use crate::roles::role_process::RoleProcess;
use crate::roles::served_content::{SLOW_RESULT, TOOL_COUNT};
use crate::samples::Samples;
use crate::testbed::target::{BARE_PROXY, DIRECT};
use crate::testbed::{ANY_LOCAL_PORT, Testbed, process_usage};

/// Part of the body that ends the wait: 1 KiB, which is more than an envelope without the result.
const BEGINNING_BYTES: usize = 1 << 10;
/// Time that vmcp may add until the body begins.
const MAX_ADDED_SECONDS: f64 = 0.005;
/// Calls at once, and the memory that they may take over idle.
const CALLS_AT_ONCE: u64 = 10;
const MAX_MEMORY: f64 = 20.0 * 1024.0 * 1024.0;
/// Time that a process rests before its idle memory is read.
const SETTLE_TIME: Duration = Duration::from_millis(500);

/// A way to the slow result.
struct Route {
    name: &'static str,
    endpoint: Endpoint,
    tool: String,
    exactness: Exactness,
}

/// A client and its call.
struct SlowCall {
    client: ReplayClient,
    request: PreparedRequest,
    expected: ExpectedResult,
}

/// Measures each pairing of eras, with answers as JSON and as event streams, and adds the rows.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let mut testbed = Testbed::new(ANY_LOCAL_PORT).await?;
    for suffix in ["", "-sse"] {
        for era in [Era::Legacy, Era::Modern] {
            progress(&format!("streaming: {}", words(suffix, era)));
            measure_beginning(report, &mut testbed, suffix, era).await?;
            measure_memory(report, &mut testbed, suffix, era).await?;
        }
    }
    testbed.end().await
}

/// Compares the time until the body begins: through a proxy, and through vmcp, with the backend itself.
async fn measure_beginning(report: &mut Report, testbed: &mut Testbed, suffix: &str, era: Era) -> Result<()> {
    let proxy = RoleProcess::start(Role::Hyper, ANY_LOCAL_PORT, Some(testbed.backend)).await?;
    let vmcp = start_vmcp(testbed).await?;
    let mut routes = vec![Route::bare(DIRECT, testbed.backend, suffix)];
    routes.push(Route::bare(BARE_PROXY, proxy.address, suffix));
    routes.extend(Route::through_vmcp(vmcp, suffix));
    let mut calls = Vec::new();
    for route in &routes {
        calls.push((route, SlowCall::connect(route, era, 0).await?, Samples::default()));
    }
    for round in 0..=report.runs(10) {
        for (route, call, samples) in &mut calls {
            let took = call.run().await.with_context(|| format!("{}, {}", route.name, words(suffix, era)))?;
            // The first round warms up.
            if round > 0 {
                samples.push(took);
            }
        }
    }
    let direct = calls.first().map_or_else(Samples::default, |(.., samples)| samples.clone());
    for (route, _, samples) in calls.iter().skip(1) {
        let what = format!("first byte of 10 MB, {}: {}", words(suffix, era), route.name);
        report.row(Section::Streaming, Unit::Seconds, (&*what, samples), (DIRECT, &direct));
        if route.name != BARE_PROXY {
            let added = samples.p50() - direct.p50();
            report.check_target(&format!("{what}: added"), Unit::Seconds, added, MAX_ADDED_SECONDS);
        }
    }
    Ok(())
}

/// Measures the memory of ten calls at once, in fresh processes.
async fn measure_memory(report: &mut Report, testbed: &mut Testbed, suffix: &str, era: Era) -> Result<()> {
    let proxy = RoleProcess::start(Role::Hyper, ANY_LOCAL_PORT, Some(testbed.backend)).await?;
    let route = Route::bare(BARE_PROXY, proxy.address, suffix);
    let of_proxy = growth(&route, proxy.pid()?, era).await?;
    for number in 0..2 {
        let vmcp = start_vmcp(testbed).await?;
        let routes = Route::through_vmcp(vmcp, suffix);
        let route = routes.get(number).context("a route")?;
        let grown = growth(route, testbed.vmcp()?.pid()?, era).await?;
        let what = format!("memory of ten calls of 10 MB over idle, {}: {}", words(suffix, era), route.name);
        report.check_target(&what, Unit::Bytes, grown, MAX_MEMORY);
        let row = Row {
            what,
            n: 1,
            memory: Some(grown),
            yardstick: BARE_PROXY.to_owned(),
            compared: Some((format_value(of_proxy, Unit::Bytes), grown / of_proxy)),
            ..Row::default()
        };
        report.add(Section::Streaming, row);
    }
    Ok(())
}

/// Returns the highest resident memory during ten calls at once, less that of the idle process.
async fn growth(route: &Route, pid: u32, era: Era) -> Result<f64> {
    let mut calls = Vec::new();
    for number in 0..CALLS_AT_ONCE {
        calls.push(SlowCall::connect(route, era, number).await?);
    }
    sleep(SETTLE_TIME).await;
    process_usage::reset_peak(pid)?;
    let idle = process_usage::resident(pid)?;
    try_join_all(calls.iter_mut().map(SlowCall::run)).await?;
    Ok(process_usage::peak(pid)? - idle)
}

/// Starts a vmcp in place of the one before; returns its address.
async fn start_vmcp(testbed: &mut Testbed) -> Result<SocketAddr> {
    let servers = ["dual", "legacy", "dual-sse", "legacy-sse"];
    let backends = servers.map(|server| testbed.entry(server));
    testbed.start_vmcp(json!({"backends": backends, "optimizer": {"embeddings": {"provider": "none"}}}))?;
    testbed.vmcp()?.complete_list(servers.len() * TOOL_COUNT).await?;
    Ok(testbed.vmcp()?.clients)
}

fn words(suffix: &str, era: Era) -> String {
    let answer = if suffix.is_empty() { "JSON" } else { "events" };
    format!("{answer}, {}", era.as_str())
}

impl Route {
    fn bare(name: &'static str, address: SocketAddr, suffix: &str) -> Route {
        let endpoint = Endpoint { address, path: format!("/dual{suffix}/mcp") };
        Route { name, endpoint, tool: SLOW_RESULT.tool.to_owned(), exactness: Exactness::Same }
    }

    /// Returns the routes to a backend of both eras, and to one of 2025-11-25 only.
    fn through_vmcp(address: SocketAddr, suffix: &str) -> [Route; 2] {
        [("vmcp", "dual"), ("vmcp, backend of 2025-11-25", "legacy")].map(|(name, server)| Route {
            name,
            endpoint: Endpoint { address, path: "/mcp".to_owned() },
            tool: format!("{server}{suffix}_{}", SLOW_RESULT.tool),
            exactness: Exactness::Translated,
        })
    }
}

impl SlowCall {
    async fn connect(route: &Route, era: Era, number: u64) -> Result<SlowCall> {
        let client = ReplayClient::connect(&route.endpoint, era, number).await?;
        let params = format!(r#"{{"name":"{}","arguments":{{}}}}"#, route.tool);
        let request = client.prepare(methods::TOOLS_CALL, &params)?;
        let expected = ExpectedResult { result: SLOW_RESULT.to_json(era), exactness: route.exactness };
        Ok(SlowCall { client, request, expected })
    }

    /// Calls once and checks the answer; returns the time until the body began to arrive.
    async fn run(&mut self) -> Result<Duration> {
        self.client.time_to_body(&mut self.request, BEGINNING_BYTES, &self.expected).await
    }
}
