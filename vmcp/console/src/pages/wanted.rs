//! Searches of clients that led to no tool that they found.

use maud::{Markup, html};

use crate::frame::{Frame, table};
use crate::{links, text};

/// Logged searches that the page groups, the latest.
pub const MAX_SEARCHES: usize = 5_000;
/// Groups on the page, the most frequent.
pub const MAX_GROUPS: usize = 200;

/// Counts of searches since the start of the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchCounts {
    /// Searches.
    pub searches: u64,
    /// Searches that found no tool.
    pub without_result: u64,
    /// Searches that found tools, and after which none was called within ten minutes.
    pub without_call: u64,
}

/// Searches in almost the same words.
#[derive(Debug, Clone, Default)]
pub struct WantedGroup {
    /// The most frequent wording.
    pub query: String,
    /// Other wordings.
    pub wordings: Vec<String>,
    /// Searches.
    pub searches: usize,
    /// Identities that searched; clients without one count as one.
    pub clients: usize,
    /// Ends of these searches, each with its number.
    pub ends: Vec<(&'static str, usize)>,
    /// Tools that were called instead: server, and name there.
    pub called_instead: Vec<(String, String)>,
    /// Time of the last search, RFC 3339.
    pub last_at: String,
}

/// Returns the page with at most [`MAX_GROUPS`], the most frequent first; `None`: searches are not logged.
pub fn wanted(frame: &Frame, counts: SearchCounts, groups: Option<&[WantedGroup]>) -> String {
    let content = html! {
        p { "Searches of clients that led to no tool that they found, grouped by their words." }
        (count_list(counts))
        @match groups {
            None => p {
                "The words of searches are not kept. " code { "optimizer.queryLog.enabled: true" }
                " keeps them, for this page and for " code { "vmcp eval --log" } "."
            },
            Some([]) => p { "No logged search led nowhere. A search counts ten minutes after it was made." },
            Some(groups) => {
                p {
                    "For a tool that is there, override its description with these words. "
                    code { "vmcp eval --log" } " names the words that each description lacks."
                }
                p.quiet-text {
                    "The latest " (MAX_SEARCHES) " logged searches, in at most " (MAX_GROUPS)
                    " groups, the most frequent first."
                }
                (table("Wanted", &["Search", "Times", "Clients", "End", "Called instead", "Last"], &html! {
                    @for group in groups { (row(group)) }
                }))
            }
        }
    };
    frame.page("wanted", "Wanted", &content)
}

fn count_list(counts: SearchCounts) -> Markup {
    html! {
        p {
            "Since the start: " (counts.searches) " searches, " (counts.without_result) " without a result, "
            (counts.without_call) " without a call after them."
        }
    }
}

fn row(group: &WantedGroup) -> Markup {
    html! {
        tr {
            td.wide {
                (text::line(&group.query))
                @for wording in &group.wordings { br; span.quiet-text { (text::line(wording)) } }
            }
            td { (group.searches) }
            td { (group.clients) }
            td { @for (end, number) in &group.ends { (end) " " (number) br; } }
            td {
                @for (server, tool) in &group.called_instead {
                    a href=(links::tool(server, tool)) { (text::line(tool)) } br;
                }
            }
            td.time { (group.last_at) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_clients_stay_text_and_counts_are_there_without_a_log() {
        let group = WantedGroup {
            query: "play <b>music</b>".to_owned(),
            searches: 3,
            ends: vec![("no result", 3)],
            called_instead: vec![("s".to_owned(), "a&b".to_owned())],
            ..WantedGroup::default()
        };
        let counts = SearchCounts { searches: 9, without_result: 3, without_call: 2 };
        let page = wanted(&Frame::default(), counts, Some(&[group]));
        for part in ["play &lt;b&gt;music", "no result 3", "tool=a%26b", "9 searches, 3 without a result"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let page = wanted(&Frame::default(), counts, None);
        assert!(page.contains("optimizer.queryLog.enabled") && page.contains("9 searches"), "{page}");
        assert!(wanted(&Frame::default(), counts, Some(&[])).contains("No logged search"));
    }
}
