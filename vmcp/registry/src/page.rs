//! [`Page`]: entries of one answer of the API, or of a file.

use serde_json::Value;

use crate::entry::{Finding, ServerEntry};

/// Most entries of one document; a larger one is refused.
pub const MAX_ENTRIES: usize = 100_000;

/// Entries of one document.
#[derive(Debug, Default)]
pub struct Page {
    /// Entries, in the order of the document.
    pub entries: Vec<ServerEntry>,
    /// Reasons for the entries that cannot be read.
    pub skipped: Vec<Finding>,
    /// Cursor of the next page.
    pub next_cursor: Option<String>,
}

/// Reason why a document holds no entries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The text cannot be parsed as JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// The document has none of the known shapes.
    #[error("no list of servers: expected `servers`, a list of server.json documents, or one of them")]
    Shape,
    /// The document has more than [`MAX_ENTRIES`].
    #[error("{0} servers; at most {MAX_ENTRIES} are read")]
    TooMany(usize),
}

impl Page {
    /// Reads an answer of `GET /v0.1/servers`, a list of entries, or one `server.json`.
    ///
    /// # Examples
    ///
    /// ```
    /// use vmcp_registry::page::Page;
    ///
    /// let page = Page::parse(r#"{"servers": [{"name": "a.b/c", "version": "1"}, 7], "metadata": {"nextCursor": "x"}}"#)?;
    /// assert_eq!((page.entries.len(), page.skipped.len()), (1, 1));
    /// assert_eq!(page.next_cursor.as_deref(), Some("x"));
    /// # Ok::<(), vmcp_registry::page::PageError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Page, PageError> {
        let document: Value =
            serde_json::from_str(text).map_err(|error| PageError::Json(error.to_string()))?;
        let items = match &document {
            Value::Array(items) => items.as_slice(),
            Value::Object(object) => match object.get("servers") {
                Some(Value::Array(items)) => items.as_slice(),
                // `"servers": null` is how Go writes an empty list.
                Some(Value::Null) => &[],
                None if object.contains_key("name") || object.contains_key("server") => {
                    std::slice::from_ref(&document)
                }
                Some(_) | None => return Err(PageError::Shape),
            },
            _ => return Err(PageError::Shape),
        };
        if items.len() > MAX_ENTRIES {
            return Err(PageError::TooMany(items.len()));
        }
        let mut page = Page { next_cursor: next_cursor(&document), ..Page::default() };
        for (index, item) in items.iter().enumerate() {
            match ServerEntry::read(item) {
                Ok(entry) => page.entries.push(entry),
                Err(finding) => {
                    let path = format!("servers[{index}].{}", finding.path);
                    page.skipped.push(Finding { path, ..finding });
                }
            }
        }
        Ok(page)
    }
}

fn next_cursor(document: &Value) -> Option<String> {
    let metadata = document.get("metadata")?;
    let cursor = metadata.get("nextCursor").or_else(|| metadata.get("next_cursor"))?.as_str()?;
    (!cursor.is_empty()).then(|| cursor.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryStatus;

    #[test]
    fn a_publisher_does_not_overrule_the_registry() {
        let page = Page::parse(
            r#"[{"server": {"name": "a.b/c", "version": "1", "status": "active"},
                 "_meta": {"io.modelcontextprotocol.registry/official": {"status": "deleted"}}}]"#,
        )
        .unwrap();
        assert_eq!(page.entries[0].status, EntryStatus::Deleted);
    }

    #[test]
    fn every_schema_of_the_registry_is_read() {
        let page = Page::parse(
            r#"{"servers": [
                {"server": {"name": "com.example/new", "description": " The\nweather ", "version": "1.0.0",
                    "packages": [{"registryType": "npm", "identifier": "w", "version": "1.0.0",
                        "transport": {"type": "stdio"}, "environmentVariables": [{"name": "KEY", "isSecret": true}]}]},
                 "_meta": {"io.modelcontextprotocol.registry/official": {"status": "deprecated", "isLatest": false}}},
                {"name": "com.example/old", "description": "x", "version_detail": {"version": "2.0.0"},
                 "packages": [{"registry_type": "pypi", "identifier": "w", "version": "1.0",
                        "environment_variables": [{"name": "KEY", "is_required": true}]}],
                 "remotes": [{"transport_type": "sse", "url": "https://example.com/sse"}]}
            ], "metadata": {"next_cursor": "c"}}"#,
        )
        .unwrap();
        let [new, old] = page.entries.as_slice() else { panic!("{page:?}") };
        assert_eq!(
            (new.description.as_str(), new.status, new.is_latest),
            ("The weather", EntryStatus::Deprecated, Some(false))
        );
        assert!(new.packages[0].environment[0].input.is_secret && new.findings.is_empty(), "{new:?}");
        assert_eq!((old.version.as_str(), old.remotes[0].transport.as_str()), ("2.0.0", "sse"));
        assert!(old.packages[0].environment[0].input.is_required && old.packages[0].transport == "stdio");
        assert_eq!(page.next_cursor.as_deref(), Some("c"));
    }

    #[test]
    fn a_faulty_entry_costs_itself_and_a_faulty_field_is_named() {
        let page = Page::parse(
            r#"[{"name": "no-slash", "version": "1"}, {"name": "a.b/c"}, "text",
                {"name": "a.b/d", "version": "1", "packages": [{"identifier": "x"}, 3], "title": "t\u0007"}]"#,
        )
        .unwrap();
        let skipped: Vec<_> = page.skipped.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(skipped, ["servers[0].name", "servers[1].version", "servers[2].server"]);
        let findings: Vec<_> = page.entries[0].findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            findings,
            ["packages[1]: not an object", "packages[0]: `registryType` or `identifier` is missing"]
        );
        assert!(matches!(Page::parse("[1"), Err(PageError::Json(_))));
        assert_eq!(Page::parse("{}").unwrap_err(), PageError::Shape);
        assert!(Page::parse(r#"{"servers": null}"#).unwrap().entries.is_empty());
    }
}
