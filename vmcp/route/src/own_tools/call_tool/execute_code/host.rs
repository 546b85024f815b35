//! [`Host`]: calls that a script makes, within the caller's view.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vmcp_model::catalog::CatalogTool;
use vmcp_script::names::python_name;
use vmcp_script::pool::{Called, ToolHost};
use vmcp_script::protocol::{CallEnd, HostCall, Raised, ToolUse};
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use super::asking_call::AskingCall;
use super::inner_call::{self, InnerCaller};
use super::user_time::UserTime;
use crate::call::hidden;
use crate::caller::Consent;
use crate::caller::{CallContext, Caller};
use crate::own_tools::arguments::dialect::Dialect;
use crate::own_tools::fallback::is_safe;
use crate::own_tools::find_tool::signatures::signature;
use crate::own_tools::find_tool::{SearchRequest, search};
use vmcp_engine::engine::{Snapshot, View};
use vmcp_engine::telemetry::calls::Origin;

/// Tools of an answer of `search_tools`, if the script names no number.
const DEFAULT_FOUND: usize = 5;
/// Most tools of an answer of `search_tools`.
const MAX_FOUND: usize = 50;
/// Longest task of `search_tools`, in characters; a longer one is cut.
const MAX_QUERY_CHARS: usize = 2_000;

/// Makes the calls of one script under its caller's identity; each uses the newest snapshot.
pub(super) struct Host<'a> {
    context: CallContext<'a>,
    dialect: Dialect,
    /// True for a script over rows: each of its calls is refused.
    is_over_rows: bool,
    /// The client's own `_meta` as JSON, which each call sends on.
    meta: Option<String>,
    caller: Caller,
    /// True if the client can be asked.
    can_ask: bool,
    user_time: UserTime,
    /// Calls on their way or made, of tools that may change something.
    changes: AtomicUsize,
}

impl<'a> Host<'a> {
    pub(super) fn new(context: CallContext<'a>, dialect: Dialect) -> Host<'a> {
        let caller = context.caller;
        let user_time = UserTime::default();
        let can_ask = caller.era == Era::Modern || caller.events.is_some();
        let caller = Caller {
            // A tool that asks suspends the script, also for a legacy client, which is asked meanwhile.
            era: Era::Modern,
            events: caller.events.as_ref().map(|events| events.mapped(user_time.of_events())),
            continues: None,
            // The user has consented to no call that a script makes.
            consent: Consent::default(),
            takes_arriving: false,
            ..caller.clone()
        };
        let changes = AtomicUsize::new(0);
        Host { context, dialect, is_over_rows: false, meta: None, caller, can_ask, user_time, changes }
    }

    /// Sends the client's own `_meta` with each call.
    pub(super) fn with_meta(self, meta: Option<String>) -> Host<'a> {
        Host { meta, ..self }
    }

