//! `make bench`: what vmcp costs, in one table, each figure beside something named that was measured in the same go.
//!
//! ```console
//! cargo build --release -p vmcp -p vmcp-fixture
//! cargo run --release -p vmcp-bench -- [--quick] [STAGE…]
//! cargo run --release -p vmcp-bench -- calls --target vmcp --target hyper --size 1k --clients 16 --era modern
//! cargo run --release -p vmcp-bench -- calls --target vmcp --size 1k --clients 16 --era modern --seconds 20
//! ```
//!
//! The last one is for profilers: one target is asked for 20 seconds, and its process is named. `--profile bench` builds
//! with symbols; `VMCP_BIN` measures another binary than the one just built. `docs/contributor/benchmarks.md` explains the rows.
//! The table goes to standard output, progress and targets to standard error.

mod client;
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
use crate::stages::find_tool::{Bed, tools};
use crate::stages::{
    calls, catalog, change_storm, embedding, idle_sessions, lists, memory, open_sessions, start,
};

/// Sizes of the catalog.
const SIZES: [usize; 4] = [100, 500, 5_000, 15_000];

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(role) = options.part.role {
        return roles::play(role, options.part.listen, options.part.upstream);
    }
    let mut report = Report::new(options.quick);
    // Processes first, while nothing of this one runs in the background.
    let second = on_one_thread(second_part(&mut report, &options));
    let first = Builder::new_multi_thread().enable_all().build()?.block_on(first_part(&mut report, &options));
    // What could be measured is shown, whatever could not.
    report.print();
    second.and(first)
}

/// What vmcp does by itself.
async fn first_part(report: &mut Report, options: &Options) -> Result<()> {
    if options.runs(Stage::Start) {
        start::measure(report).await?;
    }
    if options.runs(Stage::Memory) {
        memory::measure(report).await?;
    }
    for size in SIZES.into_iter().filter(|_| options.runs(Stage::FindTool)) {
        progress(&format!("{}: connecting, indexing, embedding", tools(size)));
        let mut bed = Bed::new(size).await?;
        progress(&format!("{}: find_tool and search", tools(size)));
        bed.measure(report).await?;
        if size == 500 || size == 15_000 {
            progress(&format!("{}: building and reloading", tools(size)));
            catalog::measure(&bed, report).await?;
        }
        bed.end().await;
    }
    if options.runs(Stage::Sessions) {
        open_sessions::measure(report).await?;
    }
    if options.runs(Stage::Embedding) {
        embedding::measure(report).await?;
    }
    Ok(())
}

/// What it costs to have vmcp in between.
async fn second_part(report: &mut Report, options: &Options) -> Result<()> {
    if options.runs(Stage::Calls) {
        calls::measure(report, options).await?;
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

/// Runs clients on one thread: they must not take more of the machine than they need.
fn on_one_thread<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    Builder::new_current_thread().enable_all().build()?.block_on(work)
}
