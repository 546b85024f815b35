//! A client of the OCI distribution API, as far as the configuration of an image needs it: a manifest, the
//! manifest of one platform if the first is an index, and the blob of the configuration.
//!
//! Registries are named by tenants: everything is asked over TLS (plain HTTP from listed hosts only) at
//! addresses that [`AskedAddresses`] admits, answers are bounded in size and time, and digests are verified.

mod asked_addresses;
mod challenge;
mod documents;

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use url::Url;
use vmcp_egress::Proxies;
use vmcp_error_chain::error_chain;

use self::asked_addresses::AskedAddresses;
use self::challenge::Challenge;
use self::documents::{ImageConfig, MANIFEST_TYPES, Manifest, Token};
use super::{ImageReference, PullCredentials};

pub(crate) use self::documents::ImageProgram;

/// The time that all requests for one image may take together.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(15);
/// The time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest document that is read, 4 MiB, which is also the largest manifest that registries take.
const MAX_DOCUMENT_BYTES: usize = 4 << 20;
/// Redirects that are followed: registries keep blobs in object stores.
const MAX_REDIRECTS: usize = 5;

/// Error of asking a registry.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum RegistryError {
    /// The operator's own client cannot be made: the system's certificates cannot be read.
    #[error("no TLS client can be made: {0}")]
    Client(String),
    /// The name of the image is not a valid reference.
    #[error("`{0}` names no image")]
    Reference(String),
    /// The registry cannot be reached.
    #[error("{0} cannot be reached: {1}")]
    Unreachable(String, String),
    /// The registry did not answer in time.
    #[error("{0} did not answer within {seconds} s", seconds = LOOKUP_TIMEOUT.as_secs())]
    Timeout(String),
    /// The registry wants other credentials, or does not have the image.
    #[error("{0} answered {1}")]
    Status(String, StatusCode),
    /// The answer is not a registry's.
    #[error("{0} answered with {1}")]
    Answer(String, &'static str),
    /// The image starts nothing by itself.
    #[error("the image has neither an entrypoint nor a command")]
    NoProgram,
}

/// A client of registries.
pub(crate) struct RegistryClient {
    /// Made at the first lookup: most clusters need none.
    http: OnceCell<reqwest::Client>,
    /// Hosts, with their ports, that are asked over plain HTTP.
    plain_http: Vec<String>,
    addresses: AskedAddresses,
}

impl RegistryClient {
    /// Makes a client; `plain_http` lists the hosts that are asked without TLS.
    pub(crate) fn new(plain_http: Vec<String>) -> Self {
        let addresses = AskedAddresses::new(&plain_http, Proxies::of_environment());
        Self { http: OnceCell::new(), plain_http, addresses }
    }

    async fn http(&self) -> Result<&reqwest::Client, RegistryError> {
        let made = self.http.get_or_try_init(|| async {
            let (plain, addresses) = (self.plain_http.clone(), self.addresses.clone());
            let redirect = Policy::custom(move |attempt| {
                let allowed = is_allowed(attempt.url(), &plain)
                    && addresses.admit(attempt.url())
                    && attempt.previous().len() <= MAX_REDIRECTS;
                if allowed { attempt.follow() } else { attempt.stop() }
            });
            reqwest::Client::builder()
                .connect_timeout(CONNECT_TIMEOUT)
                .redirect(redirect)
                .dns_resolver(Arc::new(self.addresses.clone()))
                .proxy(Proxies::of_environment().for_reqwest())
                .user_agent(concat!("vmcp-operator/", env!("CARGO_PKG_VERSION")))
                .build()
        });
        made.await.map_err(|error| RegistryError::Client(error_chain(&error)))
    }

    /// Returns the program that an image starts without a command.
    pub(crate) async fn program(
        &self,
        image: &ImageReference,
        credentials: &PullCredentials,
    ) -> Result<ImageProgram, RegistryError> {
        let lookup = self.read_program(image, credentials);
        let host = image.host().to_owned();
        tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await.unwrap_or(Err(RegistryError::Timeout(host)))
    }

    async fn read_program(
        &self,
        image: &ImageReference,
        credentials: &PullCredentials,
    ) -> Result<ImageProgram, RegistryError> {
        let host = image.host();
        let credentials = credentials.for_registry(&image.registry);
        let http = self.http().await?;
        let mut session =
            Session { client: self, http, host, credentials, authorization: Authorization::None };
        let path = |kind: &str, version: &str| format!("/v2/{}/{kind}/{version}", image.repository);
        let mut manifest: Manifest = session.document(&path("manifests", &image.version)).await?;
        if let Some(digest) = manifest.platform_digest() {
            manifest = session.document(&path("manifests", &digest)).await?;
        }
        let config = manifest.config.ok_or_else(|| answer(host, "a manifest without configuration"))?;
        let config: ImageConfig = session.document(&path("blobs", &config.digest)).await?;
        config.program().ok_or(RegistryError::NoProgram)
    }

