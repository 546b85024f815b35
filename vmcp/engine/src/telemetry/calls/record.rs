//! [`CallRecord`]: the facts of one call, however it was made.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use vmcp_backend::{CallError, ServerNetwork, SessionId, Transmission};
use vmcp_config::OptimTool;
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::methods;

use crate::access::context_key::ContextKey;
use crate::access::identity::Principal;
use crate::access::policy::PolicyId;
use crate::telemetry::operations::shortened;
use crate::telemetry::traces::TraceSpan;

/// The facts of one call of an own tool, or of one authorized or denied way to a backend. Results are no part
/// of it, except the first words of an error; arguments only if an observer asks for them.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// The caller.
    pub principal: Principal,
    /// The caller's session, in the legacy era.
    pub session: Option<SessionId>,
    /// The context within which the client called, if it named one; else that of its session.
    pub context: Option<ContextKey>,
    /// The way that the call came.
    pub origin: Origin,
    /// The MCP method.
    pub method: Cow<'static, str>,
    /// The backend; `None` for find_tool, and for a call_tool that found no target.
    pub backend: Option<Arc<str>>,
    /// The tool that ran or would have run, with the hash of its schema. `None`: the call was of no tool.
    pub tool: Option<Arc<CatalogTool>>,
    /// The prompt, URI or task of a call that was of no tool. Text of the client: never a label.
    pub subject: Option<Box<str>>,
    /// The id of the composite tool's run that the call is, or is a step of, once it has begun.
    pub run: Option<Box<str>>,
    /// The policy that decided; `None` for own tools, which reach no backend by themselves.
    pub policy: Option<PolicyId>,
    /// Version of the policies that decided.
    pub policy_version: Option<Arc<str>>,
    /// Effects of webhooks on the call, in their order; a webhook that only allowed has none.
    pub webhooks: Vec<WebhookEffect>,
    /// Requests to the backend: more than one if it asked for input, none if it was not asked.
    pub requests: u32,
    /// Bytes of parameters sent to the backend; of the arguments, for an own tool that answers itself.
    pub bytes_in: u64,
    /// Bytes of results and errors received from the backend; of the answer, for an own tool that answers
    /// itself.
    pub bytes_out: u64,
    /// Part of its way that the call made: tells whether the backend may have executed it.
    pub transmission: Transmission,
    /// The end of the call.
    pub outcome: Outcome,
    /// The first words of a failure's text, as the backend wrote it. For metrics of tools only: never logged,
    /// never a label.
    pub error: Option<Box<str>>,
    /// The code of a backend's JSON-RPC error.
    pub error_code: Option<i64>,
    /// Era of the client, where a client called.
    pub client_era: Option<Era>,
    /// Era in which the backend answered; another one than the client's means a translation.
    pub backend_era: Option<Era>,
    /// The way to the backend; `None`: nothing was sent to one.
    pub network: Option<Arc<ServerNetwork>>,
    /// The revision that the backend spoke, if it is known.
    pub revision: Option<Revision>,
    /// The arguments, if an observer asks for them. Never logged, never a label.
    pub arguments: Option<RecordedArguments>,
    /// SHA-256 of the arguments as the policy saw them, if an observer asks for it.
    pub arguments_digest: Option<[u8; 32]>,
    /// True if the answer is a question to the client or a task, and no complete result.
    pub pending: bool,
    /// The end of the call; `None`: it goes on.
    pub ended: Option<SystemTime>,
    /// Time from the caller's request to the end of the answer.
    pub took: Duration,
    /// Part of `took` during which the backend had a request; the client's time for questions is not in it.
    pub backend_took: Duration,
    /// The W3C trace id.
    pub trace: Option<[u8; 16]>,
    /// The span of the last exchange with the backend. A span ends as its field is dropped: this one first,
    /// within that of the call.
    pub exchange: TraceSpan,
    /// The span of the call, for observers that add to it.
    pub span: TraceSpan,
}

impl CallRecord {
    /// The record of a call of a tool that has just begun. A call straight to the target gets a span of its
    /// own if it is allowed; until then it has none.
    pub fn begin(principal: Principal, session: Option<SessionId>, origin: Origin) -> CallRecord {
        let span = if origin == Origin::Client { TraceSpan::none() } else { TraceSpan::current() };
        CallRecord {
            principal,
            session,
            context: None,
            origin,
            method: Cow::Borrowed(methods::TOOLS_CALL),
            backend: None,
            tool: None,
            subject: None,
            run: None,
            policy: None,
            policy_version: None,
            webhooks: Vec::new(),
            requests: 0,
            bytes_in: 0,
            bytes_out: 0,
            transmission: Transmission::NotSent,
            outcome: Outcome::Cancelled,
            error: None,
            error_code: None,
            client_era: None,
            backend_era: None,
            network: None,
            revision: None,
            arguments: None,
            arguments_digest: None,
            pending: false,
            ended: None,
            took: Duration::ZERO,
            backend_took: Duration::ZERO,
            trace: None,
            exchange: TraceSpan::none(),
            span,
        }
    }

