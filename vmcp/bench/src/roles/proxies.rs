//! Two reverse proxies that know nothing of MCP: the cost of a bare HTTP hop.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::serve::ListenerExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use super::role_process;

/// Maximum bytes of a request body, 1 MiB; a larger one is refused.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Proxy of axum in front and reqwest behind. Requests are collected, answers stream through.
#[tokio::main]
pub(crate) async fn axum(listen: SocketAddr, upstream: SocketAddr) -> Result<()> {
    // reqwest wants a TLS provider, though no connection here is encrypted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let router = Router::new().fallback(through_reqwest).with_state((client, upstream));
    let listener = role_process::announce(TcpListener::bind(listen).await?)?;
    let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
    axum::serve(listener, router).await.context("serving")
}

async fn through_reqwest(
    State((client, upstream)): State<(reqwest::Client, SocketAddr)>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let forward = async {
        let body = axum::body::to_bytes(body, MAX_REQUEST_BYTES).await?;
        let url = format!("http://{upstream}{}", parts.uri);
        let request = client.request(parts.method, url).headers(parts.headers).body(body);
        anyhow::Ok(http::Response::<reqwest::Body>::from(request.send().await?))
    };
    match forward.await {
        Ok(response) => response.map(axum::body::Body::new),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

type Forwarder = Client<HttpConnector, Incoming>;

/// Proxy of hyper in front and the pooled client of hyper-util behind. Requests and answers stream through.
#[tokio::main]
pub(crate) async fn hyper(listen: SocketAddr, upstream: SocketAddr) -> Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Forwarder = Client::builder(TokioExecutor::new()).build(connector);
    let listener = role_process::announce(TcpListener::bind(listen).await?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let client = client.clone();
        let forward = service_fn(move |mut request: hyper::Request<Incoming>| {
            let client = client.clone();
            async move {
                let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
                *request.uri_mut() = format!("http://{upstream}{path}").parse::<Uri>()?;
                anyhow::Ok(client.request(request).await?)
            }
        });
        // A broken connection concerns only its client.
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), forward),
        );
    }
}
