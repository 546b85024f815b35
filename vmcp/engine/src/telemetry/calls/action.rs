//! [`Action`]: something that happened beside calls, for observers: sessions, sign-ins, orders of operators,
//! changes of the configuration.

use vmcp_backend::SessionId;

use crate::access::identity::Principal;

/// An action beside calls of backends.
#[derive(Debug, Clone, Copy)]
pub struct Action<'a> {
    /// The area of the action.
    pub area: ActionArea,
    /// The action: `session.end`, `oauth.token`, `POST /admin/restart`.
    pub name: &'a str,
    /// The client; anonymous for an operator or the process itself.
    pub principal: &'a Principal,
    /// The operator, the process, or the person who signs in: named in place of the principal.
    pub actor: Option<&'a str>,
    /// The object of the action. Text of a client.
    pub target: Option<&'a str>,
    /// The outcome, in words that show no credential.
    pub result: &'a str,
    /// True if the action was refused.
    pub is_refused: bool,
    /// The client's session, in the legacy era.
    pub session: Option<SessionId>,
}

/// Areas of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionArea {
    /// Requests of clients that reach no backend.
    Request,
    /// Sessions of clients.
    Session,
    /// The authorization server: registration, consent, sign-in, tokens.
    Authorization,
    /// The admin port.
    Admin,
    /// The process: start, stop, configuration.
    Server,
}

impl ActionArea {
    /// Returns the type of its events.
    pub fn event_type(self) -> &'static str {
        match self {
            ActionArea::Request => "mcp_request",
            ActionArea::Session => "mcp_session",
            ActionArea::Authorization => "authorization",
            ActionArea::Admin => "admin",
            ActionArea::Server => "server",
        }
    }
}

impl<'a> Action<'a> {
    /// Result of an action whose client hung up before it ended. It may have had its effect.
    pub const CANCELLED: &'static str = "cancelled";

    /// An action of a client that succeeded.
    pub fn of_client(area: ActionArea, name: &'a str, principal: &'a Principal) -> Action<'a> {
        let (actor, target, session) = (None, None, None);
        Action { area, name, principal, actor, target, result: "ok", is_refused: false, session }
    }

    /// An action of the process itself.
    pub fn of_process(name: &'a str, process: &'a Principal) -> Action<'a> {
        Action { actor: Some("vmcp"), ..Action::of_client(ActionArea::Server, name, process) }
    }
}
