//! One spelling, the American one, as MCP and the Rust ecosystem write.

use crate::{Finding, Repository};

/// British stems and their American forms. `cancelled` is MCP's own (`notifications/cancelled`) and stays.
const BRITISH: [(&str, &str); 24] = [
    ("behaviour", "behavior"),
    ("catalogue", "catalog"),
    ("normalis", "normaliz"),
    ("serialis", "serializ"),
    ("initialis", "initializ"),
    ("recognis", "recogniz"),
    ("sanitis", "sanitiz"),
    ("tokenis", "tokeniz"),
    ("authoris", "authoriz"),
    ("organis", "organiz"),
    ("optimis", "optimiz"),
    ("summaris", "summariz"),
    ("minimis", "minimiz"),
    ("prioritis", "prioritiz"),
    ("synchronis", "synchroniz"),
    ("honour", "honor"),
    ("favour", "favor"),
    ("colour", "color"),
    ("neighbour", "neighbor"),
    ("labelled", "labeled"),
    ("licence", "license"),
    ("judgement", "judgment"),
    ("artefact", "artifact"),
    ("analyse", "analyze"),
];

/// Lines that hold a British word on purpose: input that a test misspells, text of somebody else.
const ON_PURPOSE: [(&str, &str); 4] = [
    ("tests/tidy/src/spelling.rs", ""),
    ("vmcp/model/src/names.rs", "optimise.x"),
    ("config_mistakes.rs", "optimiser"),
    ("tests/rmcp-fixture/", "favourite colour"),
];

/// Returns each British spelling in code, comments and pages.
pub(crate) fn american(repository: &Repository) -> Vec<Finding> {
    let read = [".rs", ".md", ".sh", ".yaml", ".toml", "Makefile", "Dockerfile", ".tpl"];
    let mut findings = Vec::new();
    for file in repository.files.iter().filter(|file| file.ends_in(&read)) {
        for (number, line) in file.text.lines().enumerate() {
            let lower = line.to_lowercase();
            let on_purpose = |(path, text): &(&str, &str)| {
                file.path.contains(path) && (text.is_empty() || lower.contains(text))
            };
            for (british, american) in BRITISH {
                if lower.contains(british) && !ON_PURPOSE.iter().any(on_purpose) {
                    let message = format!("British spelling {british:?}; write {american:?}");
                    findings.push(Finding { path: file.path.clone(), line: number + 1, message });
                }
            }
        }
    }
    findings
}
