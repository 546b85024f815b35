//! Reads answers: the HTTP response to a request, as JSON or as a stream of server-sent events.

use std::sync::atomic::Ordering;

use http::header::{HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use serde_json::value::RawValue;
use tokio::time::sleep;
use vmcp_json::byte_rope::ByteRope;
use vmcp_json::decimal::Decimal;
use vmcp_json::object::Object;
use vmcp_wire::envelope::{EnvelopeError, Message};
use vmcp_wire::era::Era;
use vmcp_wire::lists::pages::{List, absent_result};
use vmcp_wire::payload::{self, LooseReply, ScanError, ScannedKeys, Scanner};
use vmcp_wire::{codes, methods};

use super::Http;
use super::begun_answer::{BegunAnswer, ReceivedAnswer};
use super::headers::LAST_EVENT;
use super::resumption::Resumptions;
use crate::http_client::ResponseBody;
use crate::request::{Request, RpcOutcome};
use crate::transport::body::{self, Answer, AnswerSource, Events};
use crate::transport::endpoint::{SentProof, is_event_stream};
use crate::transport::link_error::{self, HttpRefusal, LinkError, ServerWords, SessionDoubt};

/// Messages of one batch that are read; further ones are left out.
pub(super) const MAX_BATCH: usize = 1000;
/// Characters of an event's name in the log.
const MAX_EVENT_NAME: usize = 40;

/// An answer in which the scanner found none to the request.
struct UnusualAnswer<'a> {
    id: u64,
    method: &'a str,
    era: Era,
    status: StatusCode,
    headers: &'a HeaderMap,
    bytes: &'a [u8],
}

