//! [`GuardedClient`]: fetches documents of identity providers behind an SSRF guard.
//!
//! URLs come from the configuration and from metadata that a provider wrote. HTTPS is required unless allowed
//! otherwise, no redirect is followed, the answer is bounded in size and time, and the address that a name
//! resolves to is checked at the moment of connecting: private addresses only if allowed, link-local ones
//! (cloud metadata services) never. Behind a proxy, which resolves names by itself, a name is looked up here
//! too: a name that has a forbidden address here is refused, and of a name that is unknown here the proxy
//! decides.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect;
use reqwest::{Certificate, Client, ClientBuilder, Identity, RequestBuilder};
use url::{Host, Url};
use vmcp_config::OidcIssuer;
use vmcp_config::addresses::AddressClass;
use vmcp_egress::{Proxies, is_metadata_name};
use vmcp_error_chain::error_chain;

/// Time limit of one request with its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer; a longer one is an error. Key sets with certificates reach some 100 KiB.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Time for looking a name up that a proxy will look up again; without an answer the proxy decides.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// A document that could not be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("{0} is not https; for development, set insecureAllowHttp")]
    NotHttps(Url),
    #[error("{0}")]
    Private(String),
    #[error("{0} is a cloud metadata service")]
    Metadata(Url),
    #[error("{url} cannot be fetched: {reason}")]
    Transport { url: Url, reason: String },
    #[error("{url} answered with HTTP {status}")]
    Status { url: Url, status: u16 },
    #[error("{0} answered with more than 1 MiB")]
    TooLarge(Url),
    #[error("no client for TLS: {0}")]
    Client(String),
    #[error("the certificates in {path} cannot be read: {reason}")]
    Certificates { path: PathBuf, reason: String },
}

/// Rules about addresses.
#[derive(Debug, Clone, Copy)]
struct AddressRules {
    allow_private: bool,
    private_setting: &'static str,
}

/// Rules about the places that a client reaches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuardRules {
    /// True if TLS is not required.
    pub(crate) allow_http: bool,
    /// True if private and loopback addresses are reached.
    pub(crate) allow_private: bool,
    /// Name of the setting that allows them, for errors.
    pub(crate) private_setting: &'static str,
}

impl GuardRules {
    pub(super) fn of_issuer(issuer: &OidcIssuer) -> Self {
        Self {
            allow_http: issuer.insecure_allow_http,
            allow_private: issuer.allow_private_addresses,
            private_setting: "jwksAllowPrivateIp",
        }
    }
}

/// TLS of a client, beyond the authorities of the system.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientTls {
    /// PEM file of certificate authorities that are trusted too.
    pub(crate) ca_bundle: Option<PathBuf>,
    /// PEM files of the client's own certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    /// True if the certificate of the server is not verified.
    pub(crate) skip_verify: bool,
}

impl ClientTls {
    /// Trusts a file of certificates.
    pub(crate) fn trusting(ca_bundle: Option<&Path>) -> Self {
        Self { ca_bundle: ca_bundle.map(Path::to_owned), ..Self::default() }
    }

    /// Returns true if a file belongs to it, whose content can change.
    pub(super) fn has_files(&self) -> bool {
        self.ca_bundle.is_some() || self.identity.is_some()
    }

    /// Reads the files.
    pub(super) fn read(&self) -> Result<TlsFiles, FetchError> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| unusable(path, error.to_string()));
        let identity = self.identity.as_ref().map(|(certificate, key)| {
            let mut pem = read(certificate)?;
            pem.push(b'\n');
            pem.extend(read(key)?);
            Ok(pem)
        });
        Ok(TlsFiles {
            ca_bundle: self.ca_bundle.as_deref().map(read).transpose()?,
            identity: identity.transpose()?,
        })
    }

    fn apply(&self, files: &TlsFiles, mut builder: ClientBuilder) -> Result<ClientBuilder, FetchError> {
        if let (Some(path), Some(pem)) = (&self.ca_bundle, &files.ca_bundle) {
            let certificates = Certificate::from_pem_bundle(pem);
            builder =
                builder.tls_certs_merge(certificates.map_err(|error| unusable(path, error_chain(&error)))?);
        }
        if let (Some((path, _)), Some(pem)) = (&self.identity, &files.identity) {
            let identity = Identity::from_pem(pem);
            builder = builder.identity(identity.map_err(|error| unusable(path, error_chain(&error)))?);
        }
        if self.skip_verify {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        Ok(builder)
    }
}

