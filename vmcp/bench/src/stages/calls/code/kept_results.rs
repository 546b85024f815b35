//! Large results: an operation in SQL on 1,000 rows, and the answer and memory of results of 50,000 rows.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{call, json_text, start};
use crate::client::mcp_client::McpClient;
use crate::report::{Report, Section, Unit};
use crate::samples::{Samples, interleaved};
use crate::testbed::process_usage;
use crate::testbed::tool_server::{ToolServer, rows};

/// Rows of the operation, and the most seconds that it may take.
const FEW_ROWS: u64 = 1_000;
const MAX_OPERATION_SECONDS: f64 = 0.005;
const SQL: &str = "SELECT team, sum(amount) AS total FROM data GROUP BY team ORDER BY total DESC";
/// Rows of a large result.
const MANY_ROWS: u64 = 50_000;
/// Most bytes of its answer, less than 1 KB.
const MAX_ANSWER_BYTES: f64 = 1_023.0;
/// Results of [`MANY_ROWS`] that are kept in turn: about 110 MB, several times the cap.
const RESULTS: usize = 40;
/// Most bytes that vmcp may keep.
const CAP: u64 = 16 << 20;
/// Time without work before memory is measured: the allocator gives freed memory back after up to a second.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// Freed memory that the allocator may hold at rest, in results of [`MANY_ROWS`]: pages that are still partly
/// in use, and those that it keeps for the next results.
const HELD_BY_ALLOCATOR: u64 = 8;

/// Measures an operation on a kept result, and adds its row.
pub(super) async fn measure_operation(report: &mut Report, client: &mut McpClient) -> Result<()> {
    let kept = keep(client, FEW_ROWS).await?;
    let reference = reference(&kept)?;
    let text = rows(FEW_ROWS);
    let (ours, by_hand) = interleaved(
        report.runs(100),
        async |_| {
            let arguments = json!({"data": reference, "operation": format!("sql: {SQL}")});
            let result = call(client, "optim.process_large_dataset", arguments).await?;
            let groups = result.pointer("/structuredContent/result").and_then(Value::as_array);
            ensure!(groups.is_some_and(|groups| groups.len() == 7), "another answer: {result}");
            Ok(())
        },
        async |_| by_hand(&text),
    )
    .await?;
    let what = "process_large_dataset, SQL over 1,000 kept rows";
    let peer = "SQLite by hand: rows parsed, inserted, grouped";
    report.row(Section::Code, Unit::Seconds, (what, &ours), (peer, &by_hand));
    report.check_median(what, Unit::Seconds, &ours, MAX_OPERATION_SECONDS);
    Ok(())
}

/// Measures the answers and the memory of large results, and adds the rows.
pub(super) async fn measure_memory(report: &mut Report, server: &ToolServer) -> Result<()> {
    let vmcp = start(server, json!({"maxBytes": CAP, "maxBytesPerPrincipal": CAP})).await?;
    let mut client = McpClient::connect(vmcp.clients).await?;
    let size = rows(MANY_ROWS).len() as u64;
    let before = process_usage::resident(vmcp.pid()?)?;
    let mut answers = Samples::default();
    let mut last = None;
    for _ in 0..RESULTS {
        let kept = keep(&mut client, MANY_ROWS).await?;
        answers.extend([kept.to_string().len() as f64]);
        last = Some(reference(&kept)?);
    }
    sleep(SETTLE_TIME).await;
    let added = process_usage::resident(vmcp.pid()?)? - before;
    let arguments = json!({"data": last.context("a result")?, "operation": "count"});
    let counted = call(&mut client, "optim.process_large_dataset", arguments).await?;
    let count = counted.pointer("/structuredContent/result");
    ensure!(count == Some(&json!(MANY_ROWS)), "the last result is not kept whole: {counted}");
    vmcp.end().await?;

    let what = "answer of a result of 50,000 rows, by reference";
    let whole = [size as f64].into_iter().collect::<Samples>();
    report.row(Section::Code, Unit::Bytes, (what, &answers), ("the rows", &whole));
    report.check_target(what, Unit::Bytes, answers.p99(), MAX_ANSWER_BYTES);
    let what = format!("memory of {RESULTS} results of 50,000 rows, of which 16 MiB are kept");
    let (added, all) = ([added].into_iter().collect::<Samples>(), size as f64 * RESULTS as f64);
    let all = [all].into_iter().collect::<Samples>();
    report.row(Section::Code, Unit::Bytes, (what.as_str(), &added), ("all their rows", &all));
    report.check_median(&what, Unit::Bytes, &added, (CAP + HELD_BY_ALLOCATOR * size) as f64);
    Ok(())
}

/// Calls the tool of rows by call_tool, and has its result kept.
async fn keep(client: &mut McpClient, count: u64) -> Result<Value> {
    let arguments = json!({"tool_name": "one_rows", "parameters": {"count": count}, "store_result": true});
    call(client, "optim.call_tool", arguments).await
}

/// Returns the reference in an envelope.
fn reference(kept: &Value) -> Result<String> {
    let envelope = json_text(kept)?;
    let reference = envelope.get("result_ref").and_then(Value::as_str);
    Ok(reference.with_context(|| format!("no reference: {envelope}"))?.to_owned())
}

/// Does the same with SQLite alone.
fn by_hand(text: &str) -> Result<()> {
    let rows: Vec<Value> = serde_json::from_str(text)?;
    let database = Connection::open_in_memory()?;
    database.execute_batch("BEGIN; CREATE TABLE data (id INTEGER, team TEXT, amount INTEGER, note TEXT)")?;
    let mut insert = database.prepare("INSERT INTO data VALUES (?, ?, ?, ?)")?;
    for row in &rows {
        let field = |name: &str| row.get(name);
        let number = |name: &str| field(name).and_then(Value::as_i64);
        let text = |name: &str| field(name).and_then(Value::as_str);
        insert.execute((number("id"), text("team"), number("amount"), text("note")))?;
    }
    let mut select = database.prepare(SQL)?;
    let groups = select.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
    let groups: Vec<_> = groups.collect::<Result<_, _>>()?;
    ensure!(groups.len() == 7, "{} groups", groups.len());
    Ok(())
}
