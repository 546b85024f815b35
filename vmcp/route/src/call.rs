//! The call seam: the one way to a backend. It reads from top to bottom:
//!
//! ```text
//! router       name or URI → target, within the caller's view; unknown ends here
//! authorize    (principal, target, arguments) → Authorized, or Denied: answered like unknown
//! admission    scopes of the token, rate limit, webhooks, decision point: a refusal that says so
//! call         Authorized → backend: breaker, deadline, retry, lease, transport
//! post         webhooks that may replace or withhold the result
//! record       one CallRecord, when the answer has ended or was dropped → its observers
//! ```
//!
//! Every way goes through it: direct calls, call_tool, [`Tools`](super::Tools), prompts, resources,
//! completions, tasks, extensions, subscriptions. Only [`authorize`] makes an [`Authorized`], and only an
//! `Authorized` reaches a backend. What ends a subscription or a session needs no right.
//!
//! | to add | begin at |
//! |---|---|
//! | a policy | [`Policy`](vmcp_engine::access::policy::Policy), in force as part of the snapshot |
//! | a limit per call | [`authorize`], behind the decision, before anything is sent |
//! | an observer | [`CallObserver`](vmcp_engine::telemetry::calls::CallObserver) |
//! | a way to a backend | a [`BackendTarget`] from the router, then this file |

pub(super) mod ask_client;
pub(super) mod cause;
mod confirmation;
mod failure_text;
pub(super) mod hidden;
pub(crate) mod input_rounds;
mod outgoing;
pub mod question_source;
mod rights;
pub(super) mod send;
mod shown_arguments;
pub(super) mod task_calls;

use std::pin::pin;
use std::sync::Arc;

use vmcp_backend::{Backend, CallError, Response, RpcOutcome, Subscriber, Transmission};
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::payload::Payload;

pub use confirmation::CONFIRMATION_PREFIX;
pub(crate) use confirmation::ask_user;
pub(crate) use outgoing::own_meta;
pub(crate) use send::continues_run;
pub(crate) use shown_arguments::escaped as shown_text;

use super::answer::{Answer, ArrivingAnswer, Content, is_pending};
use super::caller::{CallContext, secret_arguments};
use super::router::BackendTarget;
use vmcp_engine::access::identity::Principal;
pub(crate) use vmcp_engine::access::outgoing::ClientAtBackend;
use vmcp_engine::access::policy::{AccessRequest, Decision, Item, PolicyId};
pub(crate) use vmcp_engine::engine::linked_uris;
use vmcp_engine::optim::names::OptimTool;
use vmcp_engine::telemetry::calls::{CallRecorder, Origin, Outcome};
use vmcp_engine::telemetry::operations::shortened;
use vmcp_engine::telemetry::traces::{self, TraceSpan};

pub(super) use failure_text::first_text;
use rights::webhooks;

/// Id of the decision that denies since the client's credential was withdrawn.
const WITHDRAWN: &str = "withdrawn";
/// Links of one result that are matched against the templates of all backends. A further link that a template
/// leads to is remembered although it need not be.
const MAX_MATCHED_LINKS: usize = 8;
/// The reason of a call whose begin could not be put on record, where that is required (`audit.failClosed`).
pub(crate) const UNRECORDED: &str =
    "the call cannot be recorded in the audit trail, and is not made without it";

/// The refusal of a policy. Its caller answers as if the target did not exist, byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Denied;

/// A call that a policy has allowed. It is made once: by [`Authorized::call`], [`Authorized::subscribe`] or
/// [`Authorized::watch_task`]. Dropped, it counts as cancelled.
pub struct Authorized<'a> {
    context: CallContext<'a>,
    target: BackendTarget<'a>,
    recorder: CallRecorder,
    /// True if a policy reads the arguments of this call.
    judges_arguments: bool,
    /// Arguments for the decision point, each in a question; if empty, it reads the request's arguments.
    shown: Vec<String>,
}

/// True if an answer may name this tool to the caller: the policy allows calls of it, whatever the arguments.
pub(crate) fn may_name(context: CallContext<'_>, tool: &Arc<CatalogTool>) -> bool {
    let target = BackendTarget::tool(context.snapshot, tool);
    let request = AccessRequest {
        principal: &context.caller.principal,
        action: &target.method,
        backend: target.backend,
        item: target.item,
        arguments: None,
    };
    matches!(context.snapshot.policy.decide(&request), Decision::Allow { .. })
}

