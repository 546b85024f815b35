//! Translates list entries on their way from a backend to a client.

use serde_json::value::RawValue;
use vmcp_json::json_rope::JsonRope;
use vmcp_json::object::Object;

use super::TranslateError;
use crate::message::era::Era;

const OUTPUT_SCHEMA: &str = "outputSchema";

/// Translates a tool's definition for clients of an era.
///
/// Since 2026-07-28 an output schema may describe any JSON value. Earlier revisions allow objects only, and
/// their clients refuse the whole list over one such tool, so legacy clients get it without that schema (and
/// its results without that data, see [`fn@super::result`]).
pub fn tool(definition: &RawValue, to: Era) -> Result<JsonRope<'_>, TranslateError> {
    if to == Era::Modern {
        return Ok(JsonRope::from(definition));
    }
    let object =
        Object::parse(definition).map_err(|reason| TranslateError::Malformed { part: "tool", reason })?;
    let mut edit = object.edit();
    let describes_objects = |schema: &RawValue| {
        Object::parse(schema).is_ok_and(|schema| schema.get_str("type").is_some_and(|kind| kind == "object"))
    };
    if object.get(OUTPUT_SCHEMA).is_some_and(|schema| !describes_objects(schema)) {
        edit.remove(OUTPUT_SCHEMA);
    }
    Ok(edit.finish())
}
