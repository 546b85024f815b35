//! `completion/complete`: completes an argument of a prompt or of a resource template. The values that a
//! client gives are judged as arguments of the prompt, and as parts of the URI: what a backend suggests tells
//! what is behind them.

use std::collections::BTreeMap;
use std::time::Instant;

use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use crate::answer::Answer;
use crate::call::{self, hidden};
use crate::caller::CallContext;
use crate::relay::subscriptions;
use crate::router::{self, BackendTarget};
use crate::subject::shown;
use vmcp_engine::access::policy::Item;
use vmcp_engine::telemetry::calls::{Origin, Outcome};

/// Handles `completion/complete`: asks the backend of the prompt or resource template that `ref` names.
pub async fn complete(context: CallContext<'_>, params: &OwnedParams) -> Answer {
    let begun = Instant::now();
    let Some(reference) = params.get("ref").and_then(|text| Object::parse_valid(text).ok()) else {
        return Answer::invalid("`ref` must be an object");
    };
    let text = |key| reference.get_str(key).unwrap_or_default();
    let (name, uri, view) = (text("name"), text("uri"), context.view);
    let given = match given(params) {
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
    let target = BackendTarget::read(context.snapshot, backend, methods::COMPLETE, item);
    let record = context.start_record(Origin::Client);
    let arguments = matches!(item, Item::Prompt(_)).then(|| written(&given));
    let Ok(call) = call::authorize(context, record, target, arguments.as_deref()) else {
        hidden::hold(context, begun).await;
        return unknown();
    };
    if matches!(item, Item::Resource(_)) {
        let expanded = expanded(&uri, &given);
        if !subscriptions::is_allowed(context, backend, Item::Resource(&expanded)) {
            call.settle(Outcome::Denied);
            hidden::hold(context, begun).await;
            return unknown();
        }
    }
    call.relay(params).await
}

/// Returns the values that a client gives: those of `context.arguments`, and the one to complete.
fn given(params: &OwnedParams) -> Result<BTreeMap<String, String>, String> {
    let object = |name: &str, text| Object::parse_valid(text).map_err(|error| format!("`{name}`: {error}"));
    let mut given = BTreeMap::new();
    let context = params.get("context").filter(|context| *context != "null");
    let context = context.map(|context| object("context", context)).transpose()?;
    let arguments = context.as_ref().and_then(|context| context.text("arguments"));
    if let Some(arguments) = arguments.filter(|arguments| *arguments != "null") {
        let arguments = object("context.arguments", arguments)?;
        for name in arguments.keys() {
            let value = arguments.get_str(name).ok_or("`context.arguments` must hold texts")?;
            given.insert(name.to_owned(), value.into_owned());
        }
    }
    if let Some(argument) = params.get("argument") {
        let argument = object("argument", argument)?;
        if let Some((name, value)) = argument.get_str("name").zip(argument.get_str("value")) {
            given.insert(name.into_owned(), value.into_owned());
        }
    }
    Ok(given)
}

/// Writes values as a JSON object.
fn written(given: &BTreeMap<String, String>) -> String {
    let members = given.iter().map(|(name, value)| format!("{}:{}", text::quoted(name), text::quoted(value)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// Returns a template of a URI with the values that are given, unescaped (RFC 6570); further variables are
/// empty.
fn expanded(template: &str, given: &BTreeMap<String, String>) -> String {
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
            let Some(value) = given.get(name) else { continue };
            let value = if is_named { &format!("{name}={value}") } else { value };
            uri.push_str(separator);
            uri.push_str(value);
            separator = next;
        }
        rest = behind;
    }
    uri.push_str(rest);
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_expanded_by_the_values_that_are_given() {
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let given = BTreeMap::from([of("path", "a/../b"), of("x", "1"), of("y", "2")]);
        for (template, uri) in [
            ("file:///{+path}", "file:///a/../b"),
            ("file:///{path}/{none}.txt", "file:///a/../b/.txt"),
            ("a://h{/x,none,y*}{?x,y:3}{&x}", "a://h/1/2?x=1&y=2&x=1"),
            ("a://{x,y}{#y}{.x}", "a://1,2#2.1"),
            ("a://{x", "a://{x"),
        ] {
            assert_eq!(expanded(template, &given), uri);
        }
    }
}
