//! `vmcp explain-tool`: explains for one tool whether a client can list, find and call it, and why not.

use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::cli::completions::candidates;
use crate::cli::connection::{self, ClaimsFile, Connection, Readiness, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::paint::{Tone, paint};
use crate::cli::options::GlobalOptions;
use vmcp_edge::port::admin::diagnosis::explain_tool::{ExplainRequest, ToolExplanation, ToolRank};

/// Explain for one tool if a client can list, find and call it, and why not
///
/// Asks the running server, or, if none runs, starts the backends in this process.
#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 0 when the client may call the tool, 1 when it may not, 3 when no backend has it.

Examples:
  vmcp explain-tool github_create_issue
  vmcp explain-tool github_create_issue --as alice.json
  vmcp explain-tool github_create_issue --query \"report a bug\"

alice.json holds the claims of a token: {\"sub\": \"alice\", \"groups\": [\"dev\"]}")]
pub(in crate::cli) struct Arguments {
    /// Listed name of the tool
    #[arg(add = ArgValueCandidates::new(candidates::tools))]
    name: String,
    /// File with the claims of the client's token, as JSON [default: a client without credentials]
    #[arg(long = "as", value_name = "FILE")]
    claims: Option<ClaimsFile>,
    /// Profile whose path the client uses
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(candidates::profiles))]
    profile: Option<String>,
    /// Also place the tool among the hits of this search
    #[arg(short, long, value_name = "TEXT")]
    query: Option<String>,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { name, claims, profile, query, output: format, server_options } = arguments;
    let known = claims.as_ref().map(|claims| claims.claims().clone());
    let identity = claims.map(ClaimsFile::into_identity).unwrap_or_default();
    let request = ExplainRequest { tool: name.clone(), claims: known, profile, query };
    let need = match request.query {
        Some(_) => Readiness::Search,
        None => Readiness::Tool(&name),
    };
    let work = async |connection: &Connection| connection.explain_tool(&request).await;
    let explanation = connection::with_policies(global, &server_options, identity, &need, work)?;
    output::print(format, &explanation, || human_text(&explanation))?;
    if !explanation.is_known {
        match explanation.nearest.as_slice() {
            [] => notes::note("`vmcp tools --all` lists the tools of all backends"),
            names => notes::note(&format!("did you mean {}?", names.join(" or "))),
        }
        return Ok(Exit::NothingFound);
    }
    Ok(if explanation.is_allowed { Exit::Done } else { Exit::Failed })
}

fn human_text(explanation: &ToolExplanation) -> String {
    let ToolExplanation { tool, who, is_known, is_allowed, is_listed, is_found, steps, rank, .. } =
        explanation;
    let say = |holds: bool, yes: &'static str, no: &'static str| if holds { yes } else { no };
    let verdict = if *is_known {
        format!(
            "{}, {}, {}",
            say(*is_allowed, "may be called", "may not be called"),
            say(*is_listed, "is listed", "is not listed"),
            say(*is_found, "is found by find_tool", "is not found by find_tool")
        )
    } else {
        "unknown".to_owned()
    };
    let mut lines = vec![paint(Tone::Strong, &format!("{tool}, for {who}: {verdict}"))];
    let width = steps.iter().map(|step| step.subject.len()).max().unwrap_or_default();
    lines.extend(steps.iter().map(|step| {
        let mark = if step.passes { paint(Tone::Good, "ok ") } else { paint(Tone::Bad, "no ") };
        format!("{mark}{:width$}  {}", step.subject, step.why)
    }));
    lines.extend(rank.as_ref().map(|rank| ranked(rank, width)));
    lines.join("\n")
}

/// Returns the line about the place of a tool among the hits of a query.
fn ranked(rank: &ToolRank, width: usize) -> String {
    let ToolRank { query, rank, searched, returned, degraded, first, .. } = rank;
    let (mark, place) = match rank {
        Some(rank) if rank <= returned => {
            (paint(Tone::Good, "ok "), format!("{rank} of {searched} tools for \"{query}\""))
        }
        Some(rank) => (
            paint(Tone::Warning, "~  "),
            format!(
                "{rank} of {searched} tools for \"{query}\"; find_tool returns {returned} (optimizer.search.maxTools)"
            ),
        ),
        None => (paint(Tone::Bad, "no "), format!("not among the hits for \"{query}\"")),
    };
    let best = if first.is_empty() { String::new() } else { format!("; the first are {}", first.join(", ")) };
    let degraded = degraded.as_ref().map(|why| format!("; {why}")).unwrap_or_default();
    format!("{mark}{:width$}  {place}{best}{degraded}", "rank")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::console::paint::plain;

    #[test]
    fn each_step_has_its_verdict_and_a_place_beyond_the_answer_is_said() {
        let json = serde_json::json!({
            "tool": "a_b", "who": "alice", "isKnown": true, "isAllowed": false, "isListed": false, "isFound": true,
            "steps": [
                { "subject": "known", "passes": true, "why": "backend a has it" },
                { "subject": "policy", "passes": false, "why": "denied by `p0`" },
            ],
            "rank": {
                "query": "do b", "rank": 9, "searched": 20, "returned": 8, "explanation": null, "degraded": null,
                "first": ["a_c"],
            },
        });
        let text = plain(&human_text(&serde_json::from_value(json).unwrap()));
        let expected = "a_b, for alice: may not be called, is not listed, is found by find_tool\n\
            ok known   backend a has it\n\
            no policy  denied by `p0`\n\
            ~  rank    9 of 20 tools for \"do b\"; find_tool returns 8 (optimizer.search.maxTools); the first are a_c";
        assert_eq!(text, expected);
    }
}