fn unusable(path: &Path, reason: String) -> FetchError {
    FetchError::Certificates { path: path.to_owned(), reason }
}

/// Content of the files of a [`ClientTls`], as PEM. No `Debug`: a private key is among it.
#[derive(PartialEq, Eq)]
pub(super) struct TlsFiles {
    ca_bundle: Option<Vec<u8>>,
    /// The certificate, a line break, and its key.
    identity: Option<Vec<u8>>,
}

/// An HTTP client for the documents and the endpoints of one provider.
#[derive(Debug)]
pub(crate) struct GuardedClient {
    client: Client,
    rules: AddressRules,
    allow_http: bool,
    proxies: Proxies,
}

impl GuardedClient {
    /// Makes the client of an issuer; reads its file of certificates.
    pub(crate) fn new(issuer: &OidcIssuer) -> Result<GuardedClient, FetchError> {
        GuardedClient::with_rules(GuardRules::of_issuer(issuer), issuer.ca_bundle_path.as_deref())
    }

    /// Makes a client with rules of its own; `ca_bundle` is a file of certificates.
    pub(crate) fn with_rules(
        rules: GuardRules,
        ca_bundle: Option<&Path>,
    ) -> Result<GuardedClient, FetchError> {
        let tls = ClientTls::trusting(ca_bundle);
        GuardedClient::with_tls(rules, &tls, &tls.read()?)
    }

    /// Makes a client with rules and TLS of its own; `files` is the content of the files of `tls`.
    pub(super) fn with_tls(
        rules: GuardRules,
        tls: &ClientTls,
        files: &TlsFiles,
    ) -> Result<GuardedClient, FetchError> {
        GuardedClient::through(Proxies::of_environment(), rules, tls, files)
    }

    fn through(
        proxies: Proxies,
        GuardRules { allow_http, allow_private, private_setting }: GuardRules,
        tls: &ClientTls,
        files: &TlsFiles,
    ) -> Result<GuardedClient, FetchError> {
        let rules = AddressRules { allow_private, private_setting };
        let resolver = GuardedResolver { rules, proxies: proxies.clone() };
        let builder = Client::builder()
            .redirect(redirect::Policy::none())
            .proxy(proxies.for_reqwest())
            .timeout(REQUEST_TIMEOUT)
            .dns_resolver(Arc::new(resolver));
        let client =
            tls.apply(files, builder)?.build().map_err(|error| FetchError::Client(error_chain(&error)))?;
        Ok(GuardedClient { client, rules, allow_http, proxies })
    }

    /// Returns the client, for requests to URLs that [`Self::check`] admits. Where it connects directly, it
    /// checks the addresses of names itself.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Refuses a URL without TLS, and one of an address that may not be reached: a literal one, or the one of
    /// a name that a proxy will connect to.
    pub(crate) async fn check(&self, url: &Url) -> Result<(), FetchError> {
        self.check_literal(url)?;
        let Some(Host::Domain(name)) = url.host() else { return Ok(()) };
        if is_metadata_name(name) {
            return Err(FetchError::Metadata(url.clone()));
        }
        if self.proxies.proxy_for_url(url).is_none() {
            return Ok(());
        }
        let found = tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((name, 0))).await;
        let Ok(Ok(found)) = found else { return Ok(()) };
        let found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
        match found.first() {
            Some(first) if !found.iter().any(|address| self.rules.admit(*address)) => {
                Err(self.rules.refusal(url, *first))
            }
            _ => Ok(()),
        }
    }

    fn check_literal(&self, url: &Url) -> Result<(), FetchError> {
        if url.scheme() != "https" && !(self.allow_http && url.scheme() == "http") {
            return Err(FetchError::NotHttps(url.clone()));
        }
        // A literal address is never resolved.
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            _ => None,
        };
        if let Some(address) = literal.filter(|address| !self.rules.admit(*address)) {
            return Err(self.rules.refusal(url, address));
        }
        Ok(())
    }

    /// Fetches a document.
    pub(crate) async fn get(&self, url: &Url) -> Result<Vec<u8>, FetchError> {
        self.check(url).await?;
        self.read(url, self.client.get(url.clone()).header("accept", "application/json")).await
    }

    /// Sends a request to a URL that [`Self::check`] admitted; returns the answer.
    pub(crate) async fn read(&self, url: &Url, request: RequestBuilder) -> Result<Vec<u8>, FetchError> {
        let failed = |error: reqwest::Error| FetchError::Transport {
            url: url.clone(),
            reason: error_chain(&error.without_url()),
        };
        let mut response = request.send().await.map_err(failed)?;
        if !response.status().is_success() {
            return Err(FetchError::Status { url: url.clone(), status: response.status().as_u16() });
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_ANSWER_BYTES {
                return Err(FetchError::TooLarge(url.clone()));
            }
        }
        Ok(body)
    }
}

