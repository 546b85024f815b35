//! Client capabilities as legacy servers are told.

use serde_json::value::RawValue;
use vmcp_json::object::Object;

/// Capabilities that vmcp's own connections declare to legacy servers: some servers list tools only to
/// clients that can be asked. Each question is then checked against the capabilities of the client at hand.
pub(crate) const DECLARED: &str =
    r#"{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"tools":{}}}"#;

/// Returns the client's capabilities as a legacy server may know them: all but the tasks of 2025-11-25, whose
/// requests to the client are not relayed.
pub(crate) fn relayed(capabilities: Option<&RawValue>) -> String {
    let Some(capabilities) = capabilities.and_then(|raw| Object::parse(raw).ok()) else {
        return "{}".to_owned();
    };
    let mut edit = capabilities.edit();
    edit.remove("tasks");
    edit.finish().into_cow().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_not_relayed() {
        let raw = RawValue::from_string(r#"{"tasks":{"list":{}},"x":{"y":[1]}}"#.to_owned()).unwrap();
        assert_eq!(relayed(Some(&raw)), r#"{"x":{"y":[1]}}"#);
        assert_eq!(relayed(None), "{}");
    }
}
