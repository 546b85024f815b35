//! Stage `find-tool`, under policies: find_tool of a client with rights, beside one without policies.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_route::Caller;

use super::find_tool::{find_calls, find_tool};
use crate::report::{Report, Section, Unit};
use crate::samples::interleaved;
use crate::synthetic_tools::count_in_words;
use crate::testbed::search_testbed::SearchTestbed;

/// Policies in force.
const POLICIES: usize = 50;
/// Most that policies may add to find_tool, as a share of it.
const MAX_GROWTH: f64 = 0.2;

/// Measures find_tool with and without policies over one catalog, and adds the rows.
pub(crate) async fn measure(testbed: &SearchTestbed, report: &mut Report) -> Result<()> {
    let size = testbed.definitions.len();
    let tools = count_in_words(size);
    let engine = testbed.servers.engine_under(&policies(), size).await?;
    // A member of g0 sees every tool that is not forbidden, so that a smaller catalog hides no cost.
    let serde_json::Value::Object(claims) = json!({"groups": ["g0", "g1"], "department": "d2"}) else {
        return Ok(());
    };
    let principal = Principal::from(Identity::known("https://idp.example", "alice", claims, None));
    let caller = Caller { principal, ..Caller::default() };
    let started = Instant::now();
    let visible = engine.snapshot().view(&caller.principal).visible_tools;
    let took = started.elapsed();
    ensure!((1..=size).contains(&visible), "{visible} of {size} tools are visible");
    let (calls, anonymous) = (find_calls()?, Caller::default());
    let call = |run: usize| calls.get(run % calls.len());
    let (with, without) = interleaved(
        report.runs(if size > 1000 { 200 } else { 1000 }),
        async |run| find_tool(&engine, &caller, call(run)).await,
        async |run| find_tool(&testbed.engine, &anonymous, call(run)).await,
    )
    .await?;
    let ours = format!("find_tool, {tools}, {POLICIES} policies");
    report.row(Section::FindTool, Unit::Seconds, (ours, &with), ("the same without policies", &without));
    let promised = without.p50() * (1.0 + MAX_GROWTH);
    let what = format!("find_tool over {tools} under {POLICIES} policies, beside without");
    report.check_median(&what, Unit::Seconds, &with, promised);
    let growth = (with.p50() / without.p50() - 1.0) * 100.0;
    report.note(&format!(
        "find_tool, {tools}: {POLICIES} policies that show {visible} tools change its median by {growth:+.1} %; \
         the first request of a client makes its view in {took:.1?}"
    ));
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// Returns policies about groups, backends, claims, names and hints.
fn policies() -> Vec<String> {
    let policy = |number: usize| match number % 5 {
        0 => format!(r#"permit(principal in THVGroup::"g{number}", action, resource);"#),
        1 => format!(
            r#"permit(principal in THVGroup::"g{number}", action == Action::"call_tool", resource) when {{ resource.name like "*e*" }};"#
        ),
        2 => format!(
            r#"permit(principal, action, resource) when {{ principal has claim_department && principal.claim_department == "d{number}" && resource.name like "*a*" }};"#
        ),
        3 => format!(r#"forbid(principal, action, resource == Tool::"tool_{number}");"#),
        _ => format!(
            r#"forbid(principal, action, resource) when {{ resource has destructiveHint && resource.destructiveHint && resource.name like "x{number}*" }};"#
        ),
    };
    (0..POLICIES).map(policy).collect()
}
