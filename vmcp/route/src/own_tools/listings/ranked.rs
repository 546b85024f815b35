//! Ranking of tools for a task, as search_tools and recommend_tools have it: by the search of find_tool alone
//! (`semantic`), by a language model among its first hits (`hybrid`), or by a language model among all tools
//! (`llm`). Without the model, or while it fails, the search answers, and says so.

mod choice;

use std::sync::Arc;

use serde::Serialize;
use vmcp_config::RankingMode;
use vmcp_model::catalog::CatalogTool;
use vmcp_search::{SearchMode, Visible, first_sentence};

use super::language_model::{self, LanguageModel};
use crate::caller::CallContext;
use crate::own_tools::find_tool::search_record;
pub(crate) use vmcp_engine::search::{SearchRequest, search};

/// Hits of the search among which the model chooses.
const CANDIDATES: usize = 20;
/// Tools of one prompt at most; more cost more than they help.
const MAX_PROMPT_TOOLS: usize = 500;
/// Candidates up to which the search alone decides.
const MAX_CLEAR_CANDIDATES: usize = 3;
/// Lead of the first hit's score at which the search alone decides.
const CLEAR_LEAD: f32 = 0.15;

/// Names of [`RankingMode`], for a mistake.
pub(super) const MODES: &str = r#""semantic", "hybrid" or "llm""#;

/// The way that was gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ModeUsed {
    /// Words alone, without vectors.
    Keyword,
    /// The search.
    Semantic,
    /// The search, and a language model where it was not clear.
    Hybrid,
    /// A language model.
    Llm,
}

/// A ranked tool.
pub(super) struct RankedTool<'a> {
    pub(super) tool: &'a CatalogTool,
    pub(super) score: f32,
    /// The model's reason, if it chose the tool.
    pub(super) reason: Option<String>,
}

/// Tools for a task, best first.
pub(super) struct Ranked<'a> {
    pub(super) tools: Vec<RankedTool<'a>>,
    pub(super) mode: ModeUsed,
    /// Reason for another mode than the wanted one.
    pub(super) warning: Option<String>,
}

/// A task, and how to rank the tools for it.
pub(super) struct RankingRequest<'a> {
    pub(super) task: &'a str,
    /// `None`: hybrid where there is a language model, else the search.
    pub(super) mode: Option<RankingMode>,
    /// Most tools of the answer.
    pub(super) limit: usize,
    /// Only tools of this backend.
    pub(super) server: Option<&'a str>,
    /// True if the client's own model may be asked although the call names no mode: the client may let its
    /// user confirm that.
    pub(super) may_sample: bool,
    /// True if the model is told the success rates of tools.
    pub(super) with_metrics: bool,
}

/// Ranks the tools of the caller's view.
pub(super) async fn rank<'a>(context: CallContext<'a>, request: &RankingRequest<'_>) -> Ranked<'a> {
    let (found, mode) = by_search(context, request).await;
    let wanted = request.mode.unwrap_or(RankingMode::Hybrid);
    let all = Ranked { tools: found, mode, warning: None };
    if wanted == RankingMode::Semantic {
        return cut(all, request.limit);
    }
    let may_sample = request.may_sample || request.mode.is_some();
    let Some(model) = LanguageModel::available(context, may_sample) else {
        let warning = request.mode.map(|_| language_model::MISSING.to_owned());
        return cut(Ranked { warning, ..all }, request.limit);
    };
    if wanted == RankingMode::Hybrid
        && is_clear(&all.tools.iter().map(|found| found.score).collect::<Vec<_>>())
    {
        let mode = if mode == ModeUsed::Semantic { ModeUsed::Hybrid } else { mode };
        return cut(Ranked { mode, ..all }, request.limit);
    }
    let candidates: Vec<&CatalogTool> = match wanted {
        RankingMode::Llm => of_server(context, request.server).take(MAX_PROMPT_TOOLS).collect(),
        _ => all.tools.iter().take(CANDIDATES).map(|ranked| ranked.tool).collect(),
    };
    let of_caller = || context.engine.metrics_for(context.caller.principal.key());
    let book = if request.with_metrics { of_caller() } else { Arc::default() };
    match choice::choose(&model, request.task, &candidates, &book).await {
        Ok(chosen) => {
            let mode = if wanted == RankingMode::Llm { ModeUsed::Llm } else { ModeUsed::Hybrid };
            cut(Ranked { tools: chosen_first(chosen, all.tools), mode, warning: None }, request.limit)
        }
        Err(reason) => {
            tracing::warn!(%reason, "a language model could not rank tools; the search did");
            let warning = Some(format!("the language model failed ({reason}); the search ranked instead"));
            cut(Ranked { warning, ..all }, request.limit)
        }
    }
}

