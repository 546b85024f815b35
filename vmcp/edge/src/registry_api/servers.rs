//! The profiles that a client may see, each with the URL at which it is served.

use std::sync::Arc;

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use url::Url;
use vmcp_config::Config;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Engine, Snapshot};
use vmcp_registry::served::{ServedServer, namespace_of_host};

/// Header in which clients send keys of `incomingAuth.apiKeys`.
const KEY_HEADER: &str = "X-API-Key";
/// Name of the entry for `/mcp`, in a configuration without profiles.
const WHOLE: &str = "vmcp";

/// Returns the servers for a client, sorted by name: the profiles in which it may reach anything, or `/mcp`
/// without profiles. Empty if the URL of this server is unknown.
pub(super) async fn visible(
    engine: &Engine,
    head: &Parts,
    principal: &Principal,
    snapshot: &Arc<Snapshot>,
) -> Vec<ServedServer> {
    let config = &snapshot.config;
    let Some(base) = base_url(head, config) else { return Vec::new() };
    let Some(registry) = &config.server.registry else { return Vec::new() };
    let host = base.host_str().unwrap_or_default();
    let namespace = registry.namespace.clone().unwrap_or_else(|| namespace_of_host(host));
    let is_by_key = !config.incoming_auth.api_keys.is_empty() && config.incoming_auth.issuers.is_empty();
    let server = |name: &str, path: String| ServedServer {
        name: format!("{namespace}/{name}"),
        title: name.to_owned(),
        url: with_path(&base, &path),
        key_header: is_by_key.then_some(KEY_HEADER),
    };
    let mut servers = Vec::new();
    for name in config.profiles.keys() {
        if registry.public || may_reach(engine, principal, Some(name), snapshot).await {
            servers.push(server(name, format!("mcp/{name}")));
        }
    }
    if config.profiles.is_empty() && (registry.public || may_reach(engine, principal, None, snapshot).await) {
        servers.push(server(WHOLE, "mcp".to_owned()));
    }
    servers
}

/// True if the policies leave the client anything of a profile. Where they deny nothing, a profile is listed
/// whatever its backends do: an IDE would switch off a server that leaves the list.
async fn may_reach(
    engine: &Engine,
    principal: &Principal,
    profile: Option<&Arc<str>>,
    snapshot: &Arc<Snapshot>,
) -> bool {
    let outside = Principal { profile: None, ..principal.clone() };
    if !snapshot.policy.restricts(&outside) {
        return true;
    }
    let client = Principal { profile: profile.cloned(), ..outside };
    engine.prepare(snapshot, &client).await;
    let view = snapshot.view(&client);
    view.tools().next().is_some()
        || snapshot.config.backends.iter().any(|backend| view.has_backend(&backend.name))
}

/// Returns the URL before `/mcp`: as configured, as tokens name it, or as the client reaches it.
fn base_url(head: &Parts, config: &Config) -> Option<Url> {
    if let Some(url) = config.server.registry.as_ref().and_then(|registry| registry.url.clone()) {
        return Some(url);
    }
    let resource = config.incoming_auth.issuers.iter().find_map(|issuer| issuer.resource.clone());
    if let Some(mut url) = resource {
        let path = url.path().trim_end_matches('/').trim_end_matches("/mcp").to_owned();
        url.set_path(&path);
        return Some(url);
    }
    let forwarded = head.headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let scheme = if forwarded || config.server.tls.is_some() { "https" } else { "http" };
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = head.uri.authority().map(Authority::as_str).or(host)?;
    let is_plain = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    let url = Url::parse(&format!("{scheme}://{host}/")).ok()?;
    (is_plain && url.path() == "/").then_some(url)
}

fn with_path(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}
