//! Tables of figures: each says in which commit and by which command it was recorded, in its section and
//! before the table, so that a reader can print it again and tell how old it is.

use super::markdown::{cells, prose};
use crate::{Finding, Repository};

/// Pages whose tables of figures are recorded runs.
const PAGES: [&str; 3] = ["README.md", "docs/contributor/", "docs/user/"];

/// Commands that print figures.
const COMMANDS: [&str; 5] =
    ["make bench", "make conformance", "vmcp eval", "vmcp-bench ", "make first-start"];

/// Units of measured values.
const UNITS: [&str; 6] = [" µs", " ms", " s", " KiB", " MiB", " texts/s"];

/// Characters beyond which a cell is a description.
const MAX_VALUE_CHARS: usize = 40;

/// True for a cell that is a measured value: it begins with a number and has a unit, three decimals, or a
/// share of checks such as `56/56`.
fn is_measured(cell: &str) -> bool {
    let number = cell.trim_start_matches(['+', '-', '−', '.']);
    let begins = number.starts_with(|c: char| c.is_ascii_digit());
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).count();
    let has_unit = UNITS.iter().any(|unit| {
        cell.match_indices(unit).any(|(at, _)| {
            let after = cell.get(at + unit.len()..).unwrap_or_default();
            let before = cell.get(..at).unwrap_or_default();
            !after.starts_with(char::is_alphanumeric) && before.ends_with(|c: char| c.is_ascii_digit())
        })
    });
    let has_decimals = cell.split('.').skip(1).any(|fraction| digits(fraction) >= 3);
    let is_share = cell.split_once('/').is_some_and(|(passed, all)| {
        digits(passed) == passed.len() && digits(all) == all.len() && !all.is_empty()
    });
    begins && cell.chars().count() <= MAX_VALUE_CHARS && (has_unit || has_decimals || is_share)
}

/// True if a text names a commit by seven hexadecimal digits or more.
fn names_commit(text: &str) -> bool {
    text.split("commit ").skip(1).any(|after| {
        let digits = after.chars().take_while(char::is_ascii_hexdigit).count();
        digits >= 7 && !after.chars().nth(digits).is_some_and(char::is_alphanumeric)
    })
}

/// Returns each table of figures without a commit or without a command.
pub(crate) fn name_their_source(repository: &Repository) -> Vec<Finding> {
    let pages = repository
        .files
        .iter()
        .filter(|file| file.ends_in(&[".md"]) && PAGES.iter().any(|page| file.path.starts_with(page)));
    pages.flat_map(|page| of_page(&page.path, &page.text)).collect()
}

fn of_page(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines: Vec<_> = text.lines().collect();
    let mut section = 0;
    let mut table: Vec<(usize, Vec<&str>)> = Vec::new();
    for (number, line) in prose(text).chain([(lines.len() + 1, "")]) {
        if let Some(cells) = cells(line) {
            table.push((number, cells));
            continue;
        }
        if line.starts_with('|') {
            continue;
        }
        // The head is no row.
        let rows = table.len().saturating_sub(1);
        let measured = table.iter().filter(|(_, cells)| cells.iter().any(|cell| is_measured(cell))).count();
        if let Some((first, _)) = table.first().filter(|_| rows > 0 && measured * 2 >= rows) {
            let before = lines.get(section..*first).unwrap_or_default().join(" ");
            if !names_commit(&before) {
                let message = "figures without their commit; write \"Recorded in commit …\" above".to_owned();
                findings.push(Finding { path: path.to_owned(), line: *first, message });
            }
            if !COMMANDS.iter().any(|command| before.contains(command)) {
                let message = "figures without the command that prints them; write it above".to_owned();
                findings.push(Finding { path: path.to_owned(), line: *first, message });
            }
        }
        table.clear();
        if line.starts_with('#') {
            section = number - 1;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_from_descriptions() {
        for value in ["24.7 µs", ".953 → .916", "+.142 (+.089 to +.195)", "56/56", "143 MiB", "2.26 s"] {
            assert!(is_measured(value), "{value}");
        }
        for text in ["3", ".25", "find_tool", "1 KB, legacy", "up to 5 ms", "60s", "2026-11-25", "3 servers"]
        {
            assert!(!is_measured(text), "{text}");
        }
    }

    #[test]
    fn a_table_of_figures_names_commit_and_command_in_its_section() {
        let table = "| what | p50 |\n|---|---|\n| call | 24.7 µs |\n";
        let sources = "Recorded in commit b13210f, 2026-11-26, by `make bench`.\n\n";
        assert_eq!(of_page("p", &format!("# T\n{sources}{table}")), []);
        assert_eq!(of_page("p", &format!("# T\n{table}")).len(), 2);
        assert_eq!(
            of_page("p", &format!("# T\n{sources}\n## Other\n\n{table}")).len(),
            2,
            "of another section"
        );
        assert_eq!(of_page("p", "# T\n| field | weight |\n|---|---|\n| name | 3 |\n"), []);
    }
}
