//! What a client may be asked: a server asks only for what the client declared.

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_json::text;

use crate::message::methods;

/// The extension that makes a modern call a task.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// A `ClientCapabilities` with just that, as JSON.
pub const TASKS_REQUIRED: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

pub(super) const EXTENSIONS: &str = "extensions";
pub(super) const EXPERIMENTAL: &str = "experimental";
/// The part of `ClientCapabilities` that a question needs, as JSON, for `data.requiredCapabilities`. `None` for a method
/// that no client declares.
#[must_use]
pub fn required(method: &str, params: Option<&RawValue>) -> Option<&'static str> {
    let params = params.and_then(|params| Object::parse(params).ok()).unwrap_or_default();
    Some(match method {
        methods::ELICIT if params.get_str("mode").as_deref() == Some("url") => {
            r#"{"elicitation":{"url":{}}}"#
        }
        methods::ELICIT => r#"{"elicitation":{"form":{}}}"#,
        methods::SAMPLE if params.text("tools").is_some() => r#"{"sampling":{"tools":{}}}"#,
        methods::SAMPLE => r#"{"sampling":{}}"#,
        methods::ROOTS_LIST => r#"{"roots":{}}"#,
        methods::TASKS_GET | methods::TASKS_RESULT | methods::TASKS_LIST | methods::TASKS_CANCEL => {
            r#"{"tasks":{}}"#
        }
        _ => return None,
    })
}

/// Whether a client that declared `capabilities` may be asked this.
#[must_use]
pub fn may_ask(capabilities: Option<&RawValue>, method: &str, params: Option<&RawValue>) -> bool {
    let Some(capabilities) = capabilities.and_then(|declared| Object::parse(declared).ok()) else {
        return false;
    };
    let Some(required) = required(method, params) else { return false };
    let Ok(required) = Object::parse_str(required) else { return false };
    required.keys().all(|capability| {
        let part = |object: &Object<'_>| object.text(capability).map(ToOwned::to_owned);
        let (Some(declared), Some(wanted)) = (part(&capabilities), part(&required)) else { return false };
        declares(capability, &declared, &wanted)
    })
}

fn declares(capability: &str, declared: &str, wanted: &str) -> bool {
    let (Ok(declared), Ok(wanted)) = (Object::parse_str(declared), Object::parse_str(wanted)) else {
        return false;
    };
    let has = |key: &str| declared.text(key).is_some_and(text::is_object);
    // Forms are older than the word for them: whoever says nothing, or nothing about URLs, takes them.
    let implied = |key: &str| capability == "elicitation" && key == "form" && !has("url");
    wanted.keys().all(|key| has(key) || implied(key))
}

/// The extensions that a client declares.
#[derive(Debug, Clone, Default)]
pub struct ClientExtensions<'a> {
    pub(super) extensions: Object<'a>,
    pub(super) experimental: Object<'a>,
}

impl<'a> ClientExtensions<'a> {
    /// Reads `ClientCapabilities`; what cannot be read is not declared.
    #[must_use]
    pub fn read(capabilities: Option<&'a RawValue>) -> Self {
        let object = capabilities.and_then(|raw| Object::parse(raw).ok()).unwrap_or_default();
        let part = |key| inner(&object, key).unwrap_or_default();
        Self { extensions: part(EXTENSIONS), experimental: part(EXPERIMENTAL) }
    }

    /// Whether it takes a task instead of a result.
    #[must_use]
    pub fn has_tasks(&self) -> bool {
        self.extensions.text(TASKS_EXTENSION).is_some_and(text::is_object)
    }
}

/// The capabilities of a client that cannot have the modern kind of tasks, whatever it says. `None` if it says nothing of
/// them.
#[must_use]
pub fn without_tasks_extension(capabilities: &RawValue) -> Option<String> {
    let object = Object::parse(capabilities).ok()?;
    let extensions = inner(&object, EXTENSIONS)?;
    extensions.text(TASKS_EXTENSION)?;
    let mut inner = extensions.edit();
    inner.remove(TASKS_EXTENSION);
    let mut edit = object.edit();
    edit.set(EXTENSIONS, inner.finish());
    Some(edit.finish().into_cow().into_owned())
}

pub(super) fn inner<'a>(object: &Object<'a>, key: &str) -> Option<Object<'a>> {
    Object::parse(object.get(key)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(capabilities: &str, method: &str, params: &str) -> bool {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        may_ask(Some(&raw(capabilities)), method, Some(&raw(params)))
    }

    #[test]
    fn a_client_is_asked_for_what_it_declared_and_nothing_else() {
        let form = r#"{"message":"?"}"#;
        let url = r#"{"mode":"url","url":"https://example.com"}"#;
        for (capabilities, forms, urls) in [
            ("{}", false, false),
            (r#"{"elicitation":{}}"#, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
            (r#"{"elicitation":null}"#, false, false),
            (r#"{"elicitation":[]}"#, false, false),
        ] {
            assert_eq!(may(capabilities, methods::ELICIT, form), forms, "{capabilities}");
            assert_eq!(may(capabilities, methods::ELICIT, url), urls, "{capabilities}");
        }
        assert!(may(r#"{"sampling":{}}"#, methods::SAMPLE, "{}"));
        assert!(!may(r#"{"sampling":{}}"#, methods::SAMPLE, r#"{"tools":[]}"#));
        assert!(may(r#"{"sampling":{"tools":{}}}"#, methods::SAMPLE, r#"{"tools":[]}"#));
        assert!(may(r#"{"roots":{"listChanged":true}}"#, methods::ROOTS_LIST, "{}"));
        assert!(!may(r#"{"roots":{}}"#, "vendor/ask", "{}"));
        assert!(!may_ask(None, methods::ROOTS_LIST, None));
    }

    #[test]
    fn the_tasks_extension_can_be_taken_out_of_what_a_client_declares() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let all = raw(r#"{"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{}}}"#);
        assert!(ClientExtensions::read(Some(&all)).has_tasks());
        assert!(!ClientExtensions::read(None).has_tasks());
        let without = without_tasks_extension(&all).unwrap();
        assert!(!ClientExtensions::read(Some(&raw(&without))).has_tasks());
        assert!(without.contains("a/b") && without_tasks_extension(&raw("{}")).is_none());
    }
}
