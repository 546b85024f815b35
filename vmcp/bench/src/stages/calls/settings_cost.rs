//! [`SettingsCost`]: CPU of a call through a vmcp with further settings, beside a vmcp without them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use vmcp_wire::era::Era;

use super::CallWorkload;
use crate::client::replay_client::ExpectedResult;
use crate::load_generator::{ComparedFigure, Rounds, TargetLoad, report_rows, run_interleaved};
use crate::report::{Report, Section};
use crate::roles::served_content::RESULTS;
use crate::testbed::Testbed;

/// Clients that call at once.
const CLIENTS: u64 = 16;
/// Rounds, and time of each process in a round.
const ROUNDS: Rounds = (9, Duration::from_millis(350));
const QUICK_ROUNDS: Rounds = (3, Duration::from_millis(170));

/// Two processes that differ in their settings.
pub(super) struct SettingsCost {
    /// Name of the process without the settings.
    pub(super) plain: &'static str,
    /// Name of the process with them.
    pub(super) other: &'static str,
    /// The settings.
    pub(super) settings: Value,
    /// Name of the rows.
    pub(super) row: &'static str,
}

impl SettingsCost {
    /// Measures calls of both processes in turns, adds the rows, and returns the CPU of a call with the
    /// settings as a multiple of one without.
    pub(super) async fn measure(self, report: &mut Report, quick: bool) -> Result<f64> {
        let SettingsCost { plain, other, settings, row } = self;
        let mut testbed = Testbed::for_settings([(plain, json!({})), (other, settings)]).await?;
        let result = RESULTS.first().context("a result")?;
        let mut loads = Vec::new();
        for target in &testbed.targets {
            let era = Era::Modern;
            let expected = ExpectedResult { result: result.to_json(era), exactness: target.exactness(era) };
            let mut workloads = Vec::new();
            for number in 0..CLIENTS {
                workloads
                    .push(CallWorkload::connect(target, era, number, result.tool, expected.clone()).await?);
            }
            loads.push(TargetLoad::new(target, era, workloads));
        }
        run_interleaved(&mut loads, if quick { QUICK_ROUNDS } else { ROUNDS }, &mut testbed.counters).await?;
        report_rows(report, Section::Calls, &loads, row, ComparedFigure::Cpu);
        let cpu = |name: &str| {
            let load = loads.iter().find(|load| load.target.name == name);
            load.map(|load| load.figure(ComparedFigure::Cpu)).context("a measured process")
        };
        let ratio = cpu(other)? / cpu(plain)?;
        drop(loads);
        testbed.end().await?;
        Ok(ratio)
    }
}
