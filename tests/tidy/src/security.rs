//! Tables of pages whose rows name tests: the findings and the owners in SECURITY.md, and the scenarios of
//! contextual lists. Each row names a test, and each named test exists.

use std::collections::BTreeSet;

use crate::{Finding, Repository};

/// A table: its page, the heading above it, and the title of its first column.
struct TestTable {
    page: &'static str,
    heading: &'static str,
    first_column: &'static str,
}

const FINDINGS: TestTable =
    TestTable { page: "SECURITY.md", heading: "## Findings and their tests", first_column: "finding" };
const OWNERS: TestTable =
    TestTable { page: "SECURITY.md", heading: "## What outlives a request", first_column: "what" };
const CONTEXTUAL: TestTable = TestTable {
    page: "docs/contributor/testing.md",
    heading: "## Scenarios of contextual lists",
    first_column: "area",
};

/// Returns the tests that the last column of the table names in backticks, with the number of the line.
fn named_tests(text: &str, table: &TestTable) -> Vec<(usize, Vec<String>)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != table.heading).skip(1);
    let below = lines.take_while(|(_, line)| !line.starts_with("## "));
    let titles = format!("| {} ", table.first_column);
    let rows = below.filter(|(_, line)| line.starts_with("| ") && !line.starts_with(&titles));
    let tests = rows.map(|(number, line)| {
        let last = line.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
        let names = last.split('`').skip(1).step_by(2);
        // A name may have the path of its module.
        let names = names.map(|name| name.rsplit("::").next().unwrap_or(name).to_owned());
        (number + 1, names.collect())
    });
    tests.collect()
}

/// Returns the names of all tests that the tables of SECURITY.md name, sorted.
#[must_use]
pub fn security_tests(repository: &Repository) -> BTreeSet<String> {
    let page = repository.files.iter().find(|file| file.path == FINDINGS.page);
    let text = page.map(|page| page.text.as_str()).unwrap_or_default();
    let tables = [FINDINGS, OWNERS];
    tables.iter().flat_map(|table| named_tests(text, table)).flat_map(|(_, names)| names).collect()
}

/// Returns rows without a test, and names that are no test.
pub(crate) fn findings_have_tests(repository: &Repository) -> Vec<Finding> {
    [FINDINGS, OWNERS, CONTEXTUAL].iter().flat_map(|table| broken_rows(repository, table)).collect()
}

fn broken_rows(repository: &Repository, table: &TestTable) -> Vec<Finding> {
    let path = table.page;
    let Some(page) = repository.files.iter().find(|file| file.path == path) else { return Vec::new() };
    let is_test = |name: &str| {
        let head = format!("fn {name}(");
        repository.rust().any(|file| file.text.contains(&head))
    };
    let mut findings = Vec::new();
    let rows = named_tests(&page.text, table);
    if rows.is_empty() {
        let message = format!("no tests stand under `{}`; restore the table, or its heading", table.heading);
        findings.push(Finding { path: path.to_owned(), line: 1, message });
    }
    for (line, names) in rows {
        let mut found = |message: String| findings.push(Finding { path: path.to_owned(), line, message });
        if names.is_empty() {
            found("a row without a test; name one in backticks in the last column".to_owned());
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
            | one | x `y` | `it_holds` |\n| two | x | `gone`, `it_holds` |\n| three | x | none |\n\n## Other\n\n| a | `b` |\n\n\
            ## What outlives a request\n\n| what | proved by |\n|---|---|\n\
            | id | `a::tests::it_holds` ([a](a.rs)) |\n| task | `a::gone_too` |\n";
        let files = vec![file(FINDINGS.page, page), file("a.rs", "#[test]\nfn it_holds() {}\n")];
        let repository = Repository { root: ".".into(), files };
        let broken: Vec<_> = findings_have_tests(&repository).into_iter().map(|found| found.line).collect();
        assert_eq!(broken, [8, 9, 20]);
        assert_eq!(
            security_tests(&repository).into_iter().collect::<Vec<_>>(),
            ["gone", "gone_too", "it_holds"]
        );
        let page =
            "# Tests\n\n## Scenarios of contextual lists\n\n| area | test |\n|---|---|\n| index | `gone` |\n";
        let repository = Repository { root: ".".into(), files: vec![file(CONTEXTUAL.page, page)] };
        let broken: Vec<_> = findings_have_tests(&repository).into_iter().map(|found| found.line).collect();
        assert_eq!(broken, [7]);
    }
}
