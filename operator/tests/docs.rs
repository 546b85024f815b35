//! The documentation of the chart keeps up with it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::{fmt::Write as _, fs, path::PathBuf};

use serde_json::Value;

fn chart(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/vmcp-operator")).join(file)
}

/// A row for each value that can be set, in the order of the schema.
fn rows(path: &str, schema: &Value, defaults: &Value, table: &mut String) {
    for (key, property) in schema["properties"].as_object().unwrap() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let default = defaults.get(key).unwrap_or(&Value::Null);
        if property.get("properties").is_some() {
            rows(&path, property, default, table);
        } else if !default.is_null() {
            let meaning = property["description"].as_str().unwrap();
            writeln!(table, "| `{path}` | `{default}` | {meaning}{} |", choices(property)).unwrap();
        } else {
            assert_eq!(path, "global", "values.yaml has no default of {path}");
        }
    }
}

fn choices(property: &Value) -> String {
    let Some(choices) = property["enum"].as_array() else { return String::new() };
    let choices: Vec<_> = choices.iter().map(|choice| format!("`{}`", choice.as_str().unwrap())).collect();
    format!(": {}", choices.join(", "))
}

#[test]
fn every_value_of_the_chart_is_in_its_readme() {
    let schema: Value =
        serde_json::from_str(&fs::read_to_string(chart("values.schema.json")).unwrap()).unwrap();
    let defaults: Value = serde_saphyr::from_str(&fs::read_to_string(chart("values.yaml")).unwrap()).unwrap();
    let mut table = "| value | default | meaning |\n|---|---|---|\n".to_owned();
    rows("", &schema, &defaults, &mut table);

    let committed = fs::read_to_string(chart("README.md")).unwrap();
    let (before, rest) = committed.split_once("values.schema.json -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- /values -->").unwrap();
    let page = format!("{before}values.schema.json -->\n{table}<!-- /values -->{after}");
    if std::env::var_os("VMCP_UPDATE_SCHEMA").is_some() {
        fs::write(chart("README.md"), &page).unwrap();
    }
    let committed = fs::read_to_string(chart("README.md")).unwrap();
    assert!(committed == page, "charts/vmcp-operator/README.md is out of date; regenerate it: make schema");
}
