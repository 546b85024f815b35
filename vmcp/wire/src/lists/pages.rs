//! [`List`]: the four lists of the protocol; [`Page`] reads a page of a backend, [`head`] and [`tail`] write
//! one of vmcp from raw entries.

use serde_json::value::RawValue;
use vmcp_json::object::{Object, ObjectError};
use vmcp_json::text;

use crate::message::era::Era;
use crate::message::methods;
use crate::translate::Hints;

/// The lists of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum List {
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    ResourceTemplates,
}

impl List {
    /// All lists.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::ResourceTemplates];

    /// Returns the list that a method asks for.
    #[must_use]
    pub fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.method() == method)
    }

    /// Returns the method that asks for the list.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => methods::TOOLS_LIST,
            Self::Prompts => methods::PROMPTS_LIST,
            Self::Resources => methods::RESOURCES_LIST,
            Self::ResourceTemplates => methods::TEMPLATES_LIST,
        }
    }

    /// Returns the key of the entries in a result.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
        }
    }

    /// Returns the server capability that a list belongs to.
    #[must_use]
    pub fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::ResourceTemplates => "resources",
        }
    }

    /// Returns the byte that stands for the list in cursors. Never reuse a value: clients hold old cursors.
    pub(crate) fn tag(self) -> u8 {
        match self {
            Self::Tools => b't',
            Self::Prompts => b'p',
            Self::Resources => b'r',
            Self::ResourceTemplates => b'u',
        }
    }
}

/// One page of a backend's list. Absent parts have many spellings in the field: Go writes a nil slice as
/// `null`, PHP an empty object as `[]`.
#[derive(Debug, Clone)]
pub struct Page<'a> {
    /// The entries, each as it was sent; entries that are `null` are left out.
    pub entries: Vec<&'a RawValue>,
    /// The cursor of the next page as JSON: a string, or a number as some servers write it. `None` on the
    /// last page. An empty string is a cursor, too. A cursor of another type costs the pages behind this one.
    pub next_cursor: Result<Option<&'a str>, PageError>,
}

/// The reason why a page, or its cursor, cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The result cannot be read as an object.
    #[error("list result: {0}")]
    Result(#[from] ObjectError),
    /// The entries are not an array.
    #[error("list result: `{0}` must be an array")]
    Entries(&'static str),
    /// The cursor is neither a string nor a number.
    #[error("list result: `nextCursor` must be a string")]
    Cursor,
}

impl<'a> Page<'a> {
    /// Reads the result of a list request. A result or a list that is `null`, `{}` or `[]` has no entries.
    pub fn parse(list: List, result: &'a RawValue) -> Result<Self, PageError> {
        if is_absent(result.get()) {
            return Ok(Self { entries: Vec::new(), next_cursor: Ok(None) });
        }
        let result = Object::parse(result)?;
        let entries: Vec<&RawValue> = match result.text(list.key()).filter(|entries| !is_absent(entries)) {
            Some(entries) => serde_json::from_str(entries).map_err(|_| PageError::Entries(list.key()))?,
            None => Vec::new(),
        };
        let next_cursor = match result.text("nextCursor") {
            None | Some("null" | "false") => Ok(None),
            Some(cursor) if is_cursor(cursor) => Ok(Some(cursor)),
            Some(_) => Err(PageError::Cursor),
        };
        let entries = entries.into_iter().filter(|entry| entry.get() != "null").collect();
        Ok(Self { entries, next_cursor })
    }
}

/// True for `null`, `{}` and `[]`.
fn is_absent(json: &str) -> bool {
    let inside = |open, close| {
        json.strip_prefix(open)?.strip_suffix(close).map(|inside| inside.trim_ascii().is_empty())
    };
    json == "null" || inside('{', '}') == Some(true) || inside('[', ']') == Some(true)
}

fn is_cursor(json: &str) -> bool {
    json.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
}

/// Returns the result, as sent, of an answer to request `id` whose result is `null` or `[]`: no JSON-RPC
/// message of MCP, and an empty list where it answers a list request.
#[must_use]
pub fn absent_result<'a>(answer: &'a [u8], id: &str) -> Option<&'a RawValue> {
    let answer = Object::parse_str(std::str::from_utf8(answer).ok()?).ok()?;
    let error = answer.text("error").filter(|error| *error != "null");
    let is_answer = answer.text("id") == Some(id) && error.is_none();
    answer.get("result").filter(|result| is_answer && is_absent(result.get()))
}

/// The parts of a page around its entries.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageFrame<'a> {
    /// The era of the client.
    pub era: Era,
    /// The cursor of the next page, if there is one; plain text.
    pub next_cursor: Option<&'a str>,
    /// The cache hints for a modern client.
    pub hints: Hints,
    /// The `Implementation` of vmcp as JSON, for `_meta` of modern results.
    pub server_info: Option<&'a str>,
}

