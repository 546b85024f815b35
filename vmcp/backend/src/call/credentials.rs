//! Credentials layer: the place for credentials that are fetched, expire and are renewed.
//!
//! The configured headers of a backend are constant: its transport writes them on every request
//! (`transport/credentials.rs`), and a refusal passes through. Credentials that can be renewed are renewed
//! here after HTTP 401, and the attempt is made once more.

use crate::call::{Attempt, CallService};
use crate::request::Response;
use crate::transport::LinkError;

/// Passes attempts on to a transport that has credentials.
pub(super) struct Credentials<Next>(pub(super) Next);

impl<'a, Next> CallService<Attempt<'a>> for Credentials<Next>
where
    Next: CallService<Attempt<'a>, Error = LinkError> + Sync,
{
    type Error = LinkError;

    async fn call(&self, attempt: Attempt<'a>) -> Result<Response, LinkError> {
        self.0.call(attempt).await
    }
}
