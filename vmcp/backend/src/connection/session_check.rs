//! Tells a lost session from a request that the server dislikes. Servers answer both in the same ways: with
//! HTTP 404, 400, 401 or 500, or with an error of JSON-RPC; so do frameworks below them and proxies before
//! them. A second, harmless request on the same session decides; else one caller's bad request would end what
//! others share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::value::RawValue;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use vmcp_json::object::Object;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::payload::Payload;
use vmcp_wire::{codes, methods};

use crate::connection::{Connection, era};
use crate::request::{Request, RpcOutcome};
use crate::transport::{Channel, HttpRefusal, Link, LinkError, ServerWords, SessionDoubt};

/// Time for the server to answer the probe; a silent server keeps its session.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Failures in a row on one session after which a server that does not answer a ping is asked for another
/// session, to see if that one works; then after each doubling.
const FAILURES_IN_A_ROW: u32 = 2;

/// A refusal that may be about the session.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    /// HTTP status, unless it is a success.
    status: Option<StatusCode>,
    /// Code of the JSON-RPC error, if there is one.
    code: Option<i64>,
    doubt: SessionDoubt,
}

/// Outcome of a ping, as far as it concerns the session.
#[derive(Clone, Copy, Debug)]
enum Ping {
    /// The server knows the session, or does not say.
    Alive,
    /// The server refuses.
    Refused(Refusal),
    /// The server is not able to answer.
    Failed,
}

/// The verdict on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionState {
    Known,
    /// The request was refused unread: it may be sent again.
    LostBefore,
    /// The request may have been executed.
    Lost,
}

impl Refusal {
    fn of_error(status: Option<StatusCode>, error: Option<&RawValue>, doubt: SessionDoubt) -> Self {
        let code = error.and_then(|error| Object::parse(error).ok()?.text("code")?.parse().ok());
        Self { status, code, doubt }
    }

    /// True for an error of JSON-RPC that says more about the server than about the request.
    fn is_of_server(&self) -> bool {
        let code = self.code.unwrap_or_default();
        // -32002 alone is a resource that does not exist.
        let is_of_server = (-32099..=-32000).contains(&code) && code != codes::RESOURCE_NOT_FOUND;
        self.doubt.speaks_of_session || code == codes::INVALID_REQUEST || is_of_server
    }

    /// The verdict on the session of a refused request, given what a ping got there.
    fn judge(&self, ping: Ping) -> SessionState {
        let Ping::Refused(ping) = ping else { return SessionState::Known };
        let is_gone = matches!(ping.status, Some(StatusCode::NOT_FOUND | StatusCode::GONE));
        if !(is_gone || ping.doubt.speaks_of_session || ping.doubt.is_same(self.doubt)) {
            return SessionState::Known;
        }
        // A ping executes nothing: what is refused alike was not executed.
        let both_speak = self.doubt.speaks_of_session && ping.doubt.speaks_of_session;
        let is_alike = both_speak || ping.doubt.is_same(self.doubt);
        let is_unread = match self.status {
            Some(status) if status.is_client_error() => true,
            Some(_) => is_alike && self.status == ping.status,
            None => is_alike && self.code == ping.code,
        };
        if is_unread { SessionState::LostBefore } else { SessionState::Lost }
    }
}

impl Connection {
    /// Turns a failure into a lost session, if that is its cause.
    pub(super) async fn decide(
        &self,
        error: LinkError,
        request: &Request<'_>,
    ) -> Result<RpcOutcome, LinkError> {
        let (refusal, answer) = match error {
            LinkError::SessionInDoubt { status, error, doubt, said } => {
                if self.server.era() == Era::Modern {
                    if era::speaks_legacy_only(&self.channel, PROBE_TIMEOUT).await {
                        return Err(LinkError::SessionLost(None));
                    }
                    return refused(status, error, said);
                }
                let refusal = Refusal::of_error(Some(status), error.as_deref(), doubt);
                (refusal, refused(status, error, said))
            }
            LinkError::RefusedInDoubt { refused, doubt } => {
                let status = Some(StatusCode::UNAUTHORIZED);
                (Refusal { status, code: None, doubt }, Err(*refused))
            }
            error => {
                let is_of_session = matches!(error, LinkError::Protocol(_) | LinkError::Unreadable { .. })
                    || matches!(&error, LinkError::Status(refusal) if refusal.status == StatusCode::INTERNAL_SERVER_ERROR);
                return if is_of_session { self.fail_weakly(Err(error), request).await } else { Err(error) };
            }
        };
        self.settle(&refusal, answer, request).await
    }

