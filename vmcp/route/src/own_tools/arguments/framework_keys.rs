//! Keys that agent frameworks put among the arguments of every call: n8n adds `toolCallId`, `sessionId`,
//! `action` and `chatInput`. A tool gets them only if it declares them.

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_json::text;

/// The keys of n8n.
const KEYS: [&str; 4] = ["toolCallId", "sessionId", "action", "chatInput"];
/// Key that n8n adds besides in some versions. Alone it would be an argument.
const FURTHER: &str = "tool";
/// Fewest of [`KEYS`] by which a framework is recognized: each alone is a plausible argument.
const MIN_KEYS: usize = 2;

/// Returns arguments without the keys of a framework that the tool does not declare; `None` if that changes
/// nothing.
pub(crate) fn without_framework_keys(arguments: &str, schema: Option<&RawValue>) -> Option<Box<RawValue>> {
    // Both keys are distinctive, and n8n sends them always: most calls are done here.
    if !arguments.contains("\"toolCallId\"") && !arguments.contains("\"chatInput\"") {
        return None;
    }
    let object = Object::parse_valid(arguments).ok()?;
    if KEYS.iter().filter(|key| object.text(key).is_some()).count() < MIN_KEYS {
        return None;
    }
    let is_foreign = |key: &&str| object.text(key).is_some() && !declares(schema, key);
    let foreign: Vec<_> = KEYS.into_iter().chain([FURTHER]).filter(is_foreign).collect();
    if foreign.is_empty() {
        return None;
    }
    let mut edit = object.edit();
    for key in foreign {
        edit.remove(key);
    }
    edit.finish().into_raw().ok()
}

/// True if a tool's input schema has a property of this name. Of a schema that composes its properties from
/// others, any mention counts.
fn declares(schema: Option<&RawValue>, key: &str) -> bool {
    let Some(schema) = schema else { return false };
    let composed = ["$ref", "allOf", "anyOf", "oneOf"];
    match Object::parse(schema) {
        Ok(object) if composed.iter().all(|keyword| object.text(keyword).is_none()) => {
            let properties = object.text("properties").and_then(|text| Object::parse_valid(text).ok());
            properties.is_some_and(|properties| properties.text(key).is_some())
        }
        _ => schema.get().contains(&text::quoted(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(arguments: &str, schema: &str) -> Option<String> {
        let schema = RawValue::from_string(schema.to_owned()).unwrap();
        without_framework_keys(arguments, Some(&schema)).map(|rest| rest.get().to_owned())
    }

    const SENT: &str = r#"{"toolCallId":"c","sessionId":"s","zone":"UTC","action":"sendMessage","chatInput":"hi","tool":{}}"#;

    #[test]
    fn keys_of_a_framework_are_nobodys_arguments() {
        for schema in ["{}", r#"{"properties":{"zone":{}}}"#, r#"{"type":"object","properties":{}}"#] {
            assert_eq!(without(SENT, schema).as_deref(), Some(r#"{"zone":"UTC"}"#), "{schema}");
        }
        assert_eq!(without_framework_keys(SENT, None).unwrap().get(), r#"{"zone":"UTC"}"#);
    }

    #[test]
    fn a_tool_that_declares_them_gets_them() {
        let schema = r#"{"properties":{"sessionId":{},"action":{"enum":["chatInput"]}}}"#;
        assert_eq!(
            without(SENT, schema).as_deref(),
            Some(r#"{"sessionId":"s","zone":"UTC","action":"sendMessage"}"#)
        );
        let composed = r##"{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"sessionId":{}}}}}"##;
        assert_eq!(without(SENT, composed).as_deref(), Some(r#"{"sessionId":"s","zone":"UTC"}"#));
    }

    #[test]
    fn one_such_key_alone_is_an_argument() {
        for arguments in [
            r#"{"action":"start","sessionId":"s"}"#,
            r#"{"chatInput":"hi"}"#,
            r#"{"toolCallId":1,"x":"chatInput"}"#,
        ] {
            assert_eq!(without(arguments, "{}"), None, "{arguments}");
        }
    }
}
