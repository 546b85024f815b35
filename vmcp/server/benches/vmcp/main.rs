//! `make bench`: what vmcp costs, in one table, each figure beside something named that was measured in the same go.
//!
//! `cargo bench --profile release -p vmcp --bench vmcp [-- --quick] [STAGE…]`;
//! `docs/benchmarks.md` explains the rows. The table goes to standard output, progress and targets to standard error.
#![expect(clippy::print_stderr, reason = "progress is for whoever waits")]

mod catalog;
mod corpus;
mod embedding;
mod find_tool;
mod memory;
mod peer_sqlite;
mod process;
mod raw_client;
mod samples;
mod servers;
mod sessions;
mod start;
mod table;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use find_tool::{Bed, tools};
use table::Report;

/// Sizes of the catalogue.
const SIZES: [usize; 4] = [100, 500, 5_000, 15_000];

/// Measures vmcp.
#[derive(Debug, Parser)]
struct Arguments {
    /// A fifth of the repetitions
    #[arg(long, env = "VMCP_BENCH_QUICK")]
    quick: bool,
    /// What to measure [default: everything]
    stages: Vec<Stage>,
    /// Cargo adds it
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    Start,
    Memory,
    FindTool,
    Sessions,
    Embedding,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { quick, stages, bench: _ } = Arguments::parse();
    let wanted = |stage| stages.is_empty() || stages.contains(&stage);
    let mut report = Report::new(quick);

    // Processes first, while nothing of this one runs in the background.
    if wanted(Stage::Start) {
        start::measure(&mut report).await?;
    }
    if wanted(Stage::Memory) {
        memory::measure(&mut report).await?;
    }
    for size in SIZES.into_iter().filter(|_| wanted(Stage::FindTool)) {
        progress(&format!("{}: connecting, indexing, embedding", tools(size)));
        let mut bed = Bed::new(size).await?;
        progress(&format!("{}: find_tool and search", tools(size)));
        bed.measure(&mut report).await?;
        if size == 500 || size == 15_000 {
            progress(&format!("{}: building and reloading", tools(size)));
            catalog::measure(&bed, &mut report).await?;
        }
        bed.end().await;
    }
    if wanted(Stage::Sessions) {
        sessions::measure(&mut report).await?;
    }
    if wanted(Stage::Embedding) {
        embedding::measure(&mut report).await?;
    }
    report.print();
    Ok(())
}

/// Says what is going on.
fn progress(what: &str) {
    eprintln!("bench: {what}");
}
