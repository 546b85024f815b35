//! The table of findings in SECURITY.md: each row names the tests that prove it, and each named test exists.

use std::collections::BTreeSet;

use crate::{Finding, Repository};

/// The page, and the heading above the table.
const PAGE: &str = "SECURITY.md";
const HEADING: &str = "## Findings and their tests";

/// Returns the tests that the last column of the table names in backticks, with the number of the line.
fn named_tests(page: &str) -> Vec<(usize, Vec<String>)> {
    let lines = page.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
    let table = lines.take_while(|(_, line)| !line.starts_with("## "));
    let rows = table.filter(|(_, line)| line.starts_with("| ") && !line.starts_with("| finding "));
    let tests = rows.map(|(number, line)| {
        let last = line.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
        let names = last.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (number + 1, names)
    });
    tests.collect()
}

/// Returns the names of all tests that a page lists, sorted.
#[must_use]
pub fn security_tests(repository: &Repository) -> BTreeSet<String> {
    let page = repository.files.iter().find(|file| file.path == PAGE);
    let rows = page.map(|page| named_tests(&page.text)).unwrap_or_default();
    rows.into_iter().flat_map(|(_, names)| names).collect()
}

/// Returns rows without a test, and names that are no test.
pub(crate) fn findings_have_tests(repository: &Repository) -> Vec<Finding> {
    let Some(page) = repository.files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let is_test = |name: &str| {
        let head = format!("fn {name}(");
        repository.rust().any(|file| file.text.contains(&head))
    };
    let mut findings = Vec::new();
    for (line, names) in named_tests(&page.text) {
        let mut found = |message: String| findings.push(Finding { path: PAGE.to_owned(), line, message });
        if names.is_empty() {
            found("a finding without a test; name one in backticks in the last column".to_owned());
        }
        for name in names.iter().filter(|name| !is_test(name)) {
            found(format!("no test is called `{name}`; name the function of a test"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::SourceFile;

    #[test]
    fn each_finding_names_tests_that_exist() {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let page = "# Security\n\n## Findings and their tests\n\n| finding | stopped by | tests |\n|---|---|---|\n\
            | one | x `y` | `it_holds` |\n| two | x | `gone`, `it_holds` |\n| three | x | none |\n\n## Other\n\n| a | `b` |\n";
        let files = vec![file(PAGE, page), file("a.rs", "#[test]\nfn it_holds() {}\n")];
        let repository = Repository { root: ".".into(), files };
        let broken: Vec<_> = findings_have_tests(&repository).into_iter().map(|found| found.line).collect();
        assert_eq!(broken, [8, 9]);
        assert_eq!(security_tests(&repository).into_iter().collect::<Vec<_>>(), ["gone", "it_holds"]);
    }
}
