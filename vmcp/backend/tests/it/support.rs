//! Builders and waits that the tests share.

pub(crate) mod scripts;
pub(crate) mod server;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use vmcp_backend::{
    Backend, BackendSettings, BackendState, BackendStatus, CallError, ClientFacts, Downstream, Event,
    Request, Response, RpcOutcome, SessionId,
};
use vmcp_model::discovered::{Discovered, Listing};
use vmcp_wire::owned::OwnedParams;

/// Long enough for a loaded machine; reached only when a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Short pauses, everything else by default.
pub(crate) fn settings() -> BackendSettings {
    BackendSettings {
        first_pause: Duration::from_millis(5),
        refresh_debounce: Duration::from_millis(10),
        drain_timeout: Duration::from_secs(1),
        kill_grace: Duration::from_millis(300),
        revalidate_after: Duration::from_hours(1),
        ..BackendSettings::default()
    }
}

pub(crate) fn spec(name: &str, transport: vmcp_config::Transport) -> vmcp_config::Backend {
    vmcp_config::Backend {
        name: name.into(),
        transport,
        enabled: true,
        timeout: None,
        connection_timeout: None,
        ca_bundle_path: None,
        addresses: vmcp_config::addresses::ReachableAddresses::Any,
        preconnect: false,
        isolation: None,
        protocol_era: vmcp_config::ProtocolEra::Auto,
        max_sessions: None,
        warm_sessions: 0,
        credentials: vmcp_config::Credentials::default(),
        passthrough_headers: std::collections::BTreeSet::default(),
        known_secrets: vmcp_config::KnownSecrets::default(),
        codex: None,
    }
}

/// Definitions from an earlier run, so that nothing connects by itself.
pub(crate) fn cached() -> Arc<Discovered> {
    let tools = vec![raw(r#"{"name":"cached","inputSchema":{"type":"object"}}"#)];
    Arc::new(Discovered::read(Listing { tools, ..Listing::default() }))
}

pub(crate) fn params_of(json: &str) -> OwnedParams {
    OwnedParams::from_text(json).unwrap()
}

pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// Facts of a client that declares `capabilities`.
pub(crate) fn client(capabilities: &str) -> ClientFacts {
    let info = raw(r#"{"name":"the-client","version":"7"}"#);
    ClientFacts {
        info: Some(info.into()),
        capabilities: Some(raw(capabilities).into()),
        log_level: None,
        ..ClientFacts::default()
    }
}

/// The client that everything below comes from, unless it says otherwise.
pub(crate) const SESSION: SessionId = [7; 16];

/// Remembers what belongs to no call; drops the questions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mailbox(Arc<Mutex<Vec<Mail>>>);

/// The session that a message came on, and the message, or the method of the question.
pub(crate) type Mail = (Option<SessionId>, String);

impl Downstream for Mailbox {
    fn deliver(&self, _: &str, session: Option<SessionId>, event: Event) {
        let text = match event {
            Event::Notification(message) => message.get().to_owned(),
            Event::Question(question) => question.method.into(),
        };
        self.0.lock().unwrap().push((session, text));
    }
}

impl Mailbox {
    pub(crate) fn all(&self) -> Vec<Mail> {
        self.0.lock().unwrap().clone()
    }
}

/// A `tools/call` of the tool `name`.
pub(crate) async fn call(backend: &Backend, name: &str) -> Result<Response, CallError> {
    let params = params_of(&format!(r#"{{"name":"{name}","arguments":{{}}}}"#));
    let request = Request { subject: Some(name), ..Request::new("tools/call", &params) };
    backend.request(request).await
}

/// The text of the result.
pub(crate) fn result(response: &Response) -> &str {
    match &response.outcome {
        RpcOutcome::Result(result) => result.get(),
        RpcOutcome::Error(error) => panic!("answered with the error {}", error.get()),
        RpcOutcome::Arriving(_) => panic!("no stream was asked for"),
    }
}

pub(crate) async fn wait_for_state(backend: &Backend, state: BackendState) -> BackendStatus {
    eventually(&format!("state {state:?}"), || Some(backend.status()).filter(|status| status.state == state))
        .await
}

/// Waits for definitions of which `wanted` is true.
pub(crate) async fn wait_for_definitions(
    backend: &Backend,
    wanted: impl Fn(&Discovered) -> bool,
) -> Arc<Discovered> {
    let mut discovered = backend.discovered();
    let found = discovered.wait_for(|found| found.as_deref().is_some_and(&wanted));
    let found = tokio::time::timeout(PATIENCE, found).await.expect("definitions in time").unwrap().clone();
    found.unwrap()
}

/// Polls until there is a value.
pub(crate) async fn eventually<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let started = std::time::Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
