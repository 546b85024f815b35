//! Reads answers: the HTTP response to a request, as JSON or as a stream of server-sent events.

use http::header::HeaderValue;
use http::{Response, StatusCode};
use tokio::time::sleep;
use vmcp_json::byte_rope::ByteRope;
use vmcp_json::object::Object;
use vmcp_wire::envelope::{EnvelopeError, Message, request_number};
use vmcp_wire::era::Era;
use vmcp_wire::payload::{self, ScanError, ScannedKeys, Scanner};
use vmcp_wire::{codes, methods};

use super::Http;
use super::begun_answer::{BegunAnswer, ReceivedAnswer};
use super::headers::{LAST_EVENT, SESSION};
use super::resumption::Resumptions;
use crate::http_client::ResponseBody;
use crate::request::{Request, RpcOutcome};
use crate::transport::body::{self, Answer, AnswerSource, Events};
use crate::transport::endpoint::is_event_stream;
use crate::transport::link_error::LinkError;

/// A step of reading a stream.
enum Step {
    Answer(RpcOutcome),
    /// The beginning of a large result.
    Begun(Scanner, ByteRope),
    /// The stream has ended.
    End,
}

type Parsed<'a> = Result<Message<'a>, EnvelopeError>;

impl Http {
    /// Reads the answer to request `id` from its HTTP response.
    pub(super) async fn answer(
        &self,
        id: u64,
        request: &Request<'_>,
        era: Era,
        response: Response<ResponseBody>,
    ) -> Result<ReceivedAnswer, LinkError> {
        let method = request.method;
        let (parts, mut body) = response.into_parts();
        let status = parts.status;
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            body::drain(body);
            return Err(LinkError::refused(status, &parts.headers));
        }
        if method == methods::INITIALIZE
            && let Some(session) = parts.headers.get(SESSION)
        {
            self.opened(session);
        }
        let ours = id.to_string();
        let begun_for = request.stream.then_some(&*ours);
        if status.is_success() && is_event_stream(&parts.headers) {
            // Boxed: a JSON answer does not carry the state of reading events.
            return Box::pin(self.stream(id, Events::new(body, &self.0.limits), begun_for)).await;
        }
        let begun_for = begun_for.filter(|_| status.is_success());
        let (pieces, scanned) = match body::read(&mut body, &self.0.limits, begun_for).await? {
            Answer::Whole(pieces, scanned) => (pieces, scanned),
            Answer::Begun(scanner, so_far) => {
                let source = AnswerSource::Body(body);
                return Ok(ReceivedAnswer::Begun(BegunAnswer { scanner, so_far, source }));
            }
        };
        let bytes = match scanned {
            Ok(found) if status.is_success() => match payload::reply(pieces, found, &ours) {
                Ok(reply) => return Ok(ReceivedAnswer::Whole(reply.into())),
                Err(pieces) => pieces.into_bytes(),
            },
            Ok(_) | Err(_) => pieces.into_bytes(),
        };
        self.unusual_answer(id, method, era, status, &bytes).map(ReceivedAnswer::Whole)
    }

    /// Says what an answer is in which the scanner found none to this request: rare, so a full parse may.
    fn unusual_answer(
        &self,
        id: u64,
        method: &str,
        era: Era,
        status: StatusCode,
        bytes: &[u8],
    ) -> Result<RpcOutcome, LinkError> {
        let message = Message::parse(bytes);
        let names_us = is_about(id, &message);
        let in_doubt = match era {
            Era::Legacy => self.0.session.get().is_some() && may_miss_session(status, names_us, bytes),
            Era::Modern => method != methods::DISCOVER && may_miss_era(status, names_us, &message),
        };
        if in_doubt {
            let error = match &message {
                Ok(Message::Error(error)) if names_us => Some(error.error.to_owned()),
                _ => None,
            };
            return Err(LinkError::SessionInDoubt { status, error });
        }
        match message {
            Ok(Message::Response(response))
                if status.is_success() && request_number(response.id) == Some(id) =>
            {
                Ok(RpcOutcome::result(response.result))
            }
            Ok(Message::Error(error)) => Ok(RpcOutcome::error(error.error)),
            _ if !status.is_success() => Err(LinkError::Status(status)),
            Ok(_) => Err(LinkError::Protocol("the answer is not the response to our request".to_owned())),
            Err(_) if bytes.is_empty() => {
                Err(LinkError::Protocol("a request was answered without a body".to_owned()))
            }
            Err(error) => Err(LinkError::Protocol(error.to_string())),
        }
    }

    /// Reads a stream until the answer to request `id`. A legacy server may end a stream early and have it
    /// continued after the last event (specification 2025-11-25, "Resumability").
    async fn stream(
        &self,
        id: u64,
        events: Events,
        begun_for: Option<&str>,
    ) -> Result<ReceivedAnswer, LinkError> {
        let mut events = Box::new(events);
        let mut last_event = None;
        let mut resumptions = Resumptions::default();
        loop {
            let ended = match self.until_answer(id, &mut events, &mut last_event, begun_for).await {
                Ok(Step::Answer(outcome)) => {
                    events.drain();
                    return Ok(ReceivedAnswer::Whole(outcome));
                }
                Ok(Step::Begun(scanner, so_far)) => {
                    let source = AnswerSource::Event(events);
                    return Ok(ReceivedAnswer::Begun(BegunAnswer { scanner, so_far, source }));
                }
                Ok(Step::End) => {
                    LinkError::Closed { detail: "the stream ended before the answer".to_owned() }
                }
                Err(error) => error,
            };
            if let LinkError::Flood { .. } = &ended {
                self.0.inbound.floods.record(&ended.detail());
            }
            let resumable = matches!(ended, LinkError::Closed { .. }) && self.0.revision.get().is_some();
            let Some(last) = last_event.as_ref().filter(|_| resumable) else { return Err(ended) };
            let Some(pause) = resumptions.next_pause(events.any(), events.retry()) else { return Err(ended) };
            sleep(pause).await;
            let mut headers = self.session_headers();
            headers.insert(LAST_EVENT, HeaderValue::clone(last));
            let response = self.0.endpoint.get_events(headers).await.map_err(|_| ended.clone())?;
            if !response.status().is_success() || !is_event_stream(response.headers()) {
                return Err(ended);
            }
            events = Box::new(Events::new(response.into_body(), &self.0.limits));
        }
    }

    async fn until_answer(
        &self,
        id: u64,
        events: &mut Events,
        last_event: &mut Option<HeaderValue>,
        begun_for: Option<&str>,
    ) -> Result<Step, LinkError> {
        while events.begin().await? {
            let (data, scanned) = match body::read(events, &self.0.limits, begun_for).await? {
                Answer::Whole(data, scanned) => (data, scanned),
                Answer::Begun(scanner, so_far) => return Ok(Step::Begun(scanner, so_far)),
            };
            if let Some(event_id) = events.id() {
                *last_event = HeaderValue::from_str(event_id).ok().filter(|id| !id.is_empty());
            }
            if let Some(outcome) = self.event(id, data, scanned).await? {
                return Ok(Step::Answer(outcome));
            }
        }
        Ok(Step::End)
    }

    /// Handles one event of the stream that belongs to request `id`; returns the outcome if it is the answer.
    async fn event(
        &self,
        id: u64,
        data: ByteRope,
        scanned: Result<ScannedKeys, ScanError>,
    ) -> Result<Option<RpcOutcome>, LinkError> {
        if data.is_empty() {
            return Ok(None);
        }
        let data = match scanned {
            Ok(found) => match payload::reply(data, found, &id.to_string()) {
                Ok(reply) => return Ok(Some(reply.into())),
                Err(data) => data,
            },
            Err(_) => data,
        };
        let bytes = &*data.into_bytes();
        match Message::parse(bytes).map_err(|error| LinkError::Protocol(error.to_string()))? {
            Message::Response(response) if request_number(response.id) == Some(id) => {
                Ok(Some(RpcOutcome::result(response.result)))
            }
            Message::Error(error) if error.id.is_none_or(|of| request_number(of) == Some(id)) => {
                Ok(Some(RpcOutcome::error(error.error)))
            }
            Message::Notification(notification) => {
                if let Some(delivery) = self.0.inbound.notification(&notification, bytes, Some(id)) {
                    delivery.send().await;
                }
                Ok(None)
            }
            Message::Request(request) => {
                self.handle_request(&request, Some(id)).await;
                Ok(None)
            }
            Message::Response(_) | Message::Error(_) => Ok(None),
        }
    }
}

