//! `make bench`: what vmcp costs, in one table, each figure beside something named that was measured in the same go.
//!
//! `cargo bench --profile release -p vmcp --bench vmcp [-- --quick]`; `docs/benchmarks.md` explains the rows. The table goes to standard
//! output, progress and targets to standard error.
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

use find_tool::Bed;
use table::Report;

/// Sizes of the catalogue.
const SIZES: [usize; 4] = [100, 500, 5_000, 15_000];

#[tokio::main]
async fn main() -> Result<()> {
    // Cargo itself adds `--bench`.
    let quick = std::env::args().any(|argument| argument == "--quick")
        || std::env::var_os("VMCP_BENCH_QUICK").is_some();
    let mut report = Report::new(quick);

    // First, while this process is small and nothing of it runs in the background.
    start::measure(&mut report).await?;
    memory::measure(&mut report).await?;
    for size in SIZES {
        progress(&format!("a catalogue of {size} tools: connecting, indexing, embedding"));
        let mut bed = Bed::new(size).await?;
        progress(&format!("find_tool and search over {size} tools"));
        bed.measure(&mut report).await?;
        if size == 500 || size == 15_000 {
            progress(&format!("building and reloading {size} tools"));
            catalog::measure(&bed, &mut report).await?;
        }
        bed.end().await;
    }
    sessions::measure(&mut report).await?;
    embedding::measure(&mut report).await?;
    report.print();
    Ok(())
}

/// Says what is going on.
fn progress(what: &str) {
    eprintln!("bench: {what}");
}
