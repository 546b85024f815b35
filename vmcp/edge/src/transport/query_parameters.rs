//! Parameters of a query string.

use std::borrow::Cow;

use url::form_urlencoded;

/// Yields the parameters, trimmed; an empty one counts as absent. An error names a parameter of more than
/// `max_chars` characters.
pub(crate) fn query_parameters(
    query: &str,
    max_chars: usize,
) -> impl Iterator<Item = Result<(Cow<'_, str>, String), String>> {
    form_urlencoded::parse(query.as_bytes()).filter_map(move |(name, value)| {
        let value = value.trim();
        if value.chars().count() > max_chars {
            return Some(Err(format!("{name} has more than {max_chars} characters")));
        }
        (!value.is_empty()).then(|| Ok((name, value.to_owned())))
    })
}

/// Reads the parameter `limit`.
pub(crate) fn limit(value: &str) -> Result<usize, String> {
    let limit = value.parse().ok().filter(|limit| *limit > 0);
    limit.ok_or_else(|| "limit is no whole number above 0".to_owned())
}
