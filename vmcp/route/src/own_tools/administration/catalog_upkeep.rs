//! The handlers of refresh_tools and regenerate_embeddings, for servers of the caller's view.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use vmcp_config::OptimTool;
use vmcp_model::catalog::CatalogTool;

use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::{OwnArguments, SERVER};
use crate::own_tools::own_answer::{self, Refusal};
use crate::own_tools::resolve::visible_server;
use vmcp_engine::engine::View;
pub(crate) use vmcp_engine::engine::{RefreshOutcome, Refreshed};
use vmcp_engine::telemetry::calls::Origin;

/// Lists servers again, and answers with the counts of changes.
pub(in crate::own_tools) async fn refresh_tools(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let origin = Origin::Own(OptimTool::RefreshTools);
    let work = async |arguments: &OwnArguments<'_>| {
        let force = arguments.read("force_refresh", "true or false")?.unwrap_or(false);
        let (servers, _) = chosen(context, arguments)?;
        let servers = context.engine.refresh_and_wait(&servers, force).await;
        let servers = within_view(context, servers, force).await;
        let success = servers.iter().all(|server| matches!(server.outcome, RefreshOutcome::Counted { .. }));
        let answer = RefreshAnswer { success, servers };
        if success { Ok(answer) } else { Err(Refusal::json(&answer)) }
    };
    own_answer::answer_later(context, origin, arguments, work).await
}

/// Counts the changes of a client that policies restrict: those in its view, before and after.
async fn within_view(context: CallContext<'_>, mut servers: Vec<Refreshed>, force: bool) -> Vec<Refreshed> {
    let principal = &context.caller.principal;
    if !context.snapshot.policy.restricts(principal) {
        return servers;
    }
    let snapshot = context.engine.snapshot();
    context.engine.prepare(&snapshot, principal).await;
    let view = snapshot.view(principal);
    for server in &mut servers {
        if let RefreshOutcome::Counted { .. } = server.outcome {
            server.outcome = changes(context.view, &view, &server.server, force);
        }
    }
    servers
}

/// Compares the tools of a server in two views.
fn changes(before: &View, after: &View, server: &str, force: bool) -> RefreshOutcome {
    let tools = |view: &View| -> BTreeMap<String, Arc<CatalogTool>> {
        let own = view.tools().filter(|tool| *tool.backend == *server);
        own.map(|tool| (tool.definition.name.clone(), Arc::clone(tool))).collect()
    };
    let (before, after) = (tools(before), tools(after));
    let known = after.iter().filter_map(|(name, tool)| Some((before.get(name)?, tool)));
    let (same, changed): (Vec<_>, Vec<_>) = known.partition(|(before, after)| before.hash == after.hash);
    let (added, removed) =
        (after.len() - same.len() - changed.len(), before.len() - same.len() - changed.len());
    let (updated, unchanged) =
        if force { (same.len() + changed.len(), 0) } else { (changed.len(), same.len()) };
    RefreshOutcome::Counted { added, updated, removed, unchanged }
}

/// Embeds tools again, and answers with their number.
pub(in crate::own_tools) async fn regenerate_embeddings(
    context: CallContext<'_>,
    arguments: &RawValue,
) -> Answer {
    let origin = Origin::Own(OptimTool::RegenerateEmbeddings);
    let work = async |arguments: &OwnArguments<'_>| {
        let (servers, is_one) = chosen(context, arguments)?;
        let sees_all = servers.len() == context.snapshot.backends.len();
        let servers = servers.iter().map(|server| Some(&**server));
        let servers: Vec<_> = if sees_all && !is_one { vec![None] } else { servers.collect() };
        let mut answer = Regeneration { success: true, regenerated: 0, failed: 0, duration_ms: 0 };
        for server in servers {
            let done = context.engine.regenerate_embeddings(server).await.map_err(|error| {
                Refusal::json(&RegenerationFailure { success: false, error: error.to_string() })
            })?;
            answer.regenerated += done.embedded;
            answer.failed += done.failed;
            answer.duration_ms += done.took.as_millis() as u64;
        }
        answer.success = answer.failed == 0;
        Ok(answer)
    };
    own_answer::answer_later(context, origin, arguments, work).await
}

/// Returns the servers that a call is about, and whether it names one.
fn chosen(context: CallContext<'_>, arguments: &OwnArguments<'_>) -> Result<(Vec<Arc<str>>, bool), Refusal> {
    let limit = context.snapshot.config.optimizer.limits.tool_name_chars;
    let wanted = arguments.text(&SERVER, limit)?;
    if let Some(wanted) = wanted {
        return Ok((vec![Arc::clone(visible_server(context, &wanted)?)], true));
    }
    let visible = context.snapshot.backends.keys().filter(|backend| context.view.has_backend(backend));
    Ok((visible.cloned().collect(), false))
}

#[derive(Serialize)]
struct RefreshAnswer {
    success: bool,
    servers: Vec<Refreshed>,
}

#[derive(Serialize)]
struct Regeneration {
    success: bool,
    regenerated: usize,
    failed: usize,
    duration_ms: u64,
}

#[derive(Serialize)]
struct RegenerationFailure {
    success: bool,
    error: String,
}
