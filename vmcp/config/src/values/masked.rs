//! Masks of secrets within other values: a token in the query of a URL or in an argument.

use std::borrow::Cow;

use serde_json::Value;

use crate::values::secret::MASK;

/// Parts of the names of arguments whose values are secrets.
const SECRET_NAMES: [&str; 6] = ["token", "secret", "password", "passwd", "api-key", "apikey"];

/// Masks the queries of URLs, and the secrets in `command` and `args`, at any depth.
pub(crate) fn mask(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            for (key, entry) in entries {
                if let ("command" | "args", Value::Array(arguments)) = (key.as_str(), &mut *entry) {
                    mask_arguments(arguments);
                }
                mask(entry);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) if text.starts_with("http://") || text.starts_with("https://") => {
            if let Cow::Owned(masked) = without_query_values(text) {
                *text = masked;
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Masks `--token=VALUE` and the argument behind `--token`.
fn mask_arguments(arguments: &mut [Value]) {
    let mut is_secret = false;
    for argument in arguments {
        let Value::String(text) = argument else { continue };
        if std::mem::take(&mut is_secret) && !text.starts_with('-') {
            MASK.clone_into(text);
            continue;
        }
        let (name, value) = text.split_once('=').map_or((&**text, None), |(name, value)| (name, Some(value)));
        if has_secret_name(name) {
            match value {
                Some(_) => *text = format!("{name}={MASK}"),
                None => is_secret = name.starts_with('-'),
            }
        }
    }
}

fn has_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Masks the value of each parameter in a URL's query. Any may be a key.
pub(crate) fn without_query_values(text: &str) -> Cow<'_, str> {
    let Some((address, query)) = text.split_once('?') else { return text.into() };
    let masked = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, value)) if !value.is_empty() => format!("{name}={MASK}"),
        _ => parameter.to_owned(),
    });
    format!("{address}?{}", masked.collect::<Vec<_>>().join("&")).into()
}

/// Collects what masks stand for: `masked` is made of `plain`, which has the values.
pub(crate) fn hidden(masked: &Value, plain: &Value, found: &mut Vec<String>) {
    match (masked, plain) {
        (Value::Object(masked), Value::Object(plain)) => {
            for (key, entry) in masked {
                if let Some(plain) = plain.get(key) {
                    hidden(entry, plain, found);
                }
            }
        }
        (Value::Array(masked), Value::Array(plain)) => {
            masked.iter().zip(plain).for_each(|(masked, plain)| hidden(masked, plain, found));
        }
        (Value::String(masked), Value::String(plain)) if masked != plain => {
            hidden_parts(masked, plain, found);
        }
        _ => {}
    }
}

/// Collects the parts of a text that masks stand for. Where the rest of the text differs, all of it.
fn hidden_parts(masked: &str, plain: &str, found: &mut Vec<String>) {
    let known = found.len();
    let mut pieces = masked.split(MASK);
    let mut rest = pieces.next().and_then(|first| plain.strip_prefix(first));
    let mut parts = Vec::new();
    for piece in pieces {
        let next = match (rest, piece) {
            (Some(text), "") => Some((text, "")),
            (Some(text), piece) => text.split_once(piece),
            (None, _) => None,
        };
        rest = next.map(|(part, after)| {
            parts.push(part.to_owned());
            after
        });
    }
    match rest {
        Some("") => found.extend(parts),
        _ => found.push(plain.to_owned()),
    }
    // A client shows `Authorization` without its scheme.
    let new = found.iter().skip(known).filter_map(|value| value.split_once(' '));
    let tokens: Vec<_> = new.filter(|(_, token)| !token.contains(' ')).map(|(_, it)| it.to_owned()).collect();
    found.extend(tokens);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_masks_stand_for_is_found_at_any_depth() {
        let plain = json!({
            "headers": {"Authorization": "Bearer t0p-secret"}, "key": "k3y",
            "list": [{"url": "https://a.example/mcp?a=one&b=two"}, {"url": "https://a.example"}],
        });
        let masked = json!({
            "headers": {"Authorization": "***"}, "key": "***", "default": true,
            "list": [{"url": "https://a.example/mcp?a=***&b=***"}, {"url": "https://a.example"}],
        });
        let mut found = Vec::new();
        hidden(&masked, &plain, &mut found);
        found.sort();
        found.dedup();
        assert_eq!(found, ["Bearer t0p-secret", "k3y", "one", "t0p-secret", "two"]);
    }

    #[test]
    fn tokens_in_urls_and_arguments_are_masked_and_nothing_else_is() {
        let mut value = json!({"backends": [
            {"url": "https://example.com/mcp?api_key=t0p&debug&empty="},
            {"url": "https://example.com/mcp", "note": "why? a=b"},
            {"command": ["npx", "server", "--api-key", "t0p", "--access-token=t0p", "--root", "/srv"]},
            {"command": "server", "args": ["--password", "--verbose", "API_TOKEN=t0p", "a=b", "token"]},
        ]});
        mask(&mut value);
        let expected = json!({"backends": [
            {"url": "https://example.com/mcp?api_key=***&debug&empty="},
            {"url": "https://example.com/mcp", "note": "why? a=b"},
            {"command": ["npx", "server", "--api-key", "***", "--access-token=***", "--root", "/srv"]},
            {"command": "server", "args": ["--password", "--verbose", "API_TOKEN=***", "a=b", "token"]},
        ]});
        assert_eq!(value, expected);
    }
}
