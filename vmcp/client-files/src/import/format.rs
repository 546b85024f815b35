//! Formats of other clients' files: JSON with comments (most clients), TOML (Codex), YAML (Goose).

use serde_json::Value;

use super::jsonc;

/// Parses a file of any of the formats; the error is that of the format that the text looks like.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let json = jsonc::to_json(text);
    if json.trim_start().starts_with(['{', '[']) {
        let parsed = serde_json::from_str(&json);
        // A table header of TOML, `[mcp_servers.x]`, begins like a list of JSON.
        return parsed.or_else(|error| toml(text).map_err(|_| format!("not readable as JSON: {error}")));
    }
    toml(text).or_else(|error| match serde_saphyr::from_str::<Value>(text) {
        Ok(value) if value.is_object() => Ok(value),
        // The parser's own words would quote what it found.
        Err(other) if looks_like_yaml(text) => Err(match other.location() {
            Some(location) => format!("not readable as YAML: line {}", location.line()),
            None => "not readable as YAML".to_owned(),
        }),
        _ => Err(error),
    })
}

/// True if the first line with a setting is `key:`, as in YAML, and not `key =`, as in TOML.
fn looks_like_yaml(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines.find(|line| *line != "---").unwrap_or_default();
    first.split_once(':').is_some_and(|(key, _)| !key.contains(['=', '[']))
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
        let broken = parse("extensions:\n  a: {\n").unwrap_err();
        assert!(broken.contains("YAML") && !broken.contains("extensions"), "{broken}");
        for text in
            ["\u{feff}a.b = 1\r\n", "\u{feff}a:\r\n  b: 1\r\n", "\u{feff}{\r\n\t\"a\": {\"b\": 1}\r\n}"]
        {
            assert_eq!(parse(text).unwrap(), serde_json::json!({ "a": { "b": 1 } }), "{text}");
        }
    }
}
