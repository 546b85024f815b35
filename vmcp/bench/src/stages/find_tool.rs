//! Stage `find-tool`: find_tool and the search behind it, beside SQLite over the same tools.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::Engine;
use vmcp_route::{CallContext, Caller};
use vmcp_search::{Clause, Query, split_clauses};
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::payload::Payload;

use crate::report::{Report, Section, Unit};
use crate::samples::interleaved;
use crate::synthetic_tools::{COMPOUND_QUERY, QUERIES, count_in_words, find_arguments, query, unit_vector};
use crate::testbed::search_testbed::SearchTestbed;

/// Description of the peer in the table.
const PEER: &str = "SQLite: FTS5 bm25 + f32 blobs decoded and scanned per query, 4+4 merged";

/// Most that 99 of 100 searches may take over 500 tools, without the embedding of the query.
const PROMISED_P99: Duration = Duration::from_millis(50);

/// Measures find_tool and the search alone over one catalog, and adds the rows.
pub(crate) async fn measure(testbed: &mut SearchTestbed, report: &mut Report) -> Result<()> {
    check(testbed).await?;
    let (size, engine, peer) = (testbed.definitions.len(), &testbed.engine, &mut testbed.peer);
    let runs = report.runs(if size > 1000 { 200 } else { 1000 });
    let tools = count_in_words(size);
    let (calls, caller) = (find_calls()?, Caller::default());

    let (ours, theirs) = interleaved(
        runs,
        async |run| find_tool(engine, &caller, calls.get(run % calls.len())).await,
        async |run| {
            let (description, keywords) = query(run);
            peer.find_tool(description, keywords)
        },
    )
    .await?;
    report.row(Section::FindTool, Unit::Seconds, (format!("find_tool, {tools}"), &ours), (PEER, &theirs));
    let promised = match size {
        500 => Some(Duration::from_millis(1)),
        15_000 => Some(Duration::from_millis(15)),
        _ => None,
    };
    if let Some(promised) = promised {
        report.check_median(&format!("find_tool over {tools}"), Unit::Seconds, &ours, promised.as_secs_f64());
    }
    if size == 500 {
        let what = format!("99 of 100 find_tool over {tools}");
        report.check_target(&what, Unit::Seconds, ours.p99(), PROMISED_P99.as_secs_f64());
    }

    let snapshot = engine.snapshot();
    let texts: Vec<_> = (0..QUERIES.len()).map(|run| [query(run).0, query(run).1].join(" ")).collect();
    let vectors: Vec<_> = texts.iter().map(|text| unit_vector(text)).collect();
    let whole = |run: usize| Query {
        text: texts.get(run % texts.len()).map(String::as_str).unwrap_or_default(),
        vector: vectors.get(run % vectors.len()).map(Vec::as_slice),
        ..Query::default()
    };
    let view = snapshot.view(&Principal::default());
    let visible = Some(&**view.visible());
    let (search, theirs) = interleaved(
        runs,
        async |run| Ok(snapshot.index.search(&whole(run), visible)),
        async |run| peer.search(query(run).0, query(run).1),
    )
    .await?;
    report.row(
        Section::Search,
        Unit::Seconds,
        (format!("search alone, {tools}"), &search),
        ("the same search in SQLite", &theirs),
    );

    let parts = split_clauses(COMPOUND_QUERY);
    ensure!(parts.len() == 3, "the query has {} clauses", parts.len());
    let of_parts: Vec<_> = parts.iter().map(|text| unit_vector(text)).collect();
    let clauses: Vec<_> = parts
        .iter()
        .zip(&of_parts)
        .map(|(text, vector)| Clause { text, vector: Some(vector), short_vector: None })
        .collect();
    let vector = unit_vector(COMPOUND_QUERY);
    let compound =
        Query { text: COMPOUND_QUERY, vector: Some(&vector), clauses: &clauses, ..Query::default() };
    let plain = Query { clauses: &[], ..compound.clone() };
    let (with, without) = interleaved(
        runs,
        async |_| Ok(snapshot.index.search(&compound, visible)),
        async |_| Ok(snapshot.index.search(&plain, visible)),
    )
    .await?;
    let what = format!("search alone, {tools}, a query of 3 clauses");
    report.row(Section::Search, Unit::Seconds, (what, &with), ("the same query taken as one", &without));
    Ok(())
}

/// Checks that vmcp answers in full (hybrid, eight tools) and that SQLite finds something, so that neither is
/// measured at failing.
async fn check(testbed: &mut SearchTestbed) -> Result<()> {
    let caller = Caller::default();
    for run in 0..QUERIES.len() {
        let answer: Value =
            serde_json::from_str(find_tool(&testbed.engine, &caller, Some(&find_call(run)?)).await?.get())?;
        let found = answer.pointer("/structuredContent/tools").and_then(Value::as_array).map_or(0, Vec::len);
        let mode = answer.pointer("/structuredContent/search_mode");
        let degraded = answer.pointer("/structuredContent/degraded");
        ensure!(
            found == 8 && mode == Some(&json!("hybrid")) && degraded.is_none(),
            "not a full answer: {answer}"
        );
        let (description, keywords) = query(run);
        let theirs = testbed.peer.search(description, keywords)?;
        ensure!((1..=8).contains(&theirs.len()), "SQLite found {theirs:?}");
    }
    Ok(())
}

/// Returns the parameters of all queries.
pub(super) fn find_calls() -> Result<Vec<OwnedParams>> {
    (0..QUERIES.len()).map(find_call).collect()
}

/// Returns the parameters of `tools/call` for find_tool, with the query of repetition `run`.
fn find_call(run: usize) -> Result<OwnedParams> {
    let params = json!({"name": "optim.find_tool", "arguments": find_arguments(run)});
    Ok(OwnedParams::from_text(params.to_string())?)
}

/// Calls find_tool as the edge would, up to the bytes of the result.
pub(super) async fn find_tool(
    engine: &Engine,
    caller: &Caller,
    call: Option<&OwnedParams>,
) -> Result<Payload> {
    let nothing = OwnedParams::default();
    let snapshot = engine.snapshot();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller };
    let answer = vmcp_route::call_tool(context, call.unwrap_or(&nothing)).await;
    answer.content.settled().map_err(|error| anyhow::anyhow!("find_tool: {}", error.get()))
}
