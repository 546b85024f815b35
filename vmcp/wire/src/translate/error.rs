//! Translates errors on their way from a backend to a client.

use serde_json::value::RawValue;
use vmcp_json::json_rope::JsonRope;
use vmcp_json::object::{Object, ObjectError};
use vmcp_json::text;

use super::TranslateError;
use crate::message::era::Era;
use crate::message::keys::{ELICITATION_ID, INPUT_REQUESTS, RESULT_TYPE};
use crate::message::{codes, methods};

const CODE: &str = "code";
const DATA: &str = "data";
const URI: &str = "uri";

/// Translates an error object for the client. `uri` is the URI that a `resources/read` asked for, in the
/// client's spelling.
///
/// Codes that the modern revision forbids do not reach a modern client: not found (-32002) becomes -32602
/// with `data.uri`, and a request to visit a URL (-32042) becomes -32603 with its data kept;
/// [`url_elicitation`] does better for clients that can be asked.
pub fn error<'a>(
    method: &str,
    error: &'a RawValue,
    from: Era,
    to: Era,
    uri: Option<&str>,
) -> Result<JsonRope<'a>, TranslateError> {
    if from == to {
        return Ok(JsonRope::from(error));
    }
    let object = parse(error)?;
    let code = object.text(CODE).and_then(|code| code.parse::<i64>().ok());
    let data = object.get(DATA).and_then(|data| Object::parse(data).ok());
    let mut edit = object.edit();
    match (to, code) {
        // Many legacy servers say -32602 themselves.
        (Era::Modern, Some(codes::RESOURCE_NOT_FOUND | codes::INVALID_PARAMS)) => {
            edit.set(CODE, codes::INVALID_PARAMS.to_string());
            match (uri.filter(|_| method == methods::RESOURCES_READ), object.text(DATA), &data) {
                (Some(uri), Some(_), Some(data)) => {
                    let mut inner = data.edit();
                    inner.set_if_absent(URI, text::quoted(uri));
                    edit.set(DATA, inner.finish().into_cow().into_owned());
                }
                (Some(uri), None, _) => _ = edit.set(DATA, format!("{{\"{URI}\":{}}}", text::quoted(uri))),
                _ => {}
            }
        }
        (Era::Modern, Some(codes::URL_ELICITATION_REQUIRED)) => {
            edit.set(CODE, codes::INTERNAL_ERROR.to_string());
        }
        (Era::Legacy, Some(codes::INVALID_PARAMS))
            if method == methods::RESOURCES_READ && data.is_some_and(|data| data.text(URI).is_some()) =>
        {
            edit.set(CODE, codes::RESOURCE_NOT_FOUND.to_string());
        }
        _ => {}
    }
    Ok(edit.finish())
}

/// Turns a legacy backend's demand to visit URLs first (-32042) into an `input_required` result for a modern
/// client, which visits them and repeats its request. The caller makes sure that the method allows it
/// ([`methods::may_require_input`]) and that the client declared `elicitation.url`. `None` for every other
/// error.
pub fn url_elicitation(error: &RawValue) -> Result<Option<String>, TranslateError> {
    let elicitations = required_visits(error)?;
    let requests: Vec<String> = (1..)
        .zip(elicitations.iter().filter(|params| text::is_object(params.get())))
        .map(|(n, params)| format!("\"url-{n}\":{{\"method\":\"{}\",\"params\":{params}}}", methods::ELICIT))
        .collect();
    if requests.is_empty() {
        return Ok(None);
    }
    let requests = requests.join(",");
    Ok(Some(format!("{{\"{RESULT_TYPE}\":\"input_required\",\"{INPUT_REQUESTS}\":{{{requests}}}}}")))
}

/// Returns the `elicitationId`s of a demand to visit URLs first (-32042): the backend says later, by
/// `notifications/elicitation/complete`, that a visit is over. Empty for every other error.
#[must_use]
pub fn required_visit_ids(error: &RawValue) -> Vec<String> {
    let visits = required_visits(error).unwrap_or_default();
    let id = |visit: &RawValue| Some(Object::parse(visit).ok()?.get_str(ELICITATION_ID)?.into_owned());
    visits.into_iter().filter_map(id).collect()
}

fn required_visits(error: &RawValue) -> Result<Vec<&RawValue>, TranslateError> {
    let object = parse(error)?;
    if object.text(CODE).and_then(|code| code.parse().ok()) != Some(codes::URL_ELICITATION_REQUIRED) {
        return Ok(Vec::new());
    }
    let data = object.get(DATA).map(parse).transpose()?;
    let list = data.and_then(|data| data.text("elicitations"));
    Ok(list.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default())
}

fn parse(raw: &RawValue) -> Result<Object<'_>, TranslateError> {
    Object::parse(raw).map_err(|reason: ObjectError| TranslateError::Malformed { part: "error", reason })
}
