//! Skipped tests that no report counts.

use crate::{Finding, Repository};

/// Returns each `#[ignore]` and each skip that is printed only: libtest keeps what a passing test prints.
pub(crate) fn none(repository: &Repository) -> Vec<Finding> {
    let printed = ["println!(\"skip", "print!(\"skip"];
    let mut findings = Vec::new();
    for file in repository.rust().filter(|file| !file.path.starts_with("tests/tidy/")) {
        for (number, line) in file.text.lines().enumerate() {
            let is_silent = line.trim_start().starts_with("#[ignore")
                || printed.iter().any(|print| line.to_lowercase().contains(print));
            if is_silent {
                let message = "a skip that no report counts; call vmcp_tidy::skipped(reason) and return";
                findings.push(Finding {
                    path: file.path.clone(),
                    line: number + 1,
                    message: message.to_owned(),
                });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::SourceFile;

    #[test]
    fn silent_skips_are_found() {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let silent = "#[test]\n#[ignore = \"slow\"]\nfn a() {\n    eprintln!(\"skipped: no model\");\n}\n";
        let told = "#[test]\nfn a() {\n    return skipped(\"no model\");\n}\n";
        let files = vec![file("vmcp/a/src/a.rs", silent), file("vmcp/a/src/b.rs", told)];
        let repository = Repository { root: ".".into(), files };
        let lines: Vec<_> = none(&repository).into_iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 4]);
    }
}
