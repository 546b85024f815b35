//! Parses the answer of find_tool, and renders it for people.

use serde::Deserialize;

use super::unavailable::UnavailableServer;
use crate::cli::console::brief::brief;
use crate::cli::console::output;

/// `structuredContent` of the result of find_tool.
#[derive(Deserialize)]
pub(super) struct SearchAnswer {
    pub(super) tools: Vec<FoundTool>,
    token_metrics: TokenMetrics,
    pub(super) search_mode: String,
    #[serde(default)]
    pub(super) degraded: bool,
    pub(super) degraded_reason: Option<String>,
    /// Servers that do not answer.
    #[serde(default)]
    pub(super) unavailable: Vec<UnavailableServer>,
    explain: Option<SearchExplanation>,
}

#[derive(Deserialize)]
pub(super) struct FoundTool {
    name: String,
    backend_id: String,
    description: String,
    score: f32,
    explanation: Option<ToolExplanation>,
}

#[derive(Deserialize)]
struct ToolExplanation {
    cosine: Option<f32>,
    cosine_rank: Option<usize>,
    bm25: f32,
    bm25_rank: Option<usize>,
    best_clause: Option<(usize, f32)>,
    #[serde(default)]
    reliability_penalty: f32,
    fused: f32,
}

#[derive(Deserialize)]
struct SearchExplanation {
    tools_searched: usize,
    keyword_matches: usize,
    without_vector: usize,
    semantic_ratio: f32,
    distance_threshold: Option<f32>,
    terms: Vec<SearchedTerm>,
    clauses: Vec<String>,
}

#[derive(Deserialize)]
struct SearchedTerm {
    term: String,
    documents: usize,
}

#[derive(Deserialize)]
struct TokenMetrics {
    #[serde(rename = "baseline_tokens")]
    baseline: u64,
    #[serde(rename = "returned_tokens")]
    returned: u64,
    #[serde(rename = "savings_percent")]
    percent: f64,
}

impl SearchAnswer {
    /// True if there are hits, none of them by a word that it shares with the query.
    pub(super) fn is_by_meaning_alone(&self) -> bool {
        let without_words = |explain: &SearchExplanation| explain.keyword_matches == 0;
        self.search_mode == "hybrid"
            && !self.tools.is_empty()
            && self.explain.as_ref().is_some_and(without_words)
    }

    /// True if all tools were unavailable to the search.
    pub(super) fn searched_nothing(&self) -> bool {
        self.token_metrics.baseline == 0
    }

    /// Returns a table of the tools and the tokens saved, with the explanation if `explained`.
    pub(super) fn human_text(&self, explained: bool) -> String {
        let SearchAnswer { tools, token_metrics, search_mode, explain, .. } = self;
        let explain = explain.as_ref().filter(|_| explained);
        let mut parts = Vec::new();
        if !tools.is_empty() {
            let TokenMetrics { baseline, returned, percent } = token_metrics;
            parts.push(if explain.is_some() {
                let header = ["SCORE", "TOOL", "COSINE", "BM25", "BEST CLAUSE", "FUSED", "DESCRIPTION"];
                output::table(header, tools.iter().map(FoundTool::explained))
            } else {
                output::table(["SCORE", "TOOL", "BACKEND", "DESCRIPTION"], tools.iter().map(FoundTool::plain))
            });
            // A few small tools are less than an answer about them.
            let tokens = if *percent < 0.0 {
                format!("{returned} tokens; the list of all tools has {baseline}")
            } else {
                format!("{returned} tokens instead of {baseline} ({percent:.1}% saved)")
            };
            parts.push(format!("{search_mode} search; {tokens}"));
        }
        parts.extend(explain.map(SearchExplanation::human_text));
        parts.join("\n\n")
    }
}

impl FoundTool {
    fn plain(&self) -> [String; 4] {
        let FoundTool { name, backend_id, description, score, explanation: _ } = self;
        [format!("{score:.2}"), name.clone(), backend_id.clone(), brief(description)]
    }