    fn url(&self, host: &str, path: &str) -> Result<Url, RegistryError> {
        let scheme = if self.plain_http.iter().any(|plain| plain == host) { "http" } else { "https" };
        let url = Url::parse(&format!("{scheme}://{host}{path}"));
        let url = url.map_err(|_| answer(host, "no usable address"))?;
        if self.addresses.admit(&url) {
            Ok(url)
        } else {
            let reason = "no registry is asked at this address".to_owned();
            Err(RegistryError::Unreachable(host.to_owned(), reason))
        }
    }

    /// True if a registry may send the operator to this URL for a token.
    fn may_ask(&self, url: &Url) -> bool {
        is_allowed(url, &self.plain_http) && self.addresses.admit(url)
    }
}

/// Requests to one registry for one image.
struct Session<'a> {
    client: &'a RegistryClient,
    http: &'a reqwest::Client,
    host: &'a str,
    credentials: Option<(&'a str, &'a str)>,
    authorization: Authorization,
}

/// Proof of who asks.
enum Authorization {
    None,
    Basic,
    Bearer(String),
}

impl Session<'_> {
    /// Reads a JSON document, and verifies its digest if the path ends with one.
    async fn document<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, RegistryError> {
        let url = self.client.url(self.host, path)?;
        let mut response = self.send(self.http.get(url.clone())).await?;
        if response.status() == StatusCode::UNAUTHORIZED && self.authorize(&response).await? {
            response = self.send(self.http.get(url)).await?;
        }
        if response.status() != StatusCode::OK {
            return Err(RegistryError::Status(self.host.to_owned(), response.status()));
        }
        let body = self.body(response).await?;
        let digest = path.rsplit('/').next().and_then(|version| version.strip_prefix("sha256:"));
        if digest.is_some_and(|digest| hex::encode(Sha256::digest(&body)) != digest) {
            return Err(answer(self.host, "content of another digest"));
        }
        serde_json::from_slice(&body).map_err(|_| answer(self.host, "no document of an image"))
    }

    /// Answers the challenge of a registry; returns false if there is nothing to answer it with.
    async fn authorize(&mut self, response: &Response) -> Result<bool, RegistryError> {
        let challenges = response.headers().get_all(WWW_AUTHENTICATE);
        let mut challenges = challenges.iter().filter_map(|value| Challenge::parse(value.to_str().ok()?));
        match challenges.next() {
            Some(Challenge::Basic) if self.credentials.is_some() => {
                self.authorization = Authorization::Basic;
                Ok(true)
            }
            Some(Challenge::Bearer(realm)) if self.client.may_ask(&realm) => {
                let mut request = self.http.get(realm);
                if let Some((user, password)) = self.credentials {
                    request = request.basic_auth(user, Some(password));
                }
                let response = request.send().await.map_err(|error| self.failed(&error))?;
                if response.status() != StatusCode::OK {
                    return Err(RegistryError::Status(self.host.to_owned(), response.status()));
                }
                let token: Token = serde_json::from_slice(&self.body(response).await?)
                    .map_err(|_| answer(self.host, "no token"))?;
                self.authorization = Authorization::Bearer(token.value());
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, RegistryError> {
        let request = match (&self.authorization, self.credentials) {
            (Authorization::Bearer(token), _) => request.bearer_auth(token),
            (Authorization::Basic, Some((user, password))) => request.basic_auth(user, Some(password)),
            _ => request,
        };
        request.header(ACCEPT, MANIFEST_TYPES).send().await.map_err(|error| self.failed(&error))
    }

    /// Reads an answer of at most [`MAX_DOCUMENT_BYTES`].
    async fn body(&self, mut response: Response) -> Result<Vec<u8>, RegistryError> {
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| self.failed(&error))? {
            body.extend_from_slice(&part);
            if body.len() > MAX_DOCUMENT_BYTES {
                return Err(answer(self.host, "more than 4 MiB"));
            }
        }
        Ok(body)
    }

    fn failed(&self, error: &reqwest::Error) -> RegistryError {
        RegistryError::Unreachable(self.host.to_owned(), error_chain(error))
    }
}

/// Returns true if a URL may be asked: over TLS, or a host that is listed for plain HTTP.
fn is_allowed(url: &Url, plain_http: &[String]) -> bool {
    let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
    url.scheme() == "https" || (url.scheme() == "http" && plain_http.iter().any(|host| host == authority))
}

fn answer(host: &str, what: &'static str) -> RegistryError {
    RegistryError::Answer(host.to_owned(), what)
}

#[cfg(test)]
mod tests;
