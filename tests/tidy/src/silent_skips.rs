//! Skipped tests that no report counts.

use crate::repository::SourceFile;
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

/// Returns each documentation example of a package whose examples are not run, by `doctest = false`.
pub(crate) fn unrun_examples(repository: &Repository) -> Vec<Finding> {
    let is_off = |file: &&SourceFile| {
        file.ends_in(&["Cargo.toml"]) && file.text.lines().any(|line| line == "doctest = false")
    };
    let mut findings = Vec::new();
    for manifest in repository.files.iter().filter(is_off) {
        let sources = format!("{}src/", manifest.path.trim_end_matches("Cargo.toml"));
        for file in repository.rust().filter(|file| file.path.starts_with(&sources)) {
            let message =
                format!("an example that never runs; remove `doctest = false` from {}", manifest.path);
            findings.extend(examples(&file.text).into_iter().map(|line| Finding {
                path: file.path.clone(),
                line,
                message: message.clone(),
            }));
        }
    }
    findings
}

/// Returns the lines on which examples begin that rustdoc would run.
fn examples(source: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut is_open = false;
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(words) = text.and_then(|text| text.trim_start().strip_prefix("```")) else { continue };
        if !is_open && is_run(words) {
            lines.push(number + 1);
        }
        is_open = !is_open;
    }
    lines
}

/// Returns true if rustdoc runs, or compiles, code behind a fence with these words: Rust is its default.
fn is_run(words: &str) -> bool {
    let words: Vec<_> = words.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty()).collect();
    let is_ignored = words.iter().any(|word| word.starts_with("ignore"));
    !is_ignored && (words.is_empty() || words.iter().any(|word| is_of_rust(word)))
}

/// Returns true for a word of rustdoc, such as `no_run`, `edition2024` or `E0308`, the code of an error.
fn is_of_rust(word: &str) -> bool {
    let known = ["rust", "should_panic", "no_run", "compile_fail", "test_harness", "standalone_crate"];
    let code = word.strip_prefix('E');
    let is_code = code.is_some_and(|code| code.len() == 4 && code.bytes().all(|byte| byte.is_ascii_digit()));
    known.contains(&word) || word.starts_with("edition") || is_code
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn examples_of_a_package_that_runs_none_are_found() {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let off = "[package]\nname = \"a\"\n\n[lib]\ndoctest = false\n";
        let drawing = "//! ```text\n//! a -> b\n//! ```\n";
        let example =
            "/// One.\n/// ```\n/// f();\n/// ```\n/// ```rust,no_run\n/// f();\n/// ```\nfn f() {}\n";
        let files = vec![
            file("vmcp/a/Cargo.toml", off),
            file("vmcp/a/src/drawn.rs", drawing),
            file("vmcp/a/src/f.rs", example),
            file("vmcp/b/Cargo.toml", "[package]\nname = \"b\"\n"),
            file("vmcp/b/src/f.rs", example),
        ];
        let repository = Repository { root: ".".into(), files };
        let found = unrun_examples(&repository);
        let places: Vec<_> = found.iter().map(|finding| (finding.path.as_str(), finding.line)).collect();
        assert_eq!(places, [("vmcp/a/src/f.rs", 2), ("vmcp/a/src/f.rs", 5)]);
    }

    #[test]
    fn words_of_a_fence_tell_if_rustdoc_runs_it() {
        for words in ["", "rust", "compile_fail,E0308", "edition2024, no_run"] {
            assert!(is_run(words), "{words}");
        }
        for words in ["text", "json", "ignore", "rust,ignore"] {
            assert!(!is_run(words), "{words}");
        }
    }
}
