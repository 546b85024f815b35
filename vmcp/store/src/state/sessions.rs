//! Sessions of coding agents, and the hooks that they sent. Each session belongs to its owner: for every
//! other one it does not exist.

use rusqlite::{OptionalExtension as _, Row, ToSql, Transaction, params};
use vmcp_hooks::decision::{self, Decision, KnownSessions, Moment};
use vmcp_hooks::hook_call::HookCall;
use vmcp_hooks::session::{Session, SessionEvent, SessionStatus};

use super::StateStore;
use crate::error::StoreError;

/// Events that are kept of one session; beyond, the oldest go.
pub const MAX_EVENTS_OF_SESSION: usize = 200;
/// Sessions of all owners; beyond, the oldest session of the owner with the most goes.
pub const MAX_SESSIONS: usize = 5_000;
/// Sessions in one answer.
const MAX_LISTED: usize = 200;

/// Columns of a session, in the order of [`session`].
const COLUMNS: &str = "id, external_id, machine_id, source, project_id, title, status, parent_session_id, \
                       summary, cwd, created_at, updated_at";

/// Limits on the sessions of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Sessions of one owner; beyond, those without a hook for the longest time go.
    pub max_of_owner: usize,
    /// Time of a last hook before which a session is forgotten, in milliseconds since the Unix epoch.
    pub kept_since: i64,
}

/// Sessions that are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Only sessions in this state.
    pub status: Option<SessionStatus>,
    /// Only sessions of this client, given in lower case.
    pub source: Option<String>,
    /// Only sessions of this project.
    pub project_id: Option<String>,
    /// Most sessions; at most 200.
    pub limit: Option<usize>,
}

impl StateStore {
    /// Decides about a hook of `owner`, and records it, in one transaction. The database keeps the first
    /// `machine_id`, for the machines of clients that name none.
    pub fn take_hook(
        &self,
        owner: &[u8; 32],
        call: &HookCall,
        moment: &Moment,
        limits: SessionLimits,
    ) -> Result<Decision, StoreError> {
        self.write(|transaction| {
            forget_old(transaction, limits.kept_since)?;
            let machine_id = machine_id(transaction, &moment.machine_id)?;
            let machine = call.params.machine_id.as_deref().unwrap_or(&machine_id);
            let found = find(transaction, owner, call, machine)?;
            if found.is_none() {
                make_room(transaction, owner, limits.max_of_owner)?;
            }
            let waiting =
                if decision::takes_over(call) { waiting(transaction, owner, call, machine)? } else { None };
            let moment = Moment { machine_id: machine_id.clone(), ..moment.clone() };
            let decided = decision::decide(call, KnownSessions { session: found, waiting }, moment);
            put(transaction, owner, &decided.session)?;
            if let Some(parent) = &decided.expires {
                let expired = SessionStatus::Expired.name();
                let set = "UPDATE sessions SET status = ?3 WHERE owner = ?1 AND id = ?2";
                transaction.execute(set, params![owner, parent, expired])?;
            }
            add_event(transaction, call, &decided.session)?;
            Ok(decided)
        })
    }

    /// Forgets sessions of all owners whose last hook was before this time, in milliseconds since the Unix
    /// epoch.
    pub fn forget_sessions(&self, kept_since: i64) -> Result<(), StoreError> {
        self.write(|transaction| forget_old(transaction, kept_since))
    }

