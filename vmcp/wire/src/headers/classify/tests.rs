use super::*;
use crate::message::codes;
use crate::message::rpc::Refusal;

const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn request(method: &str, params: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#).into_bytes()
}

fn outcome(headers: &[(&str, &str)], body: &[u8]) -> Result<Era, (u16, i64, Option<String>)> {
    let message = OwnedMessage::parse(body.to_vec().into()).map_err(|error| (400, error.code(), None))?;
    classify(headers, &message)
        .map(|era| era.era())
        .map_err(|Refusal { status, error }| (status, error.code, error.data))
}

#[test]
fn a_modern_call_is_served_statelessly() {
    let headers = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "=?base64?dA==?="),
    ];
    let body = request("tools/call", &format!(r#"{{"name":"t","_meta":{META}}}"#));
    let message = OwnedMessage::parse(body.clone().into()).unwrap();
    assert_eq!(classify(headers.as_slice(), &message).unwrap(), RequestEra::Modern(Revision::V2026_07_28));
    assert_eq!(
        outcome(&[("mcp-session-id", "x"), headers[0], headers[1], headers[2]], &body),
        Ok(Era::Modern)
    );
}

#[test]
fn headers_must_agree_with_the_body() {
    let version = ("mcp-protocol-version", "2026-07-28");
    let method = ("mcp-method", "tools/call");
    let name = ("mcp-name", "t");
    let body = request("tools/call", &format!(r#"{{"name":"t","_meta":{META}}}"#));
    let mismatch = Err((400, codes::HEADER_MISMATCH, None));
    assert_eq!(outcome(&[version, method, name], &body), Ok(Era::Modern));
    assert_eq!(outcome(&[method, name], &body), mismatch);
    assert_eq!(outcome(&[("mcp-protocol-version", "2025-11-25"), method, name], &body), mismatch);
    assert_eq!(outcome(&[version, version, method, name], &body), mismatch);
    assert_eq!(outcome(&[version, name], &body), mismatch);
    assert_eq!(outcome(&[version, ("mcp-method", "tools/list"), name], &body), mismatch);
    assert_eq!(outcome(&[version, method], &body), mismatch);
    assert_eq!(outcome(&[version, method, ("mcp-name", "T")], &body), mismatch);
    let list = request("tools/list", &format!(r#"{{"_meta":{META}}}"#));
    assert_eq!(outcome(&[version, ("mcp-method", "tools/list")], &list), Ok(Era::Modern));
}

#[test]
fn a_modern_request_states_version_and_capabilities() {
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    let missing = Err((400, codes::INVALID_PARAMS, None));
    let only_version = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
    let list_capabilities =
        only_version.replace("-28\"", "-28\",\"io.modelcontextprotocol/clientCapabilities\":[]");
    for params in ["{}", r#"{"_meta":null}"#, only_version, &list_capabilities, r#"{"_meta":[]}"#] {
        assert_eq!(outcome(&headers, &request("tools/list", params)), missing, "{params}");
    }
    let number = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":1}}"#;
    assert_eq!(outcome(&headers, &request("tools/list", number)), missing);
    assert_eq!(outcome(&[], &request("server/discover", "{}")), missing);
    assert_eq!(outcome(&[], &request("tools/list", r#"{"a":1,"a":2}"#)), missing, "a duplicate key");
}

#[test]
fn an_unknown_revision_is_told_the_known_ones() {
    let data = r#"{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"1900-01-01"}"#;
    let expected = Err((400, codes::UNSUPPORTED_PROTOCOL_VERSION, Some(data.to_owned())));
    let header = [("mcp-protocol-version", "1900-01-01")];
    let meta = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01"}}"#;
    assert_eq!(outcome(&header, &request("tools/list", meta)), expected);
    assert_eq!(outcome(&header, &request("tools/list", "{}")), expected);
    assert_eq!(outcome(&header, br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), expected);
}

#[test]
fn everything_else_belongs_to_a_session() {
    let header = [("mcp-protocol-version", "2025-06-18")];
    assert_eq!(outcome(&header, &request("tools/call", r#"{"name":"t"}"#)), Ok(Era::Legacy));
    assert_eq!(outcome(&[], &request("tools/call", r#"{"name":"t"}"#)), Ok(Era::Legacy));
    assert_eq!(outcome(&header, br#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Ok(Era::Legacy));
    assert_eq!(outcome(&[], br#"{"jsonrpc":"2.0","id":1,"error":{}}"#), Ok(Era::Legacy));
    // `initialize` selects the legacy era whatever version it names.
    let initialize = request("initialize", r#"{"protocolVersion":"2026-07-28"}"#);
    assert_eq!(outcome(&[("mcp-protocol-version", "2026-07-28")], &initialize), Ok(Era::Legacy));
    assert_eq!(outcome(&[("mcp-method", "ping")], &initialize), Err((400, codes::HEADER_MISMATCH, None)));
    let modern = [("mcp-protocol-version", "2026-07-28")];
    assert_eq!(outcome(&modern, br#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#), Ok(Era::Modern));
    assert_eq!(
        outcome(&modern, br#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
        Err((400, codes::INVALID_REQUEST, None))
    );
}

#[test]
fn what_the_modern_revision_removed_is_not_found_whatever_the_headers_say() {
    let not_found = Err((404, codes::METHOD_NOT_FOUND, None));
    let version = ("mcp-protocol-version", "2026-07-28");
    for method in
        ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/list", "tasks/result"]
    {
        let body = request(method, &format!(r#"{{"taskId":"t","uri":"u:","_meta":{META}}}"#));
        assert_eq!(outcome(&[version], &body), not_found, "{method}");
        assert_eq!(outcome(&[version, ("mcp-method", "x"), ("mcp-name", "y")], &body), not_found, "{method}");
        assert_eq!(
            classify_stdio(&OwnedMessage::parse(body.clone().into()).unwrap()).unwrap_err().error.code,
            codes::METHOD_NOT_FOUND
        );
    }
}

#[test]
fn on_stdio_the_body_alone_decides() {
    let body = request("tools/call", &format!(r#"{{"name":"t","_meta":{META}}}"#));
    assert_eq!(
        classify_stdio(&OwnedMessage::parse(body.clone().into()).unwrap()).unwrap().era(),
        Era::Modern
    );
    let body = request("tools/call", "{}");
    assert_eq!(
        classify_stdio(&OwnedMessage::parse(body.clone().into()).unwrap()).unwrap().era(),
        Era::Legacy
    );
}
