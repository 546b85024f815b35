//! The client of a request, and everything else that routing needs besides the request itself.

mod consent;
pub(crate) mod secret_arguments;

use std::sync::Arc;

use http::HeaderMap;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use vmcp_backend::{Backend, ClientFacts, EventSender, SessionId};
use vmcp_wire::era::Era;

pub use consent::Consent;
use vmcp_engine::access::identity::Principal;
pub(crate) use vmcp_engine::access::outgoing::ClientAtBackend;
use vmcp_engine::access::policy::{AccessRequest, Item};
pub(crate) use vmcp_engine::context_key::ContextKey;
pub(crate) use vmcp_engine::engine::linked_uris::LinkOwner;
use vmcp_engine::engine::{Engine, Snapshot, View};
use vmcp_engine::telemetry::calls::{CallRecord, CallRecorder, Origin, Refusal};
use vmcp_engine::telemetry::traces::TraceContext;

/// The client of a request, and the way to reach it while the request runs.
#[derive(Clone, Default)]
pub struct Caller {
    /// The principal, whose rights and whose view of the catalog count.
    pub principal: Principal,
    /// Headers of the request that backends may get.
    pub forwarded: Option<Arc<HeaderMap>>,
    /// The client's era: a modern client is asked for input by the result, a legacy one while its request is
    /// under way.
    pub era: Era,
    /// Facts about the client that a backend may be told.
    pub client: ClientFacts,
    /// The trace that the client sent; requests to backends continue it where spans are not exported.
    pub trace: TraceContext,
    /// Id of the trace that the request belongs to.
    pub trace_id: Option<[u8; 16]>,
    /// The session, in the legacy era.
    pub session: Option<SessionId>,
    /// The context that a client without a session names in `_meta`.
    pub context: Option<ContextKey>,
    /// Receives a backend's messages before its answer; `None`: the client cannot take any.
    pub events: Option<EventSender>,
    /// True if the client can take a large result while it arrives.
    pub takes_arriving: bool,
    /// True if the caller has confirmed the call already: a person on the command line.
    pub confirmed: bool,
    /// The user's consent to a call that this request makes.
    pub consent: Consent,
    /// Cancels the request.
    pub cancel: CancellationToken,
    /// The backend whose sealed state this request carries; the request may go to no other one.
    pub continues: Option<Arc<str>>,
}

impl Caller {
    /// Returns the owner of links that results name to this client.
    pub fn link_owner(&self) -> LinkOwner {
        LinkOwner { principal: self.principal.key(), session: self.session }
    }
}

/// One request's context: the caller, and the snapshot that the request uses from its begin to its end.
#[derive(Clone, Copy)]
pub struct CallContext<'a> {
    /// Metrics, searcher, observers of calls.
    pub engine: &'a Engine,
    /// The snapshot of this request.
    pub snapshot: &'a Snapshot,
    /// The part of the catalog that the caller may list, find and call.
    pub view: &'a View,
    /// The caller.
    pub caller: &'a Caller,
}

impl CallContext<'_> {
    /// Returns the caller as a backend sees it.
    pub fn at_backend(self, backend: &Backend) -> ClientAtBackend {
        let Caller { principal, forwarded, .. } = self.caller;
        let tokens = self.snapshot.tokens.get(backend.name());
        ClientAtBackend::new(principal, forwarded.as_ref(), backend.spec(), tokens)
    }

    /// Tells the observers of a request for an unknown item. The policy is asked all the same, so
    /// that the work is that for a hidden item.
    pub fn refuse_unknown(self, method: &str, subject: &str) {
        if let Some(tool) = self.snapshot.unfiltered().tools.first() {
            let request = AccessRequest {
                principal: &self.caller.principal,
                action: method,
                backend: &tool.backend,
                item: Item::Tool(tool),
                arguments: None,
            };
            // The decision counts for nothing.
            std::hint::black_box(self.snapshot.policy.decide(&request));
        }
        self.engine.call_observers().refused(&Refusal {
            principal: &self.caller.principal,
            reason: "unknown",
            method: Some(method),
            subject: Some(subject),
            session: self.caller.session,
            trace: self.caller.trace_id,
        });
    }

    /// Starts the record of a call that came by `origin`; its clock runs from here.
    pub fn start_record(self, origin: Origin) -> CallRecorder {
        let mut record = CallRecord::begin(self.caller.principal.clone(), self.caller.session, origin);
        record.context = self.caller.context;
        record.trace = self.caller.trace_id;
        record.client_era = Some(self.caller.era);
        CallRecorder::start(self.engine.call_observers(), record)
    }

    /// Starts the record of a call of one of vmcp's own tools.
    pub(super) fn start_own_record(self, origin: Origin, arguments: &RawValue) -> CallRecorder {
        let mut recorder = self.start_record(origin);
        let shown = match recorder.record().origin {
            Origin::Own(tool) => secret_arguments::recorded(tool, arguments.get()),
            _ => Some(arguments.get().into()),
        };
        recorder.keep_arguments(shown.as_deref());
        recorder
    }

    /// Returns the key of the caller's context: by the handle that it passed, or its session's.
    pub fn context_key(self, handle: Option<&str>) -> Option<ContextKey> {
        let named = handle.and_then(ContextKey::of_handle).or(self.caller.context);
        named.or(self.caller.session.map(ContextKey::Session))
    }
}
