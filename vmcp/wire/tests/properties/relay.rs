//! Relayed messages arrive byte for byte, but for the keys that are changed on purpose.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_wire::envelope::Message;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::meta::Trace;
use vmcp_wire::owned::{OwnedMessage, OwnedParams};
use vmcp_wire::request_meta::{ProgressToken, RequestMeta, Stamp};
use vmcp_wire::rpc;
use vmcp_wire::subject;
use vmcp_wire::translate::{self, RequestPlan, ResultPlan};

use crate::json::{self, ObjectText};
use crate::shapes::{self, Part};

/// The body of a parsed message.
fn part_of<'a>(message: &Message<'a>) -> (Part, &'a RawValue) {
    match message {
        Message::Request(request) => (Part::Params, request.params.unwrap()),
        Message::Notification(notification) => (Part::Params, notification.params.unwrap()),
        Message::Response(response) => (Part::Result, response.result),
        Message::Error(error) => (Part::Error, error.error),
    }
}

/// Entries of `_meta` that a backend's era may not want.
const RESERVED: [&str; 5] = [
    r#""io.modelcontextprotocol/protocolVersion":"x""#,
    r#""io.modelcontextprotocol\/clientInfo" : {}"#,
    r#""io.modelcontextprotocol/related-task":{}"#,
    r#""progressToken":1"#,
    r#""x":1"#,
];

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// Returns the parameters that a backend gets of a client's.
fn relayed(method: &str, params: &OwnedParams, plan: &RequestPlan<'_>) -> OwnedParams {
    let written = translate::write_request(7, method, params, plan);
    let OwnedMessage::Request(request) = OwnedMessage::parse(written.into()).unwrap() else { unreachable!() };
    request.params().clone()
}

