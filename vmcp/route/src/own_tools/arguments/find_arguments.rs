//! Arguments of find_tool: parses and checks them.

use serde::Deserialize;
use serde_json::value::RawValue;
use vmcp_config::Limits;
use vmcp_engine::optim::definitions::MAX_FOUND_TOOLS;

use super::input::{InputError, at_most_chars, count, given, lenient, string};

/// Length of each tool in an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Detail {
    /// Names, servers and scores.
    Names,
    /// Also the first sentence of the description, and the names and types of the parameters.
    Summary,
    /// Everything.
    #[default]
    Full,
    /// Signatures in Python, for scripts.
    Signatures,
}

/// Parsed arguments of find_tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FindArguments {
    /// Task that the tool should do, in plain words.
    pub(crate) description: String,
    /// Terms separated by blanks; empty when none were given.
    pub(crate) keywords: String,
    /// Most tools to return; the configured number when absent.
    pub(crate) limit: Option<usize>,
    /// Adds an explanation of the ranking to the answer.
    pub(crate) explain: bool,
    /// Length of each tool in the answer.
    pub(crate) detail: Detail,
    /// The context of the search.
    pub(crate) context: Option<String>,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    tool_description: Option<&'a RawValue>,
    /// Name of the description in the tools of others.
    #[serde(borrow)]
    query: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_keywords: Option<&'a RawValue>,
    #[serde(borrow)]
    limit: Option<&'a RawValue>,
    #[serde(borrow)]
    explain: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
    #[serde(borrow)]
    context_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Keywords {
    Joined(String),
    List(Vec<String>),
}

impl FindArguments {
    /// Reads and checks the arguments; unknown fields are ignored.
    pub(crate) fn parse(arguments: &RawValue, limits: &Limits) -> Result<FindArguments, InputError> {
        let fields: Fields<'_> = serde_json::from_str(arguments.get())
            .map_err(|error| InputError::Unreadable(error.to_string()))?;
        let description = match given(fields.tool_description).or(given(fields.query)) {
            Some(value) => string("tool_description", value)?,
            None => String::new(),
        };
        at_most_chars("tool_description", &description, limits.description_chars)?;
        if description.trim().is_empty() {
            return Err(InputError::Missing("tool_description"));
        }
        let keywords =
            given(fields.tool_keywords).map(|value| keywords(value, limits)).transpose()?.unwrap_or_default();
        let limit = count("limit", fields.limit, MAX_FOUND_TOOLS)?;
        let explain = given(fields.explain).map(|value| lenient("explain", value, "true or false"));
        let detail =
            given(fields.detail).map(|value| lenient("detail", value, "names, summary, full or signatures"));
        let (explain, detail) =
            (explain.transpose()?.unwrap_or_default(), detail.transpose()?.unwrap_or_default());
        let context = given(fields.context_id).map(|value| string("context_id", value)).transpose()?;
        Ok(FindArguments { description, keywords, limit, explain, detail, context })
    }
}

fn keywords(value: &RawValue, limits: &Limits) -> Result<String, InputError> {
    const FIELD: &str = "tool_keywords";
    let parsed: Keywords = serde_json::from_str(value.get()).map_err(|_| {
        InputError::invalid(FIELD, "a string of terms separated by blanks, or an array of strings")
    })?;
    let joined = match parsed {
        // A list that was written as text.
        Keywords::Joined(text) if text.trim_start().starts_with('[') => {
            serde_json::from_str::<Vec<String>>(&text).map_or(text, |terms| terms.join(" "))
        }
        Keywords::Joined(text) => text,
        Keywords::List(terms) => terms.join(" "),
    };
    at_most_chars(FIELD, &joined, limits.keywords_chars)?;
    match joined.split_whitespace().count() {
        actual if actual > limits.keywords_terms => {
            Err(InputError::TooLong { field: FIELD, actual, limit: limits.keywords_terms, unit: "terms" })
        }
        _ => Ok(joined),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<FindArguments, String> {
        let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
        FindArguments::parse(&raw, &Limits::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn keywords_are_a_string_or_an_array() {
        let joined = parse(r#"{"tool_description":"d","tool_keywords":"sprint agile"}"#).unwrap();
        let list = parse(r#"{"tool_description":"d","tool_keywords":["sprint","agile"]}"#).unwrap();
        assert_eq!(joined, list);
        assert_eq!(joined.keywords, "sprint agile");
    }

    #[test]
    fn what_models_send_is_understood() {
        let plain = parse(r#"{"tool_description":"d","limit":3,"explain":true,"detail":"names"}"#);
        for sent in [
            r#"{"query":"d","limit":"3","explain":"true","detail":"Names"}"#,
            r#"{"tool_description":"","query":"d","limit":3.0,"explain":1,"detail":" names "}"#,
        ] {
            assert_eq!(parse(sent), plain, "{sent}");
        }
        let most = parse(r#"{"query":"d","limit":100}"#).unwrap();
        assert_eq!(most.limit, Some(MAX_FOUND_TOOLS));
        let list = parse(r#"{"query":"d","tool_keywords":"[\"a\", \"b\"]"}"#).unwrap();
        assert_eq!(list.keywords, "a b");
    }

    #[test]
    fn null_is_absent_and_unknown_fields_are_ignored() {
        let plain = parse(r#"{"tool_description":"d"}"#);
        let nulls = r#"{"tool_description":"d","tool_keywords":null,"limit":null,"explain":null,"detail":null,"other":[1]}"#;
        assert_eq!(parse(nulls), plain);
        let blank = r#"{"tool_description":"d","tool_keywords":"","limit":0,"explain":"","detail":"","context_id":" "}"#;
        assert_eq!(parse(blank), plain);
    }

    #[test]
    fn every_mistake_names_its_field_and_limit() {
        let long = |count: usize| "x".repeat(count);
        let terms = vec!["t"; 51].join(" ");
        for (json, message) in [
            ("[]".to_owned(), "arguments must be a JSON object"),
            ("{}".to_owned(), "tool_description is required"),
            (r#"{"tool_description":" \n"}"#.to_owned(), "tool_description is required"),
            (r#"{"tool_description":7}"#.to_owned(), "tool_description must be a string"),
            (
                format!(r#"{{"tool_description":"{}"}}"#, long(2001)),
                "tool_description is too long: 2001 characters, the limit is 2000",
            ),
            (
                r#"{"tool_description":"d","limit":"all"}"#.to_owned(),
                "limit must be a whole number from 1 to 50",
            ),
            (r#"{"tool_description":"d","explain":"yes"}"#.to_owned(), "explain must be true or false"),
            (
                r#"{"tool_description":"d","detail":"all"}"#.to_owned(),
                "detail must be names, summary, full or signatures",
            ),
            (
                r#"{"tool_description":"d","tool_keywords":{}}"#.to_owned(),
                "tool_keywords must be a string of terms",
            ),
            (
                format!(r#"{{"tool_description":"d","tool_keywords":"{}"}}"#, long(501)),
                "tool_keywords is too long: 501 characters, the limit is 500",
            ),
            (
                format!(r#"{{"tool_description":"d","tool_keywords":"{terms}"}}"#),
                "tool_keywords is too long: 51 terms, the limit is 50",
            ),
            (
                r#"{"tool_description":"a","tool_description":"b"}"#.to_owned(),
                "arguments must be a JSON object",
            ),
        ] {
            let error = parse(&json).unwrap_err();
            assert!(error.starts_with(message), "{json}: {error}");
        }
    }
}
