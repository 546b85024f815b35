//! `vmcp authz test`: checks the policies of the configuration file against expected decisions.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use vmcp_access::policy::CedarPolicy;
use vmcp_access::policy::cases::CaseFile;
use vmcp_config::Config;

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes::counted;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::{GlobalOptions, no_file};

/// Check policies against expected decisions, for CI
#[derive(Debug, Args)]
#[command(after_help = "\
Starts no backend. Exits with 0 when all cases hold, with 1 when one does not.

A file of cases:
  cases:
  - name: support opens tickets
    client: { sub: alice, groups: [support] }   # claims of a token; without it, no credentials
    tool: jira_create_ticket                    # or prompt, or resource with its backend
    arguments: { priority: 1 }
    expect: allow                               # or deny
    policy: tickets-of-support                  # optional: the policy that decides
    listed: true                                # optional: lists show the item
  - tool: db_drop_table
    backend: db                                 # optional where the name begins with it
    hints: { destructiveHint: true }
    expect: deny")]
pub(super) struct Arguments {
    /// Files with cases, as YAML
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
}

/// The result of one case.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CaseReport {
    file: String,
    case: String,
    passed: bool,
    allowed: Option<bool>,
    policy: Option<String>,
    problems: Vec<String>,
    reasons: Vec<String>,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let config = global.load_or_running()?.ok_or_else(no_file)?.config;
    let Some(authz) = &config.authz else {
        return Err(CommandFailure::new("the configuration file has no policies")
            .remedy("add `incomingAuth.authz.policies`"));
    };
    // The check of the file has told each mistake.
    let policy = CedarPolicy::new(authz)
        .ok_or_else(|| CommandFailure::new("the policies have mistakes").remedy("see `vmcp validate`"))?;
    let mut reports = Vec::new();
    for file in &arguments.files {
        reports.extend(check(file, &policy, &config)?);
    }
    let failed = reports.iter().filter(|report| !report.passed).count();
    output::print(arguments.output, &reports, || {
        let mut lines: Vec<String> = reports.iter().map(CaseReport::line).collect();
        lines.push(format!("{}, {failed} failed", counted(reports.len(), "case")));
        lines.join("\n")
    })?;
    Ok(if failed == 0 && !reports.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Checks the cases of one file.
fn check(file: &Path, policy: &CedarPolicy, config: &Config) -> Result<Vec<CaseReport>, CommandFailure> {
    let shown = file.display().to_string();
    let unreadable = |error: String| CommandFailure::new(format!("{shown}: {error}")).exit(Exit::Usage);
    let text = fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    let cases: CaseFile = serde_saphyr::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    let report = |case: &vmcp_access::policy::cases::Case| {
        let backends = config.backends.iter().map(|backend| &*backend.name);
        let (verdict, problems) = match case.run(policy, backends) {
            Ok(result) => (Some(result.verdict), result.differences),
            Err(problem) => (None, vec![problem]),
        };
        let reasons = verdict.iter().flat_map(|verdict| &verdict.failures);
        CaseReport {
            file: shown.clone(),
            case: case.title(),
            passed: problems.is_empty(),
            reasons: reasons.map(|failure| failure.text.clone()).collect(),
            allowed: verdict.as_ref().map(|verdict| verdict.allowed),
            policy: verdict.map(|verdict| verdict.policy),
            problems,
        }
    };
    Ok(cases.cases.iter().map(report).collect())
}

impl CaseReport {
    fn line(&self) -> String {
        if self.passed {
            return format!("ok    {}", self.case);
        }
        let mut line = format!("FAIL  {} ({}): {}", self.case, self.file, self.problems.join("; "));
        for reason in &self.reasons {
            line.push_str("\n      ");
            line.push_str(reason);
        }
        line
    }
}
