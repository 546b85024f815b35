//! Choice of the next revision to introduce vmcp with, after a server refused one in place of answering with
//! its own.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_wire::codes;
use vmcp_wire::era::{Era, Revision};

use crate::transport::LinkError;

/// Keys under which servers list the revisions that they speak, in an error or its `data`.
const SUPPORTED: [&str; 4] =
    ["supported", "supportedVersions", "supported_versions", "supportedProtocolVersions"];

/// Returns the revision to try after `error`: the newest that the server names and that was not tried, else
/// the next older one. `None`: it would not help. Bounded by the number of revisions.
pub(super) fn next(error: &LinkError, tried: &[Revision]) -> Option<Revision> {
    let is_open = |revision: &Revision| revision.era() == Era::Legacy && !tried.contains(revision);
    let named = named(error);
    if let Some(listed) = &named
        && let Some(revision) = listed.iter().copied().find(is_open)
    {
        return Some(revision);
    }
    // A list without a revision of this era, or whose revisions were all refused: no other will do.
    if named.is_some_and(|listed| listed.iter().all(|revision| !tried.contains(revision))) {
        return None;
    }
    let oldest = tried.iter().min()?;
    may_be_about_revision(error)
        .then(|| Revision::ALL.into_iter().find(|next| next < oldest && is_open(next)))?
}

/// Returns the revisions that a server names as its own, newest first; `None` if it names none.
fn named(error: &LinkError) -> Option<Vec<Revision>> {
    match error {
        LinkError::InitializeRefused { error, said } => listed(error).or_else(|| mentioned(said.as_str())),
        LinkError::Status(refusal) => mentioned(refusal.said.as_str()),
        LinkError::Unreadable { said, .. } => mentioned(said.as_str()),
        _ => None,
    }
}

/// Reads a list of revisions from an error of JSON-RPC.
fn listed(error: &RawValue) -> Option<Vec<Revision>> {
    let error = Object::parse(error).ok()?;
    let data = error.get("data").and_then(|data| Object::parse(data).ok()).unwrap_or_default();
    let text = SUPPORTED.into_iter().find_map(|key| data.text(key).or_else(|| error.text(key)))?;
    let versions: Vec<Cow<'_, str>> = serde_json::from_str(text).ok()?;
    let is_listed = |revision: &Revision| versions.iter().any(|version| version == revision.as_str());
    Some(Revision::ALL.into_iter().filter(is_listed).collect())
}

/// Returns the revisions whose dates are in a text: a server that names several lists its own.
fn mentioned(text: &str) -> Option<Vec<Revision>> {
    let found: Vec<_> =
        Revision::ALL.into_iter().filter(|revision| text.contains(revision.as_str())).collect();
    (!found.is_empty()).then_some(found)
}

/// True if another revision may change the answer. Servers refuse a revision with any error of JSON-RPC, or
/// with an HTTP status for a bad request or for a fault of their own.
fn may_be_about_revision(error: &LinkError) -> bool {
    match error {
        // A modern server that does not know `initialize` knows it in no revision.
        LinkError::InitializeRefused { error, .. } => {
            let code = Object::parse(error).ok().and_then(|error| error.text("code")?.parse().ok());
            code != Some(codes::METHOD_NOT_FOUND)
        }
        LinkError::Status(refusal) => matches!(
            refusal.status,
            StatusCode::BAD_REQUEST
                | StatusCode::NOT_ACCEPTABLE
                | StatusCode::CONFLICT
                | StatusCode::PRECONDITION_FAILED
                | StatusCode::UNPROCESSABLE_ENTITY
                | StatusCode::UPGRADE_REQUIRED
                | StatusCode::INTERNAL_SERVER_ERROR
                | StatusCode::NOT_IMPLEMENTED
                | StatusCode::HTTP_VERSION_NOT_SUPPORTED
        ),
        LinkError::Unreadable { said, .. } => {
            let said = said.as_str().to_ascii_lowercase();
            said.contains("version") && said.contains("support")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::transport::{HttpRefusal, Secrets, ServerWords};

    const LATEST: Revision = Revision::LATEST_LEGACY;

    fn refused(error: &str) -> LinkError {
        let error = RawValue::from_string(error.to_owned()).unwrap();
        let message = Object::parse(&error).unwrap().get_str("message").unwrap_or_default().into_owned();
        LinkError::InitializeRefused { said: words(&message), error }
    }

    fn words(text: &str) -> ServerWords {
        ServerWords::new(text.as_bytes(), &Secrets::default())
    }

    fn status(status: u16, text: &str) -> LinkError {
        let status = StatusCode::from_u16(status).unwrap();
        LinkError::Status(HttpRefusal::new(status, &HeaderMap::new(), words(text)))
    }

    #[test]
    fn the_newest_revision_that_the_server_names_is_next() {
        let named = "Bad Request: Unsupported protocol version (supported versions: 2025-03-26, 2024-11-05)";
        for error in [
            refused(r#"{"code":-32602,"message":"no","data":{"supported":["2024-11-05","2025-03-26"]}}"#),
            refused(r#"{"code":-32022,"message":"no","data":{"supported":["2026-07-28","2025-03-26"]}}"#),
            refused(r#"{"code":-32602,"message":"no","supported":["2025-03-26"]}"#),
            refused(&format!(r#"{{"code":-32000,"message":"{named}"}}"#)),
            status(400, named),
            LinkError::Unreadable { reason: "the answer is not JSON", said: words(named) },
        ] {
            assert_eq!(next(&error, &[LATEST]), Some(Revision::V2025_03_26), "{error:?}");
        }
    }

    #[test]
    fn a_server_that_names_none_is_asked_with_each_older_one() {
        for error in [
            refused(r#"{"code":-32602,"message":"unsupported protocol version: 2025-11-25"}"#),
            status(400, ""),
            status(500, "KeyError"),
        ] {
            let mut tried = vec![LATEST];
            while let Some(revision) = next(&error, &tried) {
                tried.push(revision);
            }
            let older = [Revision::V2025_06_18, Revision::V2025_03_26, Revision::V2024_11_05];
            assert_eq!(tried.get(1..), Some(&older[..]), "{error:?}");
        }
    }

    #[test]
    fn another_revision_does_not_help_against_everything() {
        for error in [
            refused(r#"{"code":-32601,"message":"Method not found"}"#),
            refused(r#"{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}"#),
            status(404, "not found"),
            status(429, "slow down"),
            status(503, ""),
            LinkError::Unreadable { reason: "the answer is a page, not JSON", said: words("Sign in") },
            LinkError::SessionLost(None),
        ] {
            assert_eq!(next(&error, &[LATEST]), None, "{error:?}");
        }
    }
}
