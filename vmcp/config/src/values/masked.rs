//! Masks of secrets within other values: a token in the query of a URL or in an argument.

use std::borrow::Cow;

use serde_json::Value;

use crate::references::secret_signs::{has_token_prefix, is_option, looks_secret, password_of_url};
use crate::values::redaction::{is_secret_setting, without_secrets};
use crate::values::secret::MASK;

/// Parts of the names of arguments whose values are secrets, numbers too.
const SECRET_NAMES: [&str; 6] = ["token", "secret", "password", "passwd", "api-key", "apikey"];
/// Last words of names whose values describe a secret, and are shown.
const KINDS: [&str; 10] =
    ["type", "mode", "method", "policy", "scheme", "provider", "url", "uri", "endpoint", "enabled"];
/// Schemes of URLs whose queries are masked.
const WEB: [&str; 4] = ["http://", "https://", "ws://", "wss://"];

/// Masks the queries and passwords of URLs, and the secrets in `command` and `args`, at any depth.
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
        Value::String(text) => {
            if let Some(masked) = without_password(text) {
                *text = masked;
            }
            // Of `--url=https://…`, the URL.
            let begin = text.split_once('=').filter(|(name, _)| is_option(name));
            let begin = begin.map_or(0, |(name, _)| name.len() + 1);
            let (option, url) = text.split_at_checked(begin).unwrap_or(("", text.as_str()));
            if WEB.iter().any(|scheme| url.starts_with(scheme))
                && let Cow::Owned(masked) = without_query_values(url)
            {
                *text = format!("{option}{masked}");
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Masks `--token=VALUE` and the argument behind `--token`, headers such as `Authorization: VALUE`, the
/// passwords of URLs and of connection strings, and what looks like a token.
fn mask_arguments(arguments: &mut [Value]) {
    let mut option = String::new();
    for argument in arguments {
        let Value::String(text) = argument else { continue };
        let before = std::mem::take(&mut option);
        if !before.is_empty() && !text.starts_with('-') && is_secret(&before, text) {
            MASK.clone_into(text);
        } else if let Some(masked) = masked_argument(text) {
            *text = masked;
        } else if text.starts_with('-') && !text.contains('=') {
            option.clone_from(text);
        }
    }
}

/// Returns an argument with its secret masked; `None` if it has none.
fn masked_argument(text: &str) -> Option<String> {
    let option = text.split_once('=').filter(|(_, value)| !value.is_empty());
    let of_option = option.and_then(|(name, value)| {
        if is_secret(name, value) {
            return Some(format!("{name}={MASK}"));
        }
        Some(format!("{name}={}", masked_part(value)?))
    });
    let masked = masked_part(text).or(of_option);
    masked.or_else(|| is_token(text).then(|| MASK.to_owned())).or_else(|| {
        let (name, value) = option?;
        if is_token(value) {
            return Some(format!("{name}={MASK}"));
        }
        // A variable behind an option: `--env=API_TOKEN=x`.
        let (variable, secret) = value.split_once('=')?;
        let is_hidden = !secret.is_empty() && is_option(variable) && is_secret(variable, secret);
        is_hidden.then(|| format!("{name}={variable}={MASK}"))
    })
}

/// Returns true for a text that looks like a token. Words joined by signs, with a date or a version, are the
/// name of a package or a model.
fn is_token(text: &str) -> bool {
    let is_words = text.contains(['-', '_']) && !text.ends_with('=') && !text.contains([';', ' ']);
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    has_token_prefix(text) || looks_secret(text) && (is_hex || !is_words)
}

/// Returns a URL, a header as `Name: value`, or JSON, with its secret masked; `None` for another text.
fn masked_part(text: &str) -> Option<String> {
    if let Some(masked) = without_password(text) {
        return Some(masked);
    }
    if text.starts_with(['{', '[']) {
        let masked = without_secrets(text);
        return (masked != text).then_some(masked);
    }
    let (name, value) = text.split_once(':')?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let is_header = is_name && !value.trim().is_empty() && is_secret(name, value.trim());
    let gap = if value.starts_with(' ') { " " } else { "" };
    is_header.then(|| format!("{name}:{gap}{MASK}"))
}

/// Returns true for a value behind the name of a secret.
fn is_secret(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase().replace('_', "-");
    let is_kind = lower.rsplit('-').next().is_some_and(|word| KINDS.contains(&word));
    SECRET_NAMES.iter().any(|part| lower.contains(part)) || !is_kind && is_secret_setting(name, value)
}

/// Collects the secrets in the arguments of a program.
pub(crate) fn hidden_in_arguments(arguments: &[String]) -> Vec<String> {
    let plain: Value = arguments.iter().map(String::as_str).collect();
    let mut masked = plain.clone();
    if let Value::Array(arguments) = &mut masked {
        mask_arguments(arguments);
    }
    let mut found = Vec::new();
    hidden(&masked, &plain, &mut found);
    found
}

/// Returns a URL with its password masked; `None` if it has none.
fn without_password(text: &str) -> Option<String> {
    let (before, password, after) = password_of_url(text)?;
    (password != MASK).then(|| format!("{before}{MASK}{after}"))
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
            {"args": ["mcp-remote", "https://u:t0p@a.example/mcp", "--header", "Authorization: Bearer t0p"]},
            {"args": ["--header", "Authorization:Bearer t0p", "X-Api-Key: t0p", "Accept: text/plain"]},
            {"args": ["--header=Authorization: Basic dDBwOnQwcA=="]},
            {"args": ["--db=redis://:t0p@db", "--auth-type=oauth2"]},
            {"args": ["--auth", "t0p", "--pat=t0p", "--key-file", "/etc/key", "--api-key", "7"]},
            {"args": ["postgres://app:t0p@db/x", "Server=x;Password=t0p"]},
            {"args": ["ghp_t0pt0pt0pt0p", "a1b2c3d4e5f6a1b2c3d4e5f6"]},
            {"args": ["claude-3-5-sonnet-20241022", "@scope/server@1.2.3", "auth:/data", "sha256:0123"]},
            {"args": ["--model=claude-3-5-sonnet-20241022", "--x=ghp_t0pt0pt0pt0p", "--env=API_TOKEN=t0p"]},
            {"args": ["--url=https://a.example/mcp?key=t0p"]},
            {"args": ["--config", "{\"apiKey\":\"t0p\",\"port\":8080}", "--y=0a1b2c3d-4e5f-0a1b-2c3d-4e5f"]},
            {"url": "wss://a.example/mcp?key=t0p", "address": "redis://:t0p@cache:6379"},
        ]});
        mask(&mut value);
        let expected = json!({"backends": [
            {"url": "https://example.com/mcp?api_key=***&debug&empty="},
            {"url": "https://example.com/mcp", "note": "why? a=b"},
            {"command": ["npx", "server", "--api-key", "***", "--access-token=***", "--root", "/srv"]},
            {"command": "server", "args": ["--password", "--verbose", "API_TOKEN=***", "a=b", "token"]},
            {"args": ["mcp-remote", "https://u:***@a.example/mcp", "--header", "Authorization: ***"]},
            {"args": ["--header", "Authorization:***", "X-Api-Key: ***", "Accept: text/plain"]},
            {"args": ["--header=Authorization: ***"]},
            {"args": ["--db=redis://:***@db", "--auth-type=oauth2"]},
            {"args": ["--auth", "***", "--pat=***", "--key-file", "/etc/key", "--api-key", "***"]},
            {"args": ["postgres://app:***@db/x", "***"]},
            {"args": ["***", "***"]},
            {"args": ["claude-3-5-sonnet-20241022", "@scope/server@1.2.3", "auth:/data", "sha256:0123"]},
            {"args": ["--model=claude-3-5-sonnet-20241022", "--x=***", "--env=API_TOKEN=***"]},
            {"args": ["--url=https://a.example/mcp?key=***"]},
            {"args": ["--config", "{\"apiKey\":\"***\",\"port\":8080}", "--y=***"]},
            {"url": "wss://a.example/mcp?key=***", "address": "redis://:***@cache:6379"},
        ]});
        assert_eq!(value, expected);
    }
}
