//! [`SettingsCost`]: CPU of a call through a vmcp with further settings, beside a vmcp without them.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use vmcp_wire::era::Era;

use super::CallWorkload;
use crate::client::replay_client::ExpectedResult;
use crate::load_generator::{ComparedFigure, Rounds, TargetLoad, report_rows, run_interleaved};
use crate::report::{Report, Section};
use crate::roles::served_content::RESULTS;
use crate::testbed::{Testbed, process_usage};

/// Clients that call at once.
const CLIENTS: u64 = 16;
/// Rounds, and time of each process in a round. The ratio is the median of those of the rounds: many short
/// ones, since neighbors of a shared machine slow single rounds by a tenth.
const ROUNDS: Rounds = (61, Duration::from_millis(100));
const QUICK_ROUNDS: Rounds = (15, Duration::from_millis(100));

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
    /// Time that work of a call may take after its answer, such as an export. With it, the CPU of the whole
    /// run counts: the turns of the other process and this time included.
    pub(super) afterwards: Option<Duration>,
    /// Series of `/metrics` that the process with the settings has at the end.
    pub(super) series: &'static [&'static str],
}

/// The cost of the settings.
pub(super) struct MeasuredCost {
    /// CPU of a call with the settings, as a multiple of one without.
    pub(super) ratio: f64,
    /// Measured calls with the settings.
    pub(super) calls: usize,
    /// Values of the series.
    pub(super) values: Vec<f64>,
}

impl SettingsCost {
    /// Measures calls of both processes in turns, and adds the rows.
    pub(super) async fn measure(self, report: &mut Report, quick: bool) -> Result<MeasuredCost> {
        let SettingsCost { plain, other, settings, row, afterwards, series } = self;
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
        let mut before = HashMap::new();
        for load in &loads {
            let pid = load.target.pid.context("a process of this machine")?;
            before.insert(load.target.name.clone(), process_usage::cpu(pid)?);
        }
        run_interleaved(&mut loads, if quick { QUICK_ROUNDS } else { ROUNDS }, &mut testbed.counters).await?;
        report_rows(report, Section::Calls, &loads, row, ComparedFigure::Cpu);
        if let Some(afterwards) = afterwards {
            tokio::time::sleep(afterwards).await;
        }
        let load =
            |name: &str| loads.iter().find(|load| load.target.name == name).context("a measured process");
        let cpu = |name: &str| -> Result<f64> {
            let load = load(name)?;
            // Calls of the warm-up are in the CPU time of both processes and in the count of neither.
            let pid = load.target.pid.context("a process of this machine")?;
            let before = before.get(name).context("a measured process")?;
            let spent = process_usage::cpu(pid)?.saturating_sub(*before);
            Ok(spent.as_secs_f64() / load.samples.count() as f64)
        };
        let ratio = if afterwards.is_none() {
            load(other)?.cpu_ratio(load(plain)?)
        } else {
            cpu(other)? / cpu(plain)?
        };
        let calls = load(other)?.samples.count();
        let mut values = Vec::new();
        for series in series {
            values.push(testbed.vmcp()?.metric(series).await?);
        }
        drop(loads);
        testbed.end().await?;
        Ok(MeasuredCost { ratio, calls, values })
    }
}
