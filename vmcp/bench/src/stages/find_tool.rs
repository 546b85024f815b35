//! find_tool and the search behind it, next to SQLite over the same tools.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use vmcp::engine::Engine;
use vmcp::identity::Identity;
use vmcp::route::{self, Caller};
use vmcp_search::{Clause, Query, split_clauses};
use vmcp_wire::payload::Payload;

use crate::report::{Part, Report, Unit};
use crate::samples::interleaved;
use crate::synthetic_tools::{self, COMPOUND_QUERY, Definition, QUERIES, find_arguments, query, unit_vector};
use crate::testbed::sqlite_peer::SqlitePeer;
use crate::testbed::synthetic_servers::Servers;

const PEER: &str = "SQLite: FTS5 bm25 + f32 blobs decoded and scanned per query, 4+4 merged";

/// One catalog, in an engine and in SQLite.
pub(crate) struct Bed {
    /// The tools.
    pub(crate) definitions: Vec<Definition>,
    /// Where they come from.
    pub(crate) servers: Servers,
    /// The engine.
    pub(crate) engine: Engine,
    peer: SqlitePeer,
}

impl Bed {
    /// So many tools, with their vectors.
    pub(crate) async fn new(size: usize) -> Result<Bed> {
        let definitions = synthetic_tools::definitions(size);
        let servers = Servers::start(&definitions).await?;
        let engine = servers.engine(size).await?;
        let peer = SqlitePeer::new(&definitions)?;
        Ok(Bed { definitions, servers, engine, peer })
    }

    /// The rows of this size.
    pub(crate) async fn measure(&mut self, report: &mut Report) -> Result<()> {
        self.check().await?;
        let (size, engine, peer) = (self.definitions.len(), &self.engine, &mut self.peer);
        let runs = report.runs(if size > 1000 { 200 } else { 1000 });
        let tools = tools(size);
        let calls: Vec<_> = (0..QUERIES.len()).map(find_call).collect::<Result<_, _>>()?;
        let calls: Vec<&RawValue> = calls.iter().map(Box::as_ref).collect();

        let (ours, theirs) = interleaved(
            runs,
            async |run| find_tool(engine, calls.get(run % calls.len()).copied()).await,
            async |run| {
                let (description, keywords) = query(run);
                peer.find_tool(description, keywords)
            },
        )
        .await?;
        report.row(Part::FindTool, Unit::Seconds, (format!("find_tool, {tools}"), &ours), (PEER, &theirs));
        let promised = match size {
            500 => Some(Duration::from_millis(1)),
            15_000 => Some(Duration::from_millis(15)),
            _ => None,
        };
        if let Some(promised) = promised {
            report.target(&format!("find_tool over {tools}"), Unit::Seconds, &ours, promised.as_secs_f64());
        }

        let snapshot = engine.snapshot();
        let texts: Vec<_> = (0..QUERIES.len()).map(|run| [query(run).0, query(run).1].join(" ")).collect();
        let vectors: Vec<_> = texts.iter().map(|text| unit_vector(text)).collect();
        let whole = |run: usize| Query {
            text: texts.get(run % texts.len()).map(String::as_str).unwrap_or_default(),
            vector: vectors.get(run % vectors.len()).map(Vec::as_slice),
            ..Query::default()
        };
        let visible = Some(&*snapshot.view(Identity::Anonymous).visible);
        let (search, theirs) = interleaved(
            runs,
            async |run| Ok(snapshot.index.search(&whole(run), visible)),
            async |run| peer.search(query(run).0, query(run).1),
        )
        .await?;
        report.row(
            Part::Search,
            Unit::Seconds,
            (format!("search alone, {tools}"), &search),
            ("the same search in SQLite", &theirs),
        );

        let parts = split_clauses(COMPOUND_QUERY);
        ensure!(parts.len() == 3, "the query has {} clauses", parts.len());
        let of_parts: Vec<_> = parts.iter().map(|text| unit_vector(text)).collect();
        let clauses: Vec<_> =
            parts.iter().zip(&of_parts).map(|(text, vector)| Clause { text, vector: Some(vector) }).collect();
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
        report.row(Part::Search, Unit::Seconds, (what, &with), ("the same query taken as one", &without));
        Ok(())
    }

    /// Both must do what they are measured at.
    async fn check(&mut self) -> Result<()> {
        for run in 0..QUERIES.len() {
            let answer: Value =
                serde_json::from_str(find_tool(&self.engine, Some(&find_call(run)?)).await?.get())?;
            let found =
                answer.pointer("/structuredContent/tools").and_then(Value::as_array).map_or(0, Vec::len);
            let mode = answer.pointer("/structuredContent/search_mode");
            let degraded = answer.pointer("/structuredContent/degraded");
            ensure!(
                found == 8 && mode == Some(&json!("hybrid")) && degraded.is_none(),
                "not a full answer: {answer}"
            );
            let (description, keywords) = query(run);
            let theirs = self.peer.search(description, keywords)?;
            ensure!((1..=8).contains(&theirs.len()), "SQLite found {theirs:?}");
        }
        Ok(())
    }

    /// Stops what runs in the background.
    pub(crate) async fn end(self) {
        self.engine.shutdown(Duration::from_secs(5)).await;
    }
}

/// `15,000 tools`.
pub(crate) fn tools(count: usize) -> String {
    match (count / 1000, count % 1000) {
        (0, rest) => format!("{rest} tools"),
        (thousands, rest) => format!("{thousands},{rest:03} tools"),
    }
}

/// The parameters of `tools/call` for find_tool with the query of a repetition.
fn find_call(run: usize) -> Result<Box<RawValue>> {
    Ok(to_raw_value(&json!({"name": "optim.find_tool", "arguments": find_arguments(run)}))?)
}

/// The way of every call behind the edge, to the bytes of the result.
async fn find_tool(engine: &Engine, call: Option<&RawValue>) -> Result<Payload> {
    let answer = route::call_tool(engine, &Caller::default(), call.unwrap_or(RawValue::NULL)).await;
    answer.outcome.map_err(|error| anyhow::anyhow!("find_tool: {}", error.get()))
}