/// True if a post webhook reads the results of this tool, and may replace them.
pub(crate) fn is_result_read(context: CallContext<'_>, tool: &Arc<CatalogTool>) -> bool {
    webhooks::read_result(context, &BackendTarget::tool(context.snapshot, tool))
}

/// Asks the policy about a call. `arguments` are JSON text; `recorder` goes on with the call, or ends here.
pub(crate) fn authorize<'a>(
    context: CallContext<'a>,
    mut recorder: CallRecorder,
    target: BackendTarget<'a>,
    arguments: Option<&str>,
) -> Result<Authorized<'a>, Denied> {
    let request = AccessRequest {
        principal: &context.caller.principal,
        action: &target.method,
        backend: target.backend,
        item: target.item,
        arguments,
    };
    // Runs and scripts go on after the request that proved the identity. An operator who calls as an identity
    // chooses its claims.
    let Principal { identity, operator, .. } = &context.caller.principal;
    let authentication = &context.snapshot.authentication;
    let has_changed = operator.is_none() && authentication.has_changed(identity);
    let decision = if has_changed || authentication.has_withdrawn(identity) {
        Decision::Deny { policy: PolicyId::new(WITHDRAWN) }
    } else {
        context.snapshot.policy.decide(&request)
    };
    recorder.keep_arguments(arguments);
    let record = recorder.record();
    record.policy_version = Some(context.snapshot.policy.version());
    record.backend = Some(target.backend.clone());
    record.method.clone_from(&target.method);
    match target.item {
        Item::Tool(tool) => record.tool = Some(tool.clone()),
        Item::Prompt(prompt) => record.subject = Some(prompt.name.as_str().into()),
        Item::Resource(text) | Item::Task { id: text, .. } => record.subject = Some(text.into()),
        Item::OwnTool(_) | Item::Backend => {}
    }
    match decision {
        Decision::Allow { policy } => {
            record.policy = Some(policy);
            let judges_arguments = context.snapshot.policy.reads_arguments(&request);
            Ok(Authorized { context, target, recorder, judges_arguments, shown: Vec::new() })
        }
        Decision::Deny { policy } => {
            record.policy = Some(policy);
            recorder.settle(Outcome::Denied);
            Err(Denied)
        }
    }
}

/// Asks the policy about a call of an own tool, off the record. Its target, if it has one, is asked about by
/// itself.
pub(crate) fn decide_own(context: CallContext<'_>, tool: OptimTool, arguments: Option<&str>) -> Decision {
    let request = AccessRequest {
        principal: &context.caller.principal,
        action: methods::TOOLS_CALL,
        backend: "",
        item: Item::OwnTool(tool.dotted()),
        arguments,
    };
    context.snapshot.policy.decide(&request)
}

/// As [`decide_own`], of a call that is under way: a denial leaves its record.
pub(crate) fn authorize_own(
    context: CallContext<'_>,
    tool: OptimTool,
    arguments: Option<&str>,
) -> Result<(), Denied> {
    let Decision::Deny { policy } = decide_own(context, tool, arguments) else { return Ok(()) };
    let origin = match tool {
        OptimTool::FindTool => Origin::FindTool,
        OptimTool::CallTool => Origin::CallTool,
        other => Origin::Own(other),
    };
    let mut recorder = context.start_record(origin);
    recorder.keep_arguments(arguments.and_then(|text| secret_arguments::recorded(tool, text)).as_deref());
    recorder.record().policy = Some(policy);
    recorder.settle(Outcome::Denied);
    Err(Denied)
}

impl<'a> Authorized<'a> {
    /// True if a policy reads the arguments: they must fit the schema of the tool, because a policy that
    /// expects a number judges no text, and a backend may take one for the other.
    pub(crate) fn judges_arguments(&self) -> bool {
        self.judges_arguments
    }

