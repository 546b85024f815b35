//! [`ClientSession`]: what a client has told its server and a new server must hear again: `initialize`, the
//! log level, the subscriptions.

use std::collections::BTreeMap;

use bytes::Bytes;
use vmcp_wire::methods;
use vmcp_wire::owned::{OwnedNotification, OwnedRequest};

/// Messages of a legacy session that outlive their server. A modern client repeats what a server must know
/// with each request, so its session is empty.
#[derive(Debug, Default)]
pub(super) struct ClientSession {
    /// The request that opened the session, and its id.
    initialize: Option<(Box<str>, Bytes)>,
    initialized: Option<Bytes>,
    /// Requests that set the log level (empty key) or subscribe to a URI (the key), each with its id.
    settings: BTreeMap<String, (Box<str>, Bytes)>,
}

impl ClientSession {
    /// Remembers a request whose effect lasts.
    pub(super) fn requested(&mut self, request: &OwnedRequest, line: &Bytes) {
        let uri = || request.params().get_str("uri").unwrap_or_default().into_owned();
        let kept = (Box::from(request.id().get()), line.clone());
        match request.method() {
            methods::INITIALIZE => {
                *self = ClientSession { initialize: Some(kept), ..ClientSession::default() }
            }
            methods::SET_LEVEL => drop(self.settings.insert(String::new(), kept)),
            methods::SUBSCRIBE => drop(self.settings.insert(uri(), kept)),
            methods::UNSUBSCRIBE => drop(self.settings.remove(&uri())),
            _ => {}
        }
    }

    /// Remembers that the client is initialized.
    pub(super) fn notified(&mut self, notification: &OwnedNotification, line: &Bytes) {
        if notification.method() == methods::INITIALIZED {
            self.initialized = Some(line.clone());
        }
    }

    /// True for a legacy client that may be notified of changes.
    pub(super) fn is_initialized(&self) -> bool {
        self.initialized.is_some()
    }

    /// Returns the lines that a new server must hear, and the ids of the requests among them, whose answers
    /// the client has seen already.
    pub(super) fn replay(&self) -> (Vec<Bytes>, Vec<Box<str>>) {
        let Some((id, initialize)) = &self.initialize else { return (Vec::new(), Vec::new()) };
        let settings = self.settings.values();
        let ids = std::iter::once(id).chain(settings.clone().map(|(id, _)| id)).cloned().collect();
        let behind = self.initialized.iter().chain(settings.map(|(_, line)| line));
        (std::iter::once(initialize).chain(behind).cloned().collect(), ids)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use vmcp_wire::owned::OwnedMessage;

    use super::*;

    fn tell(session: &mut ClientSession, message: &Value) {
        let line = Bytes::from(message.to_string());
        match OwnedMessage::parse(line.clone()).unwrap() {
            OwnedMessage::Request(request) => session.requested(&request, &line),
            OwnedMessage::Notification(notification) => session.notified(&notification, &line),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_new_server_hears_what_still_holds() {
        let mut session = ClientSession::default();
        assert_eq!(session.replay(), (Vec::new(), Vec::new()));
        let request = |id: u32, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        tell(&mut session, &request(0, "initialize", json!({"protocolVersion": "2025-11-25"})));
        tell(&mut session, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        tell(&mut session, &request(1, "resources/subscribe", json!({"uri": "a:1"})));
        tell(&mut session, &request(2, "resources/subscribe", json!({"uri": "a:2"})));
        tell(&mut session, &request(3, "tools/list", json!({})));
        tell(&mut session, &request(4, "logging/setLevel", json!({"level": "info"})));
        tell(&mut session, &request(5, "resources/unsubscribe", json!({"uri": "a:1"})));
        let (lines, ids) = session.replay();
        let methods: Vec<_> = lines
            .iter()
            .map(|line| serde_json::from_slice::<Value>(line).unwrap()["method"].as_str().unwrap().to_owned())
            .collect();
        let expected = ["initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe"];
        assert_eq!(methods, expected);
        assert_eq!(ids.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["0", "4", "2"]);
        assert!(session.is_initialized());
    }
}
