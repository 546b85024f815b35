//! The CustomResourceDefinitions: committed, structural, and with rules that refuse what they should.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::{fs, path::Path};

use vmcp_crds::schema::{definitions, file};

#[test]
fn the_committed_definitions_are_those_of_the_code() {
    for definition in definitions() {
        let (name, text) = file(&definition);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&name);
        if std::env::var_os("VMCP_UPDATE_CRDS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "{name} is out of date; regenerate it: make crds");
    }
}
