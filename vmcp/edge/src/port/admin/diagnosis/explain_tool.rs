//! `POST /admin/explain-tool`: explains for one tool, by name, what clients get of it, and why.
//!
//! `reasons` words why a rule hides a tool or a list leaves it out; `rank` places it among the hits of a
//! query.

mod rank;
mod reasons;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Json, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use vmcp_config::{Config, OptimTool, nearest};
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::lists::pages::List;

pub use self::rank::ToolRank;
pub(in crate::port) use self::reasons::policy as policy_in_words;
use super::bad_request;
use crate::port::admin::Admin;
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::access::policy::{AccessRequest, Explanation, Item};
use vmcp_engine::engine::{Engine, Snapshot, View};
use vmcp_engine::optim::names::{NameStyle, OwnName, own_name};

/// Longest name and query of a request, in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// A question about one tool.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExplainRequest {
    /// Listed name of the tool, or the backend's own if no other tool has it.
    pub tool: String,
    /// Claims of the client's token, with `sub`; absent: a client without credentials.
    pub claims: Option<Map<String, Value>>,
    /// Profile whose path the client uses.
    pub profile: Option<String>,
    /// Query of find_tool in which the tool is placed.
    pub query: Option<String>,
}

/// Rights and visibility of one tool for one client, each with its reason.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each answers a question of its own, by its name in JSON")]
pub struct ToolExplanation {
    /// Listed name of the tool; as asked, for an unknown tool.
    pub tool: String,
    /// Subject of the client, or `anonymous`.
    pub who: String,
    /// True if some backend has the tool, or vmcp itself.
    pub is_known: bool,
    /// True if the client may call the tool.
    pub is_allowed: bool,
    /// True if `tools/list` of the client has it.
    pub is_listed: bool,
    /// True if find_tool of the client can find it.
    pub is_found: bool,
    /// Steps of the answer, in the order in which vmcp takes them.
    pub steps: Vec<ExplainedStep>,
    /// Decision of the policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Explanation>,
    /// Place among the hits of the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<ToolRank>,
    /// Names that are meant perhaps, if the tool is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
}

/// One step of an answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExplainedStep {
    /// Subject in one word: `known`, `backend`, `name`, `filter`, `policy`, `list`, `search`.
    pub subject: String,
    /// True if the tool passes.
    pub passes: bool,
    /// Reason, with the setting that decides.
    pub why: String,
}

impl ToolExplanation {
    fn step(&mut self, subject: &str, passes: bool, why: impl Into<String>) {
        self.steps.push(ExplainedStep { subject: subject.to_owned(), passes, why: why.into() });
    }
}

/// Answers `POST /admin/explain-tool`.
pub(in crate::port::admin) async fn serve(State(Admin(inner)): State<Admin>, body: Bytes) -> Response {
    let request: ExplainRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return bad_request(&format!("body: not a question about a tool: {error}")),
    };
    match explain(&inner.engine, &request).await {
        Ok(explanation) => Json(explanation).into_response(),
        Err(error) => bad_request(&error),
    }
}

/// Explains a tool. Fails for a request that is wrong, with the field and the reason.
pub async fn explain(engine: &Engine, request: &ExplainRequest) -> Result<ToolExplanation, String> {
    let ExplainRequest { tool: name, query, .. } = request;
    if name.is_empty() || name.len() > MAX_TEXT_BYTES {
        return Err(format!("tool: give a name of at most {MAX_TEXT_BYTES} bytes"));
    }
    if query.as_ref().is_some_and(|query| query.trim().is_empty() || query.len() > MAX_TEXT_BYTES) {
        return Err(format!("query: give a text of at most {MAX_TEXT_BYTES} bytes"));
    }
    let snapshot = engine.snapshot();
    let principal = principal(request, &snapshot.config)?;
    engine.prepare(&snapshot, &principal).await;
    let view = snapshot.view(&principal);
    let who = principal.identity.subject().to_owned();
    let mut answer = ToolExplanation { tool: name.clone(), who, ..ToolExplanation::default() };
    let catalog = snapshot.unfiltered();
    let optimizer = &snapshot.config.optimizer;
    let own = match optimizer.enabled.then(|| own_name(name)).flatten() {
        Some(OwnName::Reserved(tool)) => Some(tool),
        Some(OwnName::Bare(tool)) if optimizer.legacy_aliases && catalog.tool(name).is_none() => Some(tool),
        _ => None,
    };
    if let Some(own) = own {
        explain_own(&mut answer, &snapshot, &view, &principal, own);
        return Ok(answer);
    }
    let Some(tool) = named(&snapshot, name) else {
        explain_unknown(&mut answer, engine, &snapshot, name);
        return Ok(answer);
    };
    explain_known(&mut answer, engine, &snapshot, &view, &principal, &tool);
    if let Some(query) = query {
        let ranked = rank::place(engine, &snapshot, &view, principal.key(), &tool, query.trim());
        answer.rank = Some(ranked.await);
    }
    Ok(answer)
}

/// Returns the client that a request is about.
pub(in crate::port) fn principal(request: &ExplainRequest, config: &Config) -> Result<Principal, String> {
    let identity = match &request.claims {
        None => Identity::default(),
        Some(claims) => {
            let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
            if text("sub").is_empty() {
                return Err("claims: they have no `sub`, which names the client".to_owned());
            }
            Identity::known(text("iss"), text("sub"), claims.clone(), None)
        }
    };
    let profile = match &request.profile {
        None => None,
        Some(name) => {
            let known = config.profiles.get_key_value(name.as_str()).map(|(name, _)| Arc::clone(name));
            Some(known.ok_or_else(|| format!("profile: none is called `{name}`"))?)
        }
    };
    Ok(Principal { profile, ..Principal::from(identity) })
}

