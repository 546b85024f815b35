//! [`AgentSessions`]: sessions of coding agents, as their hooks report them, in `state.db`. Each belongs to
//! the principal whose hook registered it.

mod codex_threads;
mod transcript_file;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use uuid::Uuid;
use vmcp_config::SessionHooks;
use vmcp_hooks::decision::Moment;
use vmcp_hooks::hook_call::HookCall;
use vmcp_hooks::report::HookReport;
pub use vmcp_hooks::session::SessionStatus;
use vmcp_hooks::session::{Session, SessionEvent};
use vmcp_hooks::summary;
pub use vmcp_store::SessionQuery;
use vmcp_store::{STATE_FILE_NAME, SessionLimits, StateStore, StoreError};

pub use self::transcript_file::end_of;
use self::transcript_file::read_end;
use crate::access::identity::{Principal, PrincipalKey};
use crate::random::{now_ms, random_uuid};

/// Purpose of the digests of owners.
const PURPOSE: &[u8] = b"sessions of agents\0";
/// Milliseconds of a day.
const DAY: i64 = Duration::from_hours(24).as_millis() as i64;

/// A hook or a question that the store could not serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentSessionError {
    /// The database failed.
    #[error("the sessions cannot be read or written: {0}")]
    Store(String),
}

impl From<StoreError> for AgentSessionError {
    fn from(error: StoreError) -> AgentSessionError {
        AgentSessionError::Store(error.to_string())
    }
}

/// The sessions of coding agents.
pub struct AgentSessions {
    /// Storage folder; `None`: nothing outlives the process.
    dir: Option<PathBuf>,
    store: OnceCell<Arc<StateStore>>,
}

impl AgentSessions {
    /// Opens nothing yet; `dir` is the storage folder.
    pub(crate) fn new(dir: Option<&Path>) -> AgentSessions {
        AgentSessions { dir: dir.map(Path::to_owned), store: OnceCell::new() }
    }

    /// Takes a hook of a principal, and records it.
    pub async fn take_hook(
        &self,
        principal: &Principal,
        settings: &SessionHooks,
        mut call: HookCall,
    ) -> Result<HookReport, AgentSessionError> {
        let owner = owner(principal);
        let dirs = if is_local(principal) { settings.transcript_dirs.clone() } else { Vec::new() };
        let limits = SessionLimits { max_of_owner: settings.max_sessions, kept_since: kept_since(settings) };
        self.on_store(move |store| {
            let (summary, note) =
                if call.wants_summary() { summarize(&mut call, &dirs) } else { (None, None) };
            let moment = Moment { now: now_ms(), new_id: random_uuid(), machine_id: random_uuid(), summary };
            let decision = store.take_hook(&owner, &call, &moment, limits)?;
            Ok(HookReport::new(&call, decision, note))
        })
        .await
    }

    /// Returns sessions of a principal, the one with the latest hook first.
    pub async fn list(
        &self,
        principal: &Principal,
        settings: &SessionHooks,
        query: SessionQuery,
    ) -> Result<Vec<Session>, AgentSessionError> {
        let (owner, since) = (owner(principal), kept_since(settings));
        self.on_store(move |store| Ok(store.sessions(&owner, &query, since)?)).await
    }

    /// Returns a session of a principal with its events; `None` if the principal has none of this id.
    pub async fn get(
        &self,
        principal: &Principal,
        settings: &SessionHooks,
        id: String,
    ) -> Result<Option<(Session, Vec<SessionEvent>)>, AgentSessionError> {
        let (owner, since) = (owner(principal), kept_since(settings));
        self.on_store(move |store| Ok(store.session(&owner, &id, since)?)).await
    }

    /// Forgets a session of a principal; false if the principal has none of this id.
    pub async fn remove(&self, principal: &Principal, id: String) -> Result<bool, AgentSessionError> {
        let owner = owner(principal);
        self.on_store(move |store| Ok(store.remove_session(&owner, &id)?)).await
    }

    /// Runs `work` on a blocking thread.
    async fn on_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StateStore) -> Result<T, AgentSessionError> + Send + 'static,
    ) -> Result<T, AgentSessionError> {
        let store = Arc::clone(self.store.get_or_try_init(|| open(self.dir.clone())).await?);
        let ended = || AgentSessionError::Store("the process is going down".to_owned());
        // Boxed, so that the task is compiled once for a type of value.
        let work: Box<dyn FnOnce() -> Result<T, AgentSessionError> + Send> = Box::new(move || work(&store));
        tokio::task::spawn_blocking(work).await.map_err(|_| ended())?
    }
}

/// Forgets sessions of earlier processes beyond `keepDays`, also if no hook comes any more. Blocks.
pub(crate) fn forget_old(dir: &Path, settings: &SessionHooks) {
    let forgotten = || StateStore::open(dir)?.forget_sessions(kept_since(settings));
    if dir.join(STATE_FILE_NAME).exists()
        && let Err(error) = forgotten()
    {
        tracing::warn!(%error, "old sessions of agents are not forgotten");
    }
}

/// Opens the database, or one in memory if the folder cannot be used.
async fn open(dir: Option<PathBuf>) -> Result<Arc<StateStore>, AgentSessionError> {
    let opening = tokio::task::spawn_blocking(move || {
        let opened = dir.map(|dir| StateStore::open(&dir));
        match opened {
            Some(Ok(store)) => Ok(store),
            Some(Err(error)) => {
                tracing::warn!(%error, "sessions of agents end with this process");
                StateStore::in_memory()
            }
            None => StateStore::in_memory(),
        }
    });
    let ended = |_| AgentSessionError::Store("the process is going down".to_owned());
    Ok(Arc::new(opening.await.map_err(ended)??))
}

/// Returns the summary of a hook's transcript, or the reason why the transcript was not read.
fn summarize(call: &mut HookCall, dirs: &[PathBuf]) -> (Option<String>, Option<String>) {
    if let Some(transcript) = call.params.transcript.take() {
        return (summary::of_transcript(&transcript), None);
    }
    match call.params.transcript_path.take().map(|path| read_end(Path::new(&path), dirs)) {
        Some(Ok(transcript)) => (summary::of_transcript(&transcript), None),
        Some(Err(reason)) => (None, Some(reason.to_string())),
        None => (None, None),
    }
}

/// Returns the owner of a principal's sessions. Clients on this machine without an identity are one person;
/// a profile changes nothing.
fn owner(principal: &Principal) -> [u8; 32] {
    let key = if is_local(principal) { PrincipalKey::Only } else { principal.key() };
    Sha256::new().chain_update(PURPOSE).chain_update(key.to_string()).finalize().into()
}

/// True for a client without an identity on this machine. Compares the whole address: [`Principal::key`]
/// masks `::1` to its /64 network.
fn is_local(principal: &Principal) -> bool {
    principal.identity.as_known().is_none()
        && principal.address.is_none_or(|address| address.to_canonical().is_loopback())
}

fn kept_since(settings: &SessionHooks) -> i64 {
    now_ms().saturating_sub(DAY.saturating_mul(i64::from(settings.keep_days)))
}

/// True for an id that a session can have.
pub fn is_session_id(id: &str) -> bool {
    Uuid::try_parse(id).is_ok()
}

#[cfg(test)]
mod tests;