/// Writes the object without an entry. The space in front of the first key stays, and so does the space
/// behind the entry.
fn without(mut object: ObjectText, at: usize) -> ObjectText {
    let removed = object.entries.remove(at);
    let [before, .., after] = removed.space;
    let last = object.entries.len();
    match at {
        0 if last == 0 => object.hollow = before + &after,
        0 => object.entries[0].space[0] = before,
        _ => object.entries[at - 1].space[3] = after,
    }
    object
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn every_message_is_read_and_written_whole((shape, body, text) in shapes::message()) {
        let message = Message::parse(text.as_bytes()).unwrap();
        let (part, parsed) = part_of(&message);
        prop_assert_eq!(part, shape.part);
        prop_assert_eq!(parsed.get(), &body);
        prop_assert!(message.method().is_none_or(|method| method == shape.method));
        let written = match &message {
            Message::Request(_) => rpc::request(1, shape.method, Some(parsed.into())),
            Message::Notification(_) => rpc::notification(shape.method, Some(parsed.into())),
            Message::Response(response) => rpc::response(response.id, parsed),
            Message::Error(error) => rpc::error(error.id, parsed),
        };
        prop_assert_eq!(part_of(&Message::parse(&written).unwrap()).1.get(), &body);
        let line = rpc::single_line(written.clone());
        prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        let value = |bytes: &[u8]| bytes.iter().filter(|byte| !byte.is_ascii_whitespace()).copied().collect::<Vec<_>>();
        prop_assert_eq!(value(&line), value(&written));
    }

    #[test]
    fn reading_and_writing_changes_nothing(text in json::object()) {
        let text = text.render();
        let object = Object::parse_str(&text).unwrap();
        let same = object.edit().finish().into_cow();
        prop_assert!(matches!(same, Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn one_edit_changes_one_entry(
        object in shapes::all().prop_flat_map(shapes::body),
        value in json::value(),
        at in any::<prop::sample::Index>(),
    ) {
        let text = object.render();
        let parsed = Object::parse_str(&text).unwrap();
        prop_assert_eq!(parsed.len(), object.entries.len());

        let mut edit = parsed.edit();
        edit.set("new\nkey", value.as_str());
        let comma = if object.entries.is_empty() { "" } else { "," };
        let behind = object.entries.last().map_or(object.hollow.as_str(), |entry| entry.space[3].as_str());
        let head = &text[..text.len() - 1 - behind.len()];
        prop_assert_eq!(edit.finish().into_cow(), format!("{head}{comma}\"new\\nkey\":{value}{behind}}}"));

        if object.entries.is_empty() {
            return Ok(());
        }
        let at = at.index(object.entries.len());
        let key = object.entries[at].key.clone();
        prop_assert_eq!(parsed.get(&key).unwrap().get(), object.entries[at].value.as_str());

        let mut edit = parsed.edit();
        edit.set(&key, value.as_str());
        let mut expected = object.clone();
        expected.entries[at].value.clone_from(&value);
        prop_assert_eq!(edit.finish().into_cow(), expected.render());

        let mut edit = parsed.edit();
        edit.rename(&key, "\u{1}renamed");
        let mut expected = object.clone();
        expected.entries[at].key = "\u{1}renamed".into();
        prop_assert_eq!(edit.finish().into_cow(), expected.render());

        let mut edit = parsed.edit();
        edit.remove(&key);
        prop_assert_eq!(edit.finish().into_cow(), without(object, at).render());
    }

    #[test]
    fn edits_compose_like_changes_to_a_map(
        object in json::object(),
        steps in prop::collection::vec((0..4_u8, any::<prop::sample::Index>(), json::key(), json::value()), 1..8),
    ) {
        let text = object.render();
        let parsed = Object::parse_str(&text).unwrap();
        let mut edit = parsed.edit();
        let mut model: Vec<(String, String)> = object.entries.iter().map(|e| (e.key.clone(), e.value.clone())).collect();
        for (kind, at, new_key, value) in &steps {
            let existing = if model.is_empty() { new_key.clone() } else { model[at.index(model.len())].0.clone() };
            let position = |model: &[(String, String)], key: &str| model.iter().position(|(k, _)| k == key);
            match kind {
                0 => {
                    edit.remove(&existing);
                    model.retain(|(key, _)| *key != existing);
                }
                1 => {
                    edit.set(&existing, value.clone());
                    match position(&model, &existing) {
                        Some(at) => model[at].1.clone_from(value),
                        None => model.push((existing, value.clone())),
                    }
                }
                2 => {
                    edit.set_if_absent(new_key, value.clone());
                    if position(&model, new_key).is_none() {
                        model.push((new_key.clone(), value.clone()));
                    }
                }
                _ => {
                    edit.rename(&existing, new_key);
                    if existing != *new_key && position(&model, &existing).is_some() {
                        model.retain(|(key, _)| key != new_key);
                        let at = position(&model, &existing).unwrap();
                        model[at].0.clone_from(new_key);
                    }
                }
            }
        }
        let written = edit.finish().into_cow().into_owned();
        let reread = Object::parse_str(&written).unwrap();
        let reread: Vec<(String, String)> = reread.iter().map(|(k, v)| (k.to_owned(), v.get().to_owned())).collect();
        prop_assert_eq!(reread, model);
    }

    #[test]
    fn a_legacy_result_comes_back_from_the_modern_era_unchanged(
        (shape, body) in shapes::select_part(shapes::LEGACY, Part::Result)
            .prop_flat_map(|shape| (Just(shape), shapes::body(shape))),
        introduced in any::<bool>(),
    ) {
        let text = raw(&body.render());
        let server_info = introduced.then_some(r#"{"name":"v"}"#);
        let up = ResultPlan { from: Era::Legacy, to: Era::Modern, server_info, ..ResultPlan::default() };
        let modern = translate::result(shape.method, &text, &up).unwrap().into_raw().unwrap();
        let again = ResultPlan { from: Era::Modern, ..up };
        prop_assert_eq!(translate::result(shape.method, &modern, &again).unwrap().into_cow(), modern.get());
        let down = ResultPlan { from: Era::Modern, to: Era::Legacy, ..ResultPlan::default() };
        prop_assert_eq!(translate::result(shape.method, &modern, &down).unwrap().into_cow(), text.get());
    }

    #[test]
    fn a_legacy_request_comes_back_from_the_modern_era_unchanged(
        (shape, body) in shapes::select_part(shapes::LEGACY, Part::Params)
            .prop_flat_map(|shape| (Just(shape), shapes::body(shape))),
    ) {
        let text = body.render();
        let stamp = Stamp::Modern {
            revision: Revision::MODERN,
            client_info: Some(r#"{"name":"c"}"#),
            client_capabilities: "{}",
            log_level: Some("debug"),
        };
        let up = RequestPlan { meta: RequestMeta { stamp, ..RequestMeta::default() }, ..RequestPlan::default() };
        let modern = relayed(shape.method, &OwnedParams::from_text(text.clone()).unwrap(), &up);
        prop_assert_eq!(modern.meta().client_capabilities(), Some("{}"));
        let back = relayed(shape.method, &modern, &RequestPlan::default());
        prop_assert_eq!(back.text(), text);
    }

    #[test]
    fn a_request_keeps_what_no_change_touches(
        (shape, body) in shapes::select_part(&[shapes::LEGACY, shapes::MODERN].concat(), Part::Params)
            .prop_flat_map(|shape| (Just(shape), shapes::body(shape))),
        reserved in prop::sample::subsequence(RESERVED.to_vec(), 0..=RESERVED.len()).prop_shuffle(),
        meta_is in 0..3_u8,
        modern in any::<bool>(),
        introduced in any::<bool>(),
        token in any::<bool>(),
    ) {
        let mut body = body;
        let meta = match meta_is {
            0 => "null".to_owned(),
            1 => format!("{{ {} }}", reserved.join(" , ")),
            _ => String::new(),
        };
        if !meta.is_empty() {
            let space = [String::new(), " ".into(), String::new(), " ".into()];
            body.entries.retain(|entry| entry.key != "_meta");
            body.entries.insert(0, json::EntryText { key: "_meta".into(), value: meta, space });
        }
        let params = OwnedParams::from_text(body.render()).unwrap();
        let stamp = if modern {
            Stamp::Modern {
                revision: Revision::MODERN,
                client_info: introduced.then_some(r#"{"name":"c"}"#),
                client_capabilities: "{}",
                log_level: (!introduced).then_some("debug"),
            }
        } else {
            Stamp::Legacy
        };
        let progress_token = if token { ProgressToken::Replace("9") } else { ProgressToken::Keep };
        let trace = Trace { baggage: introduced.then_some("k=v".into()), ..Trace::default() };
        let plan = RequestPlan { subject: Some("sub\"ject"), meta: RequestMeta { stamp, progress_token, trace } };
        let written = relayed(shape.method, &params, &plan);
        let changed = ["_meta", "name", "uri", "taskId", "ref", "task", "inputResponses", "requestState"];
        let kept = |params: &OwnedParams| {
            let keys = params.keys().filter(|key| !changed.contains(&key.as_ref()));
            keys.map(|key| (key.to_string(), params.get(&key).unwrap().to_owned())).collect::<Vec<_>>()
        };
        prop_assert_eq!(kept(&written), kept(&params));
        if let Some(key) = subject::key(shape.method).filter(|key| params.get(key).is_some()) {
            let subject = written.get_str(key);
            prop_assert_eq!(subject.as_deref(), Some("sub\"ject"));
        }
        let meta = written.meta();
        let is_reserved = |key: &str| key.starts_with("io.modelcontextprotocol/") && !key.ends_with("related-task");
        let reserved = meta.keys().filter(|key| is_reserved(key)).count();
        prop_assert_eq!(reserved, if modern { 3 } else { 0 });
        prop_assert_eq!(meta.get("x"), params.meta().get("x"));
        prop_assert_eq!(meta.progress_token(), if token { Some("9") } else { params.meta().progress_token() });
        prop_assert_eq!(meta.get("baggage"), introduced.then_some(r#""k=v""#).or(params.meta().get("baggage")));
        // A second time nothing is left to change.
        let again = relayed(shape.method, &written, &plan);
        prop_assert_eq!(again.text(), written.text());
    }

    #[test]
    fn a_modern_message_within_its_era_is_relayed_as_it_is(
        (shape, body) in shapes::select_part(shapes::MODERN, Part::Result)
            .prop_flat_map(|shape| (Just(shape), shapes::body(shape))),
    ) {
        let text = raw(&body.render());
        let plan = ResultPlan { from: Era::Modern, to: Era::Modern, ..ResultPlan::default() };
        prop_assert_eq!(translate::result(shape.method, &text, &plan).unwrap().into_cow(), text.get());
    }
}
