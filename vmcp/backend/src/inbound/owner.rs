//! Owners of connections: the clients whose calls use one, and who therefore gets what belongs to no call.

use vmcp_wire::handshake::client_capabilities::AnswerableQuestions;

use crate::request::SessionId;

/// The clients that use a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// All clients, and vmcp itself. A message that belongs to no call belongs to nobody: it is refused, or
    /// goes to the operator's log.
    Everyone,
    /// The session of one client. A message that belongs to no call goes to the session.
    Session(SessionId, AnswerableQuestions),
    /// Clients without sessions: one of them, those of a principal, or one call. A message that belongs to no
    /// call goes to the latest call, and is refused when there is none, or when several clients have calls
    /// under way.
    Principal(AnswerableQuestions),
}

impl Owner {
    /// The only session whose calls use the connection.
    pub(crate) fn session(self) -> Option<SessionId> {
        match self {
            Self::Session(session, _) => Some(session),
            Self::Everyone | Self::Principal(_) => None,
        }
    }

    /// True if the connection is not shared by clients that have nothing to do with each other.
    pub(crate) fn is_one(self) -> bool {
        !matches!(self, Self::Everyone)
    }

    /// The questions that the owner answers.
    pub(crate) fn abilities(self) -> AnswerableQuestions {
        match self {
            Self::Everyone => AnswerableQuestions::default(),
            Self::Session(_, abilities) | Self::Principal(abilities) => abilities,
        }
    }
}
