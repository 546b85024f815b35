//! [`SignInEvent`]: one step of the authorization server, for the audit trail. It travels in the extensions
//! of the answer.

use super::endpoint::Answer;
use super::oauth_error::OAuthError;

/// A step of a registration, a sign-in or a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInEvent {
    /// The step: `oauth.register`, `oauth.authorize`, `oauth.consent`, `oauth.sign_in`, `oauth.token`.
    pub name: &'static str,
    /// The person, once known.
    pub subject: Option<String>,
    /// The name of the client, as it registered.
    pub client: Option<String>,
    /// The outcome, in words that show no credential.
    pub result: &'static str,
    /// True if the step was refused.
    pub is_refused: bool,
}

impl SignInEvent {
    /// A step that succeeded.
    pub(super) fn done(name: &'static str, result: &'static str) -> SignInEvent {
        SignInEvent { name, subject: None, client: None, result, is_refused: false }
    }

    /// A step that was refused.
    pub(super) fn refused(name: &'static str, result: &'static str) -> SignInEvent {
        SignInEvent { is_refused: true, ..SignInEvent::done(name, result) }
    }

    /// A step that ended with an error.
    pub(super) fn failed(name: &'static str, error: &OAuthError) -> SignInEvent {
        SignInEvent::refused(name, error.description)
    }

    /// Puts the event on an answer, unless a deeper layer has put one.
    pub(super) fn on(self, mut answer: Answer) -> Answer {
        if answer.extensions().get::<SignInEvent>().is_none() {
            answer.extensions_mut().insert(self);
        }
        answer
    }
}

/// Puts the event of a step on its answer, unless a deeper layer has put a more telling one.
pub(super) fn of_step(name: &'static str, result: &'static str, answer: Answer) -> Answer {
    let is_refused = answer.status().is_client_error() || answer.status().is_server_error();
    let event = if is_refused {
        SignInEvent::refused(name, "expired, begun in another browser, or not valid")
    } else {
        SignInEvent::done(name, result)
    };
    event.on(answer)
}
