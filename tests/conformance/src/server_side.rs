//! Server scenarios: against the fixture direct, and through vmcp with the fixture as its only backend.

use std::path::Path;

use anyhow::ensure;
use futures::future::try_join_all;
use serde_json::json;
use tokio::process::Command;
use vmcp_integration::{Process, Vmcp, binary, eventually, installed, node};

use crate::checks::SuiteReport;
use crate::expected;
use crate::suite;
use crate::table::Row;

/// A revision, and the arguments of the suite that select its scenarios.
type ScenarioSelection = (&'static str, &'static [&'static str]);

/// Scenarios that each revision requires, and scenarios that the suite only reports: pending ones and
/// extensions.
const REQUIRED: [ScenarioSelection; 3] = [
    ("2025-06-18", &["--suite", "all", "--spec-version", "2025-06-18"]),
    ("2025-11-25", &["--requirements", "2025-11-25"]),
    ("2026-07-28", &["--requirements", "2026-07-28"]),
];

/// Checks of [`REQUIRED`] that pass direct. With fewer, a scenario was not run.
const PASSING: [usize; 3] = [56, 83, 197];

/// Scenarios without extensions: a legacy backend has no tasks.
const CORE: [ScenarioSelection; 3] = [
    ("2025-06-18", &["--suite", "all", "--spec-version", "2025-06-18"]),
    ("2025-11-25", &["--suite", "all", "--spec-version", "2025-11-25"]),
    ("2026-07-28", &["--suite", "all", "--spec-version", "2026-07-28"]),
];

/// Checks of [`CORE`] that pass direct at the server on the TypeScript SDK.
const PASSING_TYPESCRIPT: [usize; 3] = [56, 81, 146];

/// Runs all server scenarios and compares.
pub(crate) async fn run(folder: &Path) -> anyhow::Result<Vec<Row>> {
    let mut rows = rmcp(folder).await?;
    rows.extend(typescript(folder).await?);
    rows.sort_by_key(|row| row.revision);
    Ok(rows)
}

/// Compares with the server on the TypeScript SDK 2, which is of both eras: it asks legacy clients while
/// their request is under way, and modern ones by the result.
async fn typescript(folder: &Path) -> anyhow::Result<Vec<Row>> {
    let direct = {
        let (_server, url) = typescript_server().await;
        reports(&url, &CORE, &folder.join("typescript-direct")).await?
    };
    let passing = direct.iter().map(|(_, report)| report.score().0);
    ensure!(
        passing.eq(PASSING_TYPESCRIPT),
        "direct, other than {PASSING_TYPESCRIPT:?} checks pass: {}",
        render(&direct)
    );
    let (_server, url) = typescript_server().await;
    let vmcp = through(&url).await;
    let through = reports(&vmcp.url, &CORE, &folder.join("typescript")).await?;
    let rows = direct.iter().zip(&through).map(|((revision, direct), (_, through))| {
        let mut differences = direct.worse_in(through);
        let expected = expected::take("typescript", revision, &mut differences);
        let (what, direct) = ("server, TypeScript SDK".to_owned(), Some(direct.score()));
        Row { revision, what, direct, through: through.score(), differences, expected }
    });
    Ok(rows.collect())
}

/// Starts the server on the TypeScript SDK 2.
async fn typescript_server() -> (Process, String) {
    const SCRIPT: &str = include_str!("../servers/typescript.mjs");
    const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rmcp-fixture/data");
    let mut command = Command::new(node("node"));
    command.args(["--input-type=module", "--eval", SCRIPT, DEFINITIONS]).current_dir(installed("node"));
    let process = Process::start("typescript", &mut command);
    let url = process.line_after("listening on ").await;
    (process, url)
}

async fn rmcp(folder: &Path) -> anyhow::Result<Vec<Row>> {
    let direct = {
        let (_fixture, url) = fixture("dual").await;
        reports(&url, &REQUIRED, &folder.join("direct")).await?
    };
    let passing = direct.iter().map(|(_, report)| report.score().0);
    ensure!(passing.eq(PASSING), "direct, other than {PASSING:?} checks pass: {}", render(&direct));
    let mut rows = Vec::new();
    // A backend of both eras is spoken to in the era of the revision.
    for (era, selections) in [("dual", &REQUIRED), ("legacy", &CORE)] {
        let (_fixture, url) = fixture(era).await;
        let vmcp = through(&url).await;
        let through = reports(&vmcp.url, selections, &folder.join(era)).await?;
        for ((revision, direct), (_, through)) in direct.iter().zip(&through) {
            let direct = direct.of_scenarios(|name| era != "legacy" || !name.starts_with("tasks-"));
            let mut differences = direct.worse_in(through);
            let expected = expected::take(era, revision, &mut differences);
            let what = format!("server, backend {era}");
            let (direct, through) = (Some(direct.score()), through.score());
            rows.push(Row { revision, what, direct, through, differences, expected });
        }
    }
    Ok(rows)
}

fn render(reports: &[(&str, SuiteReport)]) -> String {
    let one = |(revision, report): &(&str, SuiteReport)| {
        let bad = report.shortcomings();
        let bad: Vec<_> = bad.iter().map(|bad| format!("{}/{}", bad.scenario, bad.check)).collect();
        format!("{revision}: {} ({})", report.score().0, bad.join(", "))
    };
    reports.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Starts a server for one run: scenarios change what it offers.
async fn fixture(era: &str) -> (Process, String) {
    let process = Process::start(era, Command::new(binary("vmcp-rmcp-fixture")).args(["--era", era]));
    let url = process.line_after("listening on ").await;
    (process, url)
}

/// Starts vmcp as a reverse proxy: one backend, its names as they are, and the optimizer off, for the suite
/// does not expect the tools of vmcp itself.
pub(crate) async fn through(url: &str) -> Vmcp {
    let vmcp = Vmcp::new().backend_entry(json!({"name": "backend", "url": url}));
    let vmcp = vmcp.config(json!({"aggregation": {"conflictResolution": "passthrough"}}));
    let vmcp = vmcp.config(json!({"optimizer": {"enabled": false}})).start().await;
    eventually("the backend to be connected", async || {
        let status = vmcp.status().await;
        let mut backends = status.get("backends")?.as_array()?.iter();
        backends.all(|backend| backend.get("state").is_some_and(|state| state == "connected")).then_some(())
    })
    .await;
    vmcp
}

async fn reports(
    url: &str,
    selections: &[ScenarioSelection],
    folder: &Path,
) -> anyhow::Result<Vec<(&'static str, SuiteReport)>> {
    let run = async |&(revision, selection): &ScenarioSelection| {
        anyhow::Ok((revision, suite::server(url, revision, selection, &folder.join(revision)).await?))
    };
    try_join_all(selections.iter().map(run)).await
}
