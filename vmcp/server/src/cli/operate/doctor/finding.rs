//! Findings of `vmcp doctor`, and their form for people.

use serde::Serialize;

use crate::cli::console::paint::{Tone, paint};

/// Result of one check.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    subject: String,
    pub(super) health: Health,
    says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Health {
    /// The checked thing works.
    Good,
    /// The checked thing works, but something is missing.
    Degraded,
    /// The checked thing does not work.
    Broken,
}

impl Finding {
    pub(super) fn good(subject: &str, says: impl Into<String>) -> Finding {
        Finding { subject: subject.to_owned(), health: Health::Good, says: says.into(), remedy: None }
    }

    pub(super) fn degraded(subject: &str, says: impl Into<String>, remedy: &str) -> Finding {
        Finding { health: Health::Degraded, remedy: Some(remedy.to_owned()), ..Finding::good(subject, says) }
    }

    pub(super) fn broken(subject: &str, says: impl Into<String>, remedy: &str) -> Finding {
        Finding { health: Health::Broken, ..Finding::degraded(subject, says, remedy) }
    }
}

/// Returns one line for each finding, and one below it for the remedy.
pub(super) fn human_text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.subject.chars().count()).max().unwrap_or_default();
    let lines = findings.iter().map(|Finding { subject, health, says, remedy }| {
        let mark = match health {
            Health::Good => paint(Tone::Good, "ok "),
            Health::Degraded => paint(Tone::Warning, "~  "),
            Health::Broken => paint(Tone::Bad, "!! "),
        };
        let remedy =
            remedy.as_ref().map(|remedy| format!("\n   {:width$}  → {remedy}", "")).unwrap_or_default();
        format!("{mark}{subject:width$}  {says}{remedy}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::console::paint::plain;

    #[test]
    fn remedies_stand_below_what_they_mend() {
        let findings = [Finding::good("storage", "/x"), Finding::broken("backend time", "gone", "start it")];
        let expected = "ok storage       /x\n!! backend time  gone\n                 → start it";
        assert_eq!(plain(&human_text(&findings)), expected);
    }
}
