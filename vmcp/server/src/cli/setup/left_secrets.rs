//! Secrets of a removed backend that are left in `.env`, or in the store of `vmcp secret`.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use super::config_edit;
use crate::cli::console::failure::CommandFailure;
use crate::cli::console::{notes, prompt};
use crate::config_file::edit_lock::EditLock;
use crate::config_file::env_file;

/// Variables of `.env` to which only a removed backend referred.
#[derive(Debug, Default, Serialize)]
pub(super) struct LeftSecrets {
    /// Variables that left the file.
    #[serde(rename = "secretsRemoved")]
    removed: Vec<String>,
    /// Variables that stay.
    #[serde(rename = "secretsKept")]
    kept: Vec<String>,
}

/// Offers to remove the variables from `.env` to which only the removed backend referred: without a question
/// if `at_once`; without a terminal, or unless `asks`, they stay, and a note names them. `before` is the text
/// of the configuration at `path` before the removal.
pub(super) fn offer_removal(
    path: &Path,
    before: &str,
    at_once: bool,
    asks: bool,
) -> Result<LeftSecrets, CommandFailure> {
    let after = config_edit::read_or_first_lines(path)?;
    let env_file = path.with_file_name(env_file::NAME);
    let present = env_file::read(&env_file).ok().flatten().unwrap_or_default();
    let present: BTreeSet<String> =
        env_file::parse(&present).variables.into_iter().map(|(name, _)| name).collect();
    let unused = unused_variables(before, &after, &present);
    for name in unused_secrets(before, &after) {
        notes::note(&format!(
            "note: nothing refers to the stored secret {name} now; `vmcp secret rm {name}` removes it"
        ));
    }
    if unused.is_empty() {
        return Ok(LeftSecrets::default());
    }
    let (names, file) = (unused.join(", "), env_file.display());
    let question = format!("nothing in this file refers to {names} of {file} now; remove it there? [y/N]");
    let agreed =
        at_once || (asks && prompt::is_possible() && matches!(&*prompt::ask(&question)?, "y" | "yes"));
    if !agreed {
        notes::note(&format!(
            "note: {file} keeps {names}: delete them there if nothing else needs them; `--secrets` does it"
        ));
        return Ok(LeftSecrets { kept: unused, ..LeftSecrets::default() });
    }
    let _lock = EditLock::wait(path);
    // Another edit may have used some of them while the question was open.
    let still_unused = unused_variables(before, &config_edit::read_or_first_lines(path)?, &present);
    let (removed, kept): (Vec<_>, Vec<_>) = unused.into_iter().partition(|name| still_unused.contains(name));
    env_file::remove_variables(&env_file, &removed).map_err(|error| {
        CommandFailure::new(format!("{file}: {error}")).remedy(format!("remove {names} there"))
    })?;
    notes::note(&format!("removed {} from {file}", removed.join(", ")));
    Ok(LeftSecrets { removed, kept })
}

fn unused_variables(before: &str, after: &str, present: &BTreeSet<String>) -> Vec<String> {
    let used = config_edit::variables_of(after);
    let left = config_edit::variables_of(before).into_iter().filter(|name| !used.contains(name));
    left.filter(|name| present.contains(*name)).map(str::to_owned).collect()
}

fn unused_secrets<'a>(before: &'a str, after: &str) -> BTreeSet<&'a str> {
    let used = config_edit::references_of(after);
    let left = config_edit::references_of(before).into_iter().filter(|reference| !used.contains(reference));
    left.filter_map(|reference| reference.strip_prefix("secret:")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_the_file_that_nothing_refers_to_are_unused() {
        let before = "${A} ${B} ${C} $${D} ${secret:S} ${secret:T} ${secret:U} $${secret:V}";
        let after = "${B} $${A} ${secret:T} ${secret:U:-x} $${secret:S}";
        let present = ["A".to_owned(), "B".to_owned(), "D".to_owned()].into();
        assert_eq!(unused_variables(before, after, &present), ["A"]);
        assert_eq!(unused_secrets(before, after), BTreeSet::from(["S"]));
    }
}
