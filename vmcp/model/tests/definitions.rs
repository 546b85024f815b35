//! Any definition that a backend may send comes out as it went in, under a legal name.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use vmcp_config::rules::{Aggregation, FaultyDefinitions};
use vmcp_model::catalog::Catalog;
use vmcp_model::definition::Tool;
use vmcp_model::discovered::{Discovered, Listing};
use vmcp_model::issue::IssueReason;
use vmcp_model::names;

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Not any float: serde_json reads some of them one unit in the last place off, which is not what we
        // test.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,6}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// A definition as text: unknown keys before and after the name, pretty-printed or not.
fn definition() -> impl Strategy<Value = (String, String)> {
    let unknown = || prop::collection::btree_map("x-[a-zé\"\\\\]{0,5}", json_value(), 0..4);
    (unknown(), "\\PC{1,20}", any::<Option<String>>(), json_value(), unknown(), any::<bool>()).prop_map(
        |(before, name, description, default, after, pretty)| {
            let mut tool: Map<String, Value> = before.into_iter().collect();
            tool.insert("name".into(), name.clone().into());
            tool.insert("description".into(), description.into());
            tool.insert("inputSchema".into(), json!({"type": "object", "default": default}));
            tool.extend(after.into_iter().map(|(key, value)| (format!("y{key}"), value)));
            let tool = Value::from(tool);
            let text = if pretty { format!("{tool:#}") } else { tool.to_string() };
            (name, text)
        },
    )
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn build(tools: &[&str]) -> Catalog {
    let listing = Listing { tools: tools.iter().map(|json| raw(json)).collect(), ..Listing::default() };
    Catalog::build(&[("server".into(), Arc::new(Discovered::read(listing)))], &as_they_are())
}

/// Rules under which faulty definitions are listed as they are.
fn as_they_are() -> Aggregation {
    Aggregation { faulty_definitions: FaultyDefinitions::PassThrough, ..Aggregation::default() }
}

/// Returns the value with the keys of every object in reverse order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().rev().map(|(key, value)| (key.clone(), reversed(value))).collect(),
        Value::Array(items) => items.iter().map(reversed).collect(),
        other => other.clone(),
    }
}

proptest! {
    // Definitions are large; more cases find nothing more but take seconds.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_rename_changes_the_name_and_nothing_else((name, text) in definition()) {
        let catalog = build(&[&text]);
        let [tool] = catalog.tools.as_slice() else {
            return Err(TestCaseError::fail(format!("{:?}", catalog.issues)));
        };
        prop_assert!(names::is_legal(&tool.name));
        prop_assert_eq!(tool.definition.raw.get(), text.as_str());
        // The name's value occurs once as a value of the key `name` at the top level; what surrounds it is
        // unchanged.
        let (old, new) = (json!(name).to_string(), json!(tool.name).to_string());
        let listed = tool.raw.get();
        prop_assert_eq!(listed.len() + old.len(), text.len() + new.len());
        let same_head = listed.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        let same_tail = listed.bytes().rev().zip(text.bytes().rev()).take_while(|(a, b)| a == b).count();
        prop_assert!(same_head + same_tail + old.len() >= text.len());
        let mut expected: Value = serde_json::from_str(&text).unwrap();
        expected["name"] = Value::from(tool.name.clone());
        prop_assert_eq!(serde_json::from_str::<Value>(listed).unwrap(), expected);
    }

    #[test]
    fn the_hash_does_not_depend_on_the_order_of_keys((_, text) in definition()) {
        let other = reversed(&serde_json::from_str(&text).unwrap()).to_string();
        prop_assert_eq!(Tool::parse(raw(&text)).unwrap().hash, Tool::parse(raw(&other)).unwrap().hash);
    }

    #[test]
    fn equal_listings_become_byte_equal_catalogs(definitions in prop::collection::vec(definition(), 0..8)) {
        let mut texts: Vec<_> = definitions.iter().map(|(_, text)| text.as_str()).collect();
        texts.sort_unstable();
        texts.dedup_by_key(|text| Tool::parse(raw(text)).unwrap().name);
        let one = build(&texts);
        let other = build(&texts);
        let text = |catalog: &Catalog| -> String { catalog.tools.iter().map(|tool| tool.raw.get()).collect() };
        prop_assert_eq!(text(&one), text(&other), "byte-equal lists");
    }

    #[test]
    fn any_json_is_accepted_or_rejected(value in json_value(), key in "name|title|description|inputSchema|outputSchema|annotations") {
        for json in [value.clone(), json!({"name": "n", key: value})] {
            let catalog = build(&[&json.to_string()]);
            let rejected = catalog.issues.iter().filter(|issue| issue.reason == IssueReason::RejectedDefinition);
            prop_assert_eq!(catalog.tools.len() + rejected.count(), 1);
        }
    }
}
