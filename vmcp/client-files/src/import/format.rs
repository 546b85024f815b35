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
        return parsed.or_else(|error| {
            let of_json = format!("not readable as JSON: {error}");
            toml(text).map_err(|of_toml| if begins_with_table(text) { of_toml } else { of_json })
        });
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

/// True if the first line is a table header of TOML, `[name]` or `[[name]]`.
fn begins_with_table(text: &str) -> bool {
    let first = text.trim_start().lines().next().unwrap_or_default();
    let first = first.split_once('#').map_or(first, |(header, _)| header).trim();
    let name = first.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
    let name = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    let is_of_name = |c: char| c.is_alphanumeric() || "_-. \"'@/:".contains(c);
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(is_of_name)
}

fn toml(text: &str) -> Result<Value, String> {
    // The parser's whole message would quote the line, which may have a secret.
    let unreadable = |error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map(|before| format!(" at line {}", before.matches('\n').count() + 1));
        format!("not readable as TOML: {}{}", error.message(), line.unwrap_or_default())
    };
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
        for text in ["[a]\nb = 1\n\n[c]\nd = = 1\n", "# c\n[a]\nb = 1\n\nd = = 1\n", "[a] # x\n\n\n\n[a]\n"] {
            let broken = parse(text).unwrap_err();
            assert!(broken.contains("TOML") && broken.ends_with("line 5"), "{text}: {broken}");
        }
        assert!(parse("[{\"a\": 1}").unwrap_err().contains("JSON"));
        let broken = parse("extensions:\n  a: {\n").unwrap_err();
        assert!(broken.contains("YAML") && !broken.contains("extensions"), "{broken}");
        for text in
            ["\u{feff}a.b = 1\r\n", "\u{feff}a:\r\n  b: 1\r\n", "\u{feff}{\r\n\t\"a\": {\"b\": 1}\r\n}"]
        {
            assert_eq!(parse(text).unwrap(), serde_json::json!({ "a": { "b": 1 } }), "{text}");
        }
    }
}
