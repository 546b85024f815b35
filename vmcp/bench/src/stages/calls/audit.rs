//! Stage `audit`: CPU of a call through a vmcp with audit events in a file, beside a vmcp without events.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use vmcp_wire::era::Era;

use super::CallWorkload;
use crate::client::replay_client::ExpectedResult;
use crate::load_generator::{ComparedFigure, Rounds, TargetLoad, report_rows, run_interleaved};
use crate::progress::progress;
use crate::report::{Report, Section, Unit};
use crate::roles::served_content::RESULTS;
use crate::testbed::Testbed;

/// Names of the two processes.
const PLAIN: &str = "vmcp without audit events";
const AUDITED: &str = "vmcp with audit events in a file";
/// Clients that call at once.
const CLIENTS: u64 = 16;
/// Rounds, and time of each process in a round.
const ROUNDS: Rounds = (9, Duration::from_millis(350));
const QUICK_ROUNDS: Rounds = (3, Duration::from_millis(170));
/// Most that audit events may cost, as a share of a call's CPU.
const MAX_RATIO: f64 = 1.05;

/// Measures calls of both processes in turns, and adds the rows.
pub(crate) async fn measure(report: &mut Report, quick: bool) -> Result<()> {
    progress("audit: calls with and without events");
    let folder = tempfile::tempdir()?;
    let audit = json!({"enabled": true, "logFile": folder.path().join("audit.jsonl")});
    let mut testbed = Testbed::for_audit([(PLAIN, json!({})), (AUDITED, audit)]).await?;
    let result = RESULTS.first().context("a result")?;
    let mut loads = Vec::new();
    for target in &testbed.targets {
        let era = Era::Modern;
        let expected = ExpectedResult { result: result.to_json(era), exactness: target.exactness(era) };
        let mut workloads = Vec::new();
        for number in 0..CLIENTS {
            workloads.push(CallWorkload::connect(target, era, number, result.tool, expected.clone()).await?);
        }
        loads.push(TargetLoad::new(target, era, workloads));
    }
    run_interleaved(&mut loads, if quick { QUICK_ROUNDS } else { ROUNDS }, &mut testbed.counters).await?;
    report_rows(report, Section::Calls, &loads, "call with an audit event", ComparedFigure::Cpu);
    let cpu = |name: &str| {
        let load = loads.iter().find(|load| load.target.name == name);
        load.map(|load| load.figure(ComparedFigure::Cpu)).context("a measured process")
    };
    let ratio = cpu(AUDITED)? / cpu(PLAIN)?;
    report.note(&format!("audit events cost {:+.1} % of a call's CPU", (ratio - 1.0) * 100.0));
    report.check_target("CPU of a call with its audit event, beside without", Unit::Ratio, ratio, MAX_RATIO);
    drop(loads);
    testbed.end().await
}
