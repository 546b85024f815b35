//! `GET /v0.1/servers`: the registry API, with an entry for each profile. Answers from the snapshot alone.
//!
//! An IDE that allows the servers of one registry alone compares URLs, so each entry has the URL that clients
//! of the profile use.

mod conditional;
mod servers;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, CACHE_CONTROL,
};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use vmcp_config::Config;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Engine, Snapshot};
use vmcp_registry::served::{self, ApiResource, ListQuery, Publication};

use crate::transport::http::exchange::{PlainApi, Response};
use crate::transport::http::respond;

/// The methods and headers that IDEs ask a registry for, the header of keys, and that of an entity tag.
const METHODS: HeaderValue = HeaderValue::from_static("GET, OPTIONS");
const HEADERS: HeaderValue =
    HeaderValue::from_static("Authorization, Content-Type, X-API-Key, If-None-Match");
/// Time by which the clock of a client may be ahead.
const MAX_CLOCK_SKEW: Duration = Duration::from_mins(5);
/// Response header that pages may read besides the few that every page may.
const EXPOSED: HeaderValue = HeaderValue::from_static("ETag");

/// True if the API serves this path to clients without credentials.
pub(crate) fn is_public(config: &Config, path: &str) -> bool {
    config.server.registry.as_ref().is_some_and(|registry| registry.public) && served::is_api_path(path)
}

/// Lets every page that may ask read the answer. No cookies are used, so `*` shares no credentials.
pub(crate) fn open_to_pages(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
}

/// The API.
pub(crate) struct RegistryApi {
    engine: Engine,
    /// Start of the process, as RFC 3339: entries change with the configuration alone, which has no date.
    published_at: String,
}

impl RegistryApi {
    /// Publishes the profiles of `engine`.
    pub(crate) fn new(engine: Engine) -> RegistryApi {
        let published_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        RegistryApi { engine, published_at }
    }
}

impl PlainApi for RegistryApi {
    const NAME: &'static str = "GET /v0.1/servers";

    fn serves(config: &Config, path: &str) -> bool {
        config.server.registry.is_some() && served::is_api_path(path)
    }

    /// Returns one name for all requests: paths hold names that a client makes up.
    fn request_name(_: &Parts) -> Cow<'static, str> {
        Cow::Borrowed(Self::NAME)
    }

    async fn answer(
        &self,
        head: &Parts,
        _: &Bytes,
        principal: &Principal,
        snapshot: &Arc<Snapshot>,
    ) -> Response {
        if !matches!(head.method, Method::GET | Method::HEAD) {
            let mut response = failure(StatusCode::METHOD_NOT_ALLOWED, "use GET");
            response.headers_mut().insert(ALLOW, METHODS);
            return response;
        }
        let not_found = || failure(StatusCode::NOT_FOUND, "Server not found");
        let Some(resource) = ApiResource::from_path(head.uri.path()) else { return not_found() };
        let query = match ListQuery::read(head.uri.query().unwrap_or_default()) {
            Ok(query) => query,
            Err(message) => return failure(StatusCode::BAD_REQUEST, &message),
        };
        let servers = servers::visible(&self.engine, head, principal, snapshot).await;
        let publication =
            Publication { version: env!("CARGO_PKG_VERSION"), published_at: &self.published_at };
        let body = match resource {
            ApiResource::List => match check_time(&query, SystemTime::now()) {
                Err(message) => return failure(StatusCode::BAD_REQUEST, &message),
                Ok(()) => Some(publication.list(&servers, &query)),
            },
            ApiResource::Versions(name) => publication.versions(&servers, &name),
            ApiResource::Version(name, version) => publication.version(&servers, &name, &version),
        };
        let Some(body) = body else { return not_found() };
        let mut response = conditional::answer(head, body);
        // The entries depend on who asks, and by which name of this server: each use asks again.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        response
    }
}

/// Checks `updated_since`. Entries have no date of their own, since the configuration changes while the
/// process runs: the whole list is the answer. A time to come is an error: an empty list would hide changes
/// from a client whose clock is wrong.
fn check_time(query: &ListQuery, now: SystemTime) -> Result<(), String> {
    let Some(since) = &query.updated_since else { return Ok(()) };
    let Some(since) = conditional::read_time(since) else {
        return Err("updated_since is no time such as 2026-01-31T08:00:00Z".to_owned());
    };
    if since.duration_since(now).is_ok_and(|ahead| ahead > MAX_CLOCK_SKEW) {
        let now = humantime::format_rfc3339_seconds(now);
        return Err(format!("updated_since is in the future: it is {now} here"));
    }
    Ok(())
}

fn failure(status: StatusCode, message: &str) -> Response {
    respond::json_text(status, served::refusal(message))
}

#[cfg(test)]
mod tests;
