//! Proxies between a client and its servers: a balancer of connections, a reverse proxy of requests.

mod forward;
mod forward_proxy;
mod path_proxy;
mod round_robin;
mod tls;

pub use forward::forward;
pub use forward_proxy::ForwardProxy;
pub use path_proxy::PathProxy;
pub use round_robin::RoundRobin;
pub use tls::TlsProxy;
