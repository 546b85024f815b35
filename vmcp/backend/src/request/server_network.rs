//! [`ServerNetwork`]: the way to a backend, in the words of OpenTelemetry.

use url::{Host, Url};
use vmcp_config::Transport;

/// The way to a backend, in the words of OpenTelemetry's conventions. A text that does not apply is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerNetwork {
    /// `network.transport`: `tcp` or `pipe`.
    pub transport: &'static str,
    /// `network.protocol.name`: `http` or `websocket`.
    pub protocol: &'static str,
    /// `server.address`: a name, or an IP address without brackets.
    pub address: Box<str>,
    /// `server.port`; `None` for a program.
    pub port: Option<u16>,
}

impl From<&Transport> for ServerNetwork {
    fn from(transport: &Transport) -> Self {
        let (network, protocol) = match transport {
            Transport::Http { .. } | Transport::Sse { .. } => ("tcp", "http"),
            Transport::WebSocket { .. } => ("tcp", "websocket"),
            Transport::Stdio { .. } => ("pipe", ""),
        };
        let url = transport.url();
        let address = match url.and_then(Url::host) {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
            None => String::new(),
        };
        let port = url.and_then(Url::port_or_known_default);
        Self { transport: network, protocol, address: address.into(), port }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_the_port_that_its_scheme_knows() {
        for (url, address, port) in [
            ("http://[::1]:9001/mcp", "::1", 9001),
            ("https://Mcp.Example.com/mcp", "mcp.example.com", 443),
            ("http://10.0.0.7/mcp?key=a", "10.0.0.7", 80),
        ] {
            let transport =
                Transport::Http { url: url.parse().unwrap(), headers: vmcp_config::Headers::default() };
            let found = ServerNetwork::from(&transport);
            let expected = ServerNetwork {
                transport: "tcp",
                protocol: "http",
                address: address.into(),
                port: Some(port),
            };
            assert_eq!(found, expected, "{url}");
        }
    }
}
