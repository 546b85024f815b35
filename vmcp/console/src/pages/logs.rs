//! The latest log lines.

use maud::html;
use serde::{Deserialize, Serialize};

use super::catalog::filter;
use super::clients::{Replicas, asked_replicas};
use crate::frame::{Frame, table};
use crate::text;

/// Most characters of a log line.
const MAX_LOG_LINE: usize = 2_000;

/// Columns of lines of one process.
const OF_ONE_PROCESS: [&str; 4] = ["Time", "Level", "Server", "Text"];
/// Columns of lines of several replicas.
const OF_REPLICAS: [&str; 5] = ["Time", "Level", "Server", "Text", "Replica"];

/// One line, also as a replica tells another one of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogLine {
    /// Time, RFC 3339.
    pub at: String,
    /// Level, in capital letters.
    pub level: String,
    /// Server that the line is about.
    pub server: Option<String>,
    /// Message and fields.
    pub text: String,
    /// Address of the replica that wrote it; empty: this process.
    pub replica: String,
}

/// Returns the page with lines, the newest first, of the replicas that were asked.
pub fn logs(frame: &Frame, lines: &[LogLine], replicas: Option<&Replicas>) -> String {
    let columns: &[&str] = if replicas.is_some() { &OF_REPLICAS } else { &OF_ONE_PROCESS };
    let content = html! {
        p { "The latest lines, the newest first; 1000 at most." }
        (asked_replicas(replicas))
        (filter("tr[data-row]", "Filter the lines"))
        (table("Log", columns, &html! {
            @for line in lines {
                tr data-row {
                    td.time { (text::line(&line.at)) }
                    td { span class=(class(&line.level)) { (text::inert(&line.level, text::MAX_LINE)) } }
                    td { @if let Some(server) = &line.server { (text::line(server)) } }
                    td.wide { bdi { (text::inert(&line.text, MAX_LOG_LINE)) } }
                    @if replicas.is_some() {
                        td { @if line.replica.is_empty() { "this one" } @else { (text::line(&line.replica)) } }
                    }
                }
            }
        }))
    };
    frame.page("logs", "Logs", &content)
}

fn class(level: &str) -> &'static str {
    match level {
        "ERROR" => "bad",
        "WARN" => "warn",
        _ => "quiet-text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_program_stay_text() {
        let text = "said \u{1b}[2J<script>alert(1)</script>".to_owned();
        let line = LogLine { level: "WARN".to_owned(), text, ..LogLine::default() };
        let page = logs(&Frame::default(), std::slice::from_ref(&line), None);
        assert!(page.contains("<span class=\"warn\">WARN</span>"), "{page}");
        assert!(page.contains("said ⟨U+001B⟩[2J&lt;script&gt;") && !page.contains("Replica"), "{page}");
        let other = LogLine { replica: "10.0.0.2:9090".to_owned(), ..line.clone() };
        let replicas = Replicas { answering: 2, unreachable: vec!["10.0.0.3:9090".to_owned()] };
        let page = logs(&Frame::default(), &[line, other], Some(&replicas));
        assert!(page.contains("<td><bdi>10.0.0.2:9090</bdi></td>") && page.contains("<td>this one</td>"));
        assert!(page.contains("Of 2 replicas") && page.contains("10.0.0.3:9090"), "{page}");
    }
}