/// Resolves names, and drops the addresses that may not be connected to. The proxy's own address is the
/// operator's choice.
struct GuardedResolver {
    rules: AddressRules,
    proxies: Proxies,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = self.rules;
        let is_proxy = self.proxies.hosts().any(|host| host.eq_ignore_ascii_case(name.as_str()));
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let (admitted, refused): (Vec<SocketAddr>, Vec<SocketAddr>) =
                found.partition(|address| is_proxy || rules.admit(address.ip()));
            if let (true, Some(first)) = (admitted.is_empty(), refused.first()) {
                let reason = rules.reason(name.as_str(), first.ip());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason).into());
            }
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}

impl AddressRules {
    fn refusal(self, url: &Url, address: IpAddr) -> FetchError {
        FetchError::Private(self.reason(url.as_str(), address))
    }

    /// Explains a refused address, with the setting that would admit it.
    fn reason(self, place: &str, address: IpAddr) -> String {
        match AddressClass::of(address) {
            AddressClass::Private | AddressClass::Loopback => {
                let setting = self.private_setting;
                format!("{place} has the address {address}; set {setting} if it is in this network")
            }
            _ => format!("{place} has the address {address}, which is never reached; use another host"),
        }
    }

    /// Returns true if a provider may have this address.
    fn admit(self, address: IpAddr) -> bool {
        match AddressClass::of(address) {
            AddressClass::Public => true,
            AddressClass::Private | AddressClass::Loopback => self.allow_private,
            AddressClass::Reserved | AddressClass::LinkLocal => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn behind_a_proxy_addresses_are_guarded_and_unknown_names_are_the_proxys() {
        // reqwest wants a TLS provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        let proxies = Proxies::new(&|name| (name == "ALL_PROXY").then(|| proxy.clone()));
        let rules = GuardRules { allow_http: true, allow_private: false, private_setting: "allow" };
        let tls = ClientTls::default();
        let client = GuardedClient::through(proxies, rules, &tls, &tls.read().unwrap()).unwrap();
        let served = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 1024];
            let read = socket.read(&mut head).await.unwrap();
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        for refused in [
            "http://10.0.0.1/",
            "http://[fd00::1]/",
            "http://169.254.169.254/",
            "http://metadata.google.internal/",
            // Not for a proxy, and a loopback address.
            "http://localhost:1/",
        ] {
            client.get(&refused.parse().unwrap()).await.unwrap_err();
        }
        // A name that exists behind the proxy only (RFC 6761).
        let answer = client.get(&"http://provider.invalid/keys".parse().unwrap()).await.unwrap();
        assert_eq!(answer, b"{}");
        assert!(served.await.unwrap().starts_with("GET http://provider.invalid/keys HTTP/1.1\r\n"));
    }

    #[test]
    fn private_addresses_are_for_those_who_allow_them_and_link_local_ones_for_nobody() {
        let admit = |allow_private, address: &str| {
            AddressRules { allow_private, private_setting: "allow" }.admit(address.parse::<IpAddr>().unwrap())
        };
        for address in
            ["10.0.0.1", "127.0.0.1", "100.64.0.1", "::1", "fd00::1", "::ffff:10.0.0.1", "2002:a00:1::1"]
        {
            assert!(!admit(false, address), "{address}");
            assert!(admit(true, address), "{address}");
        }
        for address in [
            "169.254.169.254",
            "0.0.0.0",
            "240.0.0.1",
            "192.0.0.192",
            "fe80::1",
            "fd00:ec2::254",
            "::",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "2001:0:a9fe:a9fe::1",
        ] {
            assert!(!admit(true, address), "{address}");
        }
        for address in ["8.8.8.8", "2001:4860:4860::8888"] {
            assert!(admit(false, address), "{address}");
        }
    }
}