    /// Returns sessions of an owner, the one with the latest hook first. Sessions of all owners before
    /// `kept_since` are forgotten.
    pub fn sessions(
        &self,
        owner: &[u8; 32],
        query: &SessionQuery,
        kept_since: i64,
    ) -> Result<Vec<Session>, StoreError> {
        let SessionQuery { status, source, project_id, limit } = query;
        let limit = limit.unwrap_or(MAX_LISTED).min(MAX_LISTED);
        self.write(|transaction| {
            forget_old(transaction, kept_since)?;
            let mut select = transaction.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM sessions WHERE owner = ?1
                 AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR lower(source) = ?3)
                 AND (?4 IS NULL OR project_id = ?4)
                 ORDER BY updated_at DESC, id LIMIT ?5"
            ))?;
            let status = status.map(SessionStatus::name);
            select.query_map(params![owner, status, source, project_id, limit], session)?.collect()
        })
    }

    /// Returns who registered the first session of this client with this id at the client, of any principal;
    /// `None` if no session has it. Later sessions of the same id, of other owners, do not count.
    pub fn session_owner(&self, source: &str, external_id: &str) -> Result<Option<[u8; 32]>, StoreError> {
        self.read(|connection| {
            let select = "SELECT owner FROM sessions WHERE source = ?1 AND external_id = ?2
                          ORDER BY created_at, rowid LIMIT 1";
            let mut select = connection.prepare_cached(select)?;
            select.query_row(params![source, external_id], |row| row.get(0)).optional()
        })
    }

    /// Returns a session of an owner with its events, oldest first; `None` if the owner has none of this id.
    /// Sessions of all owners before `kept_since` are forgotten.
    pub fn session(
        &self,
        owner: &[u8; 32],
        id: &str,
        kept_since: i64,
    ) -> Result<Option<(Session, Vec<SessionEvent>)>, StoreError> {
        self.write(|transaction| {
            forget_old(transaction, kept_since)?;
            let select = format!("SELECT {COLUMNS} FROM sessions WHERE owner = ?1 AND id = ?2");
            let found = transaction.query_row(&select, params![owner, id], session).optional()?;
            let Some(found) = found else { return Ok(None) };
            let select = "SELECT type, detail, at FROM session_events WHERE session_id = ?1 ORDER BY id";
            let mut select = transaction.prepare_cached(select)?;
            let event = |row: &Row<'_>| {
                Ok(SessionEvent { hook_type: row.get(0)?, detail: row.get(1)?, at: row.get(2)? })
            };
            let events = select.query_map([id], event)?.collect::<rusqlite::Result<_>>()?;
            Ok(Some((found, events)))
        })
    }

    /// Forgets a session of an owner with its events; false if the owner has none of this id.
    pub fn remove_session(&self, owner: &[u8; 32], id: &str) -> Result<bool, StoreError> {
        self.write(|transaction| {
            let removed = transaction
                .execute("DELETE FROM sessions WHERE owner = ?1 AND id = ?2", params![owner, id])?;
            if removed > 0 {
                transaction.execute("DELETE FROM session_events WHERE session_id = ?1", [id])?;
            }
            Ok(removed > 0)
        })
    }
}

/// Returns the id that stands for machines of clients that name none.
fn machine_id(transaction: &Transaction<'_>, new_id: &str) -> rusqlite::Result<String> {
    let add = "INSERT OR IGNORE INTO session_store (only_row, machine_id) VALUES (1, ?1)";
    transaction.execute(add, [new_id])?;
    transaction.query_row("SELECT machine_id FROM session_store", [], |row| row.get(0))
}

/// Finds the session of a hook: by the client's id, or by the id that vmcp gave it.
fn find(
    transaction: &Transaction<'_>,
    owner: &[u8; 32],
    call: &HookCall,
    machine: &str,
) -> rusqlite::Result<Option<Session>> {
    let Some(id) = &call.params.session_id else { return Ok(None) };
    let select = format!(
        "SELECT {COLUMNS} FROM sessions WHERE owner = ?1
         AND ((machine_id = ?2 AND source = ?3 AND external_id = ?4) OR id = ?4)
         ORDER BY id = ?4 DESC LIMIT 1"
    );
    transaction.query_row(&select, params![owner, machine, call.source, id], session).optional()
}

/// Finds the newest session of the same machine, client and project that waits for a hand-off.
fn waiting(
    transaction: &Transaction<'_>,
    owner: &[u8; 32],
    call: &HookCall,
    machine: &str,
) -> rusqlite::Result<Option<Session>> {
    let select = format!(
        "SELECT {COLUMNS} FROM sessions WHERE owner = ?1 AND machine_id = ?2 AND source = ?3
         AND project_id = ?4 AND status = ?5 ORDER BY updated_at DESC, id LIMIT 1"
    );
    let ready = SessionStatus::HandoffReady.name();
    let of = params![owner, machine, call.source, call.project(), ready];
    transaction.query_row(&select, of, session).optional()
}

