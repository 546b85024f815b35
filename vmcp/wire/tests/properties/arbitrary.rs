//! Arbitrary bytes are refused or ignored, and never make the code panic.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_wire::envelope::{Message, Notification, Request};
use vmcp_wire::era::Era;
use vmcp_wire::handshake::{ClientHello, Introduction};
use vmcp_wire::headers::{self, ParamHeader};
use vmcp_wire::lists::cursor::Cursor;
use vmcp_wire::lists::{pages::List, pages::Page};
use vmcp_wire::owned::OwnedMessage;
use vmcp_wire::params::Params;
use vmcp_wire::sealed::KeyRing;
use vmcp_wire::sealed::session::Session;
use vmcp_wire::sse;
use vmcp_wire::translate::{self, NotificationPlan, RequestPlan, ResultPlan};

use crate::{json, shapes};

/// Does to a message all that the server may do to one of an untrusted peer.
fn handle(bytes: &[u8]) {
    let Ok(message) = Message::parse(bytes) else { return };
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")];
    if let Ok(owned) = OwnedMessage::parse(bytes.to_vec().into()) {
        _ = (headers::classify(headers.as_slice(), &owned), headers::classify_stdio(&owned));
        if let OwnedMessage::Request(request) = &owned {
            let plan = RequestPlan { subject: Some("subject"), ..RequestPlan::default() };
            _ = translate::write_request(7, request.method(), request.params(), &plan);
        }
    }
    if let Message::Request(Request { params, .. }) | Message::Notification(Notification { params, .. }) =
        &message
        && let Ok(params) = Params::parse(*params)
    {
        _ = ClientHello::parse(&params);
        _ = (params.meta.trace(), params.meta.client_name(), params.meta.progress_token());
    }
    for (from, to) in [(Era::Legacy, Era::Modern), (Era::Modern, Era::Legacy), (Era::Modern, Era::Modern)] {
        match &message {
            Message::Response(response) => {
                let plan = ResultPlan { from, to, server_info: Some("{}"), ..ResultPlan::default() };
                _ = translate::result("resources/read", response.result, &plan);
                _ = translate::tool(response.result, to);
                _ = Introduction::from_discover(response.result);
                _ = Introduction::from_initialize(response.result);
                _ = Page::parse(List::Tools, response.result);
            }
            Message::Error(error) => {
                _ = translate::error("resources/read", error.error, from, to, Some("u"));
                _ = translate::url_elicitation(error.error);
            }
            Message::Notification(notification) => {
                let plan = NotificationPlan { to, ..NotificationPlan::default() };
                _ = translate::notification(&notification.method, notification.params, &plan);
            }
            Message::Request(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn bytes_are_no_danger(bytes in vec(any::<u8>(), 0..200)) {
        handle(&bytes);
        _ = sse::decode([bytes.clone()], 64);
        let text = String::from_utf8_lossy(&bytes);
        _ = Object::parse_str(&text);
        _ = headers::decode(&text);
        _ = Cursor::decode(&text, List::Tools);
        let ring = KeyRing::from_secrets([b"the secret of these tests"]).unwrap();
        prop_assert!(Session::open(&ring, &text, &[0; 32], 0).is_err());
    }

    #[test]
    fn base64_is_no_danger(text in "[A-Za-z0-9_-]{0,200}") {
        _ = Cursor::decode(&text, List::Tools);
        let ring = KeyRing::from_secrets([b"the secret of these tests"]).unwrap();
        prop_assert!(ring.open(&text, b"", 0).is_err());
        _ = headers::decode(&format!("=?base64?{text}?="));
    }

    #[test]
    fn a_damaged_message_is_no_danger(
        (_, _, text) in shapes::message(),
        damage in vec((any::<prop::sample::Index>(), prop::sample::select(b"{}[]\",:\\0n\xff \n".to_vec())), 0..4),
    ) {
        let mut bytes = text.into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        handle(&bytes);
    }

    #[test]
    fn the_headers_built_for_any_arguments_are_accepted(arguments in json::value(), path in vec("[a-c]", 1..4)) {
        let arguments = RawValue::from_string(arguments).unwrap();
        let annotations = [ParamHeader { name: "A".to_owned(), path }];
        let built = headers::build_param_headers(&annotations, Some(arguments.get()));
        prop_assert!(headers::check_param_headers(built.as_slice(), &annotations, Some(arguments.get())).is_ok());
    }

    #[test]
    fn parameters_are_read_or_refused(value in json::value()) {
        let raw = RawValue::from_string(value).unwrap();
        let is_object = raw.get().starts_with('{');
        prop_assert!(is_object || Params::parse(Some(&raw)).is_err());
    }
}