    /// Shows the decision point these arguments, each in a question, in place of the request's.
    pub(crate) fn showing(self, arguments: Vec<String>) -> Authorized<'a> {
        Authorized { shown: arguments, ..self }
    }

    /// Sends the request and waits for its end; `params` are the client's. For a legacy client, questions of
    /// a modern backend are answered on the way; a modern client gets them as the result.
    pub(crate) async fn call(self, params: &OwnedParams) -> Result<Response, CallError> {
        let (answer, recorder) = self.send(params, false).await;
        recorder.settle(outcome(&answer));
        answer
    }

    /// Sends the request and waits for its end; returns the backend's answer as it came. A large result is
    /// returned while it arrives, if the caller can take it so; its record ends with it.
    pub(crate) async fn answer(self, params: &OwnedParams) -> Result<Answer, CallError> {
        let (backend, stream) = (self.target.backend, self.context.caller.takes_arriving);
        let (answer, recorder) = self.send(params, stream).await;
        match answer {
            Ok(Response { outcome: RpcOutcome::Arriving(result), era }) => {
                let content = Content::Arriving(Box::new(ArrivingAnswer::new(result, recorder)));
                Ok(Answer { content, era, pending: None })
            }
            answer => {
                recorder.settle(outcome(&answer));
                answer.map(|response| Answer::relayed(backend, response))
            }
        }
    }

    /// Sends the request, and hands back the record that is to be settled.
    async fn send(
        mut self,
        params: &OwnedParams,
        stream: bool,
    ) -> (Result<Response, CallError>, CallRecorder) {
        let span = TraceSpan::begin("backend.call", |open| {
            open.call();
            open.text("backend", self.target.backend);
            open.text("method", &shortened(&self.target.method));
            open.optional("name", self.target.subject().map(shortened).as_deref());
        });
        self.recorder.record().span = span.clone();
        let admitted = traces::in_span(pin!(self.admit(params)), &span).await;
        let changed = match admitted {
            Ok(changed) => changed,
            Err(refused) => {
                let refused = Err(refused);
                self.recorder.record().error = failure_text::of(&refused, None);
                return (refused, self.recorder);
            }
        };
        let params = changed.as_ref().unwrap_or(params);
        if !self.recorder.begins().await {
            return (Err(unrecorded()), self.recorder);
        }
        let is_read = webhooks::read_result(self.context, &self.target);
        let stream = stream && !is_read;
        let way = send::AuthorizedTarget {
            context: self.context,
            target: &self.target,
            span: &span,
            stream,
            is_read,
        };
        let mut answer = traces::in_span(pin!(send::run(way, params, &mut self.recorder)), &span).await;
        if is_read && let Ok(response) = answer {
            let (context, record) = (self.context, self.recorder.record());
            let read = webhooks::after_call(context, &self.target, params, response, record);
            answer = traces::in_span(Box::pin(read).as_mut(), &span).await;
        }
        let answer = answer.map_err(|error| cause::explain(error, self.context, self.target.backend));
        let backend = self.context.snapshot.backends.get(self.target.backend);
        self.recorder.record().error = failure_text::of(&answer, backend);
        self.recorder.record().error_code = error_code(&answer);
        self.recorder.record().pending = answer.as_ref().is_ok_and(is_pending);
        if let Ok(Response { outcome: RpcOutcome::Result(result), .. }) = &answer {
            self.learn_links(result);
            self.observe_shape(result);
        }
        (answer, self.recorder)
    }

    /// Checks rights that the policy does not know of, and the rate. Webhooks and the decision point are
    /// asked last: a call beyond the rate costs them nothing. Returns the parameters that a webhook changed.
    async fn admit(&mut self, params: &OwnedParams) -> Result<Option<OwnedParams>, CallError> {
        rights::check_scopes(self.context, &self.target)?;
        send::check(self.context, &self.target, params).await?;
        let changed = self.ask_webhooks(params).await?;
        let shown = std::mem::take(&mut self.shown);
        if shown.is_empty() {
            self.ask_decision_point(changed.as_ref().unwrap_or(params).get("arguments")).await?;
        }
        for arguments in &shown {
            self.ask_decision_point(Some(arguments)).await?;
        }
        Ok(changed)
    }

    /// Asks the webhooks, if there are any.
    async fn ask_webhooks(&mut self, params: &OwnedParams) -> Result<Option<OwnedParams>, CallError> {
        let asked = &self.context.snapshot.webhooks;
        if asked.mutating.is_empty() && asked.validating.is_empty() {
            return Ok(None);
        }
        // Boxed: most servers have no webhooks.
        Box::pin(webhooks::before_call(self.context, &self.target, params, &mut self.recorder)).await
    }

    /// Asks the decision point, if there is one.
    async fn ask_decision_point(&mut self, arguments: Option<&str>) -> Result<(), CallError> {
        let context = self.context;
        let Some(point) = &context.snapshot.decision_point else { return Ok(()) };
        // Boxed: most servers have no decision point.
        Box::pin(rights::ask(point, context, &self.target, arguments, self.recorder.record())).await
    }

    /// Remembers the links in a result that the catalog does not lead to this backend.
    fn learn_links(&self, result: &Payload) {
        if !result.may_hold_links() {
            return;
        }
        let (context, backend) = (self.context, self.target.backend);
        for (number, uri) in linked_uris::linked(result).iter().enumerate() {
            // A backend chooses both the links and the templates that are matched.
            let view = context.view;
            let known =
                if number < MAX_MATCHED_LINKS { view.resource(uri) } else { view.listed_resource(uri) };
            if known.is_none_or(|known| known.backend() != backend) {
                context.snapshot.links.learn(context.caller.link_owner(), uri, backend);
            }
        }
    }

    /// Shows the shape of a successful result to its learner, which reads it off this path.
    fn observe_shape(&mut self, result: &Payload) {
        let Item::Tool(tool) = self.target.item else { return };
        if !self.recorder.record().pending && !result.is_tool_error() {
            let context = self.context;
            context.engine.shapes().observe(tool, &context.caller.principal.key(), result);
        }
    }

    /// Sends the request; returns the backend's answer as it came, or why there is none.
    pub(crate) async fn relay(self, params: &OwnedParams) -> Answer {
        let backend = self.target.backend;
        self.answer(params).await.unwrap_or_else(|error| Answer::unanswered(backend, &error))
    }

    /// Subscribes to the resource at its backend.
    pub async fn subscribe(mut self) -> Result<(&'a Backend, RpcOutcome), CallError> {
        let answer = async {
            let backend = send::backend(self.context.snapshot, &self.target)?;
            let uri = self.target.subject().unwrap_or_default();
            rights::check_scopes(self.context, &self.target)?;
            self.ask_decision_point(None).await?;
            if !self.recorder.begins().await {
                return Err(unrecorded());
            }
            self.recorder.asks(uri.len());
            let caller = self.context.caller;
            let ClientAtBackend { principal, credentials } = self.context.at_backend(backend);
            let client = question_source::told_client(self.context, self.target.backend);
            let subscriber = Subscriber { session: caller.session, principal, credentials, client };
            let answer = backend.subscribe(uri, &subscriber).await;
            self.recorder
                .answered(answer.as_ref().map_or_else(CallError::transmission, |_| Transmission::Sent));
            Ok((backend, answer?))
        };
        let answer = answer.await;
        self.recorder.settle(match &answer {
            Ok((_, RpcOutcome::Result(_) | RpcOutcome::Arriving(_))) => Outcome::Ok,
            Ok((_, RpcOutcome::Error(_))) => Outcome::RpcError,
            Err(error) => Outcome::from(error),
        });
        answer
    }

    /// Subscribes to the notifications of the task at its backend. They may have the task's result in them,
    /// so the decision point is asked as about a request for it.
    pub async fn watch_task(mut self) -> Result<&'a Backend, CallError> {
        let watched = async {
            let backend = send::backend(self.context.snapshot, &self.target)?;
            rights::check_scopes(self.context, &self.target)?;
            self.ask_decision_point(None).await?;
            if !self.recorder.begins().await {
                return Err(unrecorded());
            }
            backend.watch_task(self.target.subject().unwrap_or_default())?;
            Ok::<_, CallError>(backend)
        };
        let watched = watched.await;
        self.recorder.settle(watched.as_ref().map_or_else(Outcome::from, |_| Outcome::Ok));
        watched
    }

    /// Ends the call as denied by a policy that was asked about more than the target itself.
    pub(crate) fn deny(mut self, policy: PolicyId) {
        self.recorder.record().policy = Some(policy);
        self.recorder.settle(Outcome::Denied);
    }

    /// Ends the call without asking the backend.
    pub fn settle(self, outcome: Outcome) {
        self.recorder.settle(outcome);
    }
}

/// The error of a call whose begin could not be put on record.
fn unrecorded() -> CallError {
    CallError::unsent(UNRECORDED)
}

fn outcome(answer: &Result<Response, CallError>) -> Outcome {
    match answer {
        Ok(Response { outcome: RpcOutcome::Result(result), .. }) if result.is_tool_error() => {
            Outcome::ToolError
        }
        Ok(Response { outcome: RpcOutcome::Result(_) | RpcOutcome::Arriving(_), .. }) => Outcome::Ok,
        Ok(Response { outcome: RpcOutcome::Error(_), .. }) => Outcome::RpcError,
        Err(error) => Outcome::from(error),
    }
}

/// Returns the code of a backend's JSON-RPC error.
fn error_code(answer: &Result<Response, CallError>) -> Option<i64> {
    let Ok(Response { outcome: RpcOutcome::Error(error), .. }) = answer else { return None };
    Object::parse(error).ok()?.text("code")?.parse().ok()
}

#[cfg(test)]
mod tests;