    /// Turns an error of JSON-RPC into a lost session, if that is its cause.
    pub(super) async fn decide_refused(
        &self,
        error: Payload,
        request: &Request<'_>,
    ) -> Result<RpcOutcome, LinkError> {
        let doubt = SessionDoubt::read(error.get().as_bytes());
        let refusal = Refusal::of_error(None, Some(&*error), doubt);
        let has_session = self.can_lose_session() || (self.is_initialized() && doubt.speaks_of_start);
        let answer = Ok(RpcOutcome::Error(error));
        if !has_session {
            self.serve();
            return answer;
        }
        if refusal.is_of_server() {
            return self.settle(&refusal, answer, request).await;
        }
        if refusal.code == Some(codes::INTERNAL_ERROR) {
            return self.fail_weakly(answer, request).await;
        }
        self.serve();
        answer
    }

    /// Asks by a ping whether a refusal is about the session.
    async fn settle(
        &self,
        refusal: &Refusal,
        answer: Result<RpcOutcome, LinkError>,
        request: &Request<'_>,
    ) -> Result<RpcOutcome, LinkError> {
        let ping = self.ping(request).await;
        match refusal.judge(ping) {
            SessionState::LostBefore => Err(LinkError::session_lost(answer)),
            SessionState::Lost => self.give_up(answer, request),
            SessionState::Known if matches!(ping, Ping::Alive) => {
                self.serve();
                answer
            }
            SessionState::Known => self.fail_weakly(answer, request).await,
        }
    }

    /// Counts a failure that may have any cause. Several in a row on a session, where pings fail too and a
    /// fresh session works, are its loss.
    async fn fail_weakly(
        &self,
        answer: Result<RpcOutcome, LinkError>,
        request: &Request<'_>,
    ) -> Result<RpcOutcome, LinkError> {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let is_due = failures >= FAILURES_IN_A_ROW && failures.is_power_of_two();
        if !is_due || !self.can_lose_session() || matches!(self.ping(request).await, Ping::Alive) {
            return answer;
        }
        if self.opens_another(request).await { self.give_up(answer, request) } else { answer }
    }

    /// Gives the session up, so that the next request opens another. This one is repeated if its caller
    /// allows that it is executed twice.
    fn give_up(
        &self,
        answer: Result<RpcOutcome, LinkError>,
        request: &Request<'_>,
    ) -> Result<RpcOutcome, LinkError> {
        if request.idempotent {
            return Err(LinkError::session_lost(answer));
        }
        tracing::info!("the server does not know the session any more; the next request opens another");
        self.session_lost.store(true, Ordering::Relaxed);
        self.channel.closed.cancel();
        answer
    }

    async fn ping(&self, request: &Request<'_>) -> Ping {
        let nothing = OwnedParams::empty();
        let credentials = request.credentials.clone();
        let ping = Request { credentials, ..Request::new(methods::PING, &nothing) };
        let answer = self.channel.exchange(self.server.revision, &ping, None);
        let refusal = match timeout(PROBE_TIMEOUT, answer).await {
            Ok(Ok(RpcOutcome::Error(error))) => {
                Refusal::of_error(None, Some(&*error), SessionDoubt::read(error.get().as_bytes()))
            }
            Ok(Err(LinkError::SessionInDoubt { status, error, doubt, .. })) => {
                Refusal::of_error(Some(status), error.as_deref(), doubt)
            }
            Ok(Err(LinkError::RefusedInDoubt { doubt, .. })) => {
                Refusal { status: Some(StatusCode::UNAUTHORIZED), code: None, doubt }
            }
            Ok(Err(LinkError::Protocol(_) | LinkError::Unreadable { .. })) => return Ping::Failed,
            Ok(Err(LinkError::Status(refusal))) if refusal.status == StatusCode::INTERNAL_SERVER_ERROR => {
                return Ping::Failed;
            }
            Ok(Ok(_) | Err(_)) | Err(_) => return Ping::Alive,
        };
        // A server that does not know the method has looked at it.
        match refusal.code {
            Some(codes::METHOD_NOT_FOUND | codes::INVALID_PARAMS) if !refusal.doubt.speaks_of_session => {
                Ping::Alive
            }
            _ => Ping::Refused(refusal),
        }
    }

