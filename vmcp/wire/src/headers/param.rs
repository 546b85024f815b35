//! [`ParamHeader`]: a tool argument that is repeated in a `Mcp-Param-*` header, as an `x-mcp-header`
//! annotation asks; the headers are built for backends and compared with what a client sent.
//!
//! The annotations are found by `vmcp-model`, when it reads a definition.

use std::borrow::Cow;

use vmcp_json::object::{Object, ObjectError};
use vmcp_json::text;

use super::{HeaderSource, PARAM_PREFIX, decoded, encode, mismatch};
use crate::message::codes;
use crate::message::rpc::Refusal;

/// The largest integer that may be repeated, 2^53 − 1.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// A tool argument that is repeated in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The header's name behind `Mcp-Param-`, as the schema spells it: an HTTP token.
    pub name: String,
    /// The property names that lead to the argument, from the outermost inwards.
    pub path: Vec<String>,
}

impl ParamHeader {
    fn header(&self) -> String {
        format!("{PARAM_PREFIX}{}", self.name.to_ascii_lowercase())
    }
}

/// Checks the `Mcp-Param-*` headers of a call against its arguments: each annotated argument that is given
/// must be repeated, one that is absent must not. Headers of other names are ignored.
pub fn check_param_headers<H>(
    headers: &H,
    annotations: &[ParamHeader],
    arguments: Option<&str>,
) -> Result<(), Refusal>
where
    H: HeaderSource + ?Sized,
{
    for annotation in annotations {
        let name = annotation.header();
        let header = decoded(headers, &name)?;
        let body = argument(arguments, &annotation.path)
            .map_err(|error| Refusal::new(codes::INVALID_PARAMS, format!("`params.arguments`: {error}")))?;
        let is_number = body.is_some_and(|body| !body.starts_with('"'));
        match (header, body.and_then(as_text)) {
            (None, None) => {}
            (Some(header), Some(body)) if header == body || is_number && same_integer(&header, &body) => {}
            (Some(header), Some(body)) => {
                return Err(mismatch(format!("header {name} `{header}`, argument `{body}`")));
            }
            (Some(_), None) => {
                return Err(mismatch(format!("header {name} repeats an argument that is not given")));
            }
            (None, Some(_)) => return Err(mismatch(format!("header {name} is missing"))),
        }
    }
    Ok(())
}

/// Builds the `Mcp-Param-*` headers of a call to a modern backend. An argument that is absent, null or of a
/// type that cannot be repeated has none.
#[must_use]
pub fn build_param_headers(annotations: &[ParamHeader], arguments: Option<&str>) -> Vec<(String, String)> {
    let header = |annotation: &ParamHeader| {
        let text = as_text(argument(arguments, &annotation.path).ok()??)?;
        Some((annotation.header(), encode(&text).into_owned()))
    };
    annotations.iter().filter_map(header).collect()
}

/// Returns the argument at `path`, as JSON. An object with a repeated key is an error: it has no single
/// answer.
fn argument<'a>(arguments: Option<&'a str>, path: &[String]) -> Result<Option<&'a str>, ObjectError> {
    let (Some(mut value), Some((last, parents))) = (arguments, path.split_last()) else { return Ok(None) };
    for key in parents {
        match object(value)?.and_then(|object| object.text(key)) {
            Some(inner) => value = inner,
            None => return Ok(None),
        }
    }
    Ok(object(value)?.and_then(|object| object.text(last)))
}

/// Reads an object; any other value has no properties. The check against the schema is done elsewhere.
fn object(value: &str) -> Result<Option<Object<'_>>, ObjectError> {
    if text::is_object(value) { Object::parse_valid(value).map(Some) } else { Ok(None) }
}

/// Returns the text of a string, an integer in decimal, a boolean; `None` for any other value.
fn as_text(value: &str) -> Option<Cow<'_, str>> {
    match value {
        text if text.starts_with('"') => text::unquoted(value),
        text @ ("true" | "false") => Some(Cow::Borrowed(text)),
        text => Some(Cow::Owned(integer(text)?.to_string())),
    }
}

/// Reads an integer in any spelling of JSON: `42`, `42.0`, `4.2e1`.
fn integer(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| {
        let number = text.parse::<f64>().ok()?;
        (number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER).then_some(number as i64)
    })
}

/// Compares integers as numbers, so that `42.0` equals `42`.
fn same_integer(header: &str, body: &str) -> bool {
    integer(header).is_some_and(|header| integer(body) == Some(header))
}
