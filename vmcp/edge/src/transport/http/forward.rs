//! Forwarding to another replica: an answer, a retry or a resumption goes to the process that has what it
//! belongs to.
//!
//! The address comes out of the id that the client hands back, in which only vmcp can have sealed it. The
//! request goes on as it came, under a header sealed with the session key that tells the client's address and
//! keeps a request from being forwarded twice. Whatever cannot be reached is refused as without an address,
//! and so is an address at which no replica [proves itself](replica_proof).

pub(crate) mod replica_proof;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use vmcp_json::text;
use vmcp_wire::era::Era;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedMessage;
use vmcp_wire::sealed::KeyRing;

use super::call_streams;
use super::client_body::ClientBody;
use super::exchange::Response;
use crate::request::arriving_response::BrokenOff;
use crate::request::edge::Edge;
use crate::session::keys;
use crate::session::peer::Peer;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::random::{now, random};

/// Time to connect to another replica; beyond it the request is refused as if the replica had no address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Header of a forwarded request: the client's address, sealed.
const FORWARDED: HeaderName = HeaderName::from_static("vmcp-forwarded");
/// Purpose of the sealed value of [`FORWARDED`].
const CONTEXT: &[u8] = b"forwarded request";
/// Seconds for which that value is good.
const LIFETIME_SECS: u64 = 60;

/// Returns the address of the client whose request another replica forwarded.
pub(crate) fn forwarded_from(ring: &KeyRing, head: &Parts) -> Option<IpAddr> {
    let sealed = head.headers.get(FORWARDED)?.to_str().ok()?;
    let opened = ring.open(sealed, CONTEXT, now()).ok()?;
    std::str::from_utf8(&opened.content).ok()?.parse().ok()
}

/// Returns the address of the process that has what a message belongs to, if it is another one.
pub(super) fn home_of(edge: &Edge, peer: &Peer, message: &OwnedMessage) -> Option<SocketAddr> {
    let id = match message {
        OwnedMessage::Request(request) => {
            let resumes = peer.era == Era::Modern && methods::may_require_input(request.method());
            return resumes.then(|| edge.parked_elsewhere(&peer.principal, request)).flatten();
        }
        OwnedMessage::Response(response) => response.id(),
        OwnedMessage::Error(error) => error.id()?,
        OwnedMessage::Notification(_) => return None,
    };
    let id = text::unquoted(id.get())?;
    keys::open_home(&edge.ring(), edge.questions.home_elsewhere(&id)?, now())
}

/// Sends a GET on to the process that has the stream of the event `last`; `None` without such a
/// process, or if it cannot be reached.
pub(super) async fn resumption(
    edge: &Edge,
    head: &Parts,
    last: &str,
    principal: &Principal,
) -> Option<Response> {
    let ring = edge.ring();
    if forwarded_from(&ring, head).is_some() {
        return None;
    }
    send(edge, call_streams::home_of(&ring, last)?, head, Bytes::new(), principal).await
}

/// Sends a request on to the process at `home`, and returns its answer; `None` if it cannot be reached.
pub(crate) async fn send(
    edge: &Edge,
    home: SocketAddr,
    head: &Parts,
    body: Bytes,
    principal: &Principal,
) -> Option<Response> {
    let answer = timeout(CONNECT_TIMEOUT, TcpStream::connect(home)).await.ok()?;
    let stream =
        answer.inspect_err(|error| tracing::info!(%home, %error, "another replica cannot be reached"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream.ok()?)).await.ok()?;
    // Ends with the answer, or when the client drops it.
    tokio::spawn(async move { drop(connection.await) });
    // HTTP/2 has it in the URI.
    let authority = head.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    let host = head.headers.get(header::HOST).cloned().or(authority);
    if !replica_proof::is_replica(&mut sender, host.as_ref(), &edge.ring(), home).await {
        tracing::warn!(%home, "no replica of this server is at this address; no request was handed on");
        return None;
    }
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.path_and_query()?.as_str().parse().ok()?;
    *request.headers_mut() = head.headers.clone();
    // Headers of one connection do not go on.
    for name in [
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::EXPECT,
        header::UPGRADE,
    ] {
        request.headers_mut().remove(name);
    }
    if let Some(host) = host {
        request.headers_mut().entry(header::HOST).or_insert(host);
    }
    request.headers_mut().insert(FORWARDED, seal(&edge.ring(), principal)?);
    let response = sender.send_request(request).await.ok()?;
    let (answered, body) = response.into_parts();
    // The sender lives as long as the body: without it the connection ends.
    let pieces = futures::stream::unfold((body, sender), async |(mut body, sender)| {
        let piece = body.frame().await?.map(|frame| frame.into_data().unwrap_or_default());
        Some((piece.map_err(|error| BrokenOff(error.to_string())), (body, sender)))
    });
    let mut response = Response::new(ClientBody::events(pieces));
    *response.status_mut() = answered.status;
    for name in [
        header::CONTENT_TYPE,
        header::CACHE_CONTROL,
        header::RETRY_AFTER,
        header::WWW_AUTHENTICATE,
        header::LOCATION,
        header::REFERRER_POLICY,
    ] {
        if let Some(value) = answered.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    edge.engine.metrics().requests_forwarded.inc();
    Some(response)
}

fn seal(ring: &KeyRing, principal: &Principal) -> Option<HeaderValue> {
    let address = principal.address?.to_string();
    HeaderValue::try_from(ring.seal(&random(), address.as_bytes(), CONTEXT, now() + LIFETIME_SECS)).ok()
}