    /// Takes the facts out, to be kept after the call; without the spans, which would stay open as long.
    /// Texts of the client are cut: a request with a URI of its whole size may reach the only backend with
    /// resources, and a thousand records would hold gigabytes.
    pub(in crate::telemetry) fn take(&mut self) -> CallRecord {
        let empty = CallRecord::begin(Principal::default(), None, Origin::Client);
        let mut record = std::mem::replace(self, empty);
        if let Cow::Owned(beginning) = shortened(&record.method) {
            record.method = Cow::Owned(beginning);
        }
        if let Some(Cow::Owned(beginning)) = record.subject.as_deref().map(shortened) {
            record.subject = Some(beginning.into_boxed_str());
        }
        CallRecord { exchange: TraceSpan::none(), span: TraceSpan::none(), ..record }
    }
}

/// The effect of a webhook on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEffect {
    /// The webhook's configured name.
    pub webhook: Arc<str>,
    /// `changed_arguments`, `denied`, `replaced_result`, `withheld_result` or `ignored_failure`.
    pub effect: &'static str,
}

/// Arguments of a call, or their beginning.
#[derive(Debug, Clone)]
pub struct RecordedArguments {
    /// JSON as the client sent it; if truncated, the beginning of it.
    pub text: Box<str>,
    /// True if the arguments were longer.
    pub truncated: bool,
}

impl RecordedArguments {
    /// Keeps at most `limit` bytes, and whole characters.
    pub fn new(arguments: &str, limit: usize) -> RecordedArguments {
        let end = arguments.floor_char_boundary(limit);
        let kept = arguments.get(..end).unwrap_or(arguments);
        RecordedArguments { text: kept.into(), truncated: kept.len() < arguments.len() }
    }

    /// Returns at most `limit` bytes of them.
    #[must_use]
    pub fn cut(&self, limit: usize) -> RecordedArguments {
        let RecordedArguments { text, truncated } = Self::new(&self.text, limit);
        RecordedArguments { text, truncated: truncated || self.truncated }
    }
}

/// The way that a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A request of a client, straight to the target.
    Client,
    /// A client's find_tool.
    FindTool,
    /// A client's call_tool.
    CallTool,
    /// A client's call of another own tool.
    Own(OptimTool),
    /// vmcp's call of a similar tool in place of a failed one.
    Fallback,
    /// A step of a composite tool.
    Step,
    /// A call by a script.
    Script,
    /// Code of vmcp, through `vmcp_route::Tools`.
    Internal,
}

impl Origin {
    /// Returns the own tool that the client called.
    pub fn own_tool(self) -> Option<&'static str> {
        match self {
            Origin::FindTool => Some("optim.find_tool"),
            Origin::CallTool | Origin::Fallback => Some("optim.call_tool"),
            Origin::Own(tool) => Some(tool.dotted()),
            Origin::Script => Some("optim.execute_code"),
            Origin::Client | Origin::Step | Origin::Internal => None,
        }
    }
}

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A result.
    Ok,
    /// A result with `isError`, or a call that an own tool refused.
    ToolError,
    /// A JSON-RPC error of the backend.
    RpcError,
    /// A policy denied the call.
    Denied,
    /// The caller went away, or cancelled.
    Cancelled,
    /// The backend gave no answer; the category of the [`CallError`].
    Failed(&'static str),
}

impl Outcome {
    /// Returns the label for metrics and logs; one of a fixed set.
    pub fn label(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::ToolError => "tool_error",
            Outcome::RpcError => "rpc_error",
            Outcome::Denied => "denied",
            Outcome::Cancelled => "cancelled",
            Outcome::Failed(category) => category,
        }
    }
}

impl From<&CallError> for Outcome {
    fn from(error: &CallError) -> Outcome {
        match error {
            CallError::Cancelled { .. } => Outcome::Cancelled,
            CallError::Denied { .. } => Outcome::Denied,
            other => Outcome::Failed(other.category()),
        }
    }
}
