//! [`KeptScript`]: a legacy client's script that waits, in the store of runs. A modern client carries its
//! state itself; a legacy client is asked while its call is held, and a process may end meanwhile. The same
//! call of the same session, at any process with the same store, then goes on with the script.

use std::time::Duration;

use vmcp_engine::optim::names::OptimTool;
use vmcp_engine::random::random;
use vmcp_engine::runs::kept::{ClaimError, KeptRun};
use vmcp_engine::runs::record::RunLookup;
use vmcp_wire::era::Era;
use vmcp_wire::owned::OwnedParams;

use crate::caller::CallContext;

/// Time after which the store forgets a script that waits.
const KEPT_FOR: Duration = Duration::from_hours(1);

/// The script of one call, as the store of runs knows it.
pub(super) struct KeptScript<'a> {
    context: CallContext<'a>,
    /// `None`: nothing is kept for this client.
    lookup: Option<RunLookup>,
    kept: Option<KeptRun>,
}

impl<'a> KeptScript<'a> {
    /// Names the script of a call of `tool`; `params` are those of the call.
    pub(super) fn new(context: CallContext<'a>, tool: OptimTool, params: &OwnedParams) -> KeptScript<'a> {
        let caller = context.caller;
        let is_kept = caller.era == Era::Legacy && caller.session.is_some() && caller.events.is_some();
        let lookup = is_kept.then(|| {
            let arguments = params.get("arguments").unwrap_or("{}");
            RunLookup::new(&caller.principal, caller.session, tool.dotted(), arguments, None)
        });
        KeptScript { context, lookup, kept: None }
    }

    /// Takes over the state of a script whose process has ended. While the store does not answer, the script
    /// begins again.
    pub(super) async fn claim(&mut self) -> Result<Option<String>, ClaimError> {
        let CallContext { engine, snapshot, caller, .. } = self.context;
        let Some(lookup) = &self.lookup else { return Ok(None) };
        let claimed =
            match engine.runs().claim(&snapshot.config, snapshot.ring(), lookup, caller.cancel.clone()).await
            {
                Err(ClaimError::Store(error)) => {
                    tracing::warn!(%error, "a script begins; a script that waited could not be looked for");
                    None
                }
                claimed => claimed?,
            };
        Ok(claimed.map(|(kept, state)| {
            tracing::info!(run = kept.id(), "a script that waited is continued");
            self.kept = Some(kept);
            state
        }))
    }

    /// Keeps the state while the user is asked.
    pub(super) async fn keep(&mut self, state: &str) -> Result<(), String> {
        let CallContext { engine, snapshot, caller, .. } = self.context;
        let Some(lookup) = &self.lookup else { return Ok(()) };
        if self.kept.is_none() {
            let (id, cancel) = (hex::encode(random::<16>()), caller.cancel.clone());
            self.kept =
                engine.runs().keeper(&snapshot.config, snapshot.ring(), lookup, &id, KEPT_FOR, cancel).await;
        }
        match &self.kept {
            // A run that was not kept at once goes on without: its removal is under way.
            Some(kept) if kept.is_kept() => kept.keep(state).await,
            _ => Ok(()),
        }
    }

    /// Forgets the script: it has ended, or goes on and must not be repeated.
    pub(super) async fn forget(&mut self) {
        if let Some(kept) = self.kept.take() {
            kept.end().await;
        }
    }
}
