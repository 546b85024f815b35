//! Fuzzes every translation, in all directions: the output is JSON, and a message that is of the client's era
//! already stays as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use vmcp_json::json_rope::JsonRope;
use vmcp_wire::envelope::Reason;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::methods;
use vmcp_wire::owned::{OwnedMessage, OwnedParams};
use vmcp_wire::request_meta::{ProgressToken, RequestMeta, Stamp};
use vmcp_wire::translate::{self, Hints, NotificationPlan, RequestPlan, ResultPlan, Scope, Translated};

const METHODS: [&str; 8] = [
    methods::TOOLS_CALL,
    methods::RESOURCES_READ,
    methods::PROMPTS_GET,
    methods::COMPLETE,
    methods::PROGRESS,
    methods::TOOLS_CHANGED,
    methods::CANCELLED,
    "vendor/unknown",
];

/// Asserts that the text is one JSON value and returns it.
fn json(text: JsonRope<'_>) -> Box<RawValue> {
    text.into_raw().expect("a translation is JSON")
}

fuzz_target!(|input: (u8, &str)| {
    let (choice, text) = input;
    let Ok(raw) = serde_json::from_str::<&RawValue>(text) else { return };
    let method = METHODS[usize::from(choice) % METHODS.len()];
    let more = usize::from(choice) / METHODS.len();

    if let Ok(params) = OwnedParams::from_text(text) {
        // As the backend does: both eras, and a progress token of our own in place of the client's.
        let stamp = if more.is_multiple_of(2) {
            Stamp::Legacy
        } else {
            Stamp::Modern {
                revision: Revision::MODERN,
                client_info: Some(r#"{"name":"c"}"#),
                client_capabilities: "{}",
                log_level: Some("debug"),
            }
        };
        let token = params.meta().progress_token();
        let progress_token = token.map_or(ProgressToken::Keep, |_| ProgressToken::Replace("7"));
        let meta = RequestMeta { stamp, progress_token, ..RequestMeta::default() };
        let plan = RequestPlan { subject: Some("sub\"ject"), meta };
        let once = translate::write_request(7, method, &params, &plan);
        let again = match OwnedMessage::parse(once.clone().into()) {
            Ok(OwnedMessage::Request(again)) => again,
            // The client's message was refused already.
            Err(error) if matches!(error.reason, Reason::LetterCase { .. }) => return,
            _ => panic!("a translation is readable"),
        };
        let twice = translate::write_request(7, method, again.params(), &plan);
        assert_eq!(twice, once, "a request in the backend's era stays as it is");
    }
    for (from, to) in [
        (Era::Legacy, Era::Legacy),
        (Era::Legacy, Era::Modern),
        (Era::Modern, Era::Legacy),
        (Era::Modern, Era::Modern),
    ] {
        let plan = ResultPlan {
            from,
            to,
            hints: Hints { ttl_ms: 5, scope: Scope::Public },
            server_info: (more.is_multiple_of(2)).then_some(r#"{"name":"v"}"#),
            request_state: (more.is_multiple_of(5)).then_some("sealed"),
        };
        if let Ok(result) = translate::result(method, raw, &plan) {
            let once = json(result);
            // A second translation changes nothing: the result is of the client's era by now.
            let plan = ResultPlan { from: to, request_state: None, ..plan };
            if let Ok(again) = translate::result(method, &once, &plan) {
                assert_eq!(again.into_cow(), once.get(), "{from:?} to {to:?} and on");
            }
        }
        if let Ok(error) = translate::error(method, raw, from, to, Some("u:\"")) {
            json(error);
        }
        if let Ok(tool) = translate::tool(raw, to) {
            let once = json(tool);
            assert_eq!(translate::tool(&once, to).map(JsonRope::into_cow).as_deref(), Ok(once.get()));
        }
        let plan = NotificationPlan {
            to,
            progress_token: Some(raw),
            subscription_id: (more.is_multiple_of(2)).then_some(raw),
        };
        if let Ok(Translated::Params(Some(params))) = translate::notification(method, Some(raw), &plan) {
            json(params);
        }
    }
    if let Ok(Some(question)) = translate::url_elicitation(raw) {
        json(JsonRope::from(question));
    }
});