    /// Refuses each call of the script, if it is one over rows.
    pub(super) fn over_rows(self, is_over_rows: bool) -> Host<'a> {
        Host { is_over_rows, ..self }
    }

    /// True if a call of the script may have changed something: its tool is not declared to read only, and
    /// the call was sent.
    pub(super) fn may_have_changed(&self) -> bool {
        self.changes.load(Ordering::Relaxed) > 0
    }

    /// Returns the newest snapshot, and the caller's view of it: a script may run for long.
    async fn newest(&self) -> (Arc<Snapshot>, Arc<View>) {
        let engine = self.context.engine;
        let snapshot = engine.snapshot();
        engine.prepare(&snapshot, &self.caller.principal).await;
        let view = snapshot.view(&self.caller.principal);
        (snapshot, view)
    }

    fn inner_caller(&self) -> InnerCaller<'_> {
        InnerCaller { can_ask: self.can_ask, dialect: self.dialect, meta: self.meta.as_deref() }
    }

    fn context_of<'b>(&'b self, snapshot: &'b Snapshot, view: &'b View) -> CallContext<'b> {
        CallContext { engine: self.context.engine, snapshot, view, caller: &self.caller }
    }

    async fn make(&self, call: HostCall) -> Called<AskingCall> {
        if self.is_over_rows {
            let message = "an operation on rows calls no tool; send the script to optim.execute_code";
            return Called::Ended(CallEnd::Raised { kind: Raised::Asks, message: message.to_owned() });
        }
        let begun = Instant::now();
        let (snapshot, view) = self.newest().await;
        let context = self.context_of(&snapshot, &view);
        match call {
            HostCall::Tool { server, tool, arguments } => match find(&view, server.as_deref(), &tool) {
                Ok(found) => {
                    let call = AskingCall::new(found, arguments);
                    let may_change = !is_safe(found);
                    if may_change {
                        // Counted before: a call that is dropped on its way stays counted.
                        self.changes.fetch_add(1, Ordering::Relaxed);
                    }
                    let called = inner_call::call(context, found, call, self.inner_caller()).await;
                    if may_change && !was_sent(called.as_ref()) {
                        self.changes.fetch_sub(1, Ordering::Relaxed);
                    }
                    if let Some(called) = called {
                        return called;
                    }
                    hidden::hold(context, begun).await;
                    unknown(not_found(server.as_deref(), &tool))
                }
                Err(message) => {
                    record_unknown(context, server.as_deref(), &tool);
                    hidden::hold(context, begun).await;
                    unknown(message)
                }
            },
            HostCall::Search { query, limit } => {
                Called::Ended(CallEnd::Value(found(context, self.dialect, &query, limit).await))
            }
            HostCall::Describe { name } => match find(&view, None, &name) {
                Ok(tool) => Called::Ended(CallEnd::Value(json!(signature(context, tool, self.dialect)))),
                Err(message) => unknown(message),
            },
        }
    }

    /// Goes on with a call after its questions were answered. The tool must be the same as when it asked.
    async fn repeat(&self, asking: AskingCall) -> Called<AskingCall> {
        let begun = Instant::now();
        let (snapshot, view) = self.newest().await;
        let context = self.context_of(&snapshot, &view);
        let name = asking.tool.clone();
        let Some(tool) = view.tool(&name) else {
            record_unknown(context, None, &name);
            hidden::hold(context, begun).await;
            return unknown(not_found(None, &name));
        };
        if !asking.is_of(tool) {
            let message = format!("{name} has changed since it asked the user; call it again");
            return Called::Ended(CallEnd::Raised { kind: Raised::Asks, message });
        }
        if let Some(called) = inner_call::call(context, tool, asking, self.inner_caller()).await {
            return called;
        }
        hidden::hold(context, begun).await;
        unknown(not_found(None, &name))
    }
}

impl ToolHost for Host<'_> {
    type Asking = AskingCall;

    async fn call(&self, call: HostCall) -> Called<AskingCall> {
        // Boxed: a call of a tool carries much state, and several wait at the same time.
        let made: futures::future::BoxFuture<'_, Called<AskingCall>> = Box::pin(self.make(call));
        made.await
    }

    async fn go_on(&self, asking: AskingCall) -> Called<AskingCall> {
        let repeated: futures::future::BoxFuture<'_, Called<AskingCall>> = Box::pin(self.repeat(asking));
        repeated.await
    }

    async fn check(&self, uses: Vec<ToolUse>) -> Vec<Option<String>> {
        let begun = Instant::now();
        let (snapshot, view) = self.newest().await;
        let context = self.context_of(&snapshot, &view);
        let (mut mistakes, mut is_one_unknown) = (Vec::with_capacity(uses.len()), false);
        for named in &uses {
            let found = find(&view, Some(&named.server), &named.tool);
            let mistake = match (found, &named.arguments) {
                (Ok(tool), Some(arguments)) => inner_call::misfit(context, tool, arguments).await,
                (Err(unknown), None) => {
                    record_unknown(context, Some(&named.server), &named.tool);
                    is_one_unknown = true;
                    Some(unknown)
                }
                // An unknown tool is told by its entry without arguments.
                (Ok(_), None) | (Err(_), Some(_)) => None,
            };
            mistakes.push(mistake);
        }
        if is_one_unknown {
            hidden::hold(context, begun).await;
        }
        mistakes
    }

    fn user_time(&self) -> Duration {
        self.user_time.total()
    }
}

/// True unless a call ended before it reached its server.
fn was_sent(called: Option<&Called<AskingCall>>) -> bool {
    let ended_here = |called: &Called<AskingCall>| {
        matches!(called, Called::Ended(CallEnd::Raised { kind: Raised::Arguments | Raised::Unknown, .. }))
    };
    called.is_some_and(|called| !ended_here(called))
}

