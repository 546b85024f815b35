//! The latest log lines.

use maud::html;

use super::catalog::filter;
use crate::frame::{Frame, table};
use crate::text;

/// Most characters of a log line.
const MAX_LOG_LINE: usize = 2_000;

/// One line.
#[derive(Debug, Clone, Default)]
pub struct LogLine {
    /// Time, RFC 3339.
    pub at: String,
    /// Level, in capital letters.
    pub level: String,
    /// Server that the line is about.
    pub server: Option<String>,
    /// Message and fields.
    pub text: String,
}

/// Returns the page with lines, the newest first.
pub fn logs(frame: &Frame, lines: &[LogLine]) -> String {
    let content = html! {
        p { "The latest lines, the newest first; 1000 at most." }
        (filter("tr[data-row]", "Filter the lines"))
        (table("Log", &["Time", "Level", "Server", "Text"], &html! {
            @for line in lines {
                tr data-row {
                    td.time { (line.at) }
                    td { span class=(class(&line.level)) { (line.level) } }
                    td { @if let Some(server) = &line.server { (text::line(server)) } }
                    td.wide { bdi { (text::inert(&line.text, MAX_LOG_LINE)) } }
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
        let page =
            logs(&Frame::default(), &[LogLine { level: "WARN".to_owned(), text, ..LogLine::default() }]);
        assert!(page.contains("<span class=\"warn\">WARN</span>"), "{page}");
        assert!(page.contains("said ⟨U+001B⟩[2J&lt;script&gt;"), "{page}");
    }
}
