//! An MCP server on rmcp, the official Rust SDK, that passes the official conformance suite in both eras.
//!
//! It has every tool, prompt and resource that a scenario of the suite asks for. It asks its client in the
//! form of the era of that client, so that the same tools exercise all four pairings of client and server
//! behind a gateway.
#![expect(deprecated, reason = "sampling, roots and logging are deprecated, and still to be relayed")]

mod answers;
mod args;
mod catalog;
mod dialogue;
mod listeners;
mod prompts;
mod resources;
mod server;
mod stop;
mod tools;

use std::io::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt as _;
use clap::Parser as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use args::Args;
use server::{Server, Shared};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let listener = TcpListener::bind(("127.0.0.1", args.port)).await?;
    let address = listener.local_addr()?;
    let shared = Arc::new(Shared::new(args.era)?);
    let service = StreamableHttpService::new(
        move || Ok(Server::new(Arc::clone(&shared))),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    writeln!(std::io::stdout(), "listening on http://{address}/mcp")?;
    // An event is several small writes; with Nagle on, each would wait 40 ms for an acknowledgement.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, Router::new().nest_service("/mcp", service)).await?)
}