/// Finds the one tool that a script means, within the caller's view.
fn find<'a>(view: &'a View, server: Option<&str>, name: &str) -> Result<&'a Arc<CatalogTool>, String> {
    let fits: Vec<_> = match server {
        Some(server) => of_server(view, server, name),
        None => match view.tool(name) {
            Some(tool) => vec![tool],
            // Both parts of `server.tool` may have dots.
            None => name
                .match_indices('.')
                .filter_map(|(at, _)| Some(of_server(view, name.get(..at)?, name.get(at + 1..)?)))
                .find(|fits| !fits.is_empty())
                .unwrap_or_else(|| view.tools().filter(|tool| python_name(&tool.name) == name).collect()),
        },
    };
    match fits.as_slice() {
        [tool] => Ok(tool),
        [] => Err(not_found(server, name)),
        several => {
            let names: Vec<_> = several.iter().map(|tool| tool.name.as_str()).collect();
            let names = names.join(" or ");
            let shown = shown(server, name);
            Err(format!("{shown} could be {names}; use call_tool with one of these names"))
        }
    }
}

fn shown(server: Option<&str>, name: &str) -> String {
    server.map_or_else(|| name.to_owned(), |server| format!("{server}.{name}"))
}

/// The text for a missing tool, and for a tool that the caller may not call: they must not be told apart.
fn not_found(server: Option<&str>, name: &str) -> String {
    format!("no tool {}; search_tools(\"what it should do\") finds tools", shown(server, name))
}

fn unknown(message: String) -> Called<AskingCall> {
    Called::Ended(CallEnd::Raised { kind: Raised::Unknown, message })
}

/// Records a call of a tool that does not exist, or that the caller may not see.
fn record_unknown(context: CallContext<'_>, server: Option<&str>, name: &str) {
    match hidden_tool(context, server, name) {
        Some(tool) => hidden::record_call(context, context.start_record(Origin::Script), tool),
        None => context.refuse_unknown(methods::TOOLS_CALL, name),
    }
}

/// Returns the tool that a script means and its caller may not see, by the names that [`find`] knows. Of
/// several with one Python name the first is recorded.
fn hidden_tool<'a>(
    context: CallContext<'a>,
    server: Option<&str>,
    name: &str,
) -> Option<&'a Arc<CatalogTool>> {
    let catalog = context.snapshot.unfiltered();
    let own = server.and_then(|server| catalog.tool_of(server, name).first().copied());
    let exact = own.or_else(|| catalog.tool(name)).filter(|tool| tool.listed);
    let is_meant = |tool: &CatalogTool| {
        if let Some(server) = server {
            return is_named(tool, server, name);
        }
        let mut parts = name.match_indices('.').filter_map(|(at, _)| name.get(..at).zip(name.get(at + 1..)));
        python_name(&tool.name) == name || parts.any(|(server, name)| is_named(tool, server, name))
    };
    exact.or_else(|| catalog.listed().find(|tool| is_meant(tool) && context.view.tool(&tool.name).is_none()))
}

/// True for a tool with this own, listed or Python name, of a server with this name or Python name.
fn is_named(tool: &CatalogTool, server: &str, name: &str) -> bool {
    let is_server = *tool.backend == *server || python_name(&tool.backend) == server;
    is_server
        && [&tool.own_name, &tool.name].iter().any(|own| own.as_str() == name || python_name(own) == name)
}

/// Returns the tools of a server by their own or listed names, else by their Python names.
fn of_server<'a>(view: &'a View, server: &str, name: &str) -> Vec<&'a Arc<CatalogTool>> {
    let exact = view.tools_of(server, name);
    if !exact.is_empty() {
        return exact;
    }
    view.tools().filter(|tool| is_named(tool, server, name)).collect()
}

/// Returns at most `limit` tools that fit a task, as find_tool does, best first.
pub(super) async fn fitting<'a>(
    context: CallContext<'a>,
    task: &str,
    limit: usize,
) -> Vec<&'a Arc<CatalogTool>> {
    let query: String = task.chars().take(MAX_QUERY_CHARS).collect();
    let request = SearchRequest {
        description: &query,
        keywords: "",
        limit: Some(limit),
        visible: Some(context.view.visible()),
        explain: false,
    };
    let searcher = context.engine.searcher(context.snapshot, context.caller.principal.key());
    let found = search(&searcher, request).await;
    let view = context.view;
    found.ranking.hits.iter().filter_map(|hit| view.document(hit.document)).collect()
}

/// Searches as find_tool does; each tool with its signature, best first.
async fn found(context: CallContext<'_>, dialect: Dialect, query: &str, limit: Option<usize>) -> Value {
    let limit = limit.unwrap_or(DEFAULT_FOUND).clamp(1, MAX_FOUND);
    let tools = fitting(context, query, limit).await.into_iter();
    let entry = |tool: &Arc<CatalogTool>| {
        json!({
            "server": &*tool.backend, "tool": tool.own_name, "name": tool.name, "signature": signature(context, tool, dialect),
        })
    };
    tools.map(entry).collect()
}
