//! User interfaces of MCP Apps: resources that tools name in their definitions. Servers need not list such
//! resources, so their backend is found through the tool.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::meta::META;

/// Returns the backends of user interfaces, by URI. Where two tools name the same URI, the first counts.
pub(super) fn interfaces<'a>(
    tools: impl Iterator<Item = &'a Arc<CatalogTool>>,
) -> HashMap<Box<str>, Arc<str>> {
    let mut backends = HashMap::new();
    for tool in tools {
        if let Some(uri) = interface(&tool.definition.raw) {
            backends.entry(uri.into_boxed_str()).or_insert_with(|| Arc::clone(&tool.backend));
        }
    }
    backends
}

/// Returns the URI of a tool's user interface: `_meta.ui.resourceUri`, or `_meta["ui/resourceUri"]` as
/// earlier drafts have it.
fn interface(definition: &RawValue) -> Option<String> {
    // A substring search spares parsing: few tools have one, and there may be thousands of tools.
    if !definition.get().contains("resourceUri") {
        return None;
    }
    let meta = Object::parse(Object::parse(definition).ok()?.get(META)?).ok()?;
    let named = meta.get("ui").and_then(|ui| Object::parse(ui).ok()?.get_str("resourceUri"));
    named.or_else(|| meta.get_str("ui/resourceUri")).map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_named_in_either_way() {
        let of = |text: &str| interface(&RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(of(r#"{"_meta":{"ui":{"resourceUri":"ui://a"}}}"#).as_deref(), Some("ui://a"));
        assert_eq!(of(r#"{"_meta":{"ui/resourceUri":"ui://b"}}"#).as_deref(), Some("ui://b"));
        for other in [
            r#"{"name":"resourceUri"}"#,
            r#"{"_meta":{"ui":"resourceUri"}}"#,
            r#"{"_meta":7,"x":"resourceUri"}"#,
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
