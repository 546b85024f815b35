//! Translates the parameters of a request on their way from a client to a backend.

use vmcp_json::json_rope::JsonRope;

use crate::message::owned::{OwnedParams, Splice};
use crate::message::params::Params;
use crate::message::{keys::INPUT_RESPONSES, keys::REQUEST_STATE};
use crate::message::{meta, meta::META, meta::RequestMeta, meta::Stamp};
use crate::message::{methods, rpc, subject};

/// The changes of a request.
#[derive(Debug, Clone, Default)]
pub struct RequestPlan<'a> {
    /// The backend's name or URI for the subject of the request; `None` keeps the client's.
    pub subject: Option<&'a str>,
    /// The changes of the metadata; the stamp tells the backend's era.
    pub meta: RequestMeta<'a>,
}

/// Translates the parameters for the backend; `None` if the client sent none and a legacy backend needs none.
///
/// ```
/// use vmcp_wire::params::Params;
/// use vmcp_wire::translate::{RequestPlan, request};
///
/// let raw: Box<serde_json::value::RawValue> = serde_json::from_str(
///     r#"{"name":"mine","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
/// )?;
/// let params = Params::parse(Some(&raw))?;
/// // The default plan is for a legacy backend: it knows the revision from its session.
/// let plan = RequestPlan { subject: Some("theirs"), ..Default::default() };
/// let translated = request("tools/call", &params, &plan).unwrap_or_default();
/// assert_eq!(translated.into_cow(), r#"{"name":"theirs"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn request<'a>(method: &str, params: &Params<'a>, plan: &RequestPlan<'a>) -> Option<JsonRope<'a>> {
    let mut edit = params.object.edit();
    if let Some(subject) = plan.subject {
        subject::set(method, &params.object, &mut edit, subject);
    }
    match plan.meta.stamp {
        // Both keys belong to the modern era's multi-round requests; a legacy backend asks on its own.
        Stamp::Legacy if methods::may_require_input(method) => {
            edit.remove(INPUT_RESPONSES).remove(REQUEST_STATE);
        }
        // Asks for a task by the rules of 2025-11-25; the modern extension leaves that to the server.
        Stamp::Modern { .. } if method == methods::TOOLS_CALL => _ = edit.remove("task"),
        Stamp::Legacy | Stamp::Modern { .. } => {}
    }
    // The schema allows an object or nothing, and strict backends refuse `null`; `{}` is valid and stays.
    if params.object.text(META) == Some("null") {
        edit.remove(META);
    }
    meta::put_back(&mut edit, plan.meta.edit(&params.meta));
    (params.present || !edit.is_unchanged()).then(|| edit.finish())
}

/// Writes the whole request for the backend into one buffer: what [`request`] makes, in a new envelope.
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
        subject::splice(method, params, &mut splice, subject);
    }
    match plan.meta.stamp {
        Stamp::Legacy if methods::may_require_input(method) => {
            splice.remove(INPUT_RESPONSES);
            splice.remove(REQUEST_STATE);
        }
        Stamp::Modern { .. } if method == methods::TOOLS_CALL => splice.remove("task"),
        Stamp::Legacy | Stamp::Modern { .. } => {}
    }
    splice.put_back(plan.meta.splice(params));
    // Room for the envelope and for what a modern server wants, so that the buffer seldom grows.
    let mut out = Vec::with_capacity(params.text().len() + 512);
    rpc::begin_request(&mut out, id, method);
    if params.is_present() || !splice.is_unchanged() {
        out.extend_from_slice(b",\"params\":");
        splice.write_to(&mut out);
    }
    out.push(b'}');
    out
}
