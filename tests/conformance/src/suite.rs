//! Command line of the suite, run by the Node that `make setup` installed beside it.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context as _, ensure};
use tokio::process::Command;
use vmcp_integration::{installed, node};

use crate::checks::SuiteReport;

/// Timeout of one scenario in milliseconds. Generous: the machine may be busy.
const TIMEOUT: &str = "90000";

/// Runs server scenarios against `url`, and runs each that falls short a second time.
///
/// The suite waits 0.6 to 1.5 seconds for a stream's messages, which a busy machine may exceed. The better of
/// the two runs counts, and standard error says which checks passed only the second time.
pub(crate) async fn server(
    url: &str,
    revision: &str,
    selection: &[&str],
    folder: &Path,
) -> anyhow::Result<SuiteReport> {
    let mut report = run_server(url, selection, folder).await?;
    for scenario in report.scenarios_short() {
        let selection = ["--scenario", &scenario, "--spec-version", revision];
        let again = run_server(url, &selection, &folder.join("again").join(&scenario)).await?;
        let before = report.shortcomings().len();
        report.improve(again);
        let gained = before - report.shortcomings().len();
        #[expect(clippy::print_stderr, reason = "a person should know which checks depend on time")]
        if gained > 0 {
            eprintln!("{revision} {scenario}: {gained} of its checks passed only when it was run again");
        }
    }
    Ok(report)
}

async fn run_server(url: &str, selection: &[&str], folder: &Path) -> anyhow::Result<SuiteReport> {
    let out = folder.display().to_string();
    let mut args = vec!["server", "--url", url, "--timeout", TIMEOUT, "-o", &out];
    args.extend(selection);
    let output = run(&args).await?;
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    let report = SuiteReport::read(folder, "server-").with_context(said)?;
    ensure!(!report.0.is_empty(), "the suite ran nothing: {}", said());
    Ok(report)
}

/// Runs one client scenario with `command` as its client. The text is the error output of a client that
/// failed.
pub(crate) async fn client(
    command: &str,
    scenario: &str,
    revision: &str,
    folder: &Path,
) -> anyhow::Result<(SuiteReport, Option<String>)> {
    let out = folder.display().to_string();
    let selection = ["--scenario", scenario, "--spec-version", revision];
    let mut args = vec!["client", "--command", command, "--timeout", TIMEOUT, "-o", &out];
    args.extend(selection);
    let output = run(&args).await?;
    let failed = (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned());
    // A scenario `auth/name` has its report in a folder `auth`.
    let group = scenario.rsplit_once('/').map_or("", |(group, _)| group);
    let report = SuiteReport::read(&folder.join(group), "")?.in_group(group);
    ensure!(!report.0.is_empty(), "the suite did not run {scenario}: {}", failed.unwrap_or_default());
    Ok((report, failed))
}

/// Returns the client scenarios of a revision.
pub(crate) async fn client_scenarios(revision: &str) -> anyhow::Result<Vec<String>> {
    let output = run(&["list", "--client", "--spec-version", revision]).await?;
    let text = String::from_utf8(output.stdout)?;
    // A line is `  - name [revisions]`.
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split_whitespace().next());
    let names: Vec<_> = names.map(ToOwned::to_owned).collect();
    ensure!(!names.is_empty(), "the suite lists no client scenarios: {text}");
    Ok(names)
}

async fn run(args: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(node("node"));
    command.arg(installed("node/node_modules/@modelcontextprotocol/conformance/dist/index.js")).args(args);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command.output().await.context("cannot start node")
}