/// True if the server may not know the session. The specification wants 404; some servers answer 400 and say
/// it in words; some name the request, some another id. A 404 that names the request and no session is about
/// something else that was not found.
fn may_miss_session(status: StatusCode, names_us: bool, bytes: &[u8]) -> bool {
    match status {
        StatusCode::NOT_FOUND => !names_us || says(bytes, "session"),
        StatusCode::BAD_REQUEST => !names_us && says(bytes, "session"),
        _ => false,
    }
}

/// True if the server may not be modern any more. Modern servers refuse with 400 too, but name the request;
/// one that has become a legacy server does not, or refuses the revision.
fn may_miss_era(status: StatusCode, names_us: bool, message: &Parsed<'_>) -> bool {
    status == StatusCode::BAD_REQUEST && (!names_us || refuses_revision(message))
}

fn refuses_revision(message: &Parsed<'_>) -> bool {
    let Ok(Message::Error(error)) = message else { return false };
    let code = Object::parse(error.error).ok().and_then(|error| error.text("code")?.parse().ok());
    code == Some(codes::UNSUPPORTED_PROTOCOL_VERSION)
}

fn is_about(request: u64, message: &Parsed<'_>) -> bool {
    let id = message.as_ref().ok().and_then(Message::id);
    id.is_some_and(|id| request_number(id) == Some(request))
}

/// True if the first 500 bytes of an error's body hold `words`, which are in lower case.
fn says(bytes: &[u8], words: &str) -> bool {
    String::from_utf8_lossy(bytes.get(..500).unwrap_or(bytes)).to_ascii_lowercase().contains(words)
}
