//! `vmcp find`: what find_tool answers, for people.

use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::Deserialize;
use serde_json::Map;
use vmcp_model::brief::brief;

use super::connection::{self, CallFailure, Need, Reach};
use super::failure::{Exit, Failure};
use super::options::{Format, Global};
use super::output;
use super::tool_result;
use crate::optim::find_arguments::MAX_LIMIT;

/// Search the tools of all backends
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp find \"who is following this ticket\"
  vmcp find \"issues of a sprint\" --keywords \"jira agile\" --explain
  vmcp find \"current weather\" -o json | jq -r '.tools[0].name'")]
pub(super) struct Arguments {
    /// What the tool shall do
    query: String,
    /// Terms that it should contain, separated by blanks
    #[arg(short, long, value_name = "TERMS")]
    keywords: Option<String>,
    /// Most tools to show [default: optimizer.search.maxTools]
    #[arg(short, long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..=MAX_LIMIT as u64))]
    limit: Option<u64>,
    /// Say how each tool got its place
    #[arg(short, long)]
    explain: bool,
    /// How the result looks
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    reach: Reach,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments, global: &Global) -> Result<Exit, Failure> {
    let Arguments { query, keywords, limit, explain, output: format, reach } = arguments;
    let mut request = Map::new();
    request.insert("tool_description".to_owned(), query.into());
    request.extend(keywords.map(|keywords| ("tool_keywords".to_owned(), keywords.into())));
    request.extend(limit.map(|limit| ("limit".to_owned(), limit.into())));
    request.insert("explain".to_owned(), explain.into());
    connection::with(global, &reach, &Need::Search, async |connection| {
        let result = connection.call("optim.find_tool", request).await.map_err(|failure| match failure {
            CallFailure::UnknownTool => Failure::new("the server does not search")
                .remedy("set `optimizer: { enabled: true }` in its configuration"),
            CallFailure::Other(failure) => failure,
        })?;
        if tool_result::is_error(&result) {
            return Err(Failure::new(tool_result::text(&result)));
        }
        let answer = result.get("structuredContent").cloned().unwrap_or_default();
        let found = Found::deserialize(&answer)?;
        output::print(format, &answer, || people(&found))?;
        if found.degraded {
            let reason = found.degraded_reason.as_deref().unwrap_or("no reason given");
            output::note(&format!(
                "degraded ({} search): {reason}; `vmcp doctor` says what to do",
                found.search_mode
            ));
        }
        if found.tools.is_empty() {
            output::note("no tool fits; use other words, or see `vmcp tools`");
            return Ok(Exit::NothingFound);
        }
        Ok(Exit::Done)
    })
}

#[derive(Deserialize)]
struct Found {
    tools: Vec<Tool>,
    token_metrics: Tokens,
    search_mode: String,
    #[serde(default)]
    degraded: bool,
    degraded_reason: Option<String>,
    explain: Option<Explain>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    backend_id: String,
    description: String,
    score: f32,
    explanation: Option<Explanation>,
}

#[derive(Deserialize)]
struct Explanation {
    cosine: Option<f32>,
    cosine_rank: Option<usize>,
    bm25: f32,
    bm25_rank: Option<usize>,
    best_clause: Option<(usize, f32)>,
    fused: f32,
}

#[derive(Deserialize)]
struct Explain {
    tools_searched: usize,
    keyword_matches: usize,
    without_vector: usize,
    semantic_ratio: f32,
    distance_threshold: Option<f32>,
    terms: Vec<Term>,
    clauses: Vec<String>,
}

#[derive(Deserialize)]
struct Term {
    term: String,
    documents: usize,
}

#[derive(Deserialize)]
struct Tokens {
    baseline_tokens: u64,
    returned_tokens: u64,
    savings_percent: f64,
}

fn people(found: &Found) -> String {
    let Found { tools, token_metrics, search_mode, explain, .. } = found;
    if tools.is_empty() {
        return explain.as_ref().map(explained).unwrap_or_default();
    }
    let mut text = match explain {
        None => {
            let rows = tools.iter().map(|tool| {
                [
                    format!("{:.2}", tool.score),
                    tool.name.clone(),
                    tool.backend_id.clone(),
                    brief(&tool.description),
                ]
            });
            output::table(["SCORE", "TOOL", "BACKEND", "DESCRIPTION"], rows)
        }
        Some(_) => {
            let header = ["SCORE", "TOOL", "COSINE", "BM25", "BEST CLAUSE", "FUSED", "DESCRIPTION"];
            output::table(header, tools.iter().map(explained_row))
        }
    };
    let Tokens { baseline_tokens, returned_tokens, savings_percent } = token_metrics;
    text.push_str(&format!(
        "\n\n{search_mode} search; {returned_tokens} tokens instead of {baseline_tokens} ({savings_percent:.1}% saved)"
    ));
    if let Some(explain) = explain {
        text.push_str(&format!("\n{}", explained(explain)));
    }
    text
}

fn explained_row(tool: &Tool) -> [String; 7] {
    let arm = |value: Option<f32>, rank: Option<usize>| match (value, rank) {
        (Some(value), Some(rank)) => format!("{value:.3} (#{rank})"),
        _ => "-".to_owned(),
    };
    let explanation = tool.explanation.as_ref();
    let of = |read: &dyn Fn(&Explanation) -> String| explanation.map(read).unwrap_or_default();
    [
        format!("{:.2}", tool.score),
        tool.name.clone(),
        of(&|why| arm(why.cosine, why.cosine_rank)),
        of(&|why| arm(Some(why.bm25), why.bm25_rank)),
        of(&|why| {
            why.best_clause.map_or_else(
                || "-".to_owned(),
                |(clause, value)| format!("{value:.3} (clause {})", clause + 1),
            )
        }),
        of(&|why| format!("{:.3}", why.fused)),
        brief(&tool.description),
    ]
}

fn explained(explain: &Explain) -> String {
    let Explain {
        tools_searched,
        keyword_matches,
        without_vector,
        semantic_ratio,
        distance_threshold,
        terms,
        clauses,
    } = explain;
    let terms: Vec<_> =
        terms.iter().map(|Term { term, documents }| format!("{term} (in {documents})")).collect();
    let mut text = format!(
        "{tools_searched} tools searched, {keyword_matches} share a term, {without_vector} have no vector yet\n\
         weight of the vectors {semantic_ratio}; terms: {}",
        if terms.is_empty() { "none".to_owned() } else { terms.join(", ") },
    );
    if let Some(threshold) = distance_threshold {
        text.push_str(&format!("\nnot found by vector beyond a cosine distance of {threshold}"));
    }
    for (number, clause) in clauses.iter().enumerate() {
        text.push_str(&format!("\nclause {}: {clause}", number + 1));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(explain: bool) -> Found {
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
        Found::deserialize(&answer).unwrap()
    }

    #[test]
    fn people_see_the_first_sentence_and_the_savings() {
        let text = people(&answer(false));
        assert!(text.contains("0.91") && text.contains("Who follows.") && !text.contains("More"), "{text}");
        assert!(text.contains("100 tokens instead of 1000 (90.0% saved)"), "{text}");
    }

    #[test]
    fn an_explanation_shows_arms_ranks_terms_and_clauses() {
        let text = people(&answer(true));
        for expected in
            ["0.500 (#2)", "1.500 (clause 1)", "2.250", "40 tools", "follow (in 3)", "clause 2: tell me"]
        {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
    }

    #[test]
    fn nothing_found_can_be_explained() {
        let mut found = answer(true);
        found.tools.clear();
        assert!(people(&found).contains("40 tools searched"));
    }
}
