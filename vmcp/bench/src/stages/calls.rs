//! Stage `calls`: `tools/call` to the backend itself, and through vmcp, the bare proxies and any other
//! gateways; as JSON texts, as event streams, and as structured results.

pub(crate) mod audit;
pub(crate) mod code;
pub(crate) mod composites;
mod settings_cost;
pub(crate) mod telemetry;

use std::time::Duration;

use anyhow::{Context as _, Result};
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::replay_client::{ExpectedResult, PreparedRequest, ReplayClient};
use crate::load_generator::{
    ComparedFigure, Ratios, Rounds, TargetLoad, Workload, report_rows, run_interleaved,
};
use crate::options::{AnswerKind, Options};
use crate::progress::progress;
use crate::report::{Report, Section, Unit};
use crate::roles::served_content::{Content, RESULTS, ServedResult};
use crate::testbed::Testbed;
use crate::testbed::target::{AXUM_PROXY, BARE_PROXY, PER_CORE_PROXY, Target};

/// Rounds, and time of each target in a round.
const ROUNDS: Rounds = (5, Duration::from_millis(350));
const QUICK_ROUNDS: Rounds = (3, Duration::from_millis(170));

/// A client, its call, and the answer it must get.
struct CallWorkload {
    client: ReplayClient,
    request: PreparedRequest,
    expected: ExpectedResult,
}

impl Workload for CallWorkload {
    async fn run_once(&mut self) -> Result<()> {
        self.client.send_checked(&mut self.request, &self.expected).await
    }
}

/// Results that all targets are asked for, by this many clients.
struct Cell {
    kind: AnswerKind,
    result: ServedResult,
    clients: usize,
}

impl Cell {
    /// Returns the cells of the table, in its order.
    fn all() -> impl Iterator<Item = Cell> {
        let texts = RESULTS.iter().filter(|result| result.content == Content::Text);
        let structured = RESULTS.iter().filter(|result| result.content == Content::Structured);
        let by_kind = (texts.clone().map(|result| (AnswerKind::Text, *result)))
            .chain(texts.map(|result| (AnswerKind::Sse, *result)))
            .chain(structured.map(|result| (AnswerKind::Structured, *result)));
        by_kind.flat_map(|(kind, result)| {
            let many = if result.bytes < 1 << 20 { 16 } else { 4 };
            [1, many].map(|clients| Cell { kind, result, clients })
        })
    }

    /// Returns the beginning of the names of the rows.
    fn words(&self) -> String {
        let size = self.result.size;
        let answer = match self.kind {
            AnswerKind::Text => size.to_owned(),
            AnswerKind::Structured => format!("{size} structured"),
            AnswerKind::Sse => format!("{size} as events"),
        };
        let clients = self.clients;
        format!("call, {answer}, {clients} client{}", if clients == 1 { "" } else { "s" })
    }

    /// Rows of one client show the latency, rows of many the cost.
    fn compared_figure(&self) -> ComparedFigure {
        if self.clients == 1 { ComparedFigure::P50 } else { ComparedFigure::Cpu }
    }

    /// Returns true if a target is asked. The slower of the two pooled proxies stands beside the texts only.
    fn includes(&self, target: &Target) -> bool {
        target.event_streams == (self.kind == AnswerKind::Sse)
            && (self.kind == AnswerKind::Text || target.name != AXUM_PROXY)
    }

    /// Returns the highest ratio to the pooled proxy that vmcp promises.
    fn most_times_pooled(&self) -> Option<f64> {
        match (self.clients, self.kind) {
            (1, AnswerKind::Text) if self.result.bytes == 1024 => Some(1.3),
            (1, _) => None,
            (_, AnswerKind::Sse) => Some(1.8),
            (_, AnswerKind::Text | AnswerKind::Structured) => Some(1.5),
        }
    }

    /// Returns the highest ratio to the proxy of one thread a core that vmcp promises.
    fn most_times_per_core(&self) -> Option<f64> {
        (self.clients > 1 && self.kind == AnswerKind::Text && self.result.bytes == 1024).then_some(2.0)
    }
}

/// Measures all kinds of answers, sizes and numbers of clients, and adds the rows.
pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    let mut testbed = Testbed::for_calls(report, options).await?;
    for cell in Cell::all().filter(|cell| options.wants(cell.kind, cell.result.size, cell.clients)) {
        progress(&cell.words());
        run_cell(report, options, &mut testbed, &cell).await?;
    }
    testbed.end().await
}

/// Measures all targets of one cell.
async fn run_cell(report: &mut Report, options: &Options, testbed: &mut Testbed, cell: &Cell) -> Result<()> {
    let mut loads = Vec::new();
    for target in testbed.targets.iter().filter(|target| cell.includes(target)) {
        for era in target.eras.iter().copied().filter(|era| options.wants_era(*era)) {
            let expected =
                ExpectedResult { result: cell.result.to_json(era), exactness: target.exactness(era) };
            let mut workloads = Vec::new();
            for number in 0..cell.clients as u64 {
                let workload =
                    CallWorkload::connect(target, era, number, cell.result.tool, expected.clone()).await;
                workloads
                    .push(workload.with_context(|| format!("{}, {} client", target.name, era.as_str()))?);
            }
            loads.push(TargetLoad::new(target, era, workloads));
        }
    }
    let rounds = match options.seconds {
        Some(seconds) => (1, Duration::from_secs_f64(seconds)),
        None if options.quick => QUICK_ROUNDS,
        None => ROUNDS,
    };
    run_interleaved(&mut loads, rounds, &mut testbed.counters).await?;
    let ratios = report_rows(report, Section::Calls, &loads, &cell.words(), cell.compared_figure());
    for (load, ratios) in loads.iter().zip(ratios).filter(|(load, _)| load.target.is_vmcp()) {
        check_targets(report, cell, load, ratios);
    }
    Ok(())
}

/// Checks the ratios of vmcp against its targets.
fn check_targets(report: &mut Report, cell: &Cell, load: &TargetLoad<'_, CallWorkload>, ratios: Ratios) {
    let what = format!("{}, {}: {}", cell.words(), load.era.as_str(), load.target.name);
    let figure = cell.compared_figure().word();
    for (floor, ratio, at_most) in [
        (BARE_PROXY, ratios.pooled, cell.most_times_pooled()),
        (PER_CORE_PROXY, ratios.per_core, cell.most_times_per_core()),
    ] {
        if let (Some(ratio), Some(at_most)) = (ratio, at_most) {
            report.check_target(&format!("{what}: {figure} of the {floor}"), Unit::Ratio, ratio, at_most);
        }
    }
    if cell.clients > 1 {
        // Half a percent more than one request a call is allowed: vmcp may refresh a listing meanwhile.
        let upstream = load.samples.upstream();
        report.check_target(&format!("{what}: upstream requests a call"), Unit::Ratio, upstream, 1.005);
    }
}

impl CallWorkload {
    async fn connect(
        target: &Target,
        era: Era,
        number: u64,
        tool: &str,
        expected: ExpectedResult,
    ) -> Result<CallWorkload> {
        let client = ReplayClient::connect(&target.endpoint, era, number).await?;
        let tool = target.tool(tool);
        let params =
            format!(r#"{{"name":"{tool}","arguments":{{"query":"records of last week","limit":10}}}}"#);
        let request = client.prepare(methods::TOOLS_CALL, &params)?;
        Ok(CallWorkload { client, request, expected })
    }
}
