//! tools/call: through vmcp, through two bare proxies, through other gateways that run already, and direct.

use std::time::Duration;

use anyhow::{Context as _, Result};
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::replay_client::{Caller, Expected, Prepared};
use crate::load_generator::{Ask, BARE, By, Lane, Rounds, in_turns, rows};
use crate::options::Options;
use crate::progress::progress;
use crate::report::{Part, Report, Unit};
use crate::roles::served_content;
use crate::testbed::{Bed, Target};

/// Rounds, and how long each target is asked in one.
const ROUNDS: Rounds = (5, Duration::from_millis(350));
const QUICK_ROUNDS: Rounds = (3, Duration::from_millis(170));

/// A client and its call.
struct Call {
    caller: Caller,
    request: Prepared,
    expected: Expected,
}

impl Ask for Call {
    async fn ask(&mut self) -> Result<()> {
        self.caller.call(&mut self.request, &self.expected).await
    }
}

/// The rows.
pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    let mut bed = Bed::for_calls(report, options).await?;
    for (tool, bytes, size) in served_content::RESULTS {
        for clients in [1, if bytes < 1 << 20 { 16 } else { 4 }] {
            if options.wants(size, clients) {
                progress(&format!("calls: results of {size}, {clients} at once"));
                cell(report, options, &mut bed, (tool, bytes, size), clients).await?;
            }
        }
    }
    bed.end().await
}

/// All ways, with one size and number of clients.
async fn cell(
    report: &mut Report,
    options: &Options,
    bed: &mut Bed,
    (tool, bytes, size): (&str, usize, &str),
    clients: usize,
) -> Result<()> {
    let mut lanes = Vec::new();
    for target in &bed.targets {
        for era in target.eras.iter().copied().filter(|era| options.wants_era(*era)) {
            let expected =
                Expected { result: served_content::result(bytes, era), exactness: target.exactness(era) };
            let mut calls = Vec::new();
            for number in 0..clients as u64 {
                let call = Call::connect(target, era, number, tool, expected.clone()).await;
                calls.push(call.with_context(|| format!("{}, {} client", target.name, era.as_str()))?);
            }
            lanes.push(Lane::new(target, era, calls));
        }
    }
    let rounds = match options.seconds {
        Some(seconds) => (1, Duration::from_secs_f64(seconds)),
        None if options.quick => QUICK_ROUNDS,
        None => ROUNDS,
    };
    in_turns(&mut lanes, rounds, &mut bed.counters).await?;
    // One client tells the latency, many tell the cost.
    let (at_once, by) =
        if clients == 1 { ("1 client".to_owned(), By::P50) } else { (format!("{clients} clients"), By::Cpu) };
    let ratios = rows(report, Part::Calls, &lanes, &format!("call, {size}, {at_once}"), by);
    for (lane, ratio) in lanes.iter().zip(ratios) {
        let what = format!("call, {size}, {at_once}, {}: {}", lane.era.as_str(), lane.target.name);
        if let Some(ratio) = ratio.filter(|_| lane.target.is_vmcp()) {
            promises(report, lane, &what, ratio, (bytes, clients));
        }
    }
    Ok(())
}

/// What vmcp promises.
fn promises(
    report: &mut Report,
    lane: &Lane<'_, Call>,
    what: &str,
    ratio: f64,
    (bytes, clients): (usize, usize),
) {
    let at_most = match (clients, bytes, lane.era) {
        (1, 1024, _) => Some((1.62, "p50")),
        (1, ..) => None,
        (_, 1024, Era::Modern) => Some((2.0, "CPU")),
        (_, 1024, Era::Legacy) => Some((2.5, "CPU")),
        _ => Some((1.5, "CPU")),
    };
    if let Some((at_most, figure)) = at_most {
        report.promise(&format!("{what}: {figure} of the {BARE}"), Unit::Ratio, ratio, at_most);
    }
    if clients > 1 {
        // A connection that is listed anew meanwhile counts too.
        report.promise(
            &format!("{what}: upstream requests a call"),
            Unit::Ratio,
            lane.tally.upstream(),
            1.005,
        );
    }
}

impl Call {
    async fn connect(target: &Target, era: Era, number: u64, tool: &str, expected: Expected) -> Result<Call> {
        let caller = Caller::connect(&target.endpoint, era, number).await?;
        let tool = target.tool(tool);
        let params =
            format!(r#"{{"name":"{tool}","arguments":{{"query":"records of last week","limit":10}}}}"#);
        let request = caller.prepare(methods::TOOLS_CALL, &params)?;
        Ok(Call { caller, request, expected })
    }
}
