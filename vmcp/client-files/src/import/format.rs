//! Formats of other clients' files: JSON with comments (most clients), TOML (Codex), YAML (Goose).

use serde_json::Value;

use super::jsonc;

/// Parses a file of any of the formats; the error is that of the format that the text looks like.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let json = jsonc::to_json(text);
    if json.trim_start().starts_with(['{', '[']) {
        let parsed = serde_json::from_str(&json);
        // A table header of TOML, `[mcp_servers.x]`, begins like a list of JSON.
        return parsed.or_else(|error| toml(text).map_err(|_| format!("not readable as JSON: {error}")));
    }
    let yaml = || serde_saphyr::from_str::<Value>(text).ok().filter(Value::is_object);
    toml(text).or_else(|error| yaml().ok_or(error))
}

fn toml(text: &str) -> Result<Value, String> {
    let unreadable = |error: toml::de::Error| format!("not readable as TOML: {}", error.message());
    let table: toml::Table = toml::from_str(text).map_err(unreadable)?;
    serde_json::to_value(table).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_recognized_by_its_text() {
        for text in ["// c\n{ \"a\": { \"b\": 1, } }", "[a]\nb = 1", "# c\na.b = 1", "a:\n  b: 1\n"] {
            assert_eq!(parse(text).unwrap(), serde_json::json!({ "a": { "b": 1 } }), "{text}");
        }
        assert!(parse("{").unwrap_err().contains("JSON"));
        assert!(parse("a = ").unwrap_err().contains("TOML"));
    }
}
