//! `make bench`: measures what vmcp costs, in one table. Each figure stands beside a named peer that was
//! measured in turns with it, so that a machine whose speed drifts does not decide.
//!
//! ```console
//! cargo build --release -p vmcp -p vmcp-fixture -p vmcp-bench
//! cargo run --release -p vmcp-bench -- [--quick] [STAGE…]
//! cargo run --release -p vmcp-bench -- calls --target vmcp --target hyper --size 1k --clients 16
//! cargo run --release -p vmcp-bench -- calls --target vmcp --size 1k --clients 16 --era modern --seconds 20
//! ```
//!
//! The last one is for profilers: it asks one target for 20 seconds and prints the id of its process.
//! `--profile bench` builds with symbols; `VMCP_BIN` measures another binary than the one beside this
//! program. `docs/contributor/benchmarks.md` explains the rows. The table goes to standard output, progress
//! and targets to standard error.
//!
//! `stages` holds what is measured, one module a stage; `load_generator` the clients that ask as fast as they
//! are answered; `testbed` vmcp, the proxies and the backends; `roles` the processes that this program starts
//! of itself with `--role`; `client` the MCP clients; `report` the table and the targets.

mod built_binaries;
mod client;
pub mod counted;
mod load_generator;
mod options;
mod progress;
mod report;
mod roles;
mod samples;
mod stages;
mod synthetic_tools;
mod testbed;

use std::future::Future;

use anyhow::Result;
use clap::Parser as _;
use tokio::runtime::Builder;

use crate::options::{Options, Stage};
use crate::progress::progress;
use crate::report::Report;
use crate::stages::attacks::{flooding, half_sent, hostile};
use crate::stages::sessions::{idle_sessions, open_sessions};
use crate::stages::{
    allocations, calls, catalog, change_storm, embedding, find_tool, lists, memory, policies, start,
    streaming,
};
use crate::synthetic_tools::count_in_words;
use crate::testbed::search_testbed::SearchTestbed;

/// Numbers of tools in the catalogs of the stage `find-tool`.
const SIZES: [usize; 4] = [100, 500, 5_000, 15_000];

/// Runs the program: the chosen stages, or the role of a process that the benchmark starts.
pub fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(role) = options.process_role.role {
        return roles::run(role, options.process_role.listen, options.process_role.upstream);
    }
    let mut report = Report::new(options.quick);
    // Processes first, while no task of this one runs in the background.
    let overhead = on_one_thread(measure_overhead(&mut report, &options));
    let alone =
        Builder::new_multi_thread().enable_all().build()?.block_on(measure_alone(&mut report, &options));
    // A stage that failed does not hide the rows of the others.
    let targets = report.print();
    overhead.and(alone).and(targets)
}

/// Measures vmcp by itself: start, memory, search, catalog, embedding.
async fn measure_alone(report: &mut Report, options: &Options) -> Result<()> {
    if options.runs(Stage::Start) {
        start::measure(report).await?;
    }
    if options.runs(Stage::Memory) {
        memory::measure(report).await?;
    }
    for size in SIZES.into_iter().filter(|_| options.runs(Stage::FindTool)) {
        progress(&format!("{}: connecting, indexing, embedding", count_in_words(size)));
        let mut testbed = SearchTestbed::new(size).await?;
        progress(&format!("{}: find_tool and search", count_in_words(size)));
        find_tool::measure(&mut testbed, report).await?;
        policies::measure(&testbed, report).await?;
        if size == 500 || size == 15_000 {
            progress(&format!("{}: building and reloading", count_in_words(size)));
            Box::pin(catalog::measure(&testbed, report)).await?;
        }
        testbed.end().await;
    }
    if options.runs(Stage::Sessions) {
        open_sessions::measure(report).await?;
    }
    if options.runs(Stage::Composites) {
        calls::composites::measure(report).await?;
    }
    if options.runs(Stage::Code) {
        calls::code::measure(report).await?;
    }
    if options.runs(Stage::Embedding) {
        embedding::measure(report).await?;
    }
    Ok(())
}

/// Measures the overhead of vmcp between client and backend: calls, lists, sessions, storms of changes.
async fn measure_overhead(report: &mut Report, options: &Options) -> Result<()> {
    if options.runs(Stage::Calls) {
        calls::measure(report, options).await?;
    }
    if options.runs(Stage::Audit) {
        calls::audit::measure(report, options.quick).await?;
    }
    if options.runs(Stage::Telemetry) {
        calls::telemetry::measure(report, options.quick).await?;
    }
    if options.runs(Stage::Allocations) {
        allocations::measure(report).await?;
    }
    if options.runs(Stage::Streaming) {
        streaming::measure(report).await?;
    }
    if options.runs(Stage::HalfSent) {
        half_sent::measure(report).await?;
    }
    if options.runs(Stage::Hostile) {
        hostile::measure(report).await?;
        flooding::measure(report).await?;
    }
    if options.runs(Stage::Lists) {
        lists::measure(report, options).await?;
    }
    if options.runs(Stage::Sessions) {
        idle_sessions::measure(report).await?;
    }
    if options.runs(Stage::Storm) {
        change_storm::measure(report, options).await?;
    }
    Ok(())
}

/// Runs `work` on one thread: the clients must leave the other cores to the processes they measure.
fn on_one_thread<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    Builder::new_current_thread().enable_all().build()?.block_on(work)
}
