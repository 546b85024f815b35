//! [`GuardedTcp`]: TCP connections behind an SSRF guard.
//!
//! The guard judges the addresses that a host has at the moment of connecting, and the connection goes to an
//! address that it admitted. A DNS server that answers differently later (DNS rebinding) gains nothing.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::vec;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::{Service, ServiceExt as _};

/// Judges an address before a connection to it; the error describes the address, and names the remedy.
pub type AddressGuard = fn(IpAddr) -> Result<(), String>;

/// Time for looking up a name that a proxy will look up again; without an answer the proxy decides.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Names of cloud metadata services, which a proxy could resolve though this machine does not.
const METADATA_NAMES: [&str; 3] = ["metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"];
/// Address of metadata services.
const METADATA_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

type BoxError = Box<dyn Error + Send + Sync>;

/// A host with an address that an [`AddressGuard`] refuses.
#[derive(Debug, thiserror::Error)]
#[error("{host} has the address {address}, {reason}")]
pub struct RefusedAddress {
    host: String,
    address: IpAddr,
    reason: String,
}

/// Opens TCP connections to addresses that a guard admits.
#[derive(Clone, Debug)]
pub struct GuardedTcp {
    tcp: HttpConnector<GuardedResolver>,
    /// `None`: every address is admitted.
    guard: Option<AddressGuard>,
}

impl GuardedTcp {
    /// Makes a connector; `configure` sets the options of its sockets.
    pub fn new(
        guard: Option<AddressGuard>,
        configure: impl FnOnce(&mut HttpConnector<GuardedResolver>),
    ) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(GuardedResolver { guard });
        configure(&mut tcp);
        // TLS sits on top of this connector.
        tcp.enforce_http(false);
        Self { tcp, guard }
    }

    /// True if some addresses are refused.
    pub(crate) fn refuses(&self) -> bool {
        self.guard.is_some()
    }

    /// Connects to the host and port of a URI.
    pub async fn connect(&self, target: Uri) -> Result<TokioIo<TcpStream>, BoxError> {
        self.judge_written_address(&target)?;
        Ok(self.tcp.clone().oneshot(target).await?)
    }

    /// Judges the target of a connection that a proxy opens. The proxy resolves the name by itself and may
    /// take any of its addresses: one refused address refuses the name. A name that does not resolve here
    /// within two seconds is the proxy's. Names of metadata services have their address everywhere.
    pub async fn judge_behind_proxy(&self, target: &Uri) -> Result<(), BoxError> {
        self.judge_written_address(target)?;
        let (Some(guard), Some(host)) = (self.guard, target.host()) else { return Ok(()) };
        if written_address(host).is_some() {
            return Ok(());
        }
        if is_metadata_name(host) {
            judge(guard, host, METADATA_ADDRESS)?;
            return Ok(());
        }
        let found = tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((host, 0))).await;
        let Ok(Ok(found)) = found else { return Ok(()) };
        for address in found {
            judge(guard, host, address.ip())?;
        }
        Ok(())
    }

    /// Judges an address that stands in the URI, which nothing resolves.
    fn judge_written_address(&self, target: &Uri) -> Result<(), RefusedAddress> {
        let (Some(guard), Some(host)) = (self.guard, target.host()) else { return Ok(()) };
        written_address(host).map_or(Ok(()), |address| judge(guard, host, address))
    }
}

/// Returns true for the name of a cloud metadata service.
pub fn is_metadata_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    METADATA_NAMES.iter().any(|name| name.eq_ignore_ascii_case(host))
}

fn written_address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn judge(guard: AddressGuard, host: &str, address: IpAddr) -> Result<(), RefusedAddress> {
    guard(address).map_err(|reason| RefusedAddress { host: host.to_owned(), address, reason })
}

/// Resolves names by the system, and leaves out the addresses that the guard refuses. A name without another
/// address is refused.
#[derive(Clone, Copy, Debug)]
pub struct GuardedResolver {
    guard: Option<AddressGuard>,
}

impl Service<Name> for GuardedResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<vec::IntoIter<SocketAddr>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let guard = self.guard;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            admitted(guard, name.as_str(), found).map(Vec::into_iter)
        })
    }
}

/// Returns the addresses that the guard admits; the error is about the first one if all are refused.
fn admitted(
    guard: Option<AddressGuard>,
    host: &str,
    found: impl Iterator<Item = SocketAddr>,
) -> io::Result<Vec<SocketAddr>> {
    let Some(guard) = guard else { return Ok(found.collect()) };
    let (mut admitted, mut refused) = (Vec::new(), None);
    for address in found {
        match judge(guard, host, address.ip()) {
            Ok(()) => admitted.push(address),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if admitted.is_empty() => Err(io::Error::new(io::ErrorKind::PermissionDenied, error)),
        _ => Ok(admitted),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Refuses every address but those of `10.0.0.0/8`.
    fn ten_alone(address: IpAddr) -> Result<(), String> {
        let is_ten = matches!(address, IpAddr::V4(address) if address.octets()[0] == 10);
        if is_ten { Ok(()) } else { Err("an address of another network".to_owned()) }
    }

    /// Returns the texts of an error and of its causes.
    fn texts(error: &dyn Error) -> String {
        let (mut texts, mut source) = (error.to_string(), error.source());
        while let Some(cause) = source {
            texts.push_str(&cause.to_string());
            source = cause.source();
        }
        texts
    }

    #[test]
    fn a_name_leads_to_its_admitted_addresses_alone() {
        let found = |addresses: &[&str]| {
            let sockets: Vec<SocketAddr> =
                addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 0)).collect();
            admitted(Some(ten_alone), "a.example", sockets.into_iter())
        };
        let one = found(&["127.0.0.1", "10.0.0.1", "8.8.8.8"]).unwrap();
        assert_eq!(one.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>(), ["10.0.0.1"]);
        let refused = found(&["127.0.0.1", "8.8.8.8"]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(refused.to_string(), "a.example has the address 127.0.0.1, an address of another network");
        assert!(found(&[]).unwrap().is_empty(), "a name without an address fails by itself");
    }

    #[tokio::test]
    async fn names_and_written_addresses_are_judged_at_each_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]"] {
            let target: Uri = format!("http://{host}:{port}/mcp").parse().unwrap();
            let refusing = GuardedTcp::new(Some(ten_alone), |_| ());
            let error = refusing.connect(target.clone()).await.unwrap_err();
            let text = texts(&*error);
            assert!(text.contains("an address of another network"), "{host}: {text}");
            let error = refusing.judge_behind_proxy(&target).await.unwrap_err();
            assert!(error.to_string().contains("an address of another network"), "{host}: {error}");
        }
        let target: Uri = format!("http://127.0.0.1:{port}/mcp").parse().unwrap();
        for guard in [None, Some((|_| Ok(())) as AddressGuard)] {
            GuardedTcp::new(guard, |_| ()).connect(target.clone()).await.unwrap();
        }
        for name in ["metadata.google.internal", "Metadata.Goog."] {
            let target: Uri = format!("http://{name}/computeMetadata/v1/").parse().unwrap();
            let error =
                GuardedTcp::new(Some(ten_alone), |_| ()).judge_behind_proxy(&target).await.unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("{name} has the address 169.254.169.254")),
                "{error}"
            );
        }
        let unknown: Uri = "http://tools.invalid/".parse().unwrap();
        GuardedTcp::new(Some(ten_alone), |_| ()).judge_behind_proxy(&unknown).await.unwrap();
    }
}
