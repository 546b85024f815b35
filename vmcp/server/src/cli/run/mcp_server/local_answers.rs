//! Answers to a client while no server runs.

use serde_json::json;
use vmcp_json::json_rope::JsonRope;
use vmcp_json::text;
use vmcp_wire::era::Revision;
use vmcp_wire::handshake::OwnIntroduction;
use vmcp_wire::owned::OwnedRequest;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::translate::Hints;
use vmcp_wire::{codes, methods, rpc};

use super::own_tools;

/// Reason without a server that was stopped on purpose, in the words of the Gobby daemon's tools.
pub(super) const NOT_RUNNING: &str = "Daemon is not running. Start it with start() first.";

/// Answers a request while the server is absent, for `reason`. `modern`: for a client of 2026-07-28.
pub(super) fn answer(request: &OwnedRequest, modern: bool, reason: &str) -> Vec<u8> {
    let complete = |result: String| rpc::response(request.id(), JsonRope::from(result));
    match request.method() {
        methods::INITIALIZE => {
            let wanted = request.params().get_str("protocolVersion").unwrap_or_default();
            let revision = Revision::negotiate(&wanted);
            complete(with_introduction(reason, |own| own.initialize_result(revision)))
        }
        methods::DISCOVER => {
            complete(with_introduction(reason, |own| own.discover_result(&Revision::ALL, Hints::default())))
        }
        methods::PING => complete("{}".to_owned()),
        methods::TOOLS_LIST => complete(own_tools::list_without_server(modern)),
        methods::TOOLS_CALL => {
            complete(own_tools::result(&json!({ "success": false, "error": reason }), modern))
        }
        _ => {
            let error = RpcError::new(codes::INTERNAL_ERROR, reason);
            rpc::error(Some(request.id()), JsonRope::from(error.to_json()))
        }
    }
}

/// Introduces the proxy, whose own tools work without a server.
fn with_introduction(reason: &str, write: impl FnOnce(OwnIntroduction<'_>) -> String) -> String {
    let info = format!(r#"{{"name":"vmcp","version":{}}}"#, text::quoted(env!("CARGO_PKG_VERSION")));
    let instructions = format!("No vmcp daemon serves this client: {reason}\nThe tool start starts it.");
    write(OwnIntroduction {
        capabilities: r#"{"tools":{"listChanged":true}}"#,
        server_info: &info,
        instructions: Some(&instructions),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use vmcp_wire::owned::OwnedMessage;

    use super::*;

    fn ask(method: &str) -> Value {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{"protocolVersion":"2025-06-18"}}}}"#
        );
        let OwnedMessage::Request(request) = OwnedMessage::parse(line.into()).unwrap() else { panic!() };
        serde_json::from_slice(&answer(&request, false, NOT_RUNNING)).unwrap()
    }

    #[test]
    fn a_client_without_a_server_keeps_its_session_and_learns_how_to_start_one() {
        let opened = ask("initialize");
        assert_eq!((&opened["id"], &opened["result"]["protocolVersion"]), (&json!(7), &json!("2025-06-18")));
        let called = ask("tools/call");
        let expected = json!({"success": false, "error": NOT_RUNNING});
        assert_eq!(
            (&called["result"]["structuredContent"], &called["result"]["isError"]),
            (&expected, &json!(true))
        );
        assert_eq!(ask("ping")["result"], json!({}));
        assert_eq!(ask("prompts/list")["error"]["message"], NOT_RUNNING);
        assert_eq!(ask("server/discover")["result"]["supportedVersions"][0], Revision::MODERN.as_str());
    }
}
