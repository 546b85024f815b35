//! Prints findings about the repository's rules, below the given paths or everywhere; with `--sentences` the
//! places of counted sentences.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use vmcp_tidy::{CHECKS, Repository, counted_sentences};

fn main() -> ExitCode {
    let mut paths: Vec<String> = std::env::args().skip(1).collect();
    let sentences = paths.first().is_some_and(|first| first == "--sentences");
    if sentences {
        paths.remove(0);
    }
    let repository = match Repository::open(Path::new(".")) {
        Ok(repository) => repository,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "cannot read the repository: {error:?}");
            return ExitCode::FAILURE;
        }
    };
    let findings: Vec<_> = if sentences {
        counted_sentences(&repository)
    } else {
        CHECKS.iter().flat_map(|(_, check)| check(&repository)).collect()
    };
    let wanted =
        |path: &str| paths.is_empty() || paths.iter().any(|prefix| path.starts_with(prefix.as_str()));
    let findings: Vec<_> = findings.into_iter().filter(|finding| wanted(&finding.path)).collect();
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        let _ = writeln!(out, "{finding}");
    }
    let _ = writeln!(out, "{} findings", findings.len());
    if findings.is_empty() || sentences { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
