//! Renders a `CallToolResult` as text.

use serde_json::Value;

/// Returns true if the result carries `isError`.
pub(in crate::cli) fn is_error(result: &Value) -> bool {
    result.get("isError").and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the text blocks, with one line for each block of another type. Without blocks, the structured
/// content.
pub(in crate::cli) fn text(result: &Value) -> String {
    let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match (blocks, result.get("structuredContent")) {
        ([], Some(structured)) => serde_json::to_string_pretty(structured).unwrap_or_default(),
        (blocks, _) => blocks.iter().map(block).collect::<Vec<_>>().join("\n"),
    }
}

fn block(block: &Value) -> String {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
    let bytes = |data: &Value| data.as_str().map_or(0, |base64| base64.len() / 4 * 3);
    match block.get("type").and_then(Value::as_str) {
        Some("text") => text(block, "text"),
        Some(kind @ ("image" | "audio")) => {
            format!(
                "[{kind}: {}, about {} bytes]",
                text(block, "mimeType"),
                bytes(block.get("data").unwrap_or(&Value::Null))
            )
        }
        Some("resource") => {
            let resource = block.get("resource").unwrap_or(&Value::Null);
            match resource.get("text").and_then(Value::as_str) {
                Some(text) => text.to_owned(),
                None => format!("[resource: {}]", text(resource, "uri")),
            }
        }
        Some("resource_link") => format!("[resource: {}]", text(block, "uri")),
        _ => block.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_block_says_something() {
        let result = json!({"content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "a:c", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "a:d", "name": "d"},
            {"type": "vendor", "x": 1},
        ], "structuredContent": {"a": 1}});
        let expected = "hello\n[image: image/png, about 3 bytes]\ninside\n[resource: a:c]\n[resource: a:d]\n{\"type\":\"vendor\",\"x\":1}";
        assert_eq!(text(&result), expected);
        assert!(!is_error(&result));
    }

    #[test]
    fn structured_content_speaks_where_there_is_no_other() {
        let result = json!({"content": [], "structuredContent": {"a": 1}, "isError": true});
        assert_eq!(text(&result), "{\n  \"a\": 1\n}");
        assert!(is_error(&result));
    }
}
