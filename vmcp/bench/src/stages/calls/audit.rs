//! Stage `audit`: CPU of a call through a vmcp with audit events in a file, beside a vmcp without events.

use anyhow::Result;
use serde_json::json;

use super::settings_cost::SettingsCost;
use crate::progress::progress;
use crate::report::{Report, Unit};

/// Most that audit events may cost, as a share of a call's CPU.
const MAX_RATIO: f64 = 1.05;

/// Measures calls of both processes in turns, and adds the rows.
pub(crate) async fn measure(report: &mut Report, quick: bool) -> Result<()> {
    progress("audit: calls with and without events");
    let folder = tempfile::tempdir()?;
    let cost = SettingsCost {
        plain: "vmcp without audit events",
        other: "vmcp with audit events in a file",
        settings: json!({"audit": {"enabled": true, "logFile": folder.path().join("audit.jsonl")}}),
        row: "call with an audit event",
        afterwards: None,
        series: &[],
    };
    let ratio = cost.measure(report, quick).await?.ratio;
    report.note(&format!("audit events cost {:+.1} % of a call's CPU", (ratio - 1.0) * 100.0));
    report.check_target("CPU of a call with its audit event, beside without", Unit::Ratio, ratio, MAX_RATIO);
    Ok(())
}
