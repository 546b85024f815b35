//! [`OpenRun`]: the run of one request, from its begin to its answer. It tells `vmcp runs` how far the run
//! is, and keeps the run of a legacy client for the process that continues it.

use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use vmcp_engine::engine::Engine;
use vmcp_engine::random::random;
use vmcp_engine::runs::kept::{ClaimError, KeptRun};
use vmcp_engine::runs::record::RunLookup;
use vmcp_engine::runs::report::RunState;
use vmcp_wire::era::Era;
use vmcp_wire::owned::OwnedParams;
use vmcp_workflow::CompositeTool;
use vmcp_workflow::run::{Begin, End, Journal, Phase};

use super::{object, steps};
use crate::caller::CallContext;

/// Key of `_meta` with the id of the run that the call continues.
const RUN: &str = "vmcp/run";

/// The run of one request.
pub(crate) struct OpenRun {
    engine: Engine,
    tool: String,
    who: String,
    era: Era,
    cancel: CancellationToken,
    /// Known once the run has begun.
    id: OnceLock<String>,
    /// The run in the store; `None`: it ends with its request.
    kept: Option<KeptRun>,
    /// True once the end of the run is noted.
    is_over: bool,
}

impl OpenRun {
    pub(super) fn new(context: CallContext<'_>, tool: &CompositeTool) -> OpenRun {
        let caller = context.caller;
        OpenRun {
            engine: context.engine.clone(),
            tool: tool.name.clone(),
            who: caller.principal.identity.subject().to_owned(),
            era: caller.era,
            cancel: caller.cancel.clone(),
            id: OnceLock::new(),
            kept: None,
            is_over: false,
        }
    }

    /// Returns the id of the run, once it has begun.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.get().map(String::as_str)
    }

    /// Begins a run, or continues a cut-off run: the run that `_meta` names, else a run of the same session,
    /// tool and arguments.
    pub(super) async fn begin(
        &mut self,
        context: CallContext<'_>,
        tool: &CompositeTool,
        params: &OwnedParams,
    ) -> Result<Begin, ClaimError> {
        let CallContext { snapshot, caller, .. } = context;
        let arguments = object(params.get("arguments"));
        let named = named_run(params);
        let is_kept = caller.era == Era::Legacy && caller.session.is_some() && must_be_kept(context, tool);
        let id = hex::encode(random::<16>());
        if !is_kept && named.is_none() {
            return Ok(Begin::New { id, arguments });
        }
        let runs = context.engine.runs();
        let text = Value::Object(arguments.clone()).to_string();
        let lookup = RunLookup::new(&caller.principal, caller.session, &tool.name, &text, named);
        match runs.claim(&snapshot.config, snapshot.ring(), &lookup, self.cancel.clone()).await {
            Ok(Some((kept, state))) => {
                tracing::info!(run = kept.id(), name = tool.name, "a run of a composite tool is continued");
                self.kept = Some(kept);
                return Ok(Begin::Continued { state, answers: object(None) });
            }
            Ok(None) => {}
            Err(ClaimError::Store(error)) if !lookup.has_id() => {
                tracing::warn!(run = id, %error, "a new run begins; a cut-off run could not be looked for");
            }
            Err(error) => return Err(error),
        }
        if is_kept {
            self.kept = runs
                .keeper(&snapshot.config, snapshot.ring(), &lookup, &id, tool.timeout, self.cancel.clone())
                .await;
        }
        Ok(Begin::New { id, arguments })
    }

    /// Notes the end of the run, or of this part; `None` if the run could not be continued.
    pub(super) async fn finish(&mut self, end: Option<&End>) {
        let (state, error) = match end {
            Some(End::Complete(_)) => (RunState::Done, None),
            Some(End::Failed(error)) => (RunState::Failed, Some(error.as_str())),
            Some(End::Unknown(error)) => (RunState::Unknown, Some(error.as_str())),
            Some(End::Asks { .. }) => (RunState::Waiting, None),
            None => (RunState::Failed, None),
        };
        if let Some(id) = self.id.get() {
            self.engine.runs().book().ends(id, state, error);
        }
        // The state of a modern client's run goes with the client; a legacy client is asked now.
        self.is_over = state != RunState::Waiting || self.era == Era::Modern;
        if let Some(kept) = self.kept.as_ref().filter(|_| self.is_over) {
            kept.end().await;
        }
    }
}

/// Returns the id of the run that a call names in its `_meta`.
pub(super) fn named_run(params: &OwnedParams) -> Option<String> {
    let meta = object(params.get("_meta"));
    meta.get(RUN).and_then(Value::as_str).map(str::to_owned)
}

/// True if a second run of the tool would do what the first one did, or ask again: a run that only reads can
/// begin again.
fn must_be_kept(context: CallContext<'_>, tool: &CompositeTool) -> bool {
    tool.asks() || tool.tools().iter().any(|tool| !steps::may_repeat(context.snapshot, tool))
}

impl Journal for OpenRun {
    fn begins(&self, run: &str, begun: Duration) {
        let id = self.id.get_or_init(|| run.to_owned());
        self.engine.runs().book().begins(id, &self.tool, &self.who, begun);
    }

    fn step(&self, step: &str, phase: Phase, error: Option<&str>) {
        let state = match phase {
            Phase::Running => RunState::Running,
            Phase::Waiting => RunState::Waiting,
            Phase::Completed => RunState::Done,
            Phase::Failed => RunState::Failed,
            Phase::Skipped => RunState::Skipped,
            Phase::Unknown => RunState::Unknown,
        };
        if let Some(id) = self.id.get() {
            self.engine.runs().book().step(id, step, state, error);
        }
    }

    fn keeps(&self) -> bool {
        self.kept.as_ref().is_some_and(KeptRun::is_kept)
    }

    async fn keep(&self, state: String) -> Result<(), String> {
        match &self.kept {
            Some(kept) => kept.keep(&state).await,
            None => Ok(()),
        }
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        if let Some(id) = self.id.get().filter(|_| !self.is_over) {
            let why =
                if self.cancel.is_cancelled() { "its client cancelled it" } else { "its request ended" };
            self.engine.runs().book().ends(id, RunState::Unknown, Some(why));
        }
    }
}
