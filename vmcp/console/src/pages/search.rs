//! The search playground: a query, the ranks and values of both arms, and the place of one tool by name.

use maud::{Markup, html};
use vmcp_search::{Explanation, Ranking, SearchMode};

use super::clients::question::ClientQuestion;
use crate::frame::{Frame, table};
use crate::links::{self, link};
use crate::text;

/// Columns of the ranking.
const COLUMNS: [&str; 12] = [
    "Rank",
    "Tool",
    "Value",
    "Words: rank",
    "BM25F",
    "Meaning: rank",
    "Cosine",
    "Part",
    "Failures",
    "Learned",
    "Re-ranked",
    "Tokens",
];

/// A query, as its form holds it.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Task that the tool should do.
    pub text: String,
    /// Terms; may be empty.
    pub keywords: String,
    /// Name of a tool whose place is wanted; may be empty.
    pub wanted: String,
    /// The client that searches; without a subject, claims and a profile, all tools are searched.
    pub client: ClientQuestion,
}

/// The answer to a query.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Ranks, values and counts; its hits may be more than are shown.
    pub ranking: Ranking,
    /// Tool of each shown hit, in the ranking's order.
    pub tools: Vec<FoundTool>,
    /// Tokens of the definitions that a client gets: those of the first hits.
    pub answer_tokens: u64,
    /// Tokens of a list of all tools that were searched.
    pub list_tokens: u64,
    /// Reason, if the search had to do without something.
    pub degraded: Option<String>,
    /// Weight of the vectors, 0 to 1.
    pub semantic_ratio: f32,
    /// Number of hits that a client gets.
    pub limit: usize,
    /// Reason why the wanted tool is where it is.
    pub verdict: Option<Verdict>,
    /// Further reasons, such as servers that do not answer, the filter, or the deciding policy.
    pub reasons: Vec<String>,
    /// Subject of the client that searched; empty: a client without credentials, or all tools were searched.
    pub who: String,
    /// Tools that fit, and that this client may not see; empty for a viewer.
    pub hidden: Vec<FoundTool>,
}

/// A tool that a search found.
#[derive(Debug, Clone, Default)]
pub struct FoundTool {
    /// Name under which clients call it.
    pub name: String,
    /// Its server.
    pub server: String,
    /// Its name there.
    pub original: String,
    /// Tokens that its definition costs.
    pub tokens: u32,
}

/// The place of a tool that was asked for by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No server offers it.
    Unknown,
    /// It is a tool of vmcp itself.
    OwnTool,
    /// A filter hides it.
    Hidden,
    /// Its changed definition waits for approval.
    Quarantined,
    /// The client that searches may not see it.
    NotForClient,
    /// It has this rank, from 1.
    Ranked(usize),
    /// It shares no word with the query, and its meaning is too far away.
    NoMatch,
}

/// Returns the page.
pub fn search(frame: &Frame, query: &Query, answer: Option<&Answer>) -> String {
    let content = html! {
        p { "Searches as " code { "find_tool" } " does, over all tools or, with a subject or a profile, over those that this client may see, "
            "and explains each place." }
        form.filter method="get" {
            div.field { label for="q" { "Task" } input id="q" name="q" type="search" required value=(query.text); }
            div.field { label for="keywords" { "Keywords" } input id="keywords" name="keywords" value=(query.keywords); }
            div.field { label for="wanted" { "Why is this tool not here?" } input id="wanted" name="wanted" placeholder="its name" value=(query.wanted); }
            (query.client.fields())
            button { "Search" }
        }
        (query.client.mistake())
        @if let Some(answer) = answer { (found(frame, query, answer)) }
    };
    frame.page("search", "Search playground", &content)
}

fn found(frame: &Frame, query: &Query, answer: &Answer) -> Markup {
    let Answer { ranking, tools, degraded, limit, .. } = answer;
    html! {
        @if let Some(verdict) = &answer.verdict {
            div.notice role="status" {
                p { code { (text::line(&query.wanted)) } " " (verdict_text(verdict, *limit)) }
                @if !answer.reasons.is_empty() { ul { @for reason in &answer.reasons { li { (text::line(reason)) } } } }
            }
        }
        @if let Some(degraded) = degraded { p.notice.problem { "Degraded: " (text::line(degraded)) "." } }
        h2 { "Found" }
        p {
            (mode(ranking.mode)) " " (ranking.visible) " tools searched, " (ranking.keyword_matches) " share a word with the query, "
            (ranking.without_vector) " have no vector. Weight of the meaning: " (text::percent(f64::from(answer.semantic_ratio))) "."
        }
        @if !ranking.terms.is_empty() {
            p { "Words, with the tools that have them: "
                @for term in &ranking.terms { code { (text::line(&term.term)) } " " (term.documents) " " } }
        }
        @if !ranking.clauses.is_empty() {
            p { "Parts of the query that were searched by themselves: "
                @for clause in &ranking.clauses { q { (text::line(clause)) } " " } }
        }
        @if tools.is_empty() { p { "No tool fits." } }
        @else {
            (table("Ranking", &COLUMNS, &html! {
                @for (number, (tool, hit)) in tools.iter().zip(&ranking.hits).enumerate() {
                    tr {
                        td.number { (number + 1) }
                        th scope="row" {
                            a href=(links::tool(&tool.server, &tool.original)) { (text::line(&tool.name)) }
                        }
                        @if let Some(explanation) = &hit.explanation { (values(explanation)) }
                        td.number { (tool.tokens) }
                    }
                }
            }))
            p.hint {
                "Value: both arms, normalized and weighted, without what failures cost and with what learning adds. "
                "A client gets the first " (limit) ": about " (answer.answer_tokens) " tokens of definitions, "
                "where a list of all these tools costs about " (answer.list_tokens) "."
            }
        }
        (hidden(frame, query, answer))
    }
}