    /// True if the server opens another session, which answers a ping. It is ended at once.
    async fn opens_another(&self, request: &Request<'_>) -> bool {
        let Link::Http(http) = &self.channel.link else { return false };
        let closed = CancellationToken::new();
        let inbound = Arc::clone(&self.channel.inbound);
        let link =
            Link::Http(http.sibling(Arc::clone(&inbound), closed.clone(), request.credentials.clone()));
        let client_info = self.channel.client_info.clone();
        let fresh = Channel { link, inbound, client_info, closed, is_listening: AtomicBool::new(false) };
        let opened = async {
            let server = era::introduce(&fresh, Revision::LATEST_LEGACY, &fresh.client_info, "{}").await?;
            fresh.exchange(server.revision, &Request::new(methods::PING, &OwnedParams::empty()), None).await
        };
        let opened = timeout(PROBE_TIMEOUT, opened).await;
        let works = match &opened {
            Ok(Ok(RpcOutcome::Error(error))) => {
                matches!(
                    Refusal::of_error(None, Some(&**error), SessionDoubt::default()).code,
                    Some(codes::METHOD_NOT_FOUND)
                )
            }
            Ok(Ok(_)) => true,
            Ok(Err(_)) | Err(_) => false,
        };
        fresh.link.close().await;
        works
    }
}

/// The refusal that a request in doubt got.
fn refused(
    status: StatusCode,
    error: Option<Box<RawValue>>,
    said: ServerWords,
) -> Result<RpcOutcome, LinkError> {
    let refusal = || Err(LinkError::Status(HttpRefusal::new(status, &HeaderMap::new(), said)));
    error.map_or_else(refusal, |error| Ok(RpcOutcome::Error(error.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: Option<u16>, code: Option<i64>, text: &str) -> Refusal {
        let status = status.map(|status| StatusCode::from_u16(status).unwrap());
        Refusal { status, code, doubt: SessionDoubt::read(text.as_bytes()) }
    }

    #[test]
    fn a_ping_that_is_refused_alike_tells_that_the_request_was_not_executed() {
        use SessionState::{Known, Lost, LostBefore};
        let unknown = "session not found";
        let of = |status, code, text| refusal(status, code, text);
        for (request, ping, state) in [
            (
                of(Some(400), Some(-32000), "not initialized"),
                of(Some(400), Some(-32000), "not initialized"),
                LostBefore,
            ),
            (of(Some(400), None, "bad argument"), of(Some(404), None, ""), LostBefore),
            (of(Some(400), None, "bad argument 7"), of(Some(400), None, "no method ping"), Known),
            (of(Some(400), None, "request 7 refused"), of(Some(400), None, "request 8 refused"), LostBefore),
            (of(Some(500), None, unknown), of(Some(500), None, unknown), LostBefore),
            (of(Some(500), None, "the session crashed"), of(Some(404), None, ""), Lost),
            (of(None, Some(-32000), unknown), of(None, Some(-32000), unknown), LostBefore),
            (of(None, Some(-32000), "boom"), of(None, Some(-32001), unknown), Lost),
            (of(None, Some(-32002), "no such resource"), of(None, Some(-32000), "cannot ping"), Known),
        ] {
            assert_eq!(request.judge(Ping::Refused(ping)), state, "{request:?} {ping:?}");
            assert_eq!(request.judge(Ping::Alive), Known);
            assert_eq!(request.judge(Ping::Failed), Known);
        }
    }

    #[test]
    fn errors_about_the_request_alone_ask_for_no_ping() {
        for (code, text, asks) in [
            (-32602, "invalid arguments", false),
            (-32601, "no such method", false),
            (-32602, "received request before initialization was complete", true),
            (-32600, "invalid request", true),
            (-32002, "not found", false),
            (-32002, "Server not initialized", true),
            (-32005, "unknown client", true),
        ] {
            assert_eq!(refusal(None, Some(code), text).is_of_server(), asks, "{code} {text}");
        }
    }
}
