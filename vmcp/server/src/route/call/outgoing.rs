//! Parameters of a request as its backend wants them: names in the backend's spelling, arguments repeated as
//! headers, no request for a task where the backend takes none. All other bytes stay.

use std::borrow::Cow;

use serde_json::value::RawValue;
use vmcp_backend::CallError;
use vmcp_json::object::{Edit, Object};
use vmcp_json::text;
use vmcp_wire::headers::build_param_headers;
use vmcp_wire::lists::tasks::TASK;
use vmcp_wire::methods;

use super::task_calls;
use crate::access::policy::Item;
use crate::route::caller::CallContext;
use crate::route::router::BackendTarget;

/// The parameters of one request to a backend.
pub(super) struct Outgoing<'a> {
    pub(super) params: Cow<'a, RawValue>,
    /// Arguments that are repeated as HTTP headers (`x-mcp-header`).
    pub(super) param_headers: Vec<(String, String)>,
    /// True if the call asks for a task by the rules of 2025-11-25.
    pub(super) as_task: bool,
}

impl<'a> Outgoing<'a> {
    /// Makes the parameters for `target` of the client's.
    pub(super) fn new(
        context: CallContext<'_>,
        target: &BackendTarget<'_>,
        params: &'a RawValue,
    ) -> Result<Outgoing<'a>, CallError> {
        let plain =
            |params: Cow<'a, RawValue>| Outgoing { params, param_headers: Vec::new(), as_task: false };
        match target.item {
            Item::Tool(tool) => {
                let object = Object::parse(params).unwrap_or_default();
                let asks = object.text(TASK).is_some();
                let as_task = asks && task_calls::may_ask(context, target.backend);
                let mut edit = object.edit();
                rename(&object, &mut edit, &tool.definition.name);
                if asks && !as_task {
                    edit.remove(TASK);
                }
                let param_headers = match tool.definition.param_headers.as_slice() {
                    [] => Vec::new(),
                    headers => build_param_headers(headers, object.get("arguments")),
                };
                Ok(Outgoing { params: finish(params, edit)?, param_headers, as_task })
            }
            Item::Prompt(prompt) if target.method == methods::COMPLETE => {
                let object = Object::parse(params).unwrap_or_default();
                let reference = object.get("ref").unwrap_or(RawValue::NULL);
                let fields = Object::parse(reference).unwrap_or_default();
                let mut renamed = fields.edit();
                rename(&fields, &mut renamed, &prompt.definition.name);
                let mut edit = object.edit();
                edit.set("ref", finish(reference, renamed)?.get().to_owned());
                finish(params, edit).map(plain)
            }
            Item::Prompt(prompt) => {
                let object = Object::parse(params).unwrap_or_default();
                let mut edit = object.edit();
                rename(&object, &mut edit, &prompt.definition.name);
                finish(params, edit).map(plain)
            }
            Item::Resource(_) | Item::Task(_) | Item::Backend => Ok(plain(Cow::Borrowed(params))),
        }
    }
}

fn rename(object: &Object<'_>, edit: &mut Edit<'_, '_>, name: &str) {
    if object.get_str("name").as_deref() != Some(name) {
        edit.set("name", text::quoted(name));
    }
}

fn finish<'a>(params: &'a RawValue, edit: Edit<'_, '_>) -> Result<Cow<'a, RawValue>, CallError> {
    if edit.is_unchanged() {
        return Ok(Cow::Borrowed(params));
    }
    let edited = edit.finish().into_raw();
    edited.map(Cow::Owned).map_err(|error| CallError::Protocol { reason: error.to_string() })
}