/// Shows the tools that the client of the search does not get, each with the way to the reason. They are for
/// operators.
fn hidden(frame: &Frame, query: &Query, Answer { who, hidden, .. }: &Answer) -> Markup {
    let ClientQuestion { claims, issuer, profile, .. } = &query.client;
    let client = if who.is_empty() { "a client without credentials" } else { who.as_str() };
    let is_of_client = !who.is_empty() || !profile.is_empty();
    html! {
        @if frame.is_viewer && is_of_client {
            p.hint {
                "Your role is viewer: operators also see the tools that fit and are hidden from this client."
            }
        }
        @if !hidden.is_empty() {
            h2 { "Hidden from " (text::line(client)) }
            p { "These tools fit too. This client may not see them: the page of each says which policy decides." }
            ul {
                @for tool in hidden {
                    @let query = [
                        ("server", tool.server.as_str()), ("tool", tool.original.as_str()),
                        ("who", who.as_str()), ("claims", claims.as_str()), ("issuer", issuer.as_str()),
                        ("profile", profile.as_str()),
                    ];
                    li { a href=(link("tool", &query) + "#access") { (text::line(&tool.name)) } }
                }
            }
        }
    }
}

fn mode(mode: SearchMode) -> &'static str {
    match mode {
        SearchMode::Hybrid => "By words and meaning.",
        SearchMode::Semantic => "By meaning.",
        SearchMode::Keyword => "By words.",
    }
}

fn values(explanation: &Explanation) -> Markup {
    let rank = |rank: Option<usize>| rank.map_or_else(|| "–".to_owned(), |rank| rank.to_string());
    let cells = [
        format!("{:.3}", explanation.fused),
        rank(explanation.bm25_rank),
        format!("{:.2} → {:.2}", explanation.bm25, explanation.bm25_normalized),
        rank(explanation.cosine_rank),
        match explanation.cosine {
            Some(cosine) => format!("{cosine:.3} → {:.2}", explanation.cosine_normalized),
            None => format!("estimated {:.2}", explanation.cosine_normalized),
        },
        explanation
            .best_clause
            .map_or_else(|| "–".to_owned(), |(part, value)| format!("{}: {value:.2}", part + 1)),
        match explanation.reliability {
            Some(reliability) => format!(
                "−{:.3} ({:.0} % of {} calls succeeded)",
                explanation.reliability_penalty,
                reliability.success_rate * 100.0,
                reliability.calls
            ),
            None => "–".to_owned(),
        },
        match (explanation.promoted, explanation.learned_bonus) {
            (true, _) => "among the first".to_owned(),
            (false, bonus) if bonus > 0.0 => format!("+{bonus:.3}"),
            (false, _) => "–".to_owned(),
        },
        explanation.rerank_score.map_or_else(|| "–".to_owned(), |score| format!("{score:.3}")),
    ];
    html! { @for cell in cells { td.number { (cell) } } }
}

