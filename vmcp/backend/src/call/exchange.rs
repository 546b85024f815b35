//! The end of the stack: one exchange over the attempt's connection.

use crate::call::{Attempt, CallService};
use crate::request::Response;
use crate::transport::LinkError;

/// Sends the request and waits for its answer. Dropping the future cancels the request at the backend.
pub(super) struct Exchange;

impl<'a> CallService<Attempt<'a>> for Exchange {
    type Error = LinkError;

    async fn call(&self, attempt: Attempt<'a>) -> Result<Response, LinkError> {
        let Attempt { call, connection } = attempt;
        call.in_doubt.begin(&connection);
        let outcome = connection.call(call.request, call.listener).await?;
        Ok(Response { outcome, era: connection.server.era() })
    }
}
