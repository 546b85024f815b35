//! [`Refusal`]: a request that ended before it was a call, for observers that note what did not happen.

use vmcp_backend::SessionId;

use crate::access::identity::Principal;

/// A request that was refused before anything ran and before a policy was asked.
#[derive(Debug, Clone, Copy)]
pub struct Refusal<'a> {
    /// The client; its identity is anonymous if it was not proved.
    pub principal: &'a Principal,
    /// The reason, in words that show no credential.
    pub reason: &'a str,
    /// The MCP method; `None` if the request was not read.
    pub method: Option<&'a str>,
    /// The tool, prompt or URI that was asked for. Text of the client.
    pub subject: Option<&'a str>,
    /// The client's session, in the legacy era.
    pub session: Option<SessionId>,
    /// The W3C trace id.
    pub trace: Option<[u8; 16]>,
}
