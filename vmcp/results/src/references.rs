//! References in arguments: `{"$result_ref": "res_…", "path": "$.items"}` stands for the value it names.

use serde_json::value::RawValue;
use vmcp_json::text;

use crate::json;

/// Key of a reference.
pub const RESULT_REF: &str = "$result_ref";
/// Key of a reference in the data of a dataset, too.
const SHORT_REF: &str = "$ref";
/// Key of the path within the result.
const PATH: &str = "path";
/// Levels of nesting that are looked into.
const MAX_DEPTH: usize = 64;

/// A reference in arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRef {
    /// The reference.
    pub result_ref: String,
    /// JSON path within the result.
    pub path: Option<String>,
}

impl ResultRef {
    /// Reads a value that is a reference and nothing else.
    pub fn read(value: &RawValue) -> Option<ResultRef> {
        ResultRef::read_by(value, &[RESULT_REF])
    }

    /// Reads a value that stands for data: also `{"$ref": …}`, or the reference as a string.
    pub fn read_data(value: &RawValue) -> Option<ResultRef> {
        if let Some(text) = json::string(value) {
            let is_one = crate::store::Reference::parse(&text).is_some();
            return is_one.then_some(ResultRef { result_ref: text, path: None });
        }
        ResultRef::read_by(value, &[RESULT_REF, SHORT_REF])
    }

    fn read_by(value: &RawValue, keys: &[&str]) -> Option<ResultRef> {
        // Looked for in the text first: most values lack one, and long values are not parsed twice.
        let entries = keys.iter().any(|key| value.get().contains(key)).then(|| json::entries(value))??;
        let (mut found, mut path) = (None, None);
        for (key, value) in entries {
            match key.as_str() {
                key if keys.contains(&key) => found = Some(json::string(value)?),
                PATH => path = Some(json::string(value)?),
                _ => return None,
            }
        }
        Some(ResultRef { result_ref: found?, path })
    }
}

/// Returns the references within a value.
pub fn find(value: &RawValue) -> Vec<ResultRef> {
    let mut found = Vec::new();
    if value.get().contains(RESULT_REF) {
        collect(value, 0, &mut found);
    }
    found
}

fn collect(value: &RawValue, depth: usize, found: &mut Vec<ResultRef>) {
    if let Some(reference) = ResultRef::read(value) {
        found.push(reference);
    } else if depth < MAX_DEPTH {
        for item in json::items(value).unwrap_or_default() {
            collect(item, depth + 1, found);
        }
        for (_, value) in json::entries(value).unwrap_or_default() {
            collect(value, depth + 1, found);
        }
    }
}

/// Writes a value with each reference replaced by its value, from `resolve`; the rest keeps its
/// spelling.
pub fn replace(value: &RawValue, resolve: &dyn Fn(&ResultRef) -> Option<Box<RawValue>>) -> Box<RawValue> {
    RawValue::from_string(written(value, resolve, 0)).unwrap_or_else(|_| value.to_owned())
}

fn written(value: &RawValue, resolve: &dyn Fn(&ResultRef) -> Option<Box<RawValue>>, depth: usize) -> String {
    if depth >= MAX_DEPTH || !value.get().contains(RESULT_REF) {
        return value.get().to_owned();
    }
    if let Some(found) = ResultRef::read(value).and_then(|reference| resolve(&reference)) {
        return found.get().to_owned();
    }
    if let Some(items) = json::items(value) {
        let items: Vec<_> = items.into_iter().map(|item| written(item, resolve, depth + 1)).collect();
        return format!("[{}]", items.join(","));
    }
    let Some(entries) = json::entries(value) else { return value.get().to_owned() };
    let entries = entries
        .into_iter()
        .map(|(key, value)| format!("{}:{}", text::quoted(&key), written(value, resolve, depth + 1)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_and_nothing_else() {
        let text = r#"{"rows": {"$result_ref":"res_a","path":"$.x"}, "n":1.0e2,"list":[{"$result_ref":"res_b"},{"$result_ref":"res_c","more":1}]}"#;
        let raw = json::parse(text).unwrap();
        let found: Vec<_> = find(raw).into_iter().map(|found| (found.result_ref, found.path)).collect();
        assert_eq!(found, [("res_a".to_owned(), Some("$.x".to_owned())), ("res_b".to_owned(), None)]);
        let replaced = replace(raw, &|found| {
            (found.result_ref == "res_a").then(|| RawValue::from_string("[1]".to_owned()).unwrap())
        });
        assert_eq!(
            replaced.get(),
            r#"{"rows":[1],"n":1.0e2,"list":[{"$result_ref":"res_b"},{"$result_ref":"res_c","more":1}]}"#
        );
        assert!(find(json::parse(r#"{"a":"$result_ref"}"#).unwrap()).is_empty());
    }

    #[test]
    fn data_may_be_a_reference_in_three_forms() {
        let reference = format!("res_{}", "A".repeat(22));
        for data in [format!(r#""{reference}""#), format!(r#"{{"$ref":"{reference}"}}"#)] {
            let read = ResultRef::read_data(json::parse(&data).unwrap()).unwrap();
            assert_eq!(read.result_ref, reference);
        }
        assert_eq!(ResultRef::read_data(json::parse(r#""some text""#).unwrap()), None);
        assert_eq!(ResultRef::read_data(json::parse("[1]").unwrap()), None);
    }
}
