//! Searches of clients that led to no tool that they found.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::clients::{Replicas, asked_replicas};
use crate::frame::{Frame, table};
use crate::{links, text};

/// Logged searches that the page groups, the latest.
pub const MAX_SEARCHES: usize = 5_000;
/// Groups on the page, the most frequent.
pub const MAX_GROUPS: usize = 200;

/// The data of the page.
#[derive(Debug, Clone, Default)]
pub struct WantedPage {
    /// Counts of all replicas.
    pub counts: SearchCounts,
    /// At most [`MAX_GROUPS`], the most frequent first; `None`: searches are not logged.
    pub groups: Option<Vec<WantedGroup>>,
    /// The replicas that were asked; `None` if `server.peers` names none.
    pub replicas: Option<Replicas>,
}

/// Counts of searches since the start of the process.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchCounts {
    /// Searches.
    pub searches: u64,
    /// Searches that found no tool.
    pub without_result: u64,
    /// Searches that found tools, and after which none was called within ten minutes.
    pub without_call: u64,
}

/// Searches in almost the same words, also as a replica tells another one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
    pub ends: Vec<(String, usize)>,
    /// Tools that were called instead: server, and name there.
    pub called_instead: Vec<(String, String)>,
    /// Time of the last search, RFC 3339.
    pub last_at: String,
}

/// Returns the page.
pub fn wanted(frame: &Frame, data: &WantedPage) -> String {
    let WantedPage { counts, groups, replicas } = data;
    let content = html! {
        p { "Searches of clients that led to no tool that they found, grouped by their words." }
        (asked_replicas(replicas.as_ref()))
        (count_list(*counts))
        @match groups.as_deref() {
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
            td { @for (end, number) in &group.ends { (text::inert(end, text::MAX_LINE)) " " (number) br; } }
            td {
                @for (server, tool) in &group.called_instead {
                    a href=(links::tool(server, tool)) { (text::line(tool)) } br;
                }
            }
            td.time { (text::line(&group.last_at)) }
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
            ends: vec![("no result".to_owned(), 3)],
            called_instead: vec![("s".to_owned(), "a&b".to_owned())],
            ..WantedGroup::default()
        };
        let counts = SearchCounts { searches: 9, without_result: 3, without_call: 2 };
        let replicas = Some(Replicas { answering: 1, unreachable: vec!["gone<b>:9090".to_owned()] });
        let data = WantedPage { counts, groups: Some(vec![group]), replicas };
        let page = wanted(&Frame::default(), &data);
        assert!(page.contains("gone&lt;b&gt;:9090"), "{page}");
        for part in ["play &lt;b&gt;music", "no result 3", "tool=a%26b", "9 searches, 3 without a result"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let page = wanted(&Frame::default(), &WantedPage { counts, ..WantedPage::default() });
        assert!(page.contains("optimizer.queryLog.enabled") && page.contains("9 searches"), "{page}");
        let none = WantedPage { groups: Some(Vec::new()), ..WantedPage::default() };
        assert!(wanted(&Frame::default(), &none).contains("No logged search"));
    }
}
