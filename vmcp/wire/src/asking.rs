//! What a client may be asked: a server asks only for what the client declared.

use serde_json::value::RawValue;

use crate::object::Object;
use crate::{json, methods};

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
    let has = |key: &str| declared.text(key).is_some_and(json::is_object);
    // Forms are older than the word for them: whoever says nothing, or nothing about URLs, takes them.
    let implied = |key: &str| capability == "elicitation" && key == "form" && !has("url");
    wanted.keys().all(|key| has(key) || implied(key))
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
}
