//! The setting `addresses`: hosts are judged by the addresses that they have at the moment of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::net::TcpListener;
use vmcp_backend::{Backend, BackendSettings, BackendState, HttpClient};
use vmcp_config::addresses::ReachableAddresses;
use vmcp_config::{Headers, Transport};
use vmcp_egress::Proxies;

use crate::support::scripts::{echo, modern};
use crate::support::server::Server;
use crate::support::{call, eventually, settings, spec, wait_for_definitions, wait_for_state};

/// Counts connections, and closes them.
async fn counting_listener() -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&count);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, count)
}

/// Every transport to `host`, with and without TLS.
fn transports(host: &str) -> Vec<Transport> {
    let url = |scheme: &str| format!("{scheme}://{host}/mcp").parse().unwrap();
    let headers = Headers::new;
    vec![
        Transport::Http { url: url("http"), headers: headers() },
        Transport::Http { url: url("https"), headers: headers() },
        Transport::Sse { url: url("http"), headers: headers() },
        Transport::Sse { url: url("https"), headers: headers() },
        Transport::WebSocket { url: url("ws"), headers: headers() },
        Transport::WebSocket { url: url("wss"), headers: headers() },
    ]
}

#[tokio::test]
async fn no_transport_connects_to_an_address_that_the_setting_excludes() {
    let (port, connections) = counting_listener().await;
    for host in ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]"] {
        for transport in transports(&format!("{host}:{port}")) {
            let shown = format!("{} {host}", transport.kind());
            let guarded =
                vmcp_config::Backend { addresses: ReachableAddresses::Public, ..spec("b", transport) };
            let backend = Backend::start(guarded, settings(), None);
            let error = wait_for_state(&backend, BackendState::Failed).await.last_error.unwrap();
            assert!(error.contains("a loopback address, which `addresses: public`"), "{shown}: {error}");
            backend.stop().await;
        }
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    for transport in transports(&format!("localhost:{port}")) {
        let before = connections.load(Ordering::SeqCst);
        let local = vmcp_config::Backend { addresses: ReachableAddresses::Local, ..spec("b", transport) };
        let backend = Backend::start(local, settings(), None);
        let is_reached = || (connections.load(Ordering::SeqCst) > before).then_some(());
        eventually("a connection", is_reached).await;
        backend.stop().await;
    }
}

#[tokio::test]
async fn an_open_connection_serves_no_backend_that_might_not_have_opened_it() {
    let server = Server::start(modern(echo)).await;
    let port = server.address().rsplit(':').next().unwrap().to_owned();
    let shared = settings();
    let at = |addresses| {
        let transport = transports(&format!("localhost:{port}")).remove(0);
        Backend::start(vmcp_config::Backend { addresses, ..spec("b", transport) }, shared.clone(), None)
    };
    let free = at(ReachableAddresses::Any);
    wait_for_definitions(&free, |found| found.tools[0].name == "echo").await;
    call(&free, "echo").await.unwrap();
    let guarded = at(ReachableAddresses::Public);
    wait_for_state(&guarded, BackendState::Failed).await;
    call(&guarded, "echo").await.unwrap_err();
    call(&free, "echo").await.unwrap();
    free.stop().await;
    guarded.stop().await;
}

#[tokio::test]
async fn a_proxy_is_asked_for_no_host_that_the_setting_excludes() {
    let (port, connections) = counting_listener().await;
    let proxy = format!("http://127.0.0.1:{port}");
    let proxies = Proxies::new(&|name| (name == "ALL_PROXY").then(|| proxy.clone()));
    let through = BackendSettings { http: HttpClient::with_proxies(proxies), ..settings() };
    for host in ["10.0.0.1", "[fd00::1]", "192.168.0.1:8080"] {
        for transport in transports(host) {
            let shown = format!("{} {host}", transport.kind());
            let guarded =
                vmcp_config::Backend { addresses: ReachableAddresses::Public, ..spec("b", transport) };
            let backend = Backend::start(guarded, through.clone(), None);
            let error = wait_for_state(&backend, BackendState::Failed).await.last_error.unwrap();
            assert!(error.contains("a private address, which"), "{shown}: {error}");
            backend.stop().await;
        }
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    // A proxy may be in a private network itself, and knows names that resolve nowhere else.
    let transport = transports("tools.invalid").remove(0);
    let far = vmcp_config::Backend { addresses: ReachableAddresses::Public, ..spec("b", transport) };
    let backend = Backend::start(far, through, None);
    eventually("a request to the proxy", || (connections.load(Ordering::SeqCst) > 0).then_some(())).await;
    backend.stop().await;
}
