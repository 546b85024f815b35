//! The owned message accepts what the borrowed one accepts, finds the same parts and refuses in the same
//! words.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::value::RawValue;
use vmcp_wire::envelope::{EnvelopeError, Message};
use vmcp_wire::owned::{OwnedMessage, OwnedParams};
use vmcp_wire::params::Params;
use vmcp_wire::subject;

use crate::shapes;

fn refusal(error: &EnvelopeError) -> (i64, String, Option<&str>) {
    (error.code(), error.to_string(), error.id.as_deref().map(RawValue::get))
}

fn same_params(method: &str, owned: &OwnedParams, params: &Params<'_>) {
    assert_eq!((owned.is_present(), owned.text()), (params.present, params.object.raw()));
    assert_eq!(owned.keys().collect::<Vec<_>>(), params.object.keys().collect::<Vec<_>>());
    for key in params.object.keys() {
        assert_eq!(owned.get(key), params.object.text(key));
    }
    for key in params.meta.object().keys() {
        assert_eq!(owned.meta().get(key), params.meta.object().text(key));
    }
    assert_eq!(owned.meta().trace(), params.meta.trace());
    assert_eq!(
        owned.meta().client_name(),
        params.meta.client_name().filter(|_| params.meta.client_info().is_some())
    );
    let subject = subject::get(method, &params.object);
    assert_eq!(owned.subject(method), subject);
}

/// Asserts that both readers make the same of `text`.
fn compare(text: &[u8]) {
    let owned = OwnedMessage::parse(Bytes::copy_from_slice(text));
    let message = match (Message::parse(text), &owned) {
        (Ok(message), _) => message,
        (Err(expected), Err(error)) => return assert_eq!(refusal(error), refusal(&expected)),
        (Err(expected), Ok(owned)) => unreachable!("{owned:?} was refused: {expected}"),
    };
    let params = match &message {
        Message::Request(request) => Params::parse(request.params),
        Message::Notification(notification) => Params::parse(notification.params),
        Message::Response(_) | Message::Error(_) => Ok(Params::default()),
    };
    let params = match (params, &owned) {
        (Ok(params), _) => params,
        (Err(expected), Err(error)) => {
            let id = message.id().map(RawValue::get);
            return assert_eq!(refusal(error), (-32602, expected.to_string(), id));
        }
        (Err(expected), Ok(owned)) => unreachable!("{owned:?} was refused: {expected}"),
    };
    let owned = owned.unwrap();
    assert_eq!(
        (owned.id().map(RawValue::get), owned.method()),
        (message.id().map(RawValue::get), message.method())
    );
    match (&owned, &message) {
        (OwnedMessage::Request(owned), Message::Request(_)) => {
            same_params(owned.method(), owned.params(), &params);
        }
        (OwnedMessage::Notification(owned), Message::Notification(_)) => {
            same_params(owned.method(), owned.params(), &params);
        }
        (OwnedMessage::Response(owned), Message::Response(response)) => {
            assert_eq!(owned.result().get(), response.result.get());
        }
        (OwnedMessage::Error(owned), Message::Error(error)) => {
            assert_eq!(owned.error().get(), error.error.get());
        }
        (owned, message) => unreachable!("{owned:?} is no {message:?}"),
    }
}

/// Pieces of messages that are put together at random.
const FRAGMENTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "1",
    "-",
    "1.5",
    "true",
    "\"2.0\"",
    "\"a\"",
    "\"x\\ud800\"",
    "\"_meta\"",
    r#""\u005fmeta""#,
    r#""jsonrpc":"2.0""#,
    r#""id":1"#,
    r#""id":null"#,
    r#""method":"tools/call""#,
    r#""method":7"#,
    r#""params":{"#,
    r#""_meta":{"#,
    r#""result":{}"#,
    r#""error":{}"#,
    r#""a":1"#,
    r#""\u0061":2"#,
    " ",
    "\n",
    "é",
    r#""name":"n""#,
    r#""ref":{"type":"ref/prompt","name":"p"}"#,
    "\\",
    "\"",
];

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn every_message_is_read_like_before((_, _, text) in shapes::message()) {
        compare(text.as_bytes());
    }

    #[test]
    fn a_damaged_message_is_refused_in_the_same_words(
        (_, _, text) in shapes::message(),
        damage in vec((any::<prop::sample::Index>(), prop::sample::select(b"{}[]\",:\\0n\xff \n".to_vec())), 1..4),
    ) {
        let mut bytes = text.into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        compare(&bytes);
    }

    #[test]
    fn fragments_are_read_like_before(
        parts in vec(prop::sample::select(FRAGMENTS), 0..14),
        entries in vec(prop::sample::select(FRAGMENTS), 0..8),
    ) {
        compare(parts.concat().as_bytes());
        compare(format!(r#"{{"jsonrpc":"2.0","method":"m","id":1,"params":{{{}}}}}"#, entries.join(",")).as_bytes());
        compare(format!(r#"{{"jsonrpc":"2.0",{}}}"#, entries.join(",")).as_bytes());
    }
}
