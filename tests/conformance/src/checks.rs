//! Reports of the suite, read from its files: scenarios with their checks; and the comparison of two reports.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde::Deserialize;

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum CheckStatus {
    /// The server does as the specification says.
    Success,
    /// The server breaks a "should".
    Warning,
    /// The server breaks a "must".
    Failure,
    /// The check could not be run.
    Skipped,
    /// The check did not apply, or is a line for the log.
    Info,
}

/// One check.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Check {
    /// Its name; within a scenario several may share one.
    pub id: String,
    /// Its outcome.
    pub status: CheckStatus,
    /// Reason for which it did not pass.
    #[serde(rename = "errorMessage")]
    pub message: Option<String>,
}

/// The checks of each scenario that was run, by the name of the scenario.
#[derive(Debug, Default)]
pub(crate) struct SuiteReport(pub BTreeMap<String, Vec<Check>>);

/// A check that is worse than it should be.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The scenario.
    pub scenario: String,
    /// The check.
    pub check: String,
    /// Its outcome; `None` when the scenario did not get that far.
    pub status: Option<CheckStatus>,
    /// Reason, in the words of the suite.
    pub message: String,
}

impl SuiteReport {
    /// Reads the report of a run from `folder`, which has one subfolder a scenario, named after it and the
    /// time.
    pub(crate) fn read(folder: &Path, prefix: &str) -> anyhow::Result<Self> {
        let mut report = Self::default();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let scenario = scenario_of(&name, prefix);
            let checks = std::fs::read(entry.path().join("checks.json"));
            if let (Some(scenario), Ok(checks)) = (scenario, checks) {
                report.0.insert(scenario.to_owned(), serde_json::from_slice(&checks)?);
            }
        }
        Ok(report)
    }

    /// Names the scenarios as those of a group; an empty group has no name.
    pub(crate) fn in_group(self, group: &str) -> Self {
        if group.is_empty() {
            return self;
        }
        Self(self.0.into_iter().map(|(name, checks)| (format!("{group}/{name}"), checks)).collect())
    }

    /// Returns the scenarios whose name is `wanted`.
    pub(crate) fn of_scenarios(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let found = self.0.iter().filter(|(name, _)| wanted(name));
        Self(found.map(|(name, checks)| (name.clone(), checks.clone())).collect())
    }

    /// Returns the number of passed checks, and the number of passed and failed checks: warnings and skips do
    /// not count, as in the suite.
    pub(crate) fn score(&self) -> (usize, usize) {
        let count = |status| self.0.values().flatten().filter(|check| check.status == status).count();
        let passed = count(CheckStatus::Success);
        (passed, passed + count(CheckStatus::Failure))
    }

    /// Returns the checks that failed or warn.
    pub(crate) fn shortcomings(&self) -> Vec<Difference> {
        let checks =
            self.0.iter().flat_map(|(scenario, checks)| checks.iter().map(move |check| (scenario, check)));
        let bad =
            checks.filter(|(_, check)| matches!(check.status, CheckStatus::Failure | CheckStatus::Warning));
        bad.map(|(scenario, check)| Difference::new(scenario, &check.id, Some(check))).collect()
    }

    /// Returns the scenarios with checks that failed or warn.
    pub(crate) fn scenarios_short(&self) -> BTreeSet<String> {
        self.shortcomings().into_iter().map(|bad| bad.scenario).collect()
    }

    /// Replaces each scenario that fell short here by its second run in `again`, if that has fewer
    /// shortcomings and more checks that pass.
    pub(crate) fn improve(&mut self, again: Self) {
        for (scenario, checks) in again.0 {
            let (now, before) =
                (Self([(scenario.clone(), checks)].into()), self.of_scenarios(|name| name == scenario));
            let better = now.shortcomings().len() < before.shortcomings().len();
            if better && now.score().0 > before.score().0 {
                self.0.extend(now.0);
            }
        }
    }

    /// Returns the checks that are worse in `through` than here.
    pub(crate) fn worse_in(&self, through: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        let none = Vec::new();
        for (scenario, direct) in &self.0 {
            let through = through.0.get(scenario).unwrap_or(&none);
            let (direct, through) = (by_id(direct), by_id(through));
            for (key, check) in &direct {
                let counterpart = through.get(key).copied();
                if is_worse(check.status, counterpart.map(|check| check.status)) {
                    found.push(Difference::new(scenario, key.0, counterpart));
                }
            }
            let new = through
                .iter()
                .filter(|(key, check)| check.status == CheckStatus::Failure && !direct.contains_key(*key));
            found.extend(new.map(|(key, check)| Difference::new(scenario, key.0, Some(*check))));
        }
        found.sort_by(|a, b| (&a.scenario, &a.check).cmp(&(&b.scenario, &b.check)));
        found
    }
}

