//! Placement of a call: on the main connection, which all clients share, or on a connection of its client.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use vmcp_config::{Isolation, ProtocolEra};
use vmcp_wire::era::Era;
use vmcp_wire::handshake::client_capabilities::{AnswerableQuestions, ClientExtensions};
use vmcp_wire::methods;

use crate::connection::Connection;
use crate::inbound::owner::Owner;
use crate::policy::facts::Facts;
use crate::request::{ClientInstance, Principal, Request, SessionId};
use crate::transport::Link;

/// The clients that own a connection together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnerKey {
    /// One client's session.
    Session(SessionId),
    /// The clients of a principal that can be asked the same, or one of them.
    Principal { principal: Principal, program: u64, abilities: AnswerableQuestions },
    /// One call of a client without a session.
    Call(u64),
}

/// A place on a connection of the client's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    pub(crate) key: OwnerKey,
    pub(crate) owner: Owner,
    pub(crate) principal: Principal,
    /// The one client that uses the connection, where a number tells it from others.
    pub(crate) instance: ClientInstance,
    /// The era in which the connection is opened.
    pub(crate) era: Era,
    /// The connection is opened in the client's name; else clients with different names use it.
    pub(crate) named: bool,
}

/// Decides about placements.
#[derive(Debug, Default)]
pub(crate) struct Placements {
    /// Keys of the digests of client names: a client cannot forge one that equals another's.
    digests: RandomState,
    calls: AtomicU64,
}

impl Placements {
    /// Returns the place of a call; `None` for the main connection.
    pub(crate) fn of(&self, facts: &Facts, main: &Connection, request: &Request<'_>) -> Option<Placement> {
        let follows = follows_era(facts, main, request);
        let apart = facts.spec.tells_clients_apart() && main.can_be_isolated();
        let isolation = match facts.spec.isolation {
            // State of one client must not answer another.
            Some(Isolation::Shared) if apart => Isolation::Principal,
            Some(isolation) if follows || main.can_be_isolated() => isolation,
            None if follows || main.keeps_state() || mixes_logs(main, request) => Isolation::Session,
            _ => Isolation::Shared,
        };
        // Most calls end here; what follows parses the client's capabilities.
        if isolation == Isolation::Shared || is_own(request) {
            return None;
        }
        let abilities = AnswerableQuestions::read(request.client.capabilities.as_deref());
        let principal = request.principal;
        let of_principal = |program: u64| {
            (OwnerKey::Principal { principal, program, abilities }, Owner::Principal(abilities))
        };
        let instance = request.client.instance;
        let (key, owner) = match (isolation, request.session) {
            (Isolation::Session, Some(session)) => {
                (OwnerKey::Session(session), Owner::Session(session, abilities))
            }
            // A call that several clients could have made shares nothing.
            (Isolation::Session, None)
                if facts.spec.isolation.is_some() || instance == ClientInstance::Unknown =>
            {
                let call = self.calls.fetch_add(1, Ordering::Relaxed);
                (OwnerKey::Call(call), Owner::Principal(abilities))
            }
            (Isolation::Session, None) => of_principal(self.program(request)),
            (Isolation::Principal | Isolation::Shared, _) => of_principal(0),
        };
        let era = if follows { Era::Legacy } else { main.server.era() };
        Some(Placement { key, owner, principal, instance, era, named: isolation == Isolation::Session })
    }

    /// Digest of the client's name, version and number, which tell clients of a principal apart that have no
    /// session.
    fn program(&self, request: &Request<'_>) -> u64 {
        let client = &request.client;
        self.digests.hash_one((client.info.as_deref().map(RawValue::get), client.instance))
    }
}

/// True if the server speaks both eras, and the client that calls is of the legacy one.
fn follows_era(facts: &Facts, main: &Connection, request: &Request<'_>) -> bool {
    facts.spec.protocol_era == ProtocolEra::Auto
        && facts.spec.isolation != Some(Isolation::Shared)
        && request.session.is_some()
        && main.server.era() == Era::Modern
        && !main.refuses_legacy()
}

/// True if log messages of the request could not be told from those of others on the main connection: a
/// modern program names no request in them. Tasks stay where other requests find them.
fn mixes_logs(main: &Connection, request: &Request<'_>) -> bool {
    let is_modern_program = main.server.era() == Era::Modern && matches!(main.channel.link, Link::Duplex(_));
    // Some programs send log messages without declaring them, to clients that ask for them.
    let asks_for_logs = request.client.log_level.is_some();
    let wants_logs = asks_for_logs || (main.server.logs && request.session.is_some());
    is_modern_program
        && wants_logs
        && methods::may_require_input(request.method)
        && !ClientExtensions::read(request.client.capabilities.as_deref()).has_tasks()
}

/// True for a request of vmcp's own, which no client's connection serves.
fn is_own(request: &Request<'_>) -> bool {
    let Request { session, principal, client, credentials, .. } = request;
    session.is_none()
        && credentials.is_none()
        && *principal == Principal::Anonymous
        && client.info.is_none()
        && AnswerableQuestions::read(client.capabilities.as_deref()).is_empty()
}
