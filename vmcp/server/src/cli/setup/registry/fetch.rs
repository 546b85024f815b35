//! All pages of a registry's list, by its cursors.

use std::collections::HashSet;
use std::time::Duration;

use reqwest::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use url::{Host, Url};
use vmcp_config::Secret;
use vmcp_egress::Proxies;
use vmcp_error_chain::error_chain;

use crate::cli::console::failure::{CommandFailure, Exit};

/// Entries that are asked for at a time, the most that the API gives.
const PAGE_SIZE: &str = "100";
/// Most pages; a registry with more is refused.
const MAX_PAGES: usize = 1000;
/// Most bytes of a page, 8 MiB.
const MAX_PAGE_BYTES: usize = 8 << 20;
/// Most bytes of all pages, 64 MiB.
const MAX_BYTES: usize = 64 << 20;
/// Time limit of one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of all pages.
const TIMEOUT: Duration = Duration::from_mins(5);

/// A service that speaks the API.
pub(super) struct Registry {
    url: Url,
    token: Option<Secret>,
}

/// Answer of a registry.
pub(super) enum Fetched {
    /// The list is the one of the mirror.
    Unchanged,
    /// All entries, as they were written.
    Servers {
        /// The entries.
        servers: Vec<Value>,
        /// Entity tag, if it stands for the whole list.
        etag: Option<String>,
    },
}

impl Registry {
    /// Reads an address; a version and a slash at its end are not part of it.
    pub(super) fn new(address: &str, token: Option<String>) -> Result<Registry, CommandFailure> {
        let bare = address.trim_end_matches('/').trim_end_matches("/servers").trim_end_matches("/v0.1");
        let wrong = |reason: &str| {
            CommandFailure::new(format!("--from: {reason}"))
                .exit(Exit::Usage)
                .remedy("write the address of a registry, such as https://registry.example.com")
        };
        let url = Url::parse(bare.trim_end_matches('/')).map_err(|_| wrong("not a URL"))?;
        if url.query().is_some()
            || url.fragment().is_some()
            || !url.username().is_empty()
            || url.password().is_some()
        {
            return Err(wrong("a URL with credentials, a query or a fragment"));
        }
        let is_local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => return Err(wrong("a URL without a host")),
        };
        if token.is_some() && url.scheme() != "https" && !is_local {
            return Err(wrong("the token would travel in clear text; use https://"));
        }
        Ok(Registry { url, token: token.map(Secret::from) })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    fn page(&self, cursor: Option<&str>) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/v0.1/servers", self.url.path().trim_end_matches('/')));
        let mut query = url.query_pairs_mut();
        query.append_pair("limit", PAGE_SIZE).append_pair("version", "latest");
        if let Some(cursor) = cursor {
            query.append_pair("cursor", cursor);
        }
        drop(query);
        url
    }
}

/// Fetches all pages, unless the list still has the entity tag `known`.
pub(super) async fn all(registry: &Registry, known: Option<&str>) -> Result<Fetched, CommandFailure> {
    let fetched = tokio::time::timeout(TIMEOUT, pages(registry, known)).await;
    fetched.unwrap_or_else(|_| Err(faulty(registry, "it takes more than 5 minutes")))
}

async fn pages(registry: &Registry, known: Option<&str>) -> Result<Fetched, CommandFailure> {
    let http = Client::builder().redirect(Policy::none()).timeout(PAGE_TIMEOUT);
    let http = http.proxy(Proxies::of_environment().for_reqwest()).build()?;
    let (mut servers, mut cursors, mut bytes) = (Vec::new(), HashSet::new(), 0);
    let mut cursor: Option<String> = None;
    loop {
        let mut request = http.get(registry.page(cursor.as_deref())).header(ACCEPT, "application/json");
        if let Some(token) = &registry.token {
            request = request.bearer_auth(token.expose());
        }
        let known = known.filter(|_| cursor.is_none());
        if let Some(etag) = known {
            request = request.header(IF_NONE_MATCH, etag);
        }
        let answer = request.send().await.map_err(|error| {
            faulty(registry, &format!("it cannot be reached ({})", error_chain(&error.without_url())))
        })?;
        match answer.status() {
            StatusCode::NOT_MODIFIED if known.is_some() => return Ok(Fetched::Unchanged),
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(faulty(registry, "it wants a token: set VMCP_REGISTRY_TOKEN"));
            }
            status => return Err(faulty(registry, &format!("it answers HTTP {status}"))),
        }
        let etag = answer.headers().get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        let text = body(registry, answer).await?;
        bytes += text.len();
        let mut page: Value =
            serde_json::from_slice(&text).map_err(|_| faulty(registry, "its answer is no JSON"))?;
        match page.get_mut("servers").map(Value::take) {
            Some(Value::Array(entries)) => servers.extend(entries),
            Some(Value::Null) => {}
            _ => return Err(faulty(registry, "its answer has no list `servers`; it does not speak v0.1")),
        }
        let metadata = page.get("metadata");
        let next = metadata.and_then(|metadata| metadata.get("nextCursor").or(metadata.get("next_cursor")));
        let Some(next) = next.and_then(Value::as_str).filter(|next| !next.is_empty()) else {
            // An entity tag of one of several pages says nothing about the others.
            return Ok(Fetched::Servers { servers, etag: etag.filter(|_| cursors.is_empty()) });
        };
        if !cursors.insert(next.to_owned()) {
            return Err(faulty(registry, "it names one cursor twice, so that its list has no end"));
        }
        if cursors.len() >= MAX_PAGES || bytes > MAX_BYTES {
            let limits = format!("its list has more than {MAX_PAGES} pages or {MAX_BYTES} bytes");
            return Err(faulty(registry, &limits));
        }
        cursor = Some(next.to_owned());
    }
}

async fn body(registry: &Registry, mut answer: Response) -> Result<Vec<u8>, CommandFailure> {
    let mut text = Vec::new();
    loop {
        let chunk = answer.chunk().await.map_err(|error| {
            faulty(registry, &format!("its answer broke off ({})", error_chain(&error.without_url())))
        })?;
        let Some(chunk) = chunk else { return Ok(text) };
        if text.len() + chunk.len() > MAX_PAGE_BYTES {
            return Err(faulty(
                registry,
                &format!("a page of its list has more than {MAX_PAGE_BYTES} bytes"),
            ));
        }
        text.extend_from_slice(&chunk);
    }
}

fn faulty(registry: &Registry, reason: &str) -> CommandFailure {
    CommandFailure::new(format!("the registry {}: {reason}", registry.url)).exit(Exit::Unreachable)
}