/// Forgets sessions whose last hook was before `kept_since`, of all owners.
fn forget_old(transaction: &Transaction<'_>, kept_since: i64) -> rusqlite::Result<()> {
    forget(transaction, "updated_at < ?1", params![kept_since])
}

/// Makes room for a new session of an owner: forgets all but the owner's latest and, of a full database, the
/// oldest session of the owner with the most, so that one owner cannot shut the others out.
fn make_room(transaction: &Transaction<'_>, owner: &[u8; 32], max_of_owner: usize) -> rusqlite::Result<()> {
    let beyond = "id IN (SELECT id FROM sessions WHERE owner = ?1
                  ORDER BY updated_at DESC, id LIMIT -1 OFFSET ?2)";
    forget(transaction, beyond, params![owner, max_of_owner.saturating_sub(1)])?;
    let count: usize = transaction.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))?;
    if count < MAX_SESSIONS {
        return Ok(());
    }
    let oldest = "id IN (SELECT id FROM sessions WHERE owner = (
                    SELECT owner FROM sessions GROUP BY owner ORDER BY count(*) DESC, owner LIMIT 1)
                  ORDER BY updated_at, id LIMIT 1)";
    forget(transaction, oldest, params![])
}

/// Forgets the sessions for which a condition holds, with their events.
fn forget(transaction: &Transaction<'_>, condition: &str, of: &[&dyn ToSql]) -> rusqlite::Result<()> {
    let events =
        format!("DELETE FROM session_events WHERE session_id IN (SELECT id FROM sessions WHERE {condition})");
    transaction.execute(&events, of)?;
    transaction.execute(&format!("DELETE FROM sessions WHERE {condition}"), of)?;
    Ok(())
}

fn put(transaction: &Transaction<'_>, owner: &[u8; 32], session: &Session) -> rusqlite::Result<()> {
    let put = "INSERT INTO sessions (id, owner, external_id, machine_id, source, project_id, title, status,
                 parent_session_id, summary, cwd, created_at, updated_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
               ON CONFLICT (id) DO UPDATE SET title = excluded.title, status = excluded.status,
                 parent_session_id = excluded.parent_session_id, summary = excluded.summary,
                 cwd = excluded.cwd, updated_at = excluded.updated_at";
    let mut put = transaction.prepare_cached(put)?;
    put.execute(params![
        session.id,
        owner,
        session.external_id,
        session.machine_id,
        session.source,
        session.project_id,
        session.title,
        session.status.name(),
        session.parent_session_id,
        session.summary,
        session.cwd,
        session.created_at,
        session.updated_at,
    ])?;
    Ok(())
}

/// Records a hook as an event of its session, and forgets the oldest beyond the limit.
fn add_event(transaction: &Transaction<'_>, call: &HookCall, session: &Session) -> rusqlite::Result<()> {
    let add = "INSERT INTO session_events (session_id, type, detail, at) VALUES (?1, ?2, ?3, ?4)";
    let detail = &call.params.detail;
    transaction.execute(add, params![session.id, call.hook_type.normalized(), detail, session.updated_at])?;
    transaction.execute(
        "DELETE FROM session_events WHERE session_id = ?1 AND id <= (
           SELECT id FROM session_events WHERE session_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        params![session.id, MAX_EVENTS_OF_SESSION],
    )?;
    Ok(())
}

/// Reads a row of [`COLUMNS`]. A state that this version does not know counts as ended.
fn session(row: &Row<'_>) -> rusqlite::Result<Session> {
    let status: String = row.get(6)?;
    Ok(Session {
        id: row.get(0)?,
        external_id: row.get(1)?,
        machine_id: row.get(2)?,
        source: row.get(3)?,
        project_id: row.get(4)?,
        title: row.get(5)?,
        status: SessionStatus::from_name(&status).unwrap_or(SessionStatus::Ended),
        parent_session_id: row.get(7)?,
        summary: row.get(8)?,
        cwd: row.get(9)?,
        created_at: row.get(10)?,
        updated_at: row.get(11)?,
    })
}
