//! One transport connection to a backend.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::request::RpcOutcome;
use crate::transport::http;
use crate::transport::link_error::LinkError;
use crate::transport::mux;
use crate::transport::prepared_request::PreparedRequest;

#[derive(Debug)]
pub(crate) enum Link {
    Http(http::Http),
    Duplex(Duplex),
}

/// A two-way stream and the task that reads it, which ends after the channel's `closed` token is cancelled.
#[derive(Debug)]
pub(crate) struct Duplex {
    pub(crate) mux: Arc<mux::Mux>,
    task: Mutex<JoinHandle<()>>,
}

impl Duplex {
    pub(super) fn new(mux: Arc<mux::Mux>, task: JoinHandle<()>) -> Self {
        Self { mux, task: Mutex::new(task) }
    }
}

impl Link {
    /// Sends a request and waits for its answer. Dropping the future tells the backend to stop.
    pub(crate) async fn exchange(&self, request: PreparedRequest<'_>) -> Result<RpcOutcome, LinkError> {
        match self {
            Self::Http(http) => http.exchange(request).await,
            Self::Duplex(duplex) => duplex.mux.exchange(request).await,
        }
    }

    pub(crate) async fn notify(&self, message: Bytes) -> Result<(), LinkError> {
        match self {
            Self::Http(http) => http.notify(message).await,
            Self::Duplex(duplex) => duplex.mux.notify(message).await,
        }
    }

    /// True if the link is dead after `error`. Over HTTP the end of one request's stream says nothing about
    /// others.
    pub(crate) fn ends_with(&self, error: &LinkError) -> bool {
        match error {
            LinkError::Closed { .. } => matches!(self, Self::Duplex(_)),
            other => other.ends_connection(),
        }
    }

    /// The reason why a two-way stream ended by itself, if it did.
    pub(crate) fn end_reason(&self) -> Option<String> {
        match self {
            Self::Http(_) => None,
            Self::Duplex(duplex) => duplex.mux.ended(),
        }
    }

    /// Waits for the end of a link whose `closed` token has been cancelled.
    pub(crate) async fn close(&self) {
        match self {
            Self::Http(http) => http.close().await,
            Self::Duplex(duplex) => drop((&mut *duplex.task.lock().await).await),
        }
    }
}
