//! Reads the `x-mcp-header` annotations of a tool's input schema: arguments that a client repeats as
//! `Mcp-Param-*` headers, so that proxies can route without reading the body (MCP 2026-07-28, "Custom headers
//! from tool parameters").
//!
//! A definition is read once; `vmcp-wire` writes and compares the headers by the [`ParamHeader`]s found here.

use serde_json::{Map, Value};
use vmcp_wire::headers::ParamHeader;

const ANNOTATION: &str = "x-mcp-header";
/// Most annotations of a tool: HTTP servers take some 100 headers. A tool with more is rejected.
const MAX_ANNOTATIONS: usize = 64;

/// Keywords whose value is data and no schema: an annotation in it is ignored.
const DATA_KEYWORDS: [&str; 5] = ["const", "default", "enum", "example", "examples"];

/// Keywords whose value maps names that the author chose to schemas: such a name may read like the
/// annotation.
const NAMED_SCHEMAS: [&str; 5] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"];

/// Returns all annotations of a tool's input schema, or the reason why one is invalid. A valid annotation is
/// an HTTP token, unique without regard to case, on a string, integer or boolean that is reached through
/// `properties` alone.
pub(crate) fn find(schema: &Value) -> Result<Vec<ParamHeader>, String> {
    let mut found = Vec::new();
    visit(schema, &mut Some(Vec::new()), &mut found)?;
    Ok(found)
}

/// Walks a schema. `path` is `None` below any keyword but `properties`, where no annotation is allowed.
fn visit(schema: &Value, path: &mut Option<Vec<String>>, found: &mut Vec<ParamHeader>) -> Result<(), String> {
    match schema {
        Value::Object(object) => {
            if let Some(annotation) = object.get(ANNOTATION) {
                found.push(check(annotation, object, path.as_deref(), found)?);
            }
            for (keyword, value) in object {
                match (keyword.as_str(), value) {
                    ("properties", Value::Object(properties)) => {
                        for (name, property) in properties {
                            if let Some(path) = path {
                                path.push(name.clone());
                            }
                            visit(property, path, found)?;
                            if let Some(path) = path {
                                path.pop();
                            }
                        }
                    }
                    (keyword, _) if DATA_KEYWORDS.contains(&keyword) => {}
                    (keyword, Value::Object(schemas)) if NAMED_SCHEMAS.contains(&keyword) => {
                        schemas.values().try_for_each(|schema| visit(schema, &mut None, found))?;
                    }
                    _ => visit(value, &mut None, found)?,
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(|item| visit(item, &mut None, found)),
        _ => Ok(()),
    }
}

fn check(
    annotation: &Value,
    schema: &Map<String, Value>,
    path: Option<&[String]>,
    found: &[ParamHeader],
) -> Result<ParamHeader, String> {
    let header = annotation.as_str().filter(|name| is_token(name)).ok_or("its value is not an HTTP token")?;
    let shown: String = header.chars().take(64).collect();
    if found.len() >= MAX_ANNOTATIONS {
        return Err(format!("more than {MAX_ANNOTATIONS} properties have one"));
    }
    let path = path
        .filter(|path| !path.is_empty())
        .ok_or_else(|| format!("{shown} is on a schema that is not reached through properties alone"))?;
    if !matches!(schema.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
        return Err(format!("{shown} is on a property that is no string, integer or boolean"));
    }
    if found.iter().any(|other| other.name.eq_ignore_ascii_case(header)) {
        return Err(format!("{shown} is used twice"));
    }
    Ok(ParamHeader { name: header.to_owned(), path: path.to_vec() })
}

/// True if `name` is an HTTP token (RFC 9110, 5.6.2).
fn is_token(name: &str) -> bool {
    !name.is_empty() && name.chars().all(vmcp_config::is_token_char)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_nested_properties() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "where": {"type": "object", "properties": {"zone": {"type": "integer", "x-mcp-header": "Zone"}}},
            "x-mcp-header": {"type": "string", "default": {"x-mcp-header": "no annotation"}},
        }});
        let header = |header: &str, path: &[&str]| ParamHeader {
            name: header.into(),
            path: path.iter().map(|p| (*p).into()).collect(),
        };
        assert_eq!(
            find(&schema),
            Ok(vec![header("Region", &["region"]), header("Zone", &["where", "zone"])])
        );
    }

    #[test]
    fn names_and_data_that_read_like_the_annotation_are_none() {
        for keyword in NAMED_SCHEMAS {
            let named = json!({keyword: {"x-mcp-header": {"type": "string"}}});
            assert_eq!(find(&named), Ok(Vec::new()), "{keyword}");
            let annotated = json!({keyword: {"a": {"type": "string", "x-mcp-header": "A"}}});
            assert!(find(&annotated).is_err(), "{keyword}");
        }
        for keyword in DATA_KEYWORDS {
            let data = json!({"properties": {"a": {keyword: {"x-mcp-header": "A"}}}});
            assert_eq!(find(&data), Ok(Vec::new()), "{keyword}");
        }
        assert_eq!(find(&json!({"properties": {"x-mcp-header": {"type": "string"}}})), Ok(Vec::new()));
    }

    #[test]
    fn a_tool_has_few_headers() {
        let schema = |count: usize| {
            let property =
                |n: usize| (format!("p{n}"), json!({"type": "string", "x-mcp-header": format!("H{n}")}));
            json!({"properties": (0..count).map(property).collect::<Map<_, _>>()})
        };
        assert_eq!(find(&schema(MAX_ANNOTATIONS)).map(|found| found.len()), Ok(MAX_ANNOTATIONS));
        assert!(find(&schema(MAX_ANNOTATIONS + 1)).unwrap_err().contains("more than 64"));
    }

    #[test]
    fn invalid_annotations() {
        let invalid = |schema: Value| find(&schema).unwrap_err();
        let on =
            |annotation: Value| json!({"properties": {"a": {"type": "string", "x-mcp-header": annotation}}});
        for value in [json!(""), json!("a b"), json!("a:"), json!(1), json!("é")] {
            assert!(invalid(on(value)).contains("not an HTTP token"));
        }
        let annotated = json!({"type": "string", "x-mcp-header": "A"});
        for unreachable in [
            json!({"properties": {"a": {"type": "array", "items": annotated}}}),
            json!({"anyOf": [{"properties": {"a": annotated}}]}),
            json!({"$defs": {"a": annotated}}),
            annotated.clone(),
        ] {
            assert!(invalid(unreachable).contains("not reached through properties alone"));
        }
        for kind in ["object", "array", "null", "number"] {
            let schema = json!({"properties": {"a": {"type": kind, "x-mcp-header": "A"}}});
            assert!(invalid(schema).contains("no string"), "{kind}");
        }
        let twice = json!({"properties": {"a": annotated, "b": {"type": "string", "x-mcp-header": "a"}}});
        assert!(invalid(twice).contains("used twice"));
    }
}
