//! [`List`]: the four lists of the protocol; [`Page`] reads a page of a backend, [`head`] and [`tail`] write
//! one of vmcp from raw entries.

use std::borrow::Cow;

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

/// One page of a backend's list.
#[derive(Debug, Clone)]
pub struct Page<'a> {
    /// The entries, each as it was sent.
    pub entries: Vec<&'a RawValue>,
    /// The cursor of the next page; `None` on the last one. An empty string is a cursor, too.
    pub next_cursor: Option<Cow<'a, str>>,
}

/// The reason why a page cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The result cannot be read as an object.
    #[error("list result: {0}")]
    Result(#[from] ObjectError),
    /// The entries are no array.
    #[error("list result: `{0}` must be an array")]
    Entries(&'static str),
    /// The cursor is no string.
    #[error("list result: `nextCursor` must be a string")]
    Cursor,
}

impl<'a> Page<'a> {
    /// Reads the result of a list request.
    pub fn parse(list: List, result: &'a RawValue) -> Result<Self, PageError> {
        let result = Object::parse(result)?;
        let entries = result.text(list.key()).ok_or(PageError::Entries(list.key()))?;
        let entries = serde_json::from_str(entries).map_err(|_| PageError::Entries(list.key()))?;
        let next_cursor = match result.text("nextCursor").filter(|cursor| *cursor != "null") {
            Some(cursor) => Some(text::unquoted(cursor).ok_or(PageError::Cursor)?),
            None => None,
        };
        Ok(Self { entries, next_cursor })
    }
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
        assert_eq!(page.next_cursor.as_deref(), Some("c\""));

        let modern =
            PageFrame { era: Era::Modern, server_info: Some(r#"{"name":"v"}"#), ..PageFrame::default() };
        assert_eq!(
            head(List::ResourceTemplates, []) + &tail(&modern),
            r#"{"resourceTemplates":[],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"v"}}}"#
        );
    }

    #[test]
    fn bad_pages_say_what_is_wrong() {
        let parse = |text: &str| {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            Page::parse(List::Prompts, &raw)
                .map(|page| (page.entries.len(), page.next_cursor.map(Cow::into_owned)))
        };
        assert_eq!(parse(r#"{"prompts":[],"nextCursor":""}"#), Ok((0, Some(String::new()))));
        assert_eq!(parse(r#"{"prompts":[1,2],"nextCursor":null}"#), Ok((2, None)));
        assert_eq!(parse(r#"{"prompts":{}}"#), Err(PageError::Entries("prompts")));
        assert_eq!(parse("{}"), Err(PageError::Entries("prompts")));
        assert_eq!(parse(r#"{"prompts":[],"nextCursor":3}"#), Err(PageError::Cursor));
        assert_eq!(parse("[]"), Err(PageError::Result(ObjectError::NotAnObject)));
    }
}
