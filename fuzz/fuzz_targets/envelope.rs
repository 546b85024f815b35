//! Fuzzes the envelope with arbitrary bytes: the message is read, classified and written back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use vmcp_wire::envelope::{EnvelopeError, Message, Notification, Reason, Request};
use vmcp_wire::handshake::{ClientHello, Introduction};
use vmcp_wire::headers;
use vmcp_wire::lists::pages::{List, Page};
use vmcp_wire::owned::{OwnedMessage, OwnedParams};
use vmcp_wire::params::Params;
use vmcp_wire::{codes, rpc, subject};

/// Asserts that the owned message is the borrowed one, or refused in the same words. The owned one alone is
/// refused for the letter case of a reserved key.
fn compare(bytes: &[u8], message: &Result<Message<'_>, EnvelopeError>) {
    let owned = OwnedMessage::parse(bytes.to_vec().into());
    if matches!(&owned, Err(error) if matches!(error.reason, Reason::LetterCase { .. })) {
        return;
    }
    let params = match message {
        Ok(Message::Request(request)) => Params::parse(request.params),
        Ok(Message::Notification(notification)) => Params::parse(notification.params),
        Ok(Message::Response(_) | Message::Error(_)) | Err(_) => Ok(Params::default()),
    };
    let expected = match (message, &params) {
        (Err(error), _) => Err((error.code(), error.to_string())),
        (Ok(_), Err(error)) => Err((codes::INVALID_PARAMS, error.to_string())),
        (Ok(message), Ok(params)) => Ok((
            message.id().map(RawValue::get),
            message.method(),
            params.object.raw(),
            params.meta.object().len(),
        )),
    };
    let found = match &owned {
        Err(error) => Err((error.code(), error.to_string())),
        Ok(owned) => {
            let params = match owned {
                OwnedMessage::Request(request) => request.params().clone(),
                OwnedMessage::Notification(notification) => notification.params().clone(),
                OwnedMessage::Response(_) | OwnedMessage::Error(_) => OwnedParams::default(),
            };
            let text = params.text().to_owned();
            return assert_eq!(
                Ok((
                    owned.id().map(RawValue::get),
                    owned.method(),
                    text.as_str(),
                    params.meta().keys().count()
                )),
                expected
            );
        }
    };
    assert_eq!(found, expected);
}

fuzz_target!(|bytes: &[u8]| {
    let parsed = Message::parse(bytes);
    compare(bytes, &parsed);
    let message = match parsed {
        Ok(message) => message,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "t")];
    if let Ok(owned) = OwnedMessage::parse(bytes.to_vec().into()) {
        _ = (headers::classify(headers.as_slice(), &owned), headers::classify_stdio(&owned));
    }
    if let Message::Request(Request { params, .. }) | Message::Notification(Notification { params, .. }) =
        &message
        && let Ok(params) = Params::parse(*params)
    {
        _ = ClientHello::parse(&params);
        _ = (params.meta.trace(), params.meta.client_name(), params.meta.progress_token());
        _ = subject::get(message.method().unwrap_or_default(), &params.object);
    }
    let written = match &message {
        Message::Request(request) => rpc::request(1, &request.method, request.params.map(Into::into)),
        Message::Notification(notification) => {
            rpc::notification(&notification.method, notification.params.map(Into::into))
        }
        Message::Response(response) => {
            _ = Introduction::from_discover(response.result);
            _ = Introduction::from_initialize(response.result);
            List::ALL.iter().for_each(|list| drop(Page::parse(*list, response.result)));
            rpc::response(response.id, response.result)
        }
        Message::Error(error) => rpc::error(error.id, error.error),
    };
    let again = Message::parse(&written).expect("a written message can be read");
    assert_eq!(again.method(), message.method());
    let line = rpc::single_line(written.clone());
    assert!(!line.contains(&b'\n') && Message::parse(&line).is_ok());
});