/// Events of one stream that are not messages.
struct Skipped {
    proof: Option<SentProof>,
    /// Beginning of the last one.
    last: Option<ServerWords>,
}

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
        let (mut parts, mut body) = response.into_parts();
        let status = parts.status;
        let proof = parts.extensions.remove();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let beginning = body::beginning(body).await;
            let refused = LinkError::refused(status, &parts.headers, self.words(&beginning, proof.as_ref()));
            // Some servers refuse a session that they do not know as they refuse credentials.
            let doubt = SessionDoubt::read(&beginning);
            if self.has_session() && doubt.speaks_of_session {
                return Err(LinkError::RefusedInDoubt { refused: Box::new(refused), doubt });
            }
            return Err(refused);
        }
        let ours = Decimal::new(id);
        let begun_for = request.stream.then_some(ours.as_str());
        if status.is_success() && is_event_stream(&parts.headers) {
            // Boxed: a JSON answer does not carry the state of reading events.
            let skipped = Skipped { proof, last: None };
            return Box::pin(self.stream(id, Events::new(body, &self.0.limits), begun_for, skipped)).await;
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
            Ok(found) if status.is_success() => match payload::reply(pieces, found, ours.as_str()) {
                Ok(reply) => return Ok(ReceivedAnswer::Whole(reply.into())),
                Err(pieces) => pieces.into_bytes(),
            },
            Ok(_) | Err(_) => pieces.into_bytes(),
        };
        let unusual = UnusualAnswer { id, method, era, status, headers: &parts.headers, bytes: &bytes };
        Box::pin(self.unusual_answer(unusual, proof.as_ref())).await.map(ReceivedAnswer::Whole)
    }

    /// Says what an answer is in which the scanner found none to this request: rare, so a full parse may.
    async fn unusual_answer(
        &self,
        answer: UnusualAnswer<'_>,
        proof: Option<&SentProof>,
    ) -> Result<RpcOutcome, LinkError> {
        let UnusualAnswer { id, method, era, status, headers, bytes } = answer;
        let message = Message::parse(bytes);
        let names_us = is_about(id, &message);
        let in_doubt = match era {
            Era::Legacy => method != methods::INITIALIZE && self.may_miss_session(status, names_us, bytes),
            Era::Modern => method != methods::DISCOVER && may_miss_era(status, names_us, &message),
        };
        if in_doubt {
            let error = match &message {
                Ok(Message::Error(error)) => Some(error.error.to_owned()),
                _ => None,
            };
            let (doubt, said) = (SessionDoubt::read(bytes), self.words(bytes, proof));
            return Err(LinkError::SessionInDoubt { status, error, doubt, said });
        }
        match &message {
            Ok(Message::Response(response))
                if status.is_success() && payload::request_number(response.id.get()) == Some(id) =>
            {
                return Ok(RpcOutcome::result(response.result));
            }
            Ok(Message::Error(error)) => return Ok(RpcOutcome::error(error.error)),
            _ => {}
        }
        let said = self.words(&link_error::telling(status, headers, bytes), proof);
        if !status.is_success() {
            return Err(LinkError::Status(HttpRefusal::new(status, headers, said)));
        }
        if let Some(absent) = absent_list(id, method, bytes).filter(|_| message.is_err()) {
            return Ok(RpcOutcome::result(absent));
        }
        if let Some(outcome) = self.batched_answer(id, bytes).await {
            return Ok(outcome);
        }
        match payload::loose_reply(bytes) {
            // The only answer on this response: it needs no id.
            Some(LooseReply { id: named, reply: Some(reply) }) if named.is_none_or(|named| named == id) => {
                Ok(reply.into())
            }
            _ => Err(LinkError::Unreadable { reason: fault(bytes), said }),
        }
    }

    /// Takes the messages of a JSON-RPC batch; returns the answer to request `id`, if it is among them.
    async fn batched_answer(&self, id: u64, bytes: &[u8]) -> Option<RpcOutcome> {
        let mut answer = None;
        for message in payload::batch(bytes).unwrap_or_default().into_iter().take(MAX_BATCH) {
            let bytes = message.get().as_bytes();
            match Message::parse(bytes) {
                Ok(message @ (Message::Notification(_) | Message::Request(_))) => {
                    self.handle_aside(&message, bytes, id).await;
                }
                _ => answer = answer.or_else(|| answer_to(id, bytes)?.ok()),
            }
        }
        answer
    }

    /// Returns what a server said, without the secrets that it was sent.
    pub(in crate::transport) fn words(&self, bytes: &[u8], proof: Option<&SentProof>) -> ServerWords {
        let opening = self.0.proof.load();
        let proof = proof.or(opening.as_deref());
        let mut secrets = self.0.endpoint.secrets(self.0.inbound.secrets.load_full(), proof);
        secrets.add_headers(&self.session_headers());
        ServerWords::new(bytes, &secrets)
    }

    /// Skips an event that is not a message. The first of a connection is worth a line, not a warning: some
    /// servers keep their streams alive by such events.
    pub(super) fn skip(&self, name: Option<&str>, bytes: &[u8], proof: Option<&SentProof>) -> ServerWords {
        let words = self.words(bytes, proof);
        let (event, start) = (name.unwrap_or("message"), words.as_str());
        let event: String = event.chars().take(MAX_EVENT_NAME).collect();
        if self.0.skipped.swap(true, Ordering::Relaxed) {
            tracing::debug!(event, start, "skipped an event that is no message");
        } else {
            let text = "skipped an event that is no message; further ones are logged at debug level";
            tracing::info!(event, start, "{text}");
        }
        words
    }

    /// True if the server may not know the session: a ping tells. The specification wants 404; servers answer
    /// 400, 409, 410, 422 or 500, and some name the request. A 404 that names the request and no session is
    /// about something else that was not found.
    fn may_miss_session(&self, status: StatusCode, names_us: bool, bytes: &[u8]) -> bool {
        let doubt = || SessionDoubt::read(bytes);
        // Without an id, a server that was restarted still wants to be initialized first.
        if !self.has_session() {
            return self.0.revision.get().is_some() && !status.is_success() && doubt().speaks_of_start;
        }
        match status.as_u16() {
            404 => !names_us || doubt().speaks_of_session,
            // Limits, sizes, media types and payments are about the request.
            402 | 403 | 407 | 408 | 413 | 414 | 415 | 421 | 426 | 429 | 431 | 451 => false,
            400..500 => true,
            500..600 => doubt().speaks_of_session,
            _ => false,
        }
    }

    /// Reads a stream until the answer to request `id`. A legacy server may end a stream early and have it
    /// continued after the last event (specification 2025-11-25, "Resumability").
    async fn stream(
        &self,
        id: u64,
        events: Events,
        begun_for: Option<&str>,
        mut skipped: Skipped,
    ) -> Result<ReceivedAnswer, LinkError> {
        let mut events = Box::new(events);
        let mut last_event = None;
        let mut resumptions = Resumptions::default();
        loop {
            let ended =
                match self.until_answer(id, &mut events, &mut last_event, begun_for, &mut skipped).await {
                    Ok(Step::Answer(outcome)) => {
                        events.drain();
                        return Ok(ReceivedAnswer::Whole(outcome));
                    }
                    Ok(Step::Begun(scanner, so_far)) => {
                        let source = AnswerSource::Event(events);
                        return Ok(ReceivedAnswer::Begun(BegunAnswer { scanner, so_far, source }));
                    }
                    Ok(Step::End) => {
                        let detail = "the stream ended before the answer";
                        let last = skipped.last.take().filter(|last| !last.is_empty());
                        let brought = last.map(|last| format!("; it brought{last}")).unwrap_or_default();
                        LinkError::Closed { detail: format!("{detail}{brought}") }
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
        skipped: &mut Skipped,
    ) -> Result<Step, LinkError> {
        while events.begin().await? {
            let (data, scanned) = match body::read(events, &self.0.limits, begun_for).await? {
                Answer::Whole(data, scanned) => (data, scanned),
                Answer::Begun(scanner, so_far) => return Ok(Step::Begun(scanner, so_far)),
            };
            if let Some(event_id) = events.id() {
                *last_event = HeaderValue::from_str(event_id).ok().filter(|id| !id.is_empty());
            }
            if let Some(outcome) = self.event(id, data, scanned, events.name(), skipped).await? {
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
        name: Option<&str>,
        skipped: &mut Skipped,
    ) -> Result<Option<RpcOutcome>, LinkError> {
        if data.is_empty() {
            return Ok(None);
        }
        let data = match scanned {
            Ok(found) => match payload::reply(data, found, Decimal::new(id).as_str()) {
                Ok(reply) => return Ok(Some(reply.into())),
                Err(data) => data,
            },
            Err(_) => data,
        };
        let bytes = &*data.into_bytes();
        match Message::parse(bytes) {
            Ok(Message::Error(error)) if error.id.is_none() => Ok(Some(RpcOutcome::error(error.error))),
            Ok(message @ (Message::Notification(_) | Message::Request(_))) => {
                self.handle_aside(&message, bytes, id).await;
                Ok(None)
            }
            read => match answer_to(id, bytes) {
                Some(Ok(outcome)) => Ok(Some(outcome)),
                // The answer, and unreadable: no better one will come.
                Some(Err(reason)) => {
                    let said = self.words(bytes, skipped.proof.as_ref());
                    Err(LinkError::Unreadable { reason, said })
                }
                None => {
                    let answer = Box::pin(self.batched_answer(id, bytes)).await;
                    if answer.is_none() && read.is_err() && payload::batch(bytes).is_none() {
                        skipped.last = Some(self.skip(name, bytes, skipped.proof.as_ref()));
                    }
                    Ok(answer)
                }
            },
        }
    }

    /// Takes a notification or a request that came on the stream of request `id`.
    async fn handle_aside(&self, message: &Message<'_>, bytes: &[u8], id: u64) {
        match message {
            Message::Notification(notification) => {
                if let Some(delivery) = self.0.inbound.notification(notification, bytes, Some(id)) {
                    delivery.send().await;
                }
            }
            Message::Request(request) => self.handle_request(request, Some(id)).await,
            Message::Response(_) | Message::Error(_) => {}
        }
    }
}

/// Returns the result of an answer that lists nothing by `null` or `[]`.
fn absent_list<'a>(id: u64, method: &str, answer: &'a [u8]) -> Option<&'a RawValue> {
    List::of_method(method).and_then(|_| absent_result(answer, Decimal::new(id).as_str()))
}

/// Reads a message that answers request `id`, leniently; `Err`: it is that answer, and unreadable for this
/// reason.
fn answer_to(id: u64, bytes: &[u8]) -> Option<Result<RpcOutcome, &'static str>> {
    let LooseReply { id: named, reply } = payload::loose_reply(bytes).filter(|read| read.id == Some(id))?;
    debug_assert_eq!(named, Some(id));
    Some(reply.map(Into::into).ok_or_else(|| fault(bytes)))
}

/// Returns what is wrong with an answer that cannot be read.
fn fault(bytes: &[u8]) -> &'static str {
    let text = bytes.trim_ascii();
    let object = || serde_json::from_slice::<&RawValue>(text).ok().and_then(|raw| Object::parse(raw).ok());
    if text.is_empty() {
        return "a request was answered without a body";
    }
    if text.starts_with(b"<") {
        return "the answer is a page, not JSON";
    }
    match (serde_json::from_slice::<&RawValue>(text), object()) {
        (Err(_), _) => "the answer is not JSON",
        (Ok(_), Some(object)) if object.get("result").is_some() && object.get("id").is_some() => {
            match object.text("result") {
                Some(result) if result.starts_with('{') => "the answer is not the response to our request",
                _ => "the answer has no object as its result",
            }
        }
        (Ok(_), _) => "the answer is no JSON-RPC message",
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
    id.is_some_and(|id| payload::request_number(id.get()) == Some(request))
}
