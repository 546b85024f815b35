//! Translates the parameters of a request on their way from a client to a backend.

use crate::message::owned::{OwnedParams, Splice};
use crate::message::request_meta::{RequestMeta, Stamp};
use crate::message::{keys::INPUT_RESPONSES, keys::REQUEST_STATE};
use crate::message::{methods, rpc};

/// The changes of a request.
#[derive(Debug, Clone, Default)]
pub struct RequestPlan<'a> {
    /// The backend's name or URI for the subject of the request; `None` keeps the client's.
    pub subject: Option<&'a str>,
    /// The changes of the metadata; the stamp tells the backend's era.
    pub meta: RequestMeta<'a>,
}

/// Writes the whole request for the backend into one buffer: an envelope of its own, the client's parameters
/// with the changes of `plan`. Absent parameters stay absent, unless the backend wants metadata.
///
/// ```
/// use vmcp_wire::owned::OwnedParams;
/// use vmcp_wire::translate::{RequestPlan, write_request};
///
/// let params = OwnedParams::from_text(r#"{"name":"mine","arguments":{}}"#)?;
/// let plan = RequestPlan { subject: Some("theirs"), ..Default::default() };
/// assert_eq!(
///     write_request(7, "tools/call", &params, &plan),
///     br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"theirs","arguments":{}}}"#
/// );
/// # Ok::<(), vmcp_wire::params::ParamsError>(())
/// ```
#[must_use]
pub fn write_request<'a>(id: u64, method: &str, params: &'a OwnedParams, plan: &RequestPlan<'a>) -> Vec<u8> {
    let mut splice = Splice::of_params(params);
    if let Some(subject) = plan.subject {
        splice.set_subject(method, params, subject);
    }
    match plan.meta.stamp {
        // Both keys belong to the modern era's multi-round requests; a legacy backend asks on its own.
        Stamp::Legacy if methods::may_require_input(method) => {
            splice.remove(INPUT_RESPONSES);
            splice.remove(REQUEST_STATE);
        }
        // Asks for a task by the rules of 2025-11-25; the modern extension leaves that to the server.
        Stamp::Modern { .. } if method == methods::TOOLS_CALL => splice.remove("task"),
        Stamp::Legacy | Stamp::Modern { .. } => {}
    }
    splice.put_back(plan.meta.splice(params));
    // Room for the envelope and the keys of a modern server, so that the buffer seldom grows.
    let mut out = Vec::with_capacity(params.text().len() + 512);
    rpc::begin_request(&mut out, id, method);
    if params.is_present() || !splice.is_unchanged() {
        out.extend_from_slice(b",\"params\":");
        splice.write_to(&mut out);
    }
    out.push(b'}');
    out
}
