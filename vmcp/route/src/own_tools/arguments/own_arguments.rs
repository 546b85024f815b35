//! [`OwnArguments`]: reads the arguments of own tools that take a few texts and numbers. Every error names
//! the field.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use vmcp_json::object::Object;

use super::input::{InputError, at_most_chars, count, given, lenient, string};

/// Names of the field that names a server.
pub(crate) const SERVER: [&str; 3] = ["server_name", "server", "backend_id"];
/// Names of the field that names a tool.
pub(crate) const TOOL: [&str; 3] = ["tool_name", "tool", "name"];
/// Longest handle of a context, in characters; a longer one is refused.
const MAX_HANDLE_CHARS: usize = 64;

/// The arguments of a call of an own tool.
#[derive(Debug)]
pub(crate) struct OwnArguments<'a>(Object<'a>);

impl<'a> OwnArguments<'a> {
    /// Parses the arguments, a JSON object.
    pub(crate) fn parse(arguments: &'a RawValue) -> Result<OwnArguments<'a>, InputError> {
        Object::parse(arguments).map(OwnArguments).map_err(|error| InputError::Unreadable(error.to_string()))
    }

    /// Returns a text of at most `limit` characters by any of its names; `None` if it is absent or blank. Two
    /// names with different values are a mistake.
    pub(crate) fn text(&self, names: &[&'static str], limit: usize) -> Result<Option<String>, InputError> {
        let mut found: Option<(&'static str, String)> = None;
        for name in names {
            let Some(value) = self.value(name) else { continue };
            let text = string(name, value)?;
            at_most_chars(name, &text, limit)?;
            match &found {
                Some((first, other)) if *other != text => {
                    return Err(InputError::Contradiction { first, second: name });
                }
                _ => found = Some((name, text)),
            }
        }
        Ok(found.map(|(_, text)| text).filter(|text| !text.trim().is_empty()))
    }

    /// As [`OwnArguments::text`], for a text that must be there.
    pub(crate) fn required(&self, names: &[&'static str], limit: usize) -> Result<String, InputError> {
        let missing = InputError::Missing(names.first().copied().unwrap_or_default());
        self.text(names, limit)?.ok_or(missing)
    }

    /// Returns the handle of a context, if the caller passes one.
    pub(crate) fn context_handle(&self) -> Result<Option<String>, InputError> {
        self.text(&["context_id"], MAX_HANDLE_CHARS)
    }

    /// Returns a number of results, at most `most`; `None` if it is absent or 0.
    pub(crate) fn count(&self, name: &'static str, most: usize) -> Result<Option<usize>, InputError> {
        count(name, self.value(name), most)
    }

    /// Returns a value that is `expected`, read leniently; `None` if it is absent.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        name: &'static str,
        expected: &str,
    ) -> Result<Option<T>, InputError> {
        let value = self.value(name);
        value.map(|value| lenient(name, value, expected)).transpose()
    }

    /// Returns a value that is `expected`, read as it is written; `None` if it is absent.
    pub(crate) fn exactly<T: DeserializeOwned>(
        &self,
        name: &'static str,
        expected: &str,
    ) -> Result<Option<T>, InputError> {
        let read = |value: &RawValue| serde_json::from_str(value.get());
        self.value(name).map(read).transpose().map_err(|_| InputError::invalid(name, expected))
    }

    /// True if there is a value that says something.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Returns a value that says something.
    fn value(&self, name: &str) -> Option<&'a RawValue> {
        given(self.0.get(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn a_text_is_found_by_each_of_its_names() {
        for json in [r#"{"server":"a"}"#, r#"{"backend_id":"a","server_name":"a"}"#] {
            let raw = raw(json);
            let arguments = OwnArguments::parse(&raw).unwrap();
            assert_eq!(arguments.text(&SERVER, 10).unwrap().as_deref(), Some("a"));
        }
        let raw = raw(r#"{"server":" ","tool":null,"limit":"3","all":"True","mode":""}"#);
        let arguments = OwnArguments::parse(&raw).unwrap();
        assert_eq!(arguments.text(&SERVER, 10).unwrap(), None);
        assert_eq!(arguments.required(&TOOL, 10).unwrap_err().to_string(), "tool_name is required");
        assert_eq!(arguments.read::<usize>("limit", "a number").unwrap(), Some(3));
        assert_eq!(arguments.count("limit", 2).unwrap(), Some(2));
        assert_eq!(arguments.read::<bool>("all", "true or false").unwrap(), Some(true));
        assert_eq!(arguments.read::<usize>("mode", "a number").unwrap(), None);
    }

    #[test]
    fn mistakes_name_their_field() {
        let error = |json: &str| {
            let raw = raw(json);
            let arguments = OwnArguments::parse(&raw);
            arguments.and_then(|arguments| arguments.text(&SERVER, 3)).unwrap_err().to_string()
        };
        assert_eq!(error(r#"{"server":7}"#), "server must be a string");
        assert_eq!(error(r#"{"server":"four"}"#), "server is too long: 4 characters, the limit is 3");
        assert!(error(r#"{"server":"a","backend_id":"b"}"#).contains("two names of one field"));
        assert!(error("[]").starts_with("arguments must be a JSON object"));
    }
}
