//! Content that the backend serves; the clients that check answers build the same.

use std::fmt::Write as _;

use vmcp_wire::era::Era;
use vmcp_wire::meta;

/// Results of `tools/call`: the tool, and the size of its result, in bytes and in words.
pub(crate) const RESULTS: [(&str, usize, &str); 3] =
    [("result_1k", 1 << 10, "1 KB"), ("result_100k", 100 << 10, "100 KB"), ("result_1m", 1 << 20, "1 MB")];
/// `serverInfo` of the backend.
pub(crate) const INFO: &str = r#"{"name":"backend","version":"1"}"#;
/// Tools on a page, as many as vmcp has on its own pages.
pub(crate) const TOOLS_PER_PAGE: usize = 1000;
/// Tools of the server that changes.
pub(crate) const CHANGING_TOOLS: usize = 20;

/// Returns a result of about `bytes` bytes: log lines with quotes and line ends, as tools return them.
pub(crate) fn result(bytes: usize, era: Era) -> String {
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
    let text = format!(r#""content":[{{"type":"text","text":"{text}"}}],"isError":false"#);
    match era {
        Era::Legacy => format!("{{{text}}}"),
        Era::Modern => {
            format!(r#"{{"resultType":"complete",{text},"_meta":{{"{}":{INFO}}}}}"#, meta::SERVER_INFO)
        }
    }
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
    let entry = |(name, ..): &(&str, usize, &str)| {
        format!(
            r#"{{"name":"{name}","description":"Returns a text of a certain size","inputSchema":{{"type":"object","properties":{{"query":{{"type":"string"}},"limit":{{"type":"integer"}}}}}}}}"#
        )
    };
    RESULTS.iter().map(entry).collect::<Vec<_>>().join(",")
}
