//! A week without a client: its upkeep, 10,080 listings and an attempt an hour at what is down, leaves
//! nothing behind, be it tasks, memory, open files, rows or series of metrics.
//!
//! The timer of listings, a minute in use, is set to some milliseconds. Tokio's paused clock would not do: it
//! advances whenever all tasks wait, for sockets and processes too, so that every time limit would pass at
//! once.

#![expect(clippy::expect_used, reason = "helpers of tests fail like tests")]

use std::alloc::System;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use vmcp_engine::engine::{Engine, Options, Storage};
use vmcp_store::Store;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Servers that are listed beside each other.
const SERVERS: u64 = 12;
/// Listings that one server has in an hour, one a minute.
const LISTINGS_AN_HOUR: u64 = 60;
/// Hours of a day.
const HOURS: u64 = 24;
const LISTING_INTERVAL: Duration = Duration::from_millis(2);
/// Memory that may be in use by chance: 128 KiB. Over six days a leak of 15 bytes a listing is more.
const MEMORY_NOISE: usize = 128 << 10;
/// Longest wait for a day; the machine may be busy.
const WAIT_TIMEOUT: Duration = Duration::from_mins(2);

/// Things that could grow.
#[derive(Debug)]
struct Footprint {
    tasks: usize,
    memory: usize,
    open_files: usize,
    series: usize,
    rows: usize,
}

impl Footprint {
    fn measure(engine: &Engine, folder: &Path) -> Footprint {
        let stats = ALLOCATOR.stats();
        let store = Store::open(folder).expect("the cache");
        let rows =
            store.schema_hashes("sound-0").expect("rows").len() + store.changes(1000).expect("rows").len();
        drop(store);
        Footprint {
            tasks: Handle::current().metrics().num_alive_tasks(),
            memory: stats.bytes_allocated - stats.bytes_deallocated,
            open_files: std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
            series: engine.render_metrics().lines().count(),
            rows,
        }
    }

    fn has_outgrown(&self, before: &Footprint) -> bool {
        self.tasks > before.tasks
            || self.memory > before.memory + MEMORY_NOISE
            || self.open_files > before.open_files
            || self.series > before.series
            || self.rows > before.rows
    }
}

/// Answers as an MCP server with one tool; counts its listings.
async fn answer(State(listings): State<Arc<AtomicU64>>, Json(message): Json<Value>) -> Response {
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let capabilities = json!({"tools": {}});
    let result = match message.get("method").and_then(Value::as_str) {
        Some("initialize") => json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "serverInfo": {"name": "sound", "version": "1"}}),
        Some("ping") => json!({}),
        Some("tools/list") => {
            listings.fetch_add(1, Ordering::Relaxed);
            json!({"tools": [{"name": "work", "inputSchema": {"type": "object"}}]})
        }
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return Json(json!({"jsonrpc": "2.0", "id": id, "error": error})).into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

/// Waits until `done`.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < WAIT_TIMEOUT, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_week_of_idling_leaves_no_growth() {
    let listings = Arc::new(AtomicU64::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let server = axum::Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&listings));
    tokio::spawn(async move { axum::serve(listener, server).await });
    let mut backends: Vec<_> =
        (0..SERVERS).map(|number| json!({"name": format!("sound-{number}"), "url": url})).collect();
    backends.push(json!({"name": "dead", "url": "http://127.0.0.1:1/mcp"}));
    backends.push(json!({"name": "broken", "command": ["sh", "-c", "exit 3"]}));
    let config = json!({
        "backends": backends,
        "optimizer": {"embeddings": {"provider": "none"}},
    });
    let mut config = vmcp_config::load(&config.to_string(), "test", &|_| None).expect("valid").config;
    config.proxy.refresh_interval = LISTING_INTERVAL;
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { storage: Storage::Dir(folder.path().to_owned()), ..Options::default() };
    let engine = Engine::start(config, options).await.expect("an engine");
    until("the first listings", || listings.load(Ordering::Relaxed) >= SERVERS).await;

    let day = async |number: u64| {
        for hour in (number - 1) * HOURS..number * HOURS {
            let end = (hour + 1) * LISTINGS_AN_HOUR;
            until("the end of the hour", || listings.load(Ordering::Relaxed) >= end).await;
            engine.refresh(Some("dead"));
            engine.refresh(Some("broken"));
        }
    };
    day(1).await;
    let after_a_day = Footprint::measure(&engine, folder.path());
    for number in 2..=7 {
        day(number).await;
    }
    // A retry that is under way passes; what has grown stays.
    let mut after_a_week = Footprint::measure(&engine, folder.path());
    let started = Instant::now();
    while after_a_week.has_outgrown(&after_a_day) && started.elapsed() < WAIT_TIMEOUT {
        tokio::time::sleep(Duration::from_millis(100)).await;
        after_a_week = Footprint::measure(&engine, folder.path());
    }
    assert!(!after_a_week.has_outgrown(&after_a_day), "{after_a_day:?} has become {after_a_week:?}");
    engine.shutdown(Duration::ZERO).await;
}
