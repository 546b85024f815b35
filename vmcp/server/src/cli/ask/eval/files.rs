//! Reads catalogs and queries from JSON lines, plain or gzipped.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cli::console::failure::CommandFailure;

/// Maximum bytes of a line, 16 MiB; a longer line is an error.
const MAX_LINE: u64 = 16 * 1024 * 1024;

/// A line of the catalog file.
#[derive(Debug, Deserialize)]
pub(super) struct ToolLine {
    #[serde(default)]
    pub(super) server: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(default, alias = "inputSchema")]
    pub(super) input_schema: Option<Box<RawValue>>,
}

/// A tool that satisfies a need: its server and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct NeededTool(pub(super) String, pub(super) String);

impl NeededTool {
    /// Returns server and name, as hits have them.
    pub(super) fn as_pair(&self) -> (&str, &str) {
        (&self.0, &self.1)
    }
}

#[derive(Deserialize)]
struct QueryLine {
    #[serde(default)]
    id: Value,
    query: String,
    groups: Vec<Vec<NeededTool>>,
    #[serde(default)]
    failed: Vec<NeededTool>,
    #[serde(flatten)]
    rest: Value,
}

/// A query, and the tools it needs.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) keywords: String,
    /// Needs; any tool of a group satisfies it.
    pub(super) groups: Vec<Vec<NeededTool>>,
    /// In a log: tools that were called for it, and failed.
    pub(super) failed: Vec<NeededTool>,
}

/// Reads the file of the catalog.
pub(super) fn tools(path: &Path) -> Result<Vec<ToolLine>, CommandFailure> {
    lines(path)
}

/// Reads the file of queries; `field` is the path of the keywords, such as `meta.server_hint`.
pub(super) fn queries(path: &Path, field: &str) -> Result<Vec<Query>, CommandFailure> {
    let queries = lines::<QueryLine>(path)?.into_iter().enumerate().map(|(at, line)| {
        let QueryLine { id, query, groups, failed, rest } = line;
        let id = match id {
            Value::Null => format!("#{}", at + 1),
            Value::String(id) => id,
            other => other.to_string(),
        };
        Query { id, text: query, keywords: keywords(&rest, field), groups, failed }
    });
    Ok(queries.collect())
}

/// Returns the string, or the joined strings, at a path; empty without any.
fn keywords(line: &Value, field: &str) -> String {
    let found = field.split('.').try_fold(line, |value, key| value.get(key));
    match found {
        Some(Value::String(terms)) => terms.clone(),
        Some(Value::Array(terms)) => terms.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}

fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, CommandFailure> {
    let failed = |reason: String| CommandFailure::new(format!("{}: {reason}", path.display()));
    let mut file = BufReader::new(File::open(path).map_err(|error| failed(error.to_string()))?);
    let zipped = file.fill_buf().map_err(|error| failed(error.to_string()))?.starts_with(&[0x1f, 0x8b]);
    let mut reader: Box<dyn BufRead> =
        if zipped { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
    let mut parsed = Vec::new();
    for number in 1.. {
        let mut line = String::new();
        let failed = |reason: &dyn std::fmt::Display| failed(format!("line {number}: {reason}"));
        let read = (&mut reader).take(MAX_LINE).read_line(&mut line).map_err(|error| failed(&error))?;
        match line.trim() {
            _ if read == 0 => break,
            _ if read as u64 == MAX_LINE => return Err(failed(&format!("longer than {MAX_LINE} bytes"))),
            "" => {}
            line => parsed.push(serde_json::from_str(line).map_err(|error| failed(&error))?),
        }
    }
    if parsed.is_empty() {
        return Err(failed("there is nothing in it".to_owned()));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        file
    }

    const QUERIES: &str = concat!(
        r#"{"id":"a","query":"who follows","groups":[[["jira","watchers"],["gh","stars"]]],"meta":{"hint":"x y"}}"#,
        "\n\n",
        r#"{"query":"it","keywords":["p","q"],"groups":[[["","t"]]],"relevant":[1]}"#,
    );

    #[test]
    fn plain_and_gzipped_files_read_alike() {
        let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
        zipped.write_all(QUERIES.as_bytes()).unwrap();
        for content in [QUERIES.as_bytes().to_vec(), zipped.finish().unwrap()] {
            let file = file(&content);
            let [first, second] = queries(file.path(), "keywords").unwrap().try_into().unwrap();
            assert_eq!((first.id.as_str(), first.keywords.as_str()), ("a", ""));
            assert_eq!(first.groups[0][1].as_pair(), ("gh", "stars"));
            assert_eq!((second.id.as_str(), second.keywords.as_str()), ("#2", "p q"));
        }
        let file = file(QUERIES.as_bytes());
        assert_eq!(queries(file.path(), "meta.hint").unwrap()[0].keywords, "x y");
    }

    #[test]
    fn a_mistake_is_named_by_file_and_line() {
        let file = file(b"{\"name\":\"a\"}\n{\"nam\":\"b\"}\n");
        let message = format!("{:?}", tools(file.path()).unwrap_err());
        assert!(message.contains("line 2: missing field `name`"), "{message}");
        std::fs::write(file.path(), "\n").unwrap();
        assert!(format!("{:?}", tools(file.path()).unwrap_err()).contains("nothing in it"));
        assert!(tools(Path::new("/nowhere.jsonl")).is_err());
    }

    #[test]
    fn tools_may_lack_all_but_a_name() {
        let file = file(br#"{"name":"a","server_description":"x"}"#);
        let [tool] = tools(file.path()).unwrap().try_into().unwrap();
        assert!(tool.server.is_empty() && tool.description.is_none() && tool.input_schema.is_none());
    }
}
