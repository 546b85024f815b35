//! Sends an authorized request to its backend: parameters, trace context, rounds of input, the task that a
//! call may become.

mod codex_threads;
mod composite;
mod exchange_span;
pub mod question_span;

use std::pin::pin;
use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_access::rate_limit::Limited;
use vmcp_backend::{Backend, CallError, EventSender, Request, Response, RpcOutcome, Transmission};
use vmcp_json::duplicates;
use vmcp_wire::era::Era;
use vmcp_wire::handshake::client_capabilities::AnswerableQuestions;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::{methods, translate};
use vmcp_workflow::CompositeTool;

use super::confirmation;
use super::input_rounds::{InputRounds, Next};
use super::outgoing::Outgoing;
use super::question_source;
use super::task_calls::{self, task_names};
use crate::answer::is_pending;
use crate::caller::CallContext;
use crate::router::{self, BackendTarget};
use crate::subject;
use codex_threads::CodexCall;
use composite::OpenRun;
pub(crate) use composite::continues_run;
use question_span::AskingServer;
pub(crate) use vmcp_engine::access::outgoing::ClientAtBackend;
use vmcp_engine::access::policy::Item;
use vmcp_engine::engine::Snapshot;
use vmcp_engine::telemetry::calls::CallRecorder;
use vmcp_engine::telemetry::traces::{self, TraceContext, TraceSpan};

/// An authorized way to a backend, the same for all rounds of input.
#[derive(Clone, Copy)]
pub(super) struct AuthorizedTarget<'a> {
    pub(super) context: CallContext<'a>,
    pub(super) target: &'a BackendTarget<'a>,
    /// The span of the call.
    pub(super) span: &'a TraceSpan,
    /// True if a large result may be returned while it arrives.
    pub(super) stream: bool,
    /// True if a webhook reads the result.
    pub(super) is_read: bool,
}

/// Checks the form of a request, then takes the tokens that it costs.
pub(super) async fn check(
    context: CallContext<'_>,
    target: &BackendTarget<'_>,
    params: &OwnedParams,
) -> Result<(), CallError> {
    if context.caller.continues.as_ref().is_some_and(|backend| backend != target.backend) {
        let reason = "`requestState` belongs to another backend; repeat the request without it".to_owned();
        return Err(CallError::InvalidRequest { reason });
    }
    if let Some(key) = duplicate_key(target, params) {
        let reason = format!("the arguments name the key `{}` twice", subject::shown(&key));
        return Err(CallError::InvalidRequest { reason });
    }
    match target.item {
        Item::Tool(tool) => rate_limit(context, &tool.name).await,
        _ => Ok(()),
    }
}

/// Sends a request, and repeats it with the client's input while a modern backend asks a legacy client.
pub(super) async fn run(
    way: AuthorizedTarget<'_>,
    params: &OwnedParams,
    recorder: &mut CallRecorder,
) -> Result<Response, CallError> {
    let AuthorizedTarget { context, target, is_read, .. } = way;
    let codex = CodexCall::read(context, target, params);
    // Boxed: most calls are for other servers.
    if let Some(codex) = &codex
        && let Some(refusal) = Box::pin(codex.refusal()).await?
    {
        return Ok(refusal);
    }
    if let Item::Tool(tool) = target.item
        && confirmation::is_needed(context, tool)
    {
        // Boxed, as the rounds of input: most calls carry the state of neither.
        Box::pin(confirmation::obtain(context, tool, params)).await?;
    }
    let outgoing = Outgoing::new(context, target, params, is_read)?;
    let continues = context.caller.continues.is_some();
    let mut exchange = Exchange { way, outgoing: &outgoing, recorder, continues, open_run: None };
    let mut response = exchange.send(context.snapshot, &outgoing.params).await?;
    match context.caller.era {
        Era::Legacy => {
            let answer_timeout = context.snapshot.config.proxy.max_tool_timeout;
            let mut rounds = InputRounds::new(context.caller, &outgoing.params, answer_timeout);
            loop {
                match rounds.next(&response).await? {
                    Next::Repeat(params) => {
                        // A user takes time to answer, and a reload may have replaced the backend meanwhile.
                        let newest = context.engine.snapshot();
                        exchange.continues = true;
                        response = Box::pin(exchange.send(&newest, &params)).await?;
                    }
                    Next::Complete => break,
                    Next::Error(error) => {
                        response = Response { outcome: RpcOutcome::error(&error), era: Era::Legacy };
                        break;
                    }
                }
            }
        }
        Era::Modern => response = visit_first(context, target, response),
    }
    if let Some(codex) = &codex {
        response = Box::pin(codex.complete(response)).await;
    }
    match target.item {
        // A webhook that reads the result refuses a task: the caller gets no id of it.
        Item::Tool(_) if is_read => Ok(response),
        Item::Tool(tool) => task_calls::issue(context, tool, outgoing.as_task, response),
        _ => Ok(response),
    }
}

