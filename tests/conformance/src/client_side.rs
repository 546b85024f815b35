//! Client scenarios: each is a server, which vmcp has as its only backend; a client in front of vmcp does
//! what the scenario asks for.

use std::collections::BTreeSet;
use std::path::Path;

use futures::StreamExt as _;

use crate::checks::{Difference, SuiteReport};
use crate::suite;
use crate::table::Row;

/// Revisions whose scenarios are run.
const REVISIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

/// Scenarios that run at once: each has a vmcp and a Node of its own.
const PARALLEL: usize = 3;

/// Checks that cannot pass, by their scenario, with the reason.
const EXPECTED: [(&str, &str, &str); 1] = [(
    "auth/basic-cimd",
    "cimd-client-id-used",
    "auth/basic-cimd: a client without a public URL has no client ID metadata document, and registers itself",
)];

/// Runs all client scenarios.
pub(crate) async fn run(folder: &Path) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for revision in REVISIONS {
        let scenarios = suite::client_scenarios(revision).await?;
        let folder = folder.join("client").join(revision);
        let runs = scenarios.iter().map(|name| scenario(name, revision, &folder));
        let runs: Vec<_> = futures::stream::iter(runs).buffered(PARALLEL).collect().await;
        let mut report = SuiteReport::default();
        let mut differences = Vec::new();
        for run in runs {
            let (scenario, failure) = run?;
            differences.extend(scenario.shortcomings());
            // The suite has no check for a client that fails, so it is added as a check.
            differences.extend(failure.filter(|_| scenario.shortcomings().is_empty()).map(|said| {
                Difference {
                    scenario: scenario.0.keys().cloned().collect(),
                    check: "the client".to_owned(),
                    status: None,
                    message: said
                        .lines()
                        .filter(|line| !line.trim().is_empty())
                        .collect::<Vec<_>>()
                        .join("\n    "),
                }
            }));
            report.0.extend(scenario.0);
        }
        let found = differences.len();
        let reasons: BTreeSet<_> = differences.iter().filter_map(expected).collect();
        differences.retain(|difference| expected(difference).is_none());
        rows.push(Row {
            revision,
            what: format!("client, {} scenarios", scenarios.len()),
            direct: None,
            through: report.score(),
            expected: (found - differences.len(), reasons.into_iter().collect()),
            differences,
        });
    }
    Ok(rows)
}

async fn scenario(
    name: &str,
    revision: &str,
    folder: &Path,
) -> anyhow::Result<(SuiteReport, Option<String>)> {
    let driver = format!("{} drive", std::env::current_exe()?.display());
    suite::client(&driver, name, revision, &folder.join(name)).await
}

fn expected(found: &Difference) -> Option<&'static str> {
    let fits = |(scenario, check, _): &&(&str, &str, _)| found.scenario == *scenario && found.check == *check;
    EXPECTED.iter().find(fits).map(|(.., reason)| *reason)
}
