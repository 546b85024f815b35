//! Stage `calls`: `tools/call` to the backend itself, and through vmcp, two bare proxies and any other
//! gateways.

use std::time::Duration;

use anyhow::{Context as _, Result};
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::replay_client::{ExpectedResult, PreparedRequest, ReplayClient};
use crate::load_generator::{ComparedFigure, Rounds, TargetLoad, Workload, report_rows, run_interleaved};
use crate::options::Options;
use crate::progress::progress;
use crate::report::{Report, Section, Unit};
use crate::roles::served_content;
use crate::testbed::Testbed;
use crate::testbed::target::{BARE_PROXY, Target};

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

/// Measures all sizes and numbers of clients, and adds the rows.
pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    let mut testbed = Testbed::for_calls(report, options).await?;
    for (tool, bytes, size) in served_content::RESULTS {
        for clients in [1, if bytes < 1 << 20 { 16 } else { 4 }] {
            if options.wants(size, clients) {
                progress(&format!("calls: results of {size}, {clients} at once"));
                cell(report, options, &mut testbed, (tool, bytes, size), clients).await?;
            }
        }
    }
    testbed.end().await
}

/// Measures all targets with one size and number of clients.
async fn cell(
    report: &mut Report,
    options: &Options,
    testbed: &mut Testbed,
    (tool, bytes, size): (&str, usize, &str),
    clients: usize,
) -> Result<()> {
    let mut loads = Vec::new();
    for target in &testbed.targets {
        for era in target.eras.iter().copied().filter(|era| options.wants_era(*era)) {
            let expected = ExpectedResult {
                result: served_content::result(bytes, era),
                exactness: target.exactness(era),
            };
            let mut calls = Vec::new();
            for number in 0..clients as u64 {
                let call = CallWorkload::connect(target, era, number, tool, expected.clone()).await;
                calls.push(call.with_context(|| format!("{}, {} client", target.name, era.as_str()))?);
            }
            loads.push(TargetLoad::new(target, era, calls));
        }
    }
    let rounds = match options.seconds {
        Some(seconds) => (1, Duration::from_secs_f64(seconds)),
        None if options.quick => QUICK_ROUNDS,
        None => ROUNDS,
    };
    run_interleaved(&mut loads, rounds, &mut testbed.counters).await?;
    // Rows of one client show the latency, rows of many the cost.
    let (at_once, by) = if clients == 1 {
        ("1 client".to_owned(), ComparedFigure::P50)
    } else {
        (format!("{clients} clients"), ComparedFigure::Cpu)
    };
    let ratios = report_rows(report, Section::Calls, &loads, &format!("call, {size}, {at_once}"), by);
    for (load, ratio) in loads.iter().zip(ratios) {
        let what = format!("call, {size}, {at_once}, {}: {}", load.era.as_str(), load.target.name);
        if let Some(ratio) = ratio.filter(|_| load.target.is_vmcp()) {
            promises(report, load, &what, ratio, (bytes, clients));
        }
    }
    Ok(())
}

/// Checks the ratios of vmcp against its targets.
fn promises(
    report: &mut Report,
    load: &TargetLoad<'_, CallWorkload>,
    what: &str,
    ratio: f64,
    (bytes, clients): (usize, usize),
) {
    let at_most = match (clients, bytes, load.era) {
        (1, 1024, _) => Some((1.62, "p50")),
        (1, ..) => None,
        (_, 1024, Era::Modern) => Some((2.0, "CPU")),
        (_, 1024, Era::Legacy) => Some((2.5, "CPU")),
        _ => Some((1.5, "CPU")),
    };
    if let Some((at_most, figure)) = at_most {
        report.check_target(&format!("{what}: {figure} of the {BARE_PROXY}"), Unit::Ratio, ratio, at_most);
    }
    if clients > 1 {
        // Half a percent more than one request a call is allowed: vmcp may refresh a listing meanwhile.
        report.check_target(
            &format!("{what}: upstream requests a call"),
            Unit::Ratio,
            load.samples.upstream(),
            1.005,
        );
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