/// Returns a key that the arguments name twice: policy, user and backend could each take another value.
fn duplicate_key(target: &BackendTarget<'_>, params: &OwnedParams) -> Option<String> {
    let read = match target.item {
        Item::Tool(_) | Item::Prompt(_) => params.get("arguments")?,
        Item::Backend => params.text(),
        Item::OwnTool(_) | Item::Resource(_) | Item::Task { .. } => return None,
    };
    duplicates::duplicate_key(read)
}

/// Takes the tokens that a call of a tool costs; its rounds of input cost nothing more.
async fn rate_limit(context: CallContext<'_>, tool: &str) -> Result<(), CallError> {
    let taken = context.snapshot.rate_limiter.take(&context.caller.principal.key(), tool).await;
    taken.map_err(|Limited { scope, retry_after }| CallError::RateLimited {
        scope: scope.words(),
        retry_after,
    })
}

/// Returns the handle of the target's backend in a snapshot; an error if there is none any more.
pub(super) fn backend<'a>(
    snapshot: &'a Snapshot,
    target: &BackendTarget<'_>,
) -> Result<&'a Backend, CallError> {
    let backend = snapshot.backends.get(target.backend);
    backend.ok_or_else(|| CallError::unsent("it is being removed"))
}

/// One request to a backend and its answer; repeated in rounds of input.
struct Exchange<'a> {
    way: AuthorizedTarget<'a>,
    outgoing: &'a Outgoing,
    recorder: &'a mut CallRecorder,
    /// True if the state in the parameters is one that vmcp has read from a seal, or got in an earlier round.
    continues: bool,
    /// The run of a composite tool, over all rounds.
    open_run: Option<OpenRun>,
}

