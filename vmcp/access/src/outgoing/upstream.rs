//! Upstream token injection: the backend gets the token that the named provider gave to the person who calls.

use vmcp_config::{Secret, UpstreamInject};

use super::{OutgoingError, Subject};
use crate::identity::upstream_tokens::LatestTokens;

/// Returns the token of a subject. Nothing is fetched: the client's access token carries it and does not
/// outlive it.
pub(super) fn token(
    inject: &UpstreamInject,
    subject: Subject<'_>,
    latest: &LatestTokens,
    refused: Option<&str>,
) -> Result<Option<Secret>, OutgoingError> {
    let provider = &inject.provider;
    let token = match subject {
        Subject::Vmcp => return Ok(latest.access(provider).filter(|_| inject.list_as_latest)),
        Subject::Client(identity) => {
            identity.as_known().and_then(|known| known.upstream_tokens().access(provider))
        }
    };
    let sign_in = |detail: &str| OutgoingError {
        reason: format!("it wants your token of `{provider}`; sign in to vmcp again"),
        detail: detail.to_owned(),
    };
    match token {
        None => Err(sign_in("the client's token carries none of that provider")),
        Some(token) if refused == Some(token) => Err(sign_in("the backend answered with HTTP 401")),
        Some(token) => Ok(Some(token.into())),
    }
}