fn verdict_text(verdict: &Verdict, limit: usize) -> String {
    match verdict {
        Verdict::Unknown => {
            "is offered by no server, or by several under other names: check the name on the page “Tools”, and the \
             state of its server."
                .to_owned()
        }
        Verdict::OwnTool => {
            "is a tool of vmcp itself: it is in lists of clients, and searches are over the tools of servers."
                .to_owned()
        }
        Verdict::Hidden => {
            "is hidden by a filter of the configuration (aggregation, or its server's entry).".to_owned()
        }
        Verdict::Quarantined => {
            "is hidden until its changed definition is approved, on its own page.".to_owned()
        }
        Verdict::NotForClient => {
            "is hidden from this client: its page says which policy decides (“Who may call it”).".to_owned()
        }
        Verdict::Ranked(rank) if *rank <= limit => format!("is here, at rank {rank}."),
        Verdict::Ranked(rank) => {
            format!("has rank {rank}: a client gets {limit} tools (optimizer.search.maxTools).")
        }
        Verdict::NoMatch => {
            "shares no word with the query, and its meaning is not near (or it has no vector).".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use vmcp_search::{Hit, QueryTerm};

    use super::*;

    fn found_tool(name: &str, server: &str, original: &str) -> FoundTool {
        let [name, server, original] = [name, server, original].map(str::to_owned);
        FoundTool { name, server, original, tokens: 77 }
    }

    fn answer(verdict: Option<Verdict>) -> Answer {
        let explanation = Explanation {
            cosine: Some(0.5),
            cosine_rank: Some(2),
            cosine_normalized: 0.75,
            bm25: 1.5,
            bm25_rank: Some(1),
            bm25_normalized: 0.9,
            best_clause: Some((0, 0.4)),
            prior: 0.0,
            reliability: None,
            reliability_penalty: 0.0,
            learned_bonus: 0.125,
            promoted: false,
            fused: 0.875,
            rerank_score: None,
        };
        let ranking = Ranking {
            hits: vec![Hit { document: 0, score: 1.0, explanation: Some(explanation) }],
            mode: SearchMode::Hybrid,
            visible: 9,
            without_vector: 0,
            keyword_matches: 3,
            terms: vec![QueryTerm { term: "<b>".to_owned(), documents: 3 }],
            clauses: vec![],
        };
        let tools = vec![found_tool("jira_search", "jira", "search")];
        Answer {
            ranking,
            tools,
            answer_tokens: 120,
            list_tokens: 4_800,
            degraded: None,
            semantic_ratio: 0.5,
            limit: 8,
            verdict,
            reasons: vec!["gone does not answer".to_owned()],
            who: String::new(),
            hidden: Vec::new(),
        }
    }

    #[test]
    fn tools_that_the_client_may_not_see_lead_to_the_reason() {
        let (who, profile) = ("bob".to_owned(), "p&q".to_owned());
        let client = ClientQuestion { who, profile, ..ClientQuestion::default() };
        let query = Query { text: "x".to_owned(), client, ..Query::default() };
        let hidden = vec![found_tool("s_<b>", "s", "<b>")];
        let answer = Answer { who: "bob".to_owned(), hidden, ..answer(None) };
        let page = search(&Frame::default(), &query, Some(&answer));
        assert!(page.contains("Hidden from <bdi>bob</bdi>") && page.contains("value=\"bob\""), "{page}");
        let link = "href=\"/console/tool?server=s&amp;tool=%3Cb%3E&amp;who=bob&amp;claims=&amp;issuer=\
            &amp;profile=p%26q#access\"";
        assert!(page.contains(link) && !page.contains("<b>"), "{page}");
        let page = search(&Frame::default(), &query, Some(&Answer { who: String::new(), ..answer }));
        assert!(page.contains("Hidden from <bdi>a client without credentials</bdi>"), "{page}");
    }

    #[test]
    fn a_viewer_reads_that_hidden_tools_are_for_operators() {
        let frame = Frame { is_viewer: true, ..Frame::default() };
        let query = Query { text: "x".to_owned(), ..Query::default() };
        let of_bob = Answer { who: "bob".to_owned(), ..answer(None) };
        let page = search(&frame, &query, Some(&of_bob));
        assert!(page.contains("operators also see") && !page.contains("Hidden from"), "{page}");
        assert!(!search(&frame, &query, Some(&answer(None))).contains("operators also see"), "all tools");
    }

    #[test]
    fn both_arms_are_shown_with_rank_and_value() {
        let query = Query { text: "\"><script>".to_owned(), ..Query::default() };
        let page = search(&Frame::default(), &query, Some(&answer(None)));
        for part in [
            "0.875",
            "1.50 → 0.90",
            "0.500 → 0.75",
            "+0.125",
            "jira_search",
            "1: 0.40",
            ">77<",
            "about 120 tokens",
            "costs about 4800",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
    }

    #[test]
    fn a_missing_tool_has_its_reason() {
        let query = Query { text: "x".to_owned(), wanted: "y".to_owned(), ..Query::default() };
        for (verdict, words) in [
            (Verdict::Unknown, "offered by no server"),
            (Verdict::OwnTool, "a tool of vmcp itself"),
            (Verdict::Hidden, "hidden by a filter"),
            (Verdict::Quarantined, "until its changed definition is approved"),
            (Verdict::NotForClient, "hidden from this client"),
            (Verdict::Ranked(3), "is here, at rank 3"),
            (Verdict::Ranked(12), "has rank 12: a client gets 8 tools"),
            (Verdict::NoMatch, "shares no word"),
        ] {
            let page = search(&Frame::default(), &query, Some(&answer(Some(verdict))));
            assert!(page.contains(words) && page.contains("<bdi>gone does not answer"), "{words}: {page}");
        }
    }
}
