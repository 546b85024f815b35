//! The committed files that follow from the code, and the examples, which must load.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Fails when the committed file is not the generated text; `VMCP_UPDATE_SCHEMA=1` writes it.
fn assert_committed(file: &str, generated: &str) {
    let path = Path::new(ROOT).join(file);
    if std::env::var_os("VMCP_UPDATE_SCHEMA").is_some() {
        fs::write(&path, generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == generated, "{file} is out of date; regenerate it: make schema");
}

#[test]
fn the_committed_schema_is_the_one_of_the_code() {
    let generated = serde_json::to_string_pretty(&vmcp_config::json_schema()).unwrap() + "\n";
    assert_committed("docs/reference/vmcp.schema.json", &generated);
    assert_committed("vmcp/config/src/writing/checked_schema.txt", &vmcp_config::checked_schema());
}

#[test]
fn the_committed_reference_is_the_one_of_the_code() {
    let page = vmcp_config::reference_markdown();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{row}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "something is not said: {row}");
    }
    assert_committed("docs/reference/configuration.md", &page);
}

#[test]
fn every_example_loads_without_a_warning() {
    let mut seen = 0;
    for entry in fs::read_dir(Path::new(ROOT).join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // Every variable is set, to something long enough for a secret; addresses have defaults.
        let environment = |_: &str| Some("http://127.0.0.1:7000/a-value-of-some-length".to_owned());
        let loaded = vmcp_config::load(&text, &path.display().to_string(), &environment)
            .unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(loaded.warnings, [], "{}", path.display());
        assert!(!loaded.config.backends.is_empty(), "{}", path.display());
        seen += 1;
    }
    assert!(seen > 1, "there are examples");
}
