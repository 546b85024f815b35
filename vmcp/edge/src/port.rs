//! The listening ports: clients reach `/mcp` at one, operators the reports at another. A third one, if it is
//! configured, tells viewers of [`events`].
//!
//! [`connections`] accepts clients and hands them to [`workers`], [`connection`] serves one of them, and
//! [`stack`] shows every layer that a request passes. [`serve`] opens the ports and drains them at shutdown.

pub mod admin;
pub mod admin_routes;
mod connection;
mod connections;
pub mod console;
mod events;
mod layers;
mod open_files;
pub mod serve;
mod socket;
mod stack;
mod tls;
mod workers;

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::task::spawn_blocking;

/// Least time between two log lines about refused requests, so that strangers do not fill the log.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Answers from a thread for blocking work: an answer that takes a while keeps no other request waiting.
async fn off_thread<A: IntoResponse>(answer: impl FnOnce() -> A + Send + 'static) -> Response {
    match spawn_blocking(move || answer().into_response()).await {
        Ok(answer) => answer,
        // Not reached: the task neither panics nor is aborted.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
