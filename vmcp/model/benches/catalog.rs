//! Time to build a catalog of 15,000 tools, next to merely parsing the same definitions: `cargo bench -p
//! vmcp-model`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use serde_json::value::RawValue;
use vmcp_config::rules::{Aggregation, NamePattern, Strategy, ToolOverride, ToolRules};
use vmcp_model::catalog::Catalog;
use vmcp_model::discovered::{Discovered, Listing};

const BACKENDS: usize = 150;
const TOOLS_EACH: usize = 100;
const RUNS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let mut listings = Vec::new();
    for backend in 0..BACKENDS {
        let tools = (0..TOOLS_EACH).map(|tool| definition(backend, tool)).collect::<Result<_, _>>()?;
        listings
            .push((Arc::<str>::from(format!("backend-{backend}")), Listing { tools, ..Listing::default() }));
    }
    let raws = || listings.iter().flat_map(|(_, listing)| &listing.tools);
    let bytes: usize = raws().map(|raw| raw.get().len()).sum();
    println!("{} tools of {} backends, {} KiB; medians of {RUNS}", raws().count(), BACKENDS, bytes / 1024);

    let parse = median(|| raws().map(|raw| serde_json::from_str::<Value>(raw.get())).collect::<Vec<_>>());
    println!("parse into values          {parse:>10.1?}  1.00");
    let show = |what: &str, took: Duration| {
        println!("{what:<26} {took:>10.1?}  {:.2}", took.as_secs_f64() / parse.as_secs_f64());
    };
    let read = || {
        listings.iter().map(|(name, listing)| (Arc::clone(name), Arc::new(Discovered::read(listing.clone()))))
    };
    show("read and hash definitions", median(|| read().collect::<Vec<_>>()));
    let backends: Vec<_> = read().collect();

    let prefix = Aggregation::default();
    show("build, prefix", median(|| Catalog::build(&backends, &prefix)));
    let bare = Aggregation { strategy: Strategy::Manual, ..Aggregation::default() };
    show("build, every name clashes", median(|| Catalog::build(&backends, &bare)));
    let change = ToolOverride { description: Some("Other.".into()), ..ToolOverride::default() };
    let rules = ToolRules {
        filter: vec![NamePattern::new("*_1*")],
        overrides: (0..TOOLS_EACH).map(|tool| (name(tool), change.clone())).collect(),
        ..ToolRules::default()
    };
    let per_backend = backends.iter().map(|(name, _)| (Arc::clone(name), rules.clone())).collect();
    let overrides = Aggregation { per_backend, ..Aggregation::default() };
    show("build, filter, overrides", median(|| Catalog::build(&backends, &overrides)));
    Ok(())
}

fn name(tool: usize) -> String {
    format!("resource_operation_{tool}")
}

fn definition(backend: usize, tool: usize) -> Result<Box<RawValue>, serde_json::Error> {
    let parameters: Vec<_> = (0..5)
        .map(|n| format!(r#""parameter_{n}":{{"type":"string","description":"What parameter {n} of the operation means, in a sentence."}}"#))
        .collect();
    RawValue::from_string(format!(
        r#"{{"name":"{}","title":"Operation {tool}","description":"Does operation {tool} on the resources of server {backend} and returns what became of them. Use it when asked to.","inputSchema":{{"type":"object","properties":{{{}}},"required":["parameter_0"]}},"annotations":{{"readOnlyHint":true}}}}"#,
        name(tool),
        parameters.join(",")
    ))
}

/// Returns the median time of some runs.
fn median<T>(mut run: impl FnMut() -> T) -> Duration {
    let mut times: Vec<_> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            let result = run();
            let took = start.elapsed();
            drop(black_box(result));
            took
        })
        .collect();
    times.sort_unstable();
    times.get(RUNS / 2).copied().unwrap_or_default()
}
