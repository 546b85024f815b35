//! `completion/complete`: completes an argument of a prompt or of a resource template. The values that a
//! client gives are judged as arguments of the prompt, and as parts of the URI: what a backend suggests tells
//! what is behind them.

use std::collections::BTreeMap;
use std::time::Instant;

use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_model::definition::MAX_URI_BYTES;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use crate::answer::Answer;
use crate::call::{self, hidden};
use crate::caller::CallContext;
use crate::router::{self, BackendTarget};
use crate::subject::shown;
use vmcp_engine::access::policy::{AccessRequest, Decision, Item, PolicyId};
use vmcp_engine::telemetry::calls::Origin;

/// Values of arguments by name.
type Values = BTreeMap<String, String>;

/// The values that a client gives.
struct ArgumentValues {
    /// Values of `context.arguments`, and the value to complete.
    values: Values,
    /// Values of `context.arguments` alone, if one of them is another value of the argument to complete: a
    /// backend may read either.
    earlier: Option<Values>,
}

/// Handles `completion/complete`: asks the backend of the prompt or resource template that `ref` names.
pub async fn complete(context: CallContext<'_>, params: &OwnedParams) -> Answer {
    let begun = Instant::now();
    let Some(reference) = params.get("ref").and_then(|text| Object::parse_valid(text).ok()) else {
        return Answer::invalid("`ref` must be an object");
    };
    let text = |key| reference.get_str(key).unwrap_or_default();
    let (name, uri, view) = (text("name"), text("uri"), context.view);
    let given = match ArgumentValues::read(params) {
        Ok(given) => given,
        Err(invalid) => return Answer::invalid(invalid),
    };
    let (found, unknown): (_, &(dyn Fn() -> Answer + Sync)) = match &*text("type") {
        "ref/prompt" => {
            let found = router::prompt(context, &name).map(|prompt| (&prompt.backend, Item::Prompt(prompt)));
            (found, &|| Answer::invalid(format!("Unknown prompt: {}", shown(&name))))
        }
        "ref/resource" => {
            let found = view.template(&uri).or_else(|| view.resource(&uri));
            (found.map(|found| (found.backend(), Item::Resource(&uri))), &|| Answer::no_resource(&uri))
        }
        _ => return Answer::invalid("`ref.type` must be \"ref/prompt\" or \"ref/resource\""),
    };
    let Some((backend, item)) = found else {
        match &*text("type") {
            "ref/prompt" => hidden::record_prompt(context, &name, methods::COMPLETE),
            _ => hidden::record_resource(context, &uri, methods::COMPLETE),
        }
        hidden::hold(context, begun).await;
        return unknown();
    };
    let Some(uris) = given.uris(item) else {
        return Answer::invalid(format!("the values make a URI of more than {MAX_URI_BYTES} bytes"));
    };
    let target = BackendTarget::read(context.snapshot, backend, methods::COMPLETE, item);
    let record = context.start_record(Origin::Client);
    let readings: Vec<String> = given.readings().map(written).collect();
    let (arguments, earlier) = match item {
        Item::Prompt(_) => (readings.first().map(String::as_str), readings.get(1).map(String::as_str)),
        _ => (None, None),
    };
    let Ok(call) = call::authorize(context, record, target, arguments) else {
        hidden::hold(context, begun).await;
        return unknown();
    };
    if let Some(policy) = objection(context, backend, item, earlier, &uris) {
        call.deny(policy);
        hidden::hold(context, begun).await;
        return unknown();
    }
    call.showing(readings).relay(params).await
}

/// Returns the policy that denies one of these URIs, or the earlier arguments of a prompt. The call seam
/// judges the template itself, and a prompt with its present arguments.
fn objection(
    context: CallContext<'_>,
    backend: &str,
    item: Item<'_>,
    earlier: Option<&str>,
    uris: &[String],
) -> Option<PolicyId> {
    let of_uris = uris.iter().find_map(|uri| denial(context, backend, Item::Resource(uri), None));
    of_uris.or_else(|| denial(context, backend, item, Some(earlier?)))
}

/// Returns the policy that denies a completion.
fn denial(
    context: CallContext<'_>,
    backend: &str,
    item: Item<'_>,
    arguments: Option<&str>,
) -> Option<PolicyId> {
    let principal = &context.caller.principal;
    let request = AccessRequest { principal, action: methods::COMPLETE, backend, item, arguments };
    match context.snapshot.policy.decide(&request) {
        Decision::Allow { .. } => None,
        Decision::Deny { policy } => Some(policy),
    }
}

