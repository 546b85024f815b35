//! Content that the backend serves; the clients that check answers build the same.

use std::fmt::Write as _;

use vmcp_wire::era::Era;
use vmcp_wire::meta;

/// Content of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// One text of log lines.
    Text,
    /// `structuredContent`: numbers and nested objects.
    Structured,
}

/// A tool of the backend, and the result that it returns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServedResult {
    /// Name of the tool.
    pub(crate) tool: &'static str,
    /// About the size of the result.
    pub(crate) bytes: usize,
    /// The size in words.
    pub(crate) size: &'static str,
    pub(crate) content: Content,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Results of `tools/call`.
pub(crate) const RESULTS: [ServedResult; 5] = [
    ServedResult { tool: "result_1k", bytes: KIB, size: "1 KB", content: Content::Text },
    ServedResult { tool: "result_100k", bytes: 100 * KIB, size: "100 KB", content: Content::Text },
    ServedResult { tool: "result_1m", bytes: MIB, size: "1 MB", content: Content::Text },
    ServedResult { tool: "records_100k", bytes: 100 * KIB, size: "100 KB", content: Content::Structured },
    ServedResult { tool: "records_1m", bytes: MIB, size: "1 MB", content: Content::Structured },
];
/// A large result that the backend sends slowly.
pub(crate) const SLOW_RESULT: ServedResult =
    ServedResult { tool: "slow_10m", bytes: 10 * MIB, size: "10 MB", content: Content::Text };
/// Number of the tools that are called.
pub(crate) const TOOL_COUNT: usize = RESULTS.len() + 1;
/// `serverInfo` of the backend.
pub(crate) const INFO: &str = r#"{"name":"backend","version":"1"}"#;
/// Tools on a page, as many as vmcp has on its own pages.
pub(crate) const TOOLS_PER_PAGE: usize = 1000;
/// Tools of the server that changes.
pub(crate) const CHANGING_TOOLS: usize = 20;

impl ServedResult {
    /// Returns the result as the backend sends it in this era.
    pub(crate) fn to_json(self, era: Era) -> String {
        let content = match self.content {
            Content::Text => {
                format!(r#""content":[{{"type":"text","text":"{}"}}]"#, log_lines(self.bytes))
            }
            Content::Structured => {
                let records = records(self.bytes);
                format!(
                    r#""content":[{{"type":"text","text":"see the records"}}],"structuredContent":{{"records":[{records}]}}"#
                )
            }
        };
        match era {
            Era::Legacy => format!(r#"{{{content},"isError":false}}"#),
            Era::Modern => format!(
                r#"{{"resultType":"complete",{content},"isError":false,"_meta":{{"{}":{INFO}}}}}"#,
                meta::SERVER_INFO
            ),
        }
    }
}

/// Returns about `bytes` bytes of log lines with quotes and line ends, as tools return them.
fn log_lines(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes);
    let mut line = 0;
    while text.len() + 160 < bytes {
        let _ = write!(
            text,
            r#"2026-07-28T12:00:{:02}Z INFO request {line:06} done path=/api/v1/items status=\"200\" note=grün\n"#,
            line % 60
        );
        line += 1;
    }
    while text.len() + 70 < bytes {
        text.push('.');
    }
    text
}

/// Returns about `bytes` bytes of joined records: short keys, numbers of every form, nested objects.
fn records(bytes: usize) -> String {
    let mut joined = String::with_capacity(bytes);
    let mut number = 0;
    while joined.len() + 250 < bytes {
        let _ = write!(
            joined,
            r#"{}{{"id":{number},"price":{}.25,"change":-0.00{},"volume":1.5e{},"active":{},"parent":null,"at":{{"lat":52.5{number:04},"lon":13.4{number:04}}},"tags":["a{}","b"],"counts":[{},{},{number}]}}"#,
            if number == 0 { "" } else { "," },
            number * 7,
            number % 90 + 10,
            number % 9,
            number % 2 == 0,
            number % 5,
            number % 11,
            number % 13,
        );
        number += 1;
    }
    joined
}

/// Returns a definition of about 1,080 bytes; `version` tells it from the next.
pub(crate) fn tool(number: usize, version: u64) -> String {
    let mut properties = String::new();
    for property in 0..6 {
        let _ = write!(
            properties,
            r#"{}"field_{property}":{{"type":"string","description":"Value number {property} of the record that this tool works on, as text."}}"#,
            if property == 0 { "" } else { "," }
        );
    }
    format!(
        r#"{{"name":"tool_{number:05}","title":"Tool {number}","description":"Works on records of kind {number}, version {version}: finds them by their fields, checks what was given, writes what changed and answers with all that is known of the record afterwards. Use it when the kind of the record is known.","inputSchema":{{"type":"object","properties":{{{properties}}},"required":["field_0"]}},"annotations":{{"readOnlyHint":true}}}}"#
    )
}

/// Returns the joined entries of a page, and whether another page follows.
pub(crate) fn page(tools: usize, first: usize, version: u64) -> (String, bool) {
    let last = (first + TOOLS_PER_PAGE).min(tools);
    let entries: Vec<String> = (first..last).map(|number| tool(number, version)).collect();
    (entries.join(","), last < tools)
}

/// Returns the tools that are called, as entries of a list.
pub(crate) fn callable() -> String {
    let entry = |ServedResult { tool, .. }: &ServedResult| {
        format!(
            r#"{{"name":"{tool}","description":"Returns a result of a certain size","inputSchema":{{"type":"object","properties":{{"query":{{"type":"string"}},"limit":{{"type":"integer"}}}}}}}}"#
        )
    };
    RESULTS.iter().chain([&SLOW_RESULT]).map(entry).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{Content, Era, RESULTS, SLOW_RESULT};

    #[test]
    fn results_are_valid_and_of_their_size() {
        for result in RESULTS.iter().chain([&SLOW_RESULT]) {
            for era in [Era::Legacy, Era::Modern] {
                let json = result.to_json(era);
                let size = json.len() as f64 / result.bytes as f64;
                assert!((0.9..1.25).contains(&size), "{}: {size}", result.tool);
                let value: Value = serde_json::from_str(&json).unwrap();
                let structured = value.pointer("/structuredContent/records/0/at/lat").is_some();
                assert_eq!(structured, result.content == Content::Structured);
                assert_eq!(value.get("resultType").is_some(), era == Era::Modern);
            }
        }
    }
}
