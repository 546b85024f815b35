//! Size of folders: a reader takes in about a dozen names at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Finding, Repository};

/// Rooms that one folder may hold. `name.rs` and `name/` are one room.
const MAX_SIBLINGS: usize = 13;

/// Lines that one file may have.
const MAX_LINES: usize = 500;

/// Returns folders with more than [`MAX_SIBLINGS`] rooms and files with more than [`MAX_LINES`] lines, in the
/// folders that hold the product. Scenarios of the tests and subcommands are lists by nature: each file *is*
/// its name.
pub(crate) fn folders(repository: &Repository) -> Vec<Finding> {
    let lists = ["vmcp/server/src/cli", "vmcp/bench/src"];
    let mut rooms: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in repository.rust().filter(|file| file.path.contains("/src/")) {
        let lines = file.text.lines().count();
        if lines > MAX_LINES {
            let message = format!("{lines} lines; split it below {MAX_LINES}");
            findings.push(Finding { path: file.path.clone(), line: 0, message });
        }
        if let Some((folder, name)) = file.path.rsplit_once('/') {
            rooms.entry(folder).or_default().insert(name.trim_end_matches(".rs"));
        }
        // A folder without a file of its name is a room as well.
        if let Some((parent, name)) =
            file.path.rsplit_once('/').and_then(|(folder, _)| folder.rsplit_once('/'))
            && parent.contains("/src")
        {
            rooms.entry(parent).or_default().insert(name);
        }
    }
    for (folder, names) in rooms {
        if names.len() > MAX_SIBLINGS && !lists.contains(&folder) {
            let message = format!("{} rooms in one folder; group them, {MAX_SIBLINGS} at most", names.len());
            findings.push(Finding { path: folder.to_owned(), line: 0, message });
        }
    }
    findings
}
