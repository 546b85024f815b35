use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn shape(values: &[Value], principal: u64) -> Shape {
    let mut all = Shape::default();
    for value in values {
        all.merge(&Shape::of(value, principal));
    }
    all
}

fn joined(one: &Shape, other: &Shape) -> Shape {
    let mut joined = one.clone();
    joined.merge(other);
    joined
}

/// Values with few keys, so that they meet; texts and numbers are marked.
fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (777_000_000_000_u64..777_999_999_999).prop_map(Value::from),
        (0.1..0.9).prop_map(|number: f64| json!(number + 777_000_000.0)),
        "VALUE[a-z]{3}".prop_map(Value::from),
    ];
    let key = prop_oneof![4 => "[a-e]", 2 => "[a-z]{1,2}[0-9]?", 1 => "KEY[0-9]{5}", 1 => "KEY@[a-z]"];
    scalar.prop_recursive(6, 60, 8, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key.clone(), inner, 0..40).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn observed() -> impl Strategy<Value = Shape> {
    (vec(value(), 0..4), 0..6_u64).prop_map(|(values, principal)| shape(&values, principal))
}

proptest! {
    #[test]
    fn merging_is_commutative_associative_and_idempotent(one in observed(), two in observed(), three in observed()) {
        prop_assert_eq!(joined(&one, &two), joined(&two, &one));
        prop_assert_eq!(joined(&joined(&one, &two), &three), joined(&one, &joined(&two, &three)));
        prop_assert_eq!(&joined(&one, &one), &one);
        prop_assert_eq!(&joined(&one, &Shape::default()), &one);
    }

    #[test]
    fn a_shape_holds_no_value_and_no_key_that_is_data(values in vec(value(), 1..5)) {
        let shape = shape(&values, 1);
        let (stored, shown) = (serde_json::to_string(&shape).unwrap(), shape.text(1));
        for text in [&stored, &shown] {
            prop_assert!(!text.contains("VALUE") && !text.contains("777") && !text.contains("KEY"), "{}", text);
        }
        prop_assert!(shown.len() <= 804, "{} bytes", shown.len());
        prop_assert_eq!(serde_json::from_str::<Shape>(&stored).unwrap(), shape);
    }
}

#[test]
fn types_keys_and_lists_are_joined() {
    let seen = [
        json!({ "id": 1, "title": "a", "labels": [{ "name": "x" }, { "name": null, "color": "r" }], "score": 1 }),
        json!({ "id": 2, "title": null, "labels": [], "score": 0.5, "open": true }),
    ];
    let expected = "{\"id\": int, \"labels\": list[{\"color\"?: str, \"name\": str | None}], \"open\"?: bool, \
                    \"score\": int | float, \"title\": str | None}";
    assert_eq!(shape(&seen, 1).text(1), expected);
    assert_eq!(shape(&[json!([]), json!({}), json!("x")], 1).text(1), "dict | list | str");
}

#[test]
fn a_key_of_one_principal_tells_others_nothing() {
    let mut all = shape(&[json!({ "id": 1, "merger": { "with": "x" } })], 1);
    assert_eq!(all.text(1), "{\"id\": int, \"merger\": {\"with\": str}}");
    assert_eq!(all.text(2), "dict");
    all.merge(&shape(&[json!({ "id": 1 })], 2));
    assert_eq!(all.text(2), "{\"id\": int}");
    assert_eq!(all.text(4), "dict", "two principals are too few");
    all.merge(&shape(&[json!({ "id": 1 })], 3));
    assert_eq!(all.text(4), "{\"id\": int}");
    let stored = serde_json::to_string(&all).unwrap();
    assert_eq!(serde_json::from_str::<Shape>(&stored).unwrap().text(4), "{\"id\": int}");
}

#[test]
fn maps_are_told_from_records() {
    let by_mail = json!({ "users": { "a@b.c": { "age": 1 }, "d@e.f": { "age": 2 } } });
    assert_eq!(shape(&[by_mail], 1).text(1), "{\"users\": dict[str, {\"age\": int}]}");
    let changing = [json!({ "alice": { "age": 1 }, "bob": { "age": 2 } }), json!({ "carol": { "age": 3 } })];
    assert_eq!(shape(&changing, 1).text(1), "dict[str, {\"age\": int}]");
    let many: serde_json::Map<_, _> = (b'a'..=b'z')
        .flat_map(|one| [format!("{}x", char::from(one)), format!("{}y", char::from(one))])
        .map(|key| (key, json!(1)))
        .collect();
    assert_eq!(shape(&[many.into()], 1).text(1), "dict[str, int]");
}

#[test]
fn a_shape_is_bounded_in_depth_and_text() {
    let deep = (0..60)
        .fold(json!(1), |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({ "k": inner }) });
    let text = shape(&[deep], 1).text(1);
    assert!(text.contains("Any") && text.len() < 100, "{text}");
    let record = |inner: &Value| {
        let entries =
            (0..12).map(|key| (format!("a_long_name_of_a_field_{}", char::from(b'a' + key)), inner.clone()));
        Value::Object(entries.collect())
    };
    let wide = record(&record(&record(&json!(1))));
    let shape = shape(&[wide], 1);
    assert_eq!(shape.places(), 1 + 12 + 144 + 1728);
    let text = shape.text(1);
    assert!(text.starts_with("{\"a_long_name_of_a_field_a\": dict, ") && text.len() <= 804, "{text}");
}

#[test]
fn a_result_has_the_content_that_a_script_gets() {
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    for (mut result, expected) in [
        (json!({ "content": [], "structuredContent": { "a": 1 } }), Some(json!({ "a": 1 }))),
        (text("{\"a\": 1}"), Some(json!({ "a": 1 }))),
        (text("17"), Some(json!(""))),
        (text("a secret"), Some(json!(""))),
        (json!({ "content": [{ "type": "image", "data": "x" }] }), None),
        (json!({ "content": [] }), None),
        (json!(1), None),
    ] {
        assert_eq!(content(&mut result), expected);
    }
}
