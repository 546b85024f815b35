//! Checks that cannot pass through vmcp, with the reason. An entry that is not needed any more fails the run.

use crate::checks::Difference;

struct Expected {
    /// Backends: those on rmcp by their eras, and `typescript`.
    backends: &'static [&'static str],
    revision: &'static str,
    scenario: &'static str,
    checks: &'static [&'static str],
    reason: &'static str,
}

const ANY: &[&str] = &["dual", "legacy"];
const LEGACY: &[&str] = &["legacy"];
const ONE_DOCUMENT: &str =
    "not applicable: one message is answered with one JSON document, which is as good as a stream";
const OWN_KEYS: &str = "a legacy backend asks one question at a time and gives it no key: the key is vmcp's";

const EXPECTED: &[Expected] = &[
    Expected {
        backends: &["dual", "legacy", "typescript"],
        revision: "2025-11-25",
        scenario: "server-sse-multiple-streams",
        checks: &["server-sse-streams-functional"],
        reason: ONE_DOCUMENT,
    },
    Expected {
        backends: ANY,
        revision: "2026-07-28",
        scenario: "server-sse-multiple-streams",
        checks: &["server-sse-streams-functional"],
        reason: ONE_DOCUMENT,
    },
    Expected {
        backends: ANY,
        revision: "2025-11-25",
        scenario: "server-sse-polling",
        checks: &["server-sse-priming-event", "server-sse-retry-field"],
        reason: ONE_DOCUMENT,
    },
    Expected {
        backends: LEGACY,
        revision: "2026-07-28",
        scenario: "input-required-result-basic-elicitation",
        checks: &["sep-2322-elicitation-incomplete", "sep-2322-elicitation-complete"],
        reason: OWN_KEYS,
    },
    Expected {
        backends: LEGACY,
        revision: "2026-07-28",
        scenario: "input-required-result-multiple-input-requests",
        checks: &["sep-2322-multiple-inputs-incomplete", "sep-2322-multiple-inputs-complete"],
        reason: OWN_KEYS,
    },
    Expected {
        backends: LEGACY,
        revision: "2026-07-28",
        scenario: "input-required-result-ignore-extra-params",
        checks: &["sep-2322-ignore-unexpected-params"],
        reason: "an answer to a question that a legacy backend has not asked yet cannot be given to it",
    },
];

/// Removes the expected differences from `found`; returns their number and their reasons.
pub(crate) fn take(backend: &str, revision: &str, found: &mut Vec<Difference>) -> (usize, Vec<&'static str>) {
    let (mut count, mut reasons) = (0, Vec::new());
    let here = |entry: &&Expected| entry.backends.contains(&backend) && entry.revision == revision;
    for entry in EXPECTED.iter().filter(here) {
        for check in entry.checks {
            let before = found.len();
            found.retain(|difference| difference.scenario != entry.scenario || difference.check != *check);
            if before == found.len() {
                found.push(Difference {
                    scenario: entry.scenario.to_owned(),
                    check: (*check).to_owned(),
                    status: None,
                    message: format!("passes; it is on the list of what cannot ({})", entry.reason),
                });
            } else {
                count += 1;
            }
        }
        if !reasons.contains(&entry.reason) {
            reasons.push(entry.reason);
        }
    }
    (count, reasons)
}
