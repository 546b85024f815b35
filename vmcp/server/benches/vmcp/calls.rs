//! tools/call: through vmcp, through two bare proxies, through other gateways that run already, and direct.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::bed::{Bed, Target};
use crate::options::Options;
use crate::progress;
use crate::stand::caller::{Caller, Expected, Prepared};
use crate::stand::served;
use crate::table::{Part, Report, Unit, show};
use crate::traffic::{Ask, Tally};

/// Rounds, and how long each target is asked in one.
const ROUNDS: (usize, Duration) = (5, Duration::from_millis(350));
const QUICK_ROUNDS: (usize, Duration) = (3, Duration::from_millis(170));
const WARM_UP: Duration = Duration::from_millis(50);
/// The yardstick.
const BARE: &str = "bare hyper proxy";

/// A client and its call.
pub(crate) struct Call {
    caller: Caller,
    request: Prepared,
    expected: Expected,
}

impl Ask for Call {
    async fn ask(&mut self) -> Result<()> {
        self.caller.call(&mut self.request, &self.expected).await
    }
}

/// A way to the backend, for clients of one era.
struct Lane<'a> {
    target: &'a Target,
    era: Era,
    clients: Vec<Call>,
    tally: Tally,
}

/// The rows.
pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    let mut bed = Bed::for_calls(report, options).await?;
    for (tool, bytes, size) in served::RESULTS {
        for clients in [1, if bytes < 1 << 20 { 16 } else { 4 }] {
            if options.wants(size, clients) {
                progress(&format!("calls: results of {size}, {clients} at once"));
                cell(report, options, &mut bed, (tool, bytes, size), clients).await?;
            }
        }
    }
    bed.end().await
}

/// All lanes with one size and number of clients.
async fn cell(
    report: &mut Report,
    options: &Options,
    bed: &mut Bed,
    (tool, bytes, size): (&str, usize, &str),
    clients: usize,
) -> Result<()> {
    let mut lanes = Vec::new();
    for target in &bed.targets {
        for era in [Era::Legacy, Era::Modern]
            .into_iter()
            .filter(|era| target.serves(*era) && options.wants_era(*era))
        {
            let expected = Expected { result: served::result(bytes, era), exactness: target.exactness };
            let mut calls = Vec::new();
            for number in 0..clients as u64 {
                calls.push(Call::connect(target, era, number, tool, expected.clone()).await?);
            }
            lanes.push(Lane { target, era, clients: calls, tally: Tally::default() });
        }
    }
    let (rounds, time) = match options.seconds {
        Some(seconds) => (1, Duration::from_secs_f64(seconds)),
        None => {
            if report.is_quick() {
                QUICK_ROUNDS
            } else {
                ROUNDS
            }
        }
    };
    for lane in &mut lanes {
        let about = || format!("{}, {} client", lane.target.name, lane.era.as_str());
        let warm = Tally::default().round(&mut lane.clients, WARM_UP, None, &mut bed.counters).await;
        warm.with_context(about)?;
    }
    for _ in 0..rounds {
        for lane in &mut lanes {
            let pid = lane.target.pid;
            lane.tally.round(&mut lane.clients, time, pid, &mut bed.counters).await?;
        }
        // Whoever came after the slowest is not always the same.
        lanes.rotate_left(1);
    }
    lanes.sort_by_key(|lane| (lane.era == Era::Modern, lane.target.rank));
    for lane in &lanes {
        let at_once = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        let era = lane.era.as_str();
        let mut row = lane.tally.row(format!("call, {size}, {at_once}, {era}: {}", lane.target.name));
        let peer = |name: &str| lanes.iter().find(|other| other.era == lane.era && other.target.name == name);
        // One client tells the latency, many tell the cost.
        let of = |lane: &Lane<'_>| if clients == 1 { lane.tally.p50.p50() } else { lane.tally.cpu.p50() };
        let yardstick = if lane.target.name == BARE || lane.target.pid.is_none() { "direct" } else { BARE };
        if let Some(other) = peer(yardstick).filter(|other| other.target.name != lane.target.name) {
            let by_p50 = clients == 1 || other.target.pid.is_none();
            let figure = |lane: &Lane<'_>| if by_p50 { lane.tally.p50.p50() } else { of(lane) };
            let ratio = figure(lane) / figure(other);
            row.yardstick = format!("{yardstick}, {}", if by_p50 { "p50" } else { "CPU" });
            row.compared = Some((show(figure(other), Unit::Seconds), ratio));
            promises(report, lane, &row.what, ratio, (bytes, clients));
        }
        report.add(Part::Calls, row);
    }
    Ok(())
}

/// What issue 4 promises of vmcp.
fn promises(report: &mut Report, lane: &Lane<'_>, what: &str, ratio: f64, (bytes, clients): (usize, usize)) {
    if !lane.target.name.starts_with("vmcp") {
        return;
    }
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
        // A connection to the backend that is opened or listed anew meanwhile counts too.
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
        let caller =
            Caller::connect(&target.endpoint, era, number).await.with_context(|| target.name.clone())?;
        let tool = target.tool(tool);
        ensure!(!tool.contains('"'), "a tool is named {tool}");
        let params =
            format!(r#"{{"name":"{tool}","arguments":{{"query":"records of last week","limit":10}}}}"#);
        let request = caller.prepare(methods::TOOLS_CALL, &params)?;
        Ok(Call { caller, request, expected })
    }
}
