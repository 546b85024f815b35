//! [`Unanswered`]: the client's requests at the server. When the server goes away, a request without effects
//! is sent to the next server; a call is answered by an error, because it may have run.

use std::collections::HashMap;

use bytes::Bytes;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedRequest;

/// A request that waits for its answer.
#[derive(Debug, Clone)]
pub(super) struct WaitingRequest {
    /// Line of the request.
    pub(super) line: Bytes,
    /// Its method.
    pub(super) method: Box<str>,
    /// True for the first page of `tools/list`, which the own tools join.
    pub(super) is_first_tools_page: bool,
    /// True for `subscriptions/listen` once its acknowledgement has reached the client.
    pub(super) is_acknowledged: bool,
    /// Servers that ended before they answered.
    ended_servers: u8,
}

impl WaitingRequest {
    /// True if the request may be sent to a second server: it only reads, or listens.
    fn may_be_repeated(&self) -> bool {
        !matches!(
            &*self.method,
            methods::TOOLS_CALL | methods::TASKS_UPDATE | methods::TASKS_CANCEL | methods::TASKS_RESULT
        )
    }

    /// True for `subscriptions/listen`, which waits as long as the client listens.
    fn is_listening(&self) -> bool {
        &*self.method == methods::LISTEN
    }
}

/// Requests by id, as written.
#[derive(Debug, Default)]
pub(super) struct Unanswered(HashMap<Box<str>, WaitingRequest>);

impl Unanswered {
    /// Adds a request that is about to be sent.
    pub(super) fn add(&mut self, request: &OwnedRequest, line: &Bytes) {
        let method = Box::from(request.method());
        let is_first_tools_page =
            request.method() == methods::TOOLS_LIST && request.params().get("cursor").is_none();
        let line = line.clone();
        let waiting =
            WaitingRequest { line, method, is_first_tools_page, is_acknowledged: false, ended_servers: 0 };
        self.0.insert(request.id().get().into(), waiting);
    }

    /// Removes a request that was answered or cancelled.
    pub(super) fn remove(&mut self, id: &str) -> Option<WaitingRequest> {
        self.0.remove(id)
    }

    /// True for the id of a `subscriptions/listen`.
    pub(super) fn is_listening(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(WaitingRequest::is_listening)
    }

    /// Notes the acknowledgement of a `subscriptions/listen`; returns false if the client has had one, from
    /// a server before.
    pub(super) fn acknowledge(&mut self, id: &str) -> bool {
        match self.0.get_mut(id) {
            Some(waiting) => !std::mem::replace(&mut waiting.is_acknowledged, true),
            None => true,
        }
    }

    /// Notes that the server has ended. Removes and returns the requests that must not be sent to the next
    /// server: calls, and requests during which two servers ended, since the request may be the cause.
    pub(super) fn take_unrepeatable(&mut self) -> Vec<Box<str>> {
        let is_over = |waiting: &mut WaitingRequest| {
            waiting.ended_servers += u8::from(!waiting.is_listening());
            !waiting.may_be_repeated() || waiting.ended_servers > 1
        };
        self.0.extract_if(|_, waiting| is_over(waiting)).map(|(id, _)| id).collect()
    }

    /// True if a request other than `subscriptions/listen` waits.
    pub(super) fn has_answerable(&self) -> bool {
        self.0.values().any(|waiting| !waiting.is_listening())
    }

    /// Removes and returns the requests that wait for one answer, which without a server is an error.
    pub(super) fn take_answerable(&mut self) -> Vec<Box<str>> {
        self.0.extract_if(|_, waiting| !waiting.is_listening()).map(|(id, _)| id).collect()
    }

    /// Returns all requests, for the next server.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &WaitingRequest)> {
        self.0.iter().map(|(id, waiting)| (id.as_ref(), waiting))
    }
}

#[cfg(test)]
mod tests {
    use vmcp_wire::owned::OwnedMessage;

    use super::*;

    #[test]
    fn calls_are_not_repeated_and_listeners_stay() {
        let mut unanswered = Unanswered::default();
        for (id, method) in [(1, "tools/call"), (2, "tools/list"), (3, "subscriptions/listen")] {
            let line = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#));
            let OwnedMessage::Request(request) = OwnedMessage::parse(line.clone()).unwrap() else { panic!() };
            unanswered.add(&request, &line);
        }
        assert!(unanswered.acknowledge("3") && !unanswered.acknowledge("3"));
        assert_eq!(unanswered.take_unrepeatable(), [Box::<str>::from("1")]);
        assert_eq!(unanswered.all().count(), 2);
        assert!(unanswered.has_answerable());
        let mut twice = Unanswered(unanswered.0.clone());
        assert_eq!(twice.take_unrepeatable(), [Box::<str>::from("2")], "two servers ended over it");
        assert!(twice.is_listening("3") && !twice.has_answerable());
        assert_eq!(unanswered.take_answerable(), [Box::<str>::from("2")]);
        assert!(unanswered.is_listening("3") && !unanswered.is_listening("2"));
        assert!(unanswered.remove("3").is_some());
    }
}