impl Difference {
    fn new(scenario: &str, id: &str, check: Option<&Check>) -> Self {
        let message = check.map_or("the scenario did not get that far", |check| {
            check.message.as_deref().unwrap_or_default()
        });
        Self {
            scenario: scenario.to_owned(),
            check: id.to_owned(),
            status: check.map(|check| check.status),
            message: message.to_owned(),
        }
    }
}

fn is_worse(direct: CheckStatus, through: Option<CheckStatus>) -> bool {
    match direct {
        CheckStatus::Success => through != Some(CheckStatus::Success),
        CheckStatus::Failure => false,
        CheckStatus::Warning | CheckStatus::Skipped | CheckStatus::Info => {
            through == Some(CheckStatus::Failure)
        }
    }
}

/// Returns the checks by their id and their number among those of the same id.
fn by_id(checks: &[Check]) -> BTreeMap<(&str, usize), &Check> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    checks
        .iter()
        .map(|check| {
            let count = seen.entry(check.id.as_str()).or_default();
            *count += 1;
            ((check.id.as_str(), *count), check)
        })
        .collect()
}

/// Returns the scenario that a folder is named after: `tools-list` for
/// `server-tools-list-2026-11-22T12-00-00-000Z`.
fn scenario_of<'a>(folder: &'a str, prefix: &str) -> Option<&'a str> {
    const TIME: usize = "-2026-11-22T12-00-00-000Z".len();
    folder.strip_prefix(prefix)?.get(..folder.len().checked_sub(prefix.len() + TIME)?)
}

#[cfg(test)]
mod tests {
    use super::{Check, CheckStatus, SuiteReport, scenario_of};

    fn report(checks: &[(&str, CheckStatus)]) -> SuiteReport {
        let check = |&(id, status): &(&str, CheckStatus)| Check { id: id.to_owned(), status, message: None };
        SuiteReport([("tools".to_owned(), checks.iter().map(check).collect())].into())
    }

    fn worse(direct: &[(&str, CheckStatus)], through: &[(&str, CheckStatus)]) -> Vec<String> {
        report(direct).worse_in(&report(through)).into_iter().map(|found| found.check).collect()
    }

    #[test]
    fn a_check_that_passes_direct_has_to_pass_through() {
        use CheckStatus::{Failure, Skipped, Success, Warning};
        assert_eq!(worse(&[("a", Success)], &[("a", Success)]), [""; 0]);
        for status in [Failure, Skipped, Warning] {
            assert_eq!(worse(&[("a", Success)], &[("a", status)]), ["a"]);
        }
        assert_eq!(worse(&[("a", Success)], &[]), ["a"]);
        assert_eq!(worse(&[("a", Failure)], &[("a", Failure)]), [""; 0]);
    }

    #[test]
    fn checks_of_the_same_id_are_told_apart() {
        use CheckStatus::{Failure, Success};
        assert_eq!(worse(&[("a", Success), ("a", Success)], &[("a", Success)]), ["a"]);
        assert_eq!(worse(&[("a", Success), ("a", Success)], &[("a", Success), ("a", Failure)]), ["a"]);
    }

    #[test]
    fn a_failure_that_only_shows_through_counts() {
        use CheckStatus::{Failure, Skipped, Success};
        assert_eq!(worse(&[("a", Success)], &[("a", Success), ("b", Failure)]), ["b"]);
        assert_eq!(worse(&[("a", Skipped)], &[("a", Failure)]), ["a"]);
    }

    #[test]
    fn the_score_counts_as_the_suite_does() {
        use CheckStatus::{Failure, Skipped, Success, Warning};
        let report = report(&[("a", Success), ("b", Failure), ("c", Warning), ("d", Skipped)]);
        assert_eq!(report.score(), (1, 2));
        assert_eq!(report.shortcomings().len(), 2);
    }

    #[test]
    fn of_two_runs_the_better_one_counts() {
        use CheckStatus::{Failure, Skipped, Success, Warning};
        let better = |first: &[(&str, CheckStatus)], again: &[(&str, CheckStatus)]| {
            let mut report = report(first);
            report.improve(self::report(again));
            report.score().0
        };
        assert_eq!(better(&[("a", Success), ("b", Warning)], &[("a", Success), ("b", Success)]), 2);
        assert_eq!(better(&[("a", Success), ("b", Warning)], &[("a", Failure), ("b", Success)]), 1);
        assert_eq!(better(&[("a", Success), ("b", Warning)], &[("a", Success), ("b", Skipped)]), 1);
    }

    #[test]
    fn a_folder_names_its_scenario() {
        assert_eq!(scenario_of("server-tools-list-2026-11-22T12-00-00-000Z", "server-"), Some("tools-list"));
        assert_eq!(scenario_of("other", "server-"), None);
        assert_eq!(scenario_of("server-x", "server-"), None);
    }
}
