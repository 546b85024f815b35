//! Removes patterns that the regex engine of checks does not know, such as those with lookahead: the rest of
//! such a schema can then be used.

use jsonschema::PatternOptions;
use serde_json::Value;

/// Keys whose values are data and no schemas.
const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];
/// Deepest level that is looked at; `vmcp_model` bounds definitions to 64.
const MAX_DEPTH: usize = 128;

/// Removes each `pattern`, and each key of `patternProperties`, that does not compile within `max_bytes` of
/// memory.
pub(super) fn remove_unknown(schema: &mut Value, max_bytes: usize) {
    remove_at(schema, max_bytes, 0);
}

fn remove_at(schema: &mut Value, max_bytes: usize, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match schema {
        Value::Object(keywords) => {
            let is_unknown = |pattern: &str| !compiles(pattern, max_bytes);
            if keywords.get("pattern").and_then(Value::as_str).is_some_and(is_unknown) {
                keywords.shift_remove("pattern");
            }
            if let Some(Value::Object(by_pattern)) = keywords.get_mut("patternProperties") {
                let before = by_pattern.len();
                by_pattern.retain(|pattern, _| compiles(pattern, max_bytes));
                if by_pattern.len() < before {
                    // They allow what no other keyword names, and the pattern that named it has gone.
                    keywords.shift_remove("additionalProperties");
                    keywords.shift_remove("unevaluatedProperties");
                }
            }
            let schemas = keywords.iter_mut().filter(|(key, _)| !DATA.contains(&key.as_str()));
            schemas.for_each(|(_, value)| remove_at(value, max_bytes, depth + 1));
        }
        Value::Array(schemas) => {
            for schema in schemas {
                remove_at(schema, max_bytes, depth + 1);
            }
        }
        _ => {}
    }
}

/// Asks the validator itself, which translates ECMAScript's syntax to its engine's.
fn compiles(pattern: &str, max_bytes: usize) -> bool {
    let schema = serde_json::json!({ "pattern": pattern });
    let options = PatternOptions::regex().size_limit(max_bytes).dfa_size_limit(max_bytes);
    jsonschema::options().offline().with_pattern_options(options).build(&schema).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lookahead_goes_and_everything_else_stays() {
        let mut schema = json!({"properties": {
            "pattern": {"type": "string", "pattern": "^(?!a)b$", "minLength": 1},
            "plain": {"pattern": "^a+$", "default": {"pattern": "(?=x)"}}},
            "patternProperties": {"(?=x)y": {}, "^x": {"type": "integer"}}, "additionalProperties": false});
        remove_unknown(&mut schema, 1 << 20);
        let expected = json!({"properties": {
            "pattern": {"type": "string", "minLength": 1},
            "plain": {"pattern": "^a+$", "default": {"pattern": "(?=x)"}}},
            "patternProperties": {"^x": {"type": "integer"}}});
        assert_eq!(schema, expected);
    }
}