/// Remembers ranked tools in the caller's context, as hits of find_tool are, and records the search. The
/// first choice of a language model is not what the search found first.
pub(super) fn remember(context: CallContext<'_>, handle: Option<&str>, task: &str, ranked: &Ranked<'_>) {
    let key = context.context_key(handle);
    let key_of = |ranked: &RankedTool<'_>| {
        (Arc::clone(&ranked.tool.backend), ranked.tool.definition.name.as_str().into())
    };
    search_record::record(context, key, [task, ""], ranked.tools.iter().map(key_of));
    let Some(key) = key else { return };
    let tools = ranked.tools.iter().map(key_of);
    let by_model = ranked.tools.iter().any(|ranked| ranked.reason.is_some());
    context.engine.contexts().with(key, context.caller.principal.key(), |context| {
        if by_model { context.sees(tools) } else { context.finds(tools) }
    });
}

async fn by_search<'a>(
    context: CallContext<'a>,
    request: &RankingRequest<'_>,
) -> (Vec<RankedTool<'a>>, ModeUsed) {
    let CallContext { engine, snapshot, view, caller } = context;
    let of_server = |server: &str| {
        let documents = (0..snapshot.unfiltered().tools.len())
            .filter(|at| view.document(*at).is_some_and(|tool| tool.backend.eq_ignore_ascii_case(server)));
        Arc::new(documents.collect::<Visible>())
    };
    let visible = request.server.map_or_else(|| Arc::clone(view.visible()), of_server);
    let searched = SearchRequest {
        description: request.task,
        keywords: "",
        limit: Some(request.limit.max(CANDIDATES)),
        visible: Some(&visible),
        explain: false,
    };
    let ranking = search(&engine.searcher(snapshot, caller.principal.key()), searched).await.ranking;
    let ranked = |hit: &vmcp_search::Hit| {
        let tool = view.document(hit.document)?.as_ref();
        Some(RankedTool { tool, score: (hit.score * 1e4).round() / 1e4, reason: None })
    };
    let mode = if ranking.mode == SearchMode::Keyword { ModeUsed::Keyword } else { ModeUsed::Semantic };
    (ranking.hits.iter().filter_map(ranked).collect(), mode)
}

fn of_server<'a>(context: CallContext<'a>, server: Option<&str>) -> impl Iterator<Item = &'a CatalogTool> {
    let of = move |tool: &&CatalogTool| server.is_none_or(|server| tool.backend.eq_ignore_ascii_case(server));
    context.view.tools().map(AsRef::as_ref).filter(of)
}

/// True if hits with these scores, best first, need no second opinion.
fn is_clear(scores: &[f32]) -> bool {
    let lead = scores.first().zip(scores.get(1)).map(|(first, second)| first - second);
    scores.len() <= MAX_CLEAR_CANDIDATES || lead.is_some_and(|lead| lead >= CLEAR_LEAD)
}

/// Puts the chosen tools before the found ones.
fn chosen_first<'a>(
    chosen: Vec<(&'a CatalogTool, String)>,
    found: Vec<RankedTool<'a>>,
) -> Vec<RankedTool<'a>> {
    let score = |tool: &CatalogTool| {
        found.iter().find(|ranked| ranked.tool.name == tool.name).map_or(0.0, |ranked| ranked.score)
    };
    let first: Vec<_> = chosen
        .into_iter()
        .map(|(tool, reason)| RankedTool { tool, score: score(tool), reason: Some(reason) })
        .collect();
    let is_chosen = |ranked: &RankedTool<'_>| first.iter().any(|chosen| chosen.tool.name == ranked.tool.name);
    let rest: Vec<_> = found.into_iter().filter(|ranked| !is_chosen(ranked)).collect();
    first.into_iter().chain(rest).collect()
}

fn cut(mut ranked: Ranked<'_>, limit: usize) -> Ranked<'_> {
    ranked.tools.truncate(limit);
    ranked
}

/// Returns the names of the tools that the language model of the configuration chooses for a message; `None`
/// without its answer.
pub async fn tools_by_model(context: CallContext<'_>, message: &str) -> Option<Vec<String>> {
    let model = LanguageModel::available(context, false)?;
    let candidates: Vec<&CatalogTool> = of_server(context, None).take(MAX_PROMPT_TOOLS).collect();
    let book = context.engine.metrics_for(context.caller.principal.key());
    let chosen = choice::choose(&model, message, &candidates, &book).await;
    let chosen =
        chosen.inspect_err(|reason| tracing::warn!(%reason, "a language model could not choose tools"));
    Some(chosen.ok()?.into_iter().map(|(tool, _)| tool.name.clone()).collect())
}

/// Returns the first sentence of a tool's description.
pub(super) fn brief(tool: &CatalogTool) -> String {
    first_sentence(&tool.description).trim().to_owned()
}

#[cfg(test)]
mod tests;