/// Writes the first part of the `result` of a list request, through the last entry. Each entry must be one
/// JSON value.
#[must_use]
pub fn head<'e>(list: List, entries: impl IntoIterator<Item = &'e str, IntoIter: Clone>) -> String {
    let entries = entries.into_iter();
    let length: usize = entries.clone().map(|entry| entry.len() + 1).sum();
    let mut out = String::with_capacity(list.key().len() + 6 + length);
    out.extend(["{\"", list.key(), "\":["]);
    let start = out.len();
    for entry in entries {
        if out.len() > start {
            out.push(',');
        }
        out.push_str(entry);
    }
    out.push(']');
    out
}

/// Writes the rest of the `result`, from the comma behind the entries.
#[must_use]
pub fn tail(frame: &PageFrame<'_>) -> String {
    let mut out = String::new();
    if let Some(cursor) = frame.next_cursor {
        out.push_str(",\"nextCursor\":");
        out.push_str(&text::quoted(cursor));
    }
    if frame.era == Era::Modern {
        frame.hints.write_complete(&mut out, frame.server_info);
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_ours_holds_its_entries_byte_for_byte() {
        let entries = [r#"{ "name":"a","x":1e400 }"#, r#"{"name":"b"}"#];
        let legacy = PageFrame { next_cursor: Some("c\""), ..PageFrame::default() };
        let text = head(List::Tools, entries) + &tail(&legacy);
        assert_eq!(text, r#"{"tools":[{ "name":"a","x":1e400 },{"name":"b"}],"nextCursor":"c\""}"#);
        let raw = RawValue::from_string(text).unwrap();
        let page = Page::parse(List::Tools, &raw).unwrap();
        assert_eq!(page.entries.iter().map(|entry| entry.get()).collect::<Vec<_>>(), entries);
        assert_eq!(page.next_cursor, Ok(Some(r#""c\"""#)));

        let modern =
            PageFrame { era: Era::Modern, server_info: Some(r#"{"name":"v"}"#), ..PageFrame::default() };
        assert_eq!(
            head(List::ResourceTemplates, []) + &tail(&modern),
            r#"{"resourceTemplates":[],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"v"}}}"#
        );
    }

    #[test]
    fn a_page_says_what_is_wrong_and_what_is_absent_is_not() {
        type Parsed = Result<(usize, Result<Option<String>, PageError>), PageError>;
        let parse = |text: &str| -> Parsed {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            Page::parse(List::Prompts, &raw)
                .map(|page| (page.entries.len(), page.next_cursor.map(|cursor| cursor.map(str::to_owned))))
        };
        let next = |cursor: &str| Ok(Some(cursor.to_owned()));
        assert_eq!(parse(r#"{"prompts":[],"nextCursor":""}"#), Ok((0, next(r#""""#))));
        assert_eq!(parse(r#"{"prompts":[1,null,2],"nextCursor":null}"#), Ok((2, Ok(None))));
        assert_eq!(parse(r#"{"prompts":[1],"nextCursor":3}"#), Ok((1, next("3"))));
        assert_eq!(parse(r#"{"prompts":[1],"nextCursor":false}"#), Ok((1, Ok(None))));
        for cursor in ["true", "{}", r#"["a"]"#] {
            let page = format!(r#"{{"prompts":[1],"nextCursor":{cursor}}}"#);
            assert_eq!(parse(&page), Ok((1, Err(PageError::Cursor))), "{cursor}");
        }
        for absent in ["null", "{}", "[ ]", r#"{"prompts":null}"#, r#"{"prompts":{ }}"#, r#"{"tools":[1]}"#] {
            assert_eq!(parse(absent), Ok((0, Ok(None))), "{absent}");
        }
        assert_eq!(parse(r#"{"prompts":{"a":1}}"#), Err(PageError::Entries("prompts")));
        assert_eq!(parse(r#"{"prompts":"none"}"#), Err(PageError::Entries("prompts")));
        assert_eq!(parse(r#"[{"name":"p"}]"#), Err(PageError::Result(ObjectError::NotAnObject)));
    }

    #[test]
    fn an_answer_without_a_result_is_read_for_lists_alone() {
        let absent =
            |answer: &str| absent_result(answer.as_bytes(), "7").map(|result| result.get().to_owned());
        for result in ["null", "[]"] {
            assert_eq!(absent(&format!(r#"{{"id":7,"result":{result},"error":null}}"#)), Some(result.into()));
        }
        for other in [
            r#"{"id":8,"result":null}"#,
            r#"{"id":7,"result":[1]}"#,
            r#"{"id":7}"#,
            r#"{"id":7,"result":null,"error":{"code":1}}"#,
            "[]",
        ] {
            assert_eq!(absent(other), None, "{other}");
        }
    }
}
