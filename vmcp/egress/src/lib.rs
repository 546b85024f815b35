//! Outgoing requests: the proxies that the environment names (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and
//! `NO_PROXY`, in capitals or lower case), and the certificate authorities that are trusted.
//!
//! [`Proxies`] decides; [`ProxyConnector`] is a connector of hyper that follows the decision, by an absolute
//! request target for `http`, by a `CONNECT` tunnel for `https`, or by SOCKS 5. What is on this machine or in
//! the cluster is never reached through a proxy: see [`Proxies::proxy_for`]. [`GuardedTcp`] judges the
//! addresses of hosts at the moment of connecting.

mod connector;
mod direct;
mod guard;
mod proxies;
mod trust;

pub use crate::connector::{
    Http2Connector, OpenedAt, ProxiedStream, ProxyConnector, ProxyError, http2_connector,
};
pub use crate::guard::{AddressGuard, GuardedResolver, GuardedTcp, RefusedAddress, is_metadata_name};
pub use crate::proxies::Proxies;
pub use crate::trust::{ca_certificates, client_tls, read_ca_bundle};