impl ArgumentValues {
    /// Reads `context` and `argument`.
    fn read(params: &OwnedParams) -> Result<ArgumentValues, String> {
        let mut values = Values::new();
        let context = params.get("context").filter(|context| *context != "null");
        let context = context.map(|context| object("context", context)).transpose()?;
        let arguments = context.as_ref().and_then(|context| context.text("arguments"));
        if let Some(arguments) = arguments.filter(|arguments| *arguments != "null") {
            let arguments = object("context.arguments", arguments)?;
            for (name, value) in arguments.keys().zip(arguments.values()) {
                let value = text::unquoted(value).ok_or("`context.arguments` must hold texts")?;
                values.insert(name.to_owned(), value.into_owned());
            }
        }
        let Some(argument) = params.get("argument") else {
            return Ok(ArgumentValues { values, earlier: None });
        };
        let argument = object("argument", argument)?;
        let Some((name, value)) = argument.get_str("name").zip(argument.get_str("value")) else {
            return Err("`argument` must have the texts `name` and `value`".to_owned());
        };
        let has_other = values.get(&*name).is_some_and(|earlier| *earlier != value);
        let earlier = has_other.then(|| values.clone());
        values.insert(name.into_owned(), value.into_owned());
        Ok(ArgumentValues { values, earlier })
    }

    /// Yields the values, and then the earlier ones.
    fn readings(&self) -> impl Iterator<Item = &Values> {
        std::iter::once(&self.values).chain(&self.earlier)
    }

    /// Returns the URIs of a template with these values, and none for a prompt; `None` if one is longer than
    /// [`MAX_URI_BYTES`].
    fn uris(&self, item: Item<'_>) -> Option<Vec<String>> {
        let Item::Resource(template) = item else { return Some(Vec::new()) };
        self.readings().map(|values| expanded(template, values)).collect()
    }
}

/// Reads an object of the parameters; the error names it.
fn object<'a>(name: &str, text: &'a str) -> Result<Object<'a>, String> {
    Object::parse_valid(text).map_err(|error| format!("`{name}`: {error}"))
}

/// Writes values as a JSON object.
fn written(values: &Values) -> String {
    let members =
        values.iter().map(|(name, value)| format!("{}:{}", text::quoted(name), text::quoted(value)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// Returns a template of a URI with these values, unescaped (RFC 6570); further variables are empty. `None`
/// for a URI of more than [`MAX_URI_BYTES`].
fn expanded(template: &str, values: &Values) -> Option<String> {
    let (mut uri, mut rest) = (String::new(), template);
    while let Some((before, (expression, behind))) =
        rest.split_once('{').and_then(|(before, behind)| Some((before, behind.split_once('}')?)))
    {
        uri.push_str(before);
        let names = expression.trim_start_matches(['+', '#', '/', '.', ';', '?', '&']);
        let operator = expression.get(..expression.len() - names.len()).unwrap_or_default();
        let is_named = matches!(operator, ";" | "?" | "&");
        let (mut separator, next) = match operator {
            "" | "+" => ("", ","),
            "#" => ("#", ","),
            "?" => ("?", "&"),
            other => (other, other),
        };
        for name in names.split(',') {
            let name = name.split(':').next().unwrap_or_default().trim_end_matches('*');
            let Some(value) = values.get(name) else { continue };
            let value = if is_named { &format!("{name}={value}") } else { value };
            // Checked here: a template may name a variable often.
            if uri.len() + value.len() > MAX_URI_BYTES {
                return None;
            }
            uri.push_str(separator);
            uri.push_str(value);
            separator = next;
        }
        rest = behind;
    }
    uri.push_str(rest);
    (uri.len() <= MAX_URI_BYTES).then_some(uri)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_values_are_read_in_one_pass() {
        let members: Vec<_> = (0..100_000).map(|number| format!("\"{number}\":\"\"")).collect();
        let params = format!("{{\"context\":{{\"arguments\":{{{}}}}}}}", members.join(","));
        let params = OwnedParams::from_text(params).unwrap();
        let begun = Instant::now();
        assert_eq!(ArgumentValues::read(&params).unwrap().values.len(), 100_000);
        // A search for each value would take a minute.
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_template_is_expanded_by_the_values_that_are_given() {
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let given = Values::from([of("path", "a/../b"), of("x", "1"), of("y", "2")]);
        for (template, uri) in [
            ("file:///{+path}", "file:///a/../b"),
            ("file:///{path}/{none}.txt", "file:///a/../b/.txt"),
            ("a://h{/x,none,y*}{?x,y:3}{&x}", "a://h/1/2?x=1&y=2&x=1"),
            ("a://{x,y}{#y}{.x}", "a://1,2#2.1"),
            ("a://{x", "a://{x"),
        ] {
            assert_eq!(expanded(template, &given).as_deref(), Some(uri));
        }
    }

    #[test]
    fn a_variable_that_a_template_names_often_makes_no_endless_uri() {
        let given = Values::from([("x".to_owned(), "a".repeat(5000))]);
        assert!(expanded("a://{x}", &given).is_some());
        assert_eq!(expanded(&format!("a://{}", "{x}".repeat(2000)), &given), None);
    }
}
