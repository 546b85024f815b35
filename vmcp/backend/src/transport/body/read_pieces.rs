//! [`ReadPieces`]: a source of one answer's bytes.

use bytes::Bytes;
use hyper::body::Body as _;

use super::next;
use crate::http_client::ResponseBody;
use crate::transport::link_error::LinkError;

/// A source of one answer's bytes.
pub(in crate::transport) trait ReadPieces: Send {
    /// The next piece of the answer; `None` at its end.
    fn next_piece(&mut self) -> impl Future<Output = Result<Option<Bytes>, LinkError>> + Send;

    /// Bytes that the answer is announced to have at least.
    fn announced(&self) -> u64 {
        0
    }
}

impl ReadPieces for ResponseBody {
    async fn next_piece(&mut self) -> Result<Option<Bytes>, LinkError> {
        next(self).await
    }

    fn announced(&self) -> u64 {
        self.size_hint().lower()
    }
}
