//! [`Clients`]: connections to the API server, for calls and for watches.
//!
//! A watch holds its connection for as long as it runs. Over HTTP/1 a list of 60 namespaces would open 2,000
//! connections, of 60 KiB each. Watches of several namespaces share connections over HTTP/2 instead.

use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client as HttpClient};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use parking_lot::Mutex;
use tower::{BoxError, ServiceBuilder};
use vmcp_error_chain::error_chain;

use super::Scope;

/// Most watches on one connection. API servers allow 100 streams a connection and more; a watch beyond would
/// wait for ever.
const WATCHES_PER_CONNECTION: usize = 50;
/// The interval of pings on a shared connection, whose watches may be silent for minutes.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// A connection whose ping stays without an answer for this time is closed, and its watches start again.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Connections to the API server.
pub struct Clients {
    /// For calls, and for watches that share no connection.
    calls: Client,
    /// The way to shared connections; `None`: each watch has a connection of its own.
    shared: Option<Config>,
    /// The newest shared connection, with the number of its watches.
    newest: Mutex<Option<(Client, usize)>>,
}

impl Clients {
    /// Returns the connections of an operator. Watches share them in a list of several namespaces, unless a
    /// proxy or a name of its own stands between.
    pub(crate) fn new(calls: Client, config: &Config, scope: &Scope) -> Self {
        let is_direct = config.proxy_url.is_none() && config.tls_server_name.is_none();
        let shares = is_direct && scope.parts().len() > 1;
        Self { calls, shared: shares.then(|| config.clone()), newest: Mutex::default() }
    }

    /// Returns the client for calls.
    pub(crate) fn for_calls(&self) -> &Client {
        &self.calls
    }

    /// Returns the client for one more watch.
    pub(crate) fn for_watch(&self) -> Client {
        let Some(config) = &self.shared else { return self.calls.clone() };
        let mut newest = self.newest.lock();
        if let Some((client, watches)) = newest.as_mut()
            && *watches < WATCHES_PER_CONNECTION
        {
            *watches += 1;
            return client.clone();
        }
        match multiplexed(config) {
            Ok(client) => {
                *newest = Some((client.clone(), 1));
                client
            }
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(error, "watches cannot share a connection, each opens its own");
                self.calls.clone()
            }
        }
    }
}

/// Returns a client with one connection over HTTP/2, or with several where the API server speaks HTTP/1
/// alone.
fn multiplexed(config: &Config) -> kube::Result<Client> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(config.connect_timeout);
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http()
        .enable_http1()
        .enable_http2()
        .wrap_connector(connector);
    let http: HttpClient<_, Body> = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn watches_of_several_namespaces_share_connections_up_to_a_number() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = Config::new("https://127.0.0.1:1".parse().expect("a URL"));
        let clients = |namespaces: &str| {
            let calls = Client::try_from(config.clone()).expect("a client");
            Clients::new(calls, &config, &Scope::parse(namespaces, ""))
        };
        let watches_of_newest =
            |clients: &Clients| clients.newest.lock().as_ref().map(|(_, watches)| *watches);
        for single in ["", "a"] {
            let clients = clients(single);
            clients.for_watch();
            assert_eq!(watches_of_newest(&clients), None, "{single}");
        }
        let clients = clients("a,b");
        for watch in 0..=WATCHES_PER_CONNECTION {
            clients.for_watch();
            assert_eq!(watches_of_newest(&clients), Some(watch % WATCHES_PER_CONNECTION + 1));
        }
    }
}
