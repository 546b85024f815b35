//! [`Endpoint`]: serves `/mcp`, and `/mcp/NAME` of each profile, to the methods that MCP knows, once there is
//! something to serve, and tells clients without a token where to get one. A slash at the end of either path
//! changes nothing: people and clients write it.

use std::sync::Arc;

use http::{Method, StatusCode};

use super::MCP_PATH;
use super::auth_server_route::server_of;
use super::read_body::refuse_unread;
use super::resource_metadata;
use crate::hooks_api::HooksApi;
use crate::registry_api::RegistryApi;
use crate::rest_api::RestApi;
use crate::tools_api::ToolsApi;
use crate::transport::http::exchange::{Arrival, PlainApi as _, Response, Service};
use crate::transport::http::forward::replica_proof;
use crate::transport::http::refuse::RefusalReason;
use crate::transport::http::{refuse, respond};

/// Answer to a person who opens the port in a browser.
const GREETING: &str = "vmcp is here. MCP clients connect to /mcp; `vmcp connect` sets them up.\n";
/// Answer to a client whose URL lacks the path.
const ELSEWHERE: &str = "nothing is served at this path; the URL of MCP ends with /mcp\n";
/// The reason for the record.
const UNKNOWN_PATH: &str = "nothing is served at this path";

/// Returns the profile whose path a request names.
pub(super) fn profile(arrival: &Arrival) -> Option<Arc<str>> {
    let name = profile_name(arrival.head.uri.path())?;
    arrival.snapshot.config.profiles.get_key_value(name).map(|(name, _)| Arc::clone(name))
}

fn profile_name(path: &str) -> Option<&str> {
    let name = path.strip_prefix(MCP_PATH)?.strip_prefix('/')?;
    Some(name.strip_suffix('/').unwrap_or(name)).filter(|name| !name.is_empty())
}

/// Returns true for the path that serves everything.
fn is_whole(path: &str) -> bool {
    path.strip_prefix(MCP_PATH).is_some_and(|rest| matches!(rest, "" | "/"))
}

/// The layer that answers 404, 405, and 503 while a bridge's program is not up.
pub(crate) struct Endpoint<S>(S);

impl<S> Endpoint<S> {
    /// Passes requests of MCP to `inner`.
    pub(crate) fn new(inner: S) -> Self {
        Self(inner)
    }
}

impl<S: Service<Arrival>> Service<Arrival> for Endpoint<S> {
    async fn call(&self, arrival: Arrival) -> Response {
        let path = arrival.head.uri.path();
        let is_of_auth_server = server_of(&arrival.snapshot.authentication, path).is_some();
        let config = &arrival.snapshot.config;
        let is_of_api = ToolsApi::serves(config, path)
            || RegistryApi::serves(config, path)
            || HooksApi::serves(config, path)
            || RestApi::serves(config, path);
        if is_of_auth_server || is_of_api {
            return self.0.call(arrival).await;
        }
        if profile_name(path).is_some() && profile(&arrival).is_none() {
            return refuse_unread(arrival, refuse::no_profile());
        }
        if !is_whole(path) && profile_name(path).is_none() {
            let metadata = resource_metadata::answer(&arrival.head, &arrival.snapshot.authentication);
            let proof = || replica_proof::answer(&arrival.head, &arrival.snapshot);
            if let Some(response) = metadata.or_else(proof) {
                return refuse_unread(arrival, response);
            }
            let response = match (&arrival.head.method, path) {
                (&Method::GET, "/") => respond::text(StatusCode::OK, GREETING),
                (&Method::POST, _) => {
                    RefusalReason::note(respond::text(StatusCode::NOT_FOUND, ELSEWHERE), UNKNOWN_PATH)
                }
                _ => RefusalReason::note(respond::empty(StatusCode::NOT_FOUND), UNKNOWN_PATH),
            };
            return refuse_unread(arrival, response);
        }
        match arrival.head.method {
            Method::OPTIONS => return respond::methods(StatusCode::NO_CONTENT),
            Method::POST | Method::GET | Method::DELETE => {}
            _ => {
                let response = respond::methods(StatusCode::METHOD_NOT_ALLOWED);
                return refuse_unread(arrival, RefusalReason::note(response, "HTTP method not served"));
            }
        }
        if arrival.snapshot.bridge && arrival.snapshot.stands_for().is_none() {
            return refuse_unread(arrival, refuse::not_up_yet());
        }
        self.0.call(arrival).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_at_the_end_changes_nothing() {
        for (path, whole, profile) in [
            ("/mcp", true, None),
            ("/mcp/", true, None),
            ("/mcp/dev", false, Some("dev")),
            ("/mcp/dev/", false, Some("dev")),
            ("/mcp//", false, None),
            ("/mcp/dev//", false, Some("dev/")),
            ("/mcpx", false, None),
            ("/", false, None),
        ] {
            assert_eq!((is_whole(path), profile_name(path)), (whole, profile), "{path}");
        }
    }
}