/// Returns the tool with a listed name, the tool of an alias, or the only tool whose backend calls it so.
pub(in crate::port) fn named(snapshot: &Snapshot, name: &str) -> Option<Arc<CatalogTool>> {
    let catalog = snapshot.unfiltered();
    if let Some(tool) = catalog.tool(name) {
        return Some(Arc::clone(tool));
    }
    let alias = snapshot.config.aggregation.aliases.get(name);
    if let Some(tool) = alias.and_then(|listed| catalog.tool(listed)) {
        return Some(Arc::clone(tool));
    }
    let mut same = catalog.tools.iter().filter(|tool| tool.definition.name == name || tool.own_name == name);
    same.next().filter(|_| same.next().is_none()).cloned()
}

fn explain_own(
    answer: &mut ToolExplanation,
    snapshot: &Snapshot,
    view: &View,
    principal: &Principal,
    own: OptimTool,
) {
    let listed = NameStyle::Dotted.listed(own);
    answer.is_known = true;
    answer.step("known", true, format!("{listed} is a tool of vmcp itself"));
    // Policies name the tool as the call does, which for execute_tool_script differs from its listed name.
    decide(answer, snapshot, principal, "", Item::OwnTool(own.dotted()));
    let is_offered = snapshot.config.optimizer.tools.contains(&own);
    answer.is_allowed = is_offered && answer.policy.as_ref().is_some_and(|policy| policy.allowed);
    answer.is_listed = lists(view, &listed);
    let why = match (answer.is_listed, is_offered, answer.is_allowed) {
        (true, ..) => "optimizer.tools has it",
        (false, false, _) => "optimizer.tools lacks it",
        (false, true, true) => "a setting that it needs is off",
        (false, true, false) => "a policy denies it",
    };
    answer.step("list", answer.is_listed, why);
}

fn explain_unknown(answer: &mut ToolExplanation, engine: &Engine, snapshot: &Snapshot, name: &str) {
    let catalog = snapshot.unfiltered();
    answer.step("known", false, "no backend lists a tool of this name");
    for issue in catalog
        .issues
        .iter()
        .filter(|issue| name == issue.name || name.ends_with(&format!("_{}", issue.name)))
    {
        answer.step("definition", false, issue.to_string());
    }
    for why in reasons::silent_backends(&engine.backend_status(), &snapshot.config) {
        answer.step("backend", false, why);
    }
    let same = catalog.tools.iter().filter(|tool| tool.definition.name == name || tool.own_name == name);
    answer.nearest = same.map(|tool| tool.name.clone()).collect();
    if answer.nearest.is_empty() {
        let names = catalog.tools.iter().map(|tool| tool.name.as_str());
        answer.nearest = nearest(name, names).map(str::to_owned).into_iter().collect();
    }
}

fn explain_known(
    answer: &mut ToolExplanation,
    engine: &Engine,
    snapshot: &Snapshot,
    view: &View,
    principal: &Principal,
    tool: &Arc<CatalogTool>,
) {
    answer.tool.clone_from(&tool.name);
    answer.is_known = true;
    let (backend, original) = (&tool.backend, &tool.definition.name);
    answer.step("known", true, format!("backend {backend} has it as `{original}`"));
    if let Some(status) = engine.backend_status().iter().find(|status| *status.name == **backend) {
        let (passes, why) = reasons::backend(status);
        answer.step("backend", passes, why);
    }
    answer.step("name", true, reasons::name(tool, &snapshot.config.aggregation));
    let hidden = reasons::hidden(snapshot, tool);
    answer.step("filter", tool.listed, hidden.unwrap_or_else(|| "no filter hides it".to_owned()));
    decide(answer, snapshot, principal, backend, Item::Tool(tool));
    let is_visible = view.tool(&tool.name).is_some();
    answer.is_allowed = is_visible && answer.policy.as_ref().is_some_and(|policy| policy.allowed);
    answer.is_listed = lists(view, &tool.name);
    let listed = reasons::listed(snapshot, view, tool, is_visible, answer.is_listed);
    answer.step("list", answer.is_listed, listed);
    answer.is_found = is_visible && snapshot.config.optimizer.enabled;
    let found = match (answer.is_found, snapshot.config.optimizer.enabled) {
        (true, _) => format!(
            "find_tool searches it, and {} other tools of this client",
            view.visible_tools.saturating_sub(1)
        ),
        (false, true) => {
            "find_tool searches the tools that the client may see, and this is none of them".to_owned()
        }
        (false, false) => "there is no find_tool (optimizer.enabled: false)".to_owned(),
    };
    answer.step("search", answer.is_found, found);
}

/// Asks the policies, and adds their step.
fn decide(
    answer: &mut ToolExplanation,
    snapshot: &Snapshot,
    principal: &Principal,
    backend: &str,
    item: Item<'_>,
) {
    let request = AccessRequest { principal, action: "", backend, item, arguments: None };
    let explanation = snapshot.policy.explain(&request);
    let why = reasons::policy(&explanation);
    answer.step("policy", explanation.allowed, why);
    answer.policy = Some(explanation);
}

/// Returns true if the client's `tools/list` has an entry of this name.
fn lists(view: &View, name: &str) -> bool {
    view.list(List::Tools, NameStyle::Dotted).entries().iter().any(|entry| entry.key == name)
}
