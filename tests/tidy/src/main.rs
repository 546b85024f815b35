//! Prints what breaks the repository's rules, below the given paths or everywhere.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use vmcp_tidy::{CHECKS, Repository};

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let repository = match Repository::open(Path::new(".")) {
        Ok(repository) => repository,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "cannot read the repository: {error:?}");
            return ExitCode::FAILURE;
        }
    };
    let findings = CHECKS.iter().flat_map(|(_, check)| check(&repository));
    let wanted =
        |path: &str| paths.is_empty() || paths.iter().any(|prefix| path.starts_with(prefix.as_str()));
    let findings: Vec<_> = findings.filter(|finding| wanted(&finding.path)).collect();
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        let _ = writeln!(out, "{finding}");
    }
    let _ = writeln!(out, "{} findings", findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
