//! The opening handshake of a websocket (RFC 6455, section 4).

use http::StatusCode;
use http::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::{self, Upgraded};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use vmcp_error_chain::error_chain;

use crate::transport::endpoint::Endpoint;
use crate::transport::link_error::{LinkError, Secrets};
use crate::transport::mux::Mux;
use crate::transport::refused_response::{refusal, words};

/// Subprotocol of MCP over websockets, as the SDKs name it.
const SUBPROTOCOL: &str = "mcp";

/// Opens a connection and makes it a websocket. Returns it with the secrets that the server was sent, which
/// its close frame may repeat.
pub(super) async fn open(endpoint: &Endpoint, mux: &Mux) -> Result<(Upgraded, Secrets), LinkError> {
    let key = generate_key();
    let unusable = |_| LinkError::Unsendable("the key of the websocket is unusable".to_owned());
    let mut headers = endpoint.headers();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::try_from(&key).map_err(unusable)?);
    let mut response = endpoint.upgrade(headers).await?;
    if response.status().is_success() {
        let (_, said) = words(endpoint, mux, response).await;
        return Err(LinkError::Unreadable { reason: "the URL does not open a websocket", said });
    }
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refusal(endpoint, mux, response).await);
    }
    if let Some(fault) = fault(response.headers(), &key) {
        return Err(LinkError::Protocol(format!("the websocket handshake is faulty: {fault}")));
    }
    let secrets = endpoint.secrets(mux.inbound.secrets.load_full(), response.extensions().get());
    let upgraded = upgrade::on(&mut response).await;
    let upgraded = upgraded.map_err(|error| LinkError::Closed { detail: error_chain(&error) })?;
    Ok((upgraded, secrets))
}

/// Returns the fault for which RFC 6455 wants a client to give up. A server that chooses no subprotocol is
/// taken for one of MCP: several frameworks choose none.
fn fault(headers: &HeaderMap, key: &str) -> Option<&'static str> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    // A proxy may add a line of its own, such as `Connection: keep-alive`.
    let has_token = |name: HeaderName, token: &str| {
        let lists = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        lists.flat_map(|list| list.split(',')).any(|one| one.trim().eq_ignore_ascii_case(token))
    };
    if !has_token(UPGRADE, "websocket") || !has_token(CONNECTION, "upgrade") {
        Some("the connection is upgraded to something else")
    } else if text(SEC_WEBSOCKET_ACCEPT) != Some(derive_accept_key(key.as_bytes()).as_str()) {
        Some("Sec-WebSocket-Accept does not fit the key")
    } else if headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
        Some("the server chose an extension, and none was offered")
    } else if headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().any(|chosen| chosen != SUBPROTOCOL) {
        Some("the server chose another subprotocol than `mcp`")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_good_only_as_the_standard_wants_it() {
        // The key and its answer are the example of RFC 6455, section 1.3.
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let good = [
            ("upgrade", "WebSocket"),
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        ];
        let with = |name: &str, value: Option<&str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in good {
                headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
            }
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            match value {
                Some(value) => drop(headers.insert(name, HeaderValue::from_str(value).unwrap())),
                None => drop(headers.remove(name)),
            }
            fault(&headers, key)
        };
        assert_eq!(with("sec-websocket-protocol", None), None);
        assert_eq!(with("sec-websocket-protocol", Some("mcp")), None);
        let appended = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("connection", HeaderValue::from_static("keep-alive"));
            for (name, value) in good {
                headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            headers.append(name, HeaderValue::from_static(value));
            fault(&headers, key)
        };
        assert_eq!(appended("x-proxy", "a"), None, "two lines of Connection");
        assert!(appended("sec-websocket-protocol", "mcp, graphql-ws").is_some(), "two subprotocols");
        for (name, value, expected) in [
            ("upgrade", None, "something else"),
            ("upgrade", Some("h2c"), "something else"),
            ("connection", Some("close"), "something else"),
            ("sec-websocket-accept", None, "does not fit"),
            ("sec-websocket-accept", Some("x3JJHMbDL1EzLkh9GBhXDw=="), "does not fit"),
            ("sec-websocket-extensions", Some("permessage-deflate"), "extension"),
            ("sec-websocket-protocol", Some("graphql-ws"), "subprotocol"),
        ] {
            let fault = with(name, value).unwrap_or_default();
            assert!(fault.contains(expected), "{name}: {value:?}: {fault}");
        }
    }
}
