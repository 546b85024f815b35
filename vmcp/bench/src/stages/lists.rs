//! Stage `lists`: `tools/list` from vmcp's memory, beside bare proxies that pass the same bytes.

mod topics;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use memchr::memmem;
use serde_json::value::RawValue;
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::replay_client::{PreparedRequest, ReplayClient, text};
use crate::load_generator::{ComparedFigure, Rounds, TargetLoad, Workload, report_rows, run_interleaved};
use crate::options::Options;
use crate::progress::progress;
use crate::report::{Report, Section, Unit};
use crate::roles::served_content;
use crate::synthetic_tools::count_in_words;
use crate::testbed::Testbed;
use crate::testbed::target::BARE_PROXY;

/// Rounds, and time of each target in a round.
const ROUNDS: Rounds = (5, Duration::from_millis(200));
const QUICK_ROUNDS: Rounds = (3, Duration::from_millis(120));

/// CPU that a page may cost, as a multiple of the bare hyper proxy's.
const MAX_CPU_RATIO: f64 = 0.6;

/// A client that reads pages of a list.
struct ListWorkload {
    client: ReplayClient,
    first: PreparedRequest,
    /// Entries of each page, as the backend sends them.
    pages: Arc<Vec<String>>,
    /// Number of pages that it reads.
    depth: usize,
}

/// Measures all sizes, depths and numbers of clients, and adds the rows.
pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    for tools in [500, 15_000] {
        let mut testbed = Testbed::for_lists(tools, options).await?;
        let pages: Vec<String> = (0..tools)
            .step_by(served_content::TOOLS_PER_PAGE)
            .map(|first| served_content::page(tools, first, 0).0)
            .collect();
        let pages = Arc::new(pages);
        let depths = if pages.len() == 1 { vec![1] } else { vec![1, pages.len()] };
        for depth in depths {
            for clients in [1, 4] {
                progress(&format!(
                    "lists: {}, {depth} of {} pages, {clients} at once",
                    count_in_words(tools),
                    pages.len()
                ));
                cell(report, options, &mut testbed, (tools, &pages, depth), clients).await?;
            }
        }
        if tools == 500 {
            progress(&format!("lists: {} by context", count_in_words(tools)));
            topics::measure(report, &mut testbed, tools).await?;
        }
        testbed.end().await?;
    }
    Ok(())
}

async fn cell(
    report: &mut Report,
    options: &Options,
    testbed: &mut Testbed,
    (tools, pages, depth): (usize, &Arc<Vec<String>>, usize),
    clients: usize,
) -> Result<()> {
    let mut loads = Vec::new();
    for target in &testbed.targets {
        // The era makes little difference, so that only 500 tools are listed in both.
        for era in target.eras.iter().copied().filter(|era| tools == 500 || *era == Era::Modern) {
            let mut listings = Vec::new();
            for number in 0..clients as u64 {
                let client = ReplayClient::connect(&target.endpoint, era, number).await?;
                let first = client.prepare(methods::TOOLS_LIST, "{}")?;
                listings.push(ListWorkload { client, first, pages: Arc::clone(pages), depth });
            }
            loads.push(TargetLoad::new(target, era, listings));
        }
    }
    run_interleaved(&mut loads, if options.quick { QUICK_ROUNDS } else { ROUNDS }, &mut testbed.counters)
        .await?;
    let which = match (depth, pages.len()) {
        (1, 1) => String::new(),
        (1, _) => " (first page)".to_owned(),
        (pages, _) => format!(" ({pages} pages)"),
    };
    let at_once = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
    let what = format!("tools/list, {}{which}, {at_once}", count_in_words(tools));
    let ratios = report_rows(report, Section::Lists, &loads, &what, ComparedFigure::Cpu);
    for (load, ratio) in loads.iter().zip(ratios) {
        if let Some(ratio) = ratio.pooled.filter(|_| load.target.is_vmcp()) {
            let what = format!("{what}, {}: CPU of the {BARE_PROXY}", load.era.as_str());
            report.check_target(&what, Unit::Ratio, ratio, MAX_CPU_RATIO);
        }
    }
    Ok(())
}

impl Workload for ListWorkload {
    async fn run_once(&mut self) -> Result<()> {
        let mut cursor = check(self.client.send(&mut self.first).await?.document()?, self.pages.first())?;
        for number in 1..self.depth {
            let params = format!(r#"{{"cursor":{}}}"#, cursor.context("a page is missing")?);
            let mut next = self.client.prepare(methods::TOOLS_LIST, &params)?;
            cursor = check(self.client.send(&mut next).await?.document()?, self.pages.get(number))?;
        }
        ensure!(self.depth < self.pages.len() || cursor.is_none(), "a page too many");
        Ok(())
    }
}

/// Checks the entries of a page byte by byte; returns the cursor of the next page, as JSON.
fn check(document: &[u8], entries: Option<&String>) -> Result<Option<String>> {
    const TOOLS: &[u8] = br#""tools":["#;
    const NEXT: &[u8] = br#""nextCursor":"#;
    let start = memmem::find(document, TOOLS).with_context(|| text(document))? + TOOLS.len();
    let (before, rest) = document.split_at_checked(start).unwrap_or_default();
    let after = rest.strip_prefix(entries.context("a page")?.as_bytes());
    let after = after.filter(|after| after.first() == Some(&b']'));
    let after = after.with_context(|| format!("other entries than the backend's: {}", text(document)))?;
    let next = [before, after].into_iter().find_map(|part| Some((part, memmem::find(part, NEXT)?)));
    let Some((part, at)) = next else { return Ok(None) };
    let mut values = serde_json::Deserializer::from_slice(part.get(at + NEXT.len()..).unwrap_or_default())
        .into_iter::<Box<RawValue>>();
    let cursor = values.next().context("a cursor")??;
    Ok((cursor.get() != "null").then(|| cursor.get().to_owned()))
}