impl Exchange<'_> {
    /// Returns the receiver of the messages of `server`, in the terms of the caller. Spans below `exchange`,
    /// whose context is `trace`, follow questions.
    fn events(
        &self,
        exchange: &TraceSpan,
        trace: &TraceContext,
        server: impl FnOnce() -> AskingServer,
    ) -> Option<EventSender> {
        let AuthorizedTarget { context, target, .. } = self.way;
        let events = context.caller.events.as_ref()?;
        let names = task_names::of_events(context, target.backend);
        if exchange.is_none() {
            return Some(events.mapped(names));
        }
        Some(events.mapped(question_span::of_events(trace, server())).mapped(names))
    }

    /// Sends the request with these parameters to the backend of a snapshot.
    async fn send(&mut self, snapshot: &Snapshot, params: &OwnedParams) -> Result<Response, CallError> {
        let AuthorizedTarget { context, target, span, stream, is_read } = self.way;
        if let Some(composite) =
            target.item.tool().and_then(|tool| router::composite_definition(snapshot, tool))
        {
            return self.run(composite, params).await;
        }
        let backend = backend(snapshot, target)?;
        let caller = context.caller;
        let revision = backend.revision();
        // A server of both eras is spoken to in the era of the client: the answer tells which.
        let certain =
            revision.filter(|revision| revision.era() == Era::Legacy || context.caller.era == Era::Modern);
        let exchange = exchange_span::begin(span, target, backend, certain);
        let ClientAtBackend { principal, credentials } = context.at_backend(backend);
        let mut client = question_source::told_client(context, target.backend);
        if matches!(target.item, Item::Tool(_)) && is_read {
            client = question_source::without_tasks(client);
        }
        let trace = traces::outgoing(&exchange, &caller.trace);
        let server = || AskingServer { network: Arc::clone(backend.network()), revision: certain };
        let events = self.events(&exchange, &trace, server);
        let request = Request {
            method: &target.method,
            params,
            subject: target.subject(),
            param_headers: self.outgoing.param_headers.clone(),
            deadline: target.deadline,
            hasty: target.deadline < context.snapshot.tool_timeout(target.backend),
            trace,
            principal,
            credentials,
            client,
            session: caller.session,
            events,
            cancel: caller.cancel.clone(),
            idempotent: target.idempotent,
            stream,
        };
        self.recorder.asks(params.text().len());
        let record = self.recorder.record();
        record.network = Some(Arc::clone(backend.network()));
        record.revision = certain;
        record.exchange = exchange.clone();
        let answer = traces::in_span(pin!(backend.request(request)), &exchange).await;
        let is_state = matches!(target.item, Item::Task { .. });
        let answer = match answer {
            Ok(response) if question_source::is_silent(context, target.backend) => {
                question_source::unasking(response, is_state)
            }
            Ok(response) if !context.snapshot.bridge => {
                question_source::named_response(response, target.backend, is_state)
            }
            answer => answer,
        };
        if let Ok(Response { era, .. }) = &answer {
            let record = self.recorder.record();
            record.backend_era = Some(*era);
            if certain.is_none()
                && let Some(spoken) = revision.filter(|revision| revision.era() == *era)
            {
                record.revision = Some(spoken);
                record.exchange.text("mcp.protocol.version", spoken.as_str());
            }
        }
        if answer.as_ref().is_ok_and(is_pending) {
            // It ends here: the user may take long to answer.
            self.recorder.record().exchange = TraceSpan::none();
        }
        match &answer {
            Ok(Response { outcome: RpcOutcome::Result(payload) | RpcOutcome::Error(payload), .. }) => {
                self.recorder.receives(payload.size());
                self.recorder.answered(Transmission::Sent);
            }
            // Answered only when its last byte has arrived.
            Ok(Response { outcome: RpcOutcome::Arriving(_), .. }) => {}
            Err(error) => self.recorder.answered(error.transmission()),
        }
        answer
    }
}

impl Exchange<'_> {
    /// Runs a composite tool in place of a request.
    async fn run(&mut self, tool: &Arc<CompositeTool>, params: &OwnedParams) -> Result<Response, CallError> {
        self.recorder.asks(params.text().len());
        let (context, open, recorder) = (self.way.context, &mut self.open_run, &mut *self.recorder);
        let answer = composite::run(context, tool, params, self.continues, open, recorder).await;
        self.recorder.answered(answer.as_ref().map_or_else(CallError::transmission, |_| Transmission::Sent));
        let run = self.open_run.as_ref().and_then(OpenRun::id).map(Box::from);
        self.recorder.record().run = run;
        if let Ok(Response { outcome: RpcOutcome::Result(result), .. }) = &answer {
            self.recorder.receives(result.size());
        }
        answer
    }
}

/// Turns a legacy backend's demand to visit a URL first (an error) into the question that a modern client
/// understands.
fn visit_first(context: CallContext<'_>, target: &BackendTarget<'_>, response: Response) -> Response {
    let Response { outcome: RpcOutcome::Error(error), era: Era::Legacy } = &response else { return response };
    let declared = context.caller.client.capabilities.as_deref();
    let url = RawValue::from_string(r#"{"mode":"url"}"#.to_owned()).ok();
    if !methods::may_require_input(&target.method)
        || !AnswerableQuestions::read(declared).allow(methods::ELICIT, url.as_deref())
    {
        return response;
    }
    let question = translate::url_elicitation(error).ok().flatten();
    match question.and_then(|question| RawValue::from_string(question).ok()) {
        Some(question) => Response { outcome: RpcOutcome::Result(question.into()), era: Era::Modern },
        None => response,
    }
}