    fn explained(&self) -> [String; 7] {
        let nothing = || "-".to_owned();
        let ranked = |value: Option<f32>, rank: Option<usize>| {
            value.zip(rank).map_or_else(nothing, |(value, rank)| format!("{value:.3} (#{rank})"))
        };
        let [cosine, bm25, clause, fused] = match &self.explanation {
            None => std::array::from_fn(|_| nothing()),
            Some(explained) => {
                let ToolExplanation { cosine, cosine_rank, bm25, bm25_rank, best_clause, .. } = explained;
                let penalty = explained.reliability_penalty;
                let failures =
                    if penalty > 0.0 { format!(" (failures -{penalty:.2})") } else { String::new() };
                [
                    ranked(*cosine, *cosine_rank),
                    ranked(Some(*bm25), *bm25_rank),
                    best_clause.map_or_else(nothing, |(clause, value)| {
                        format!("{value:.3} (clause {})", clause + 1)
                    }),
                    format!("{:.3}{failures}", explained.fused),
                ]
            }
        };
        [
            format!("{:.2}", self.score),
            self.name.clone(),
            cosine,
            bm25,
            clause,
            fused,
            brief(&self.description),
        ]
    }
}

impl SearchExplanation {
    fn human_text(&self) -> String {
        let SearchExplanation {
            tools_searched,
            keyword_matches,
            without_vector,
            semantic_ratio,
            distance_threshold,
            terms,
            clauses,
        } = self;
        let terms: Vec<_> =
            terms.iter().map(|SearchedTerm { term, documents }| format!("{term} (in {documents})")).collect();
        let terms = if terms.is_empty() { "none".to_owned() } else { terms.join(", ") };
        let mut lines = vec![
            format!(
                "{tools_searched} tools searched, {keyword_matches} share a term, {without_vector} have no vector"
            ),
            format!("weight of the vectors {semantic_ratio}; terms: {terms}"),
        ];
        lines.extend(
            distance_threshold
                .map(|threshold| format!("not found by vector beyond a distance of {threshold}")),
        );
        lines.extend(clauses.iter().enumerate().map(|(at, clause)| format!("clause {}: {clause}", at + 1)));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(explain: bool) -> SearchAnswer {
        let mut answer = json!({
            "tools": [{"name": "jira_get_watchers", "backend_id": "jira", "description": "Who follows. More.", "score": 0.911}],
            "token_metrics": {"baseline_tokens": 1000, "returned_tokens": 100, "savings_percent": 90.0},
            "search_mode": "hybrid",
        });
        if explain {
            answer["tools"][0]["explanation"] = json!({"cosine": 0.5, "cosine_rank": 2, "bm25": 0.0, "bm25_rank": null,
                "best_clause": [0, 1.5], "fused": 2.25});
            answer["explain"] = json!({"tools_searched": 40, "keyword_matches": 3, "without_vector": 0, "semantic_ratio": 0.6,
                "terms": [{"term": "follow", "documents": 3}], "clauses": ["who follows", "tell me"]});
        }
        SearchAnswer::deserialize(&answer).unwrap()
    }

    #[test]
    fn an_answer_that_saves_nothing_says_so_without_a_negative_share() {
        let mut answer = answer(false);
        answer.token_metrics = TokenMetrics { baseline: 267, returned: 802, percent: -200.4 };
        let text = answer.human_text(false);
        assert!(text.contains("802 tokens; the list of all tools has 267"), "{text}");
    }

    #[test]
    fn people_see_the_first_sentence_and_the_savings() {
        let text = answer(false).human_text(false);
        assert!(text.contains("0.91") && text.contains("Who follows.") && !text.contains("More"), "{text}");
        assert!(text.contains("100 tokens instead of 1000 (90.0% saved)"), "{text}");
    }

    #[test]
    fn an_explanation_shows_arms_ranks_terms_and_clauses() {
        let text = answer(true).human_text(true);
        for expected in
            ["0.500 (#2)", "1.500 (clause 1)", "2.250", "40 tools", "follow (in 3)", "clause 2: tell me"]
        {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
    }

    #[test]
    fn hits_without_a_common_word_are_told_and_nothing_is_explained_unasked() {
        let mut found = answer(true);
        assert!(!found.is_by_meaning_alone());
        found.explain.as_mut().unwrap().keyword_matches = 0;
        assert!(found.is_by_meaning_alone());
        assert_eq!(found.human_text(false), answer(false).human_text(false));
        found.search_mode = "semantic".to_owned();
        assert!(!found.is_by_meaning_alone(), "words had no part by choice");
    }

    #[test]
    fn nothing_found_can_be_explained() {
        let mut found = answer(true);
        found.tools.clear();
        assert!(found.human_text(true).contains("40 tools searched"));
    }
}
