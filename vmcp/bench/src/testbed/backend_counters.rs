//! Counters of the backend: requests and connections that reached it.

use anyhow::Result;

use crate::client::http_connection::HttpConnection;
use crate::roles::backend::RequestCounts;

/// Reads the backend's counters over a connection of its own, so that reading them opens no connection that
/// counts.
pub(crate) struct BackendCounters(pub(crate) HttpConnection);

impl BackendCounters {
    /// Returns the counts since the backend started.
    pub(crate) async fn read(&mut self) -> Result<RequestCounts> {
        let received = self.0.exchange(b"GET /counts HTTP/1.1\r\nhost: backend\r\n\r\n").await?;
        Ok(serde_json::from_slice(received.body)?)
    }
}
