//! Stage `composites`: runs of composite tools beside their critical path, called directly.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use vmcp_engine::engine::{Engine, Options, Storage};
use vmcp_route::{CallContext, Caller};
use vmcp_wire::owned::OwnedParams;

use crate::progress::progress;
use crate::report::{Report, Section, Unit};
use crate::samples::interleaved;
use crate::testbed::tool_server::ToolServer;

/// Time that each tool of the diamond takes.
const TOOL_TIME: Duration = Duration::from_millis(20);
/// Calls on the critical path of A→(B, C)→D.
const CRITICAL_CALLS: usize = 3;
/// Most of its critical path that a diamond may take.
const MAX_OF_CRITICAL_PATH: f64 = 1.1;
/// Steps of the chain, of which each waits for the one before.
const CHAIN: usize = 20;
/// Most that a step of the chain may take, of a direct call of its tool.
const MAX_OF_DIRECT_CALL: f64 = 1.5;
/// Time for the backend to be listed.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// Measures both composite tools, and adds the rows.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    progress("composite tools");
    let server = ToolServer::start().await?;
    let config = vmcp_config::load(&configuration(&server.url), "bench.yaml", &|_| None)?.config;
    let options = Options { storage: Storage::Memory, ..Options::default() };
    let engine = Box::pin(Engine::start(config, options)).await?;
    tokio::time::timeout(LIST_TIMEOUT, engine.settled()).await.context("the backend was not listed")?;

    let (diamond, wait) = (call("composite.diamond", &json!({}))?, call("one_wait", &wait_arguments())?);
    let (ours, path) = interleaved(
        report.runs(50),
        async |_| run(&engine, &diamond).await,
        async |_| {
            for _ in 0..CRITICAL_CALLS {
                run(&engine, &wait).await?;
            }
            Ok(())
        },
    )
    .await?;
    let what = "composite A→(B, C)→D, 20 ms a tool";
    let peer = "its critical path: three of its calls, one by one";
    report.row(Section::Calls, Unit::Seconds, (what, &ours), (peer, &path));
    report.check_median(what, Unit::Seconds, &ours, path.p50() * MAX_OF_CRITICAL_PATH);

    let (chain, step) = (call("composite.chain", &json!({}))?, call("one_echo", &json!({"text": "x"}))?);
    let (ours, direct) = interleaved(
        report.runs(200),
        async |_| run(&engine, &chain).await,
        async |_| {
            for _ in 0..CHAIN {
                run(&engine, &step).await?;
            }
            Ok(())
        },
    )
    .await?;
    let what = format!("composite of {CHAIN} steps, one after another");
    let peer = format!("{CHAIN} direct calls of their tool");
    report.row(Section::Calls, Unit::Seconds, (what.as_str(), &ours), (peer, &direct));
    report.check_median(&what, Unit::Seconds, &ours, direct.p50() * MAX_OF_DIRECT_CALL);
    let overhead = (ours.p50() - direct.p50()) / CHAIN as f64 * 1e6;
    report.note(&format!("a step of a composite costs {overhead:.0} µs more than a direct call of its tool"));
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

fn wait_arguments() -> Value {
    json!({"ms": TOOL_TIME.as_millis() as u64})
}

/// Returns the configuration with both composite tools. JSON is YAML.
fn configuration(url: &str) -> String {
    let wait = |id: &str, after: &[&str]| json!({"id": id, "tool": "one.wait", "arguments": wait_arguments(), "dependsOn": after});
    let chain: Vec<_> = (0..CHAIN)
        .map(|number| {
            let text = match number.checked_sub(1) {
                Some(before) => format!("{{{{.steps.s{before}.output.text}}}}"),
                None => "x".to_owned(),
            };
            json!({"id": format!("s{number}"), "tool": "one.echo", "arguments": {"text": text}})
        })
        .collect();
    json!({
        "backends": [{"name": "one", "url": url}],
        "server": {"listen": "127.0.0.1:0", "adminListen": "127.0.0.1:0"},
        "optimizer": {"embeddings": {"provider": "none"}},
        "compositeTools": [
            {"name": "diamond", "steps": [wait("a", &[]), wait("b", &["a"]), wait("c", &["a"]), wait("d", &["b", "c"])]},
            {"name": "chain", "steps": chain},
        ],
    })
    .to_string()
}

fn call(tool: &str, arguments: &Value) -> Result<OwnedParams> {
    let params = json!({"name": tool, "arguments": arguments}).to_string();
    Ok(OwnedParams::from_text(params)?)
}

/// Calls a tool; an error, also of the tool, ends the measurement.
async fn run(engine: &Engine, params: &OwnedParams) -> Result<()> {
    let caller = Caller::default();
    let snapshot = engine.snapshot();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller: &caller };
    let answer = vmcp_route::call_tool(context, params).await.content.settled();
    let answer = answer.map_err(|error| anyhow::anyhow!("{}", error.get()))?;
    ensure!(!answer.get().contains(r#""isError":true"#), "{}", answer.get());
    Ok(())
}
