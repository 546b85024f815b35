//! Proof that a replica of this server is at an address: it seals a challenge and its own address with the
//! session key, before it gets the credentials of a client. A cluster gives the address of a pod that is gone
//! to another one, which may be a stranger's.
//!
//! The address in the proof keeps a stranger from handing the challenge on to a true replica.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::SendRequest;
use tokio::time::timeout;
use vmcp_wire::sealed::KeyRing;

use crate::transport::http::exchange::Response;
use crate::transport::http::respond;
use vmcp_engine::engine::Snapshot;
use vmcp_engine::random::{now, random};

/// Path at which a replica proves itself.
const PATH: &str = "/.well-known/vmcp-replica";
/// Header of the challenge.
const CHALLENGE: HeaderName = HeaderName::from_static("vmcp-challenge");
/// Characters of a challenge: 16 random bytes in hexadecimal digits.
const CHALLENGE_CHARS: usize = 32;
/// Purpose of the sealed proof.
const CONTEXT: &[u8] = b"replica at an address";
/// Seconds for which a proof is good.
const LIFETIME_SECS: u64 = 60;
/// Most bytes of a proof.
const MAX_PROOF_BYTES: usize = 1024;
/// Time for the proof.
const PROOF_TIMEOUT: Duration = Duration::from_secs(3);

/// Answers a challenge; `None` for any other request, and in a process that other replicas do not reach.
pub(crate) fn answer(head: &Parts, snapshot: &Snapshot) -> Option<Response> {
    if head.method != Method::GET || head.uri.path() != PATH {
        return None;
    }
    let challenge = head.headers.get(&CHALLENGE)?.to_str().ok()?;
    let server = &snapshot.config.server;
    let address = server.peer_address.filter(|_| !server.session_keys.is_empty())?;
    if challenge.len() != CHALLENGE_CHARS {
        return None;
    }
    let proof = seal(&snapshot.ring(), challenge, address);
    Some(respond::json_text(StatusCode::OK, format!("\"{proof}\"")))
}

/// Returns true if a replica with the same session keys is at the other end of a connection to `address`.
/// `host` is the host that clients name.
pub(super) async fn is_replica(
    sender: &mut SendRequest<Full<Bytes>>,
    host: Option<&HeaderValue>,
    ring: &KeyRing,
    address: SocketAddr,
) -> bool {
    let challenge = hex::encode(random::<16>());
    let proof = timeout(PROOF_TIMEOUT, ask(sender, host, &challenge)).await.ok().flatten();
    proof.is_some_and(|proof| proves(ring, &proof, &challenge, address))
}

async fn ask(
    sender: &mut SendRequest<Full<Bytes>>,
    host: Option<&HeaderValue>,
    challenge: &str,
) -> Option<String> {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.uri_mut() = Uri::from_static(PATH);
    request.headers_mut().insert(CHALLENGE, HeaderValue::try_from(challenge).ok()?);
    if let Some(host) = host {
        request.headers_mut().insert(header::HOST, host.clone());
    }
    let answered = sender.send_request(request).await.ok()?;
    let body = Limited::new(answered.into_body(), MAX_PROOF_BYTES).collect().await.ok()?.to_bytes();
    // The connection takes the next request once the answer was read.
    sender.ready().await.ok()?;
    Some(std::str::from_utf8(&body).ok()?.trim_matches('"').to_owned())
}

fn seal(ring: &KeyRing, challenge: &str, address: SocketAddr) -> String {
    let expires = now().saturating_add(LIFETIME_SECS);
    ring.seal(&random(), content(challenge, address).as_bytes(), CONTEXT, expires)
}

fn proves(ring: &KeyRing, proof: &str, challenge: &str, address: SocketAddr) -> bool {
    let opened = ring.open(proof, CONTEXT, now());
    opened.is_ok_and(|opened| opened.content == content(challenge, address).as_bytes())
}

fn content(challenge: &str, address: SocketAddr) -> String {
    format!("{challenge} {address}")
}

#[cfg(test)]
mod tests {
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use vmcp_engine::testing::{KEYWORDS, engine};

    use super::*;

    fn ring(secret: &str) -> KeyRing {
        KeyRing::from_secrets([secret]).unwrap()
    }

    /// Asks a server for its proof that answers a challenge with the text of `proof`; returns also the head
    /// that the server got.
    async fn asked(proof: impl Fn(&str, SocketAddr) -> String + Send + 'static) -> (bool, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 2048];
            let length = socket.read(&mut head).await.unwrap();
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let challenge = head.split_once("vmcp-challenge: ").unwrap().1.split("\r\n").next().unwrap();
            let body = proof(challenge, address);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            socket.write_all(answer.as_bytes()).await.unwrap();
            // Stays open, as that of a replica.
            let _ = socket.read(&mut [0; 1]).await;
            head
        });
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        let host = HeaderValue::from_static("tools.example");
        let is_replica =
            is_replica(&mut sender, Some(&host), &ring("a key of enough characters"), address).await;
        drop(sender);
        (is_replica, serving.await.unwrap())
    }

    #[tokio::test]
    async fn a_stranger_at_the_address_of_a_replica_proves_nothing() {
        let own = || ring("a key of enough characters");
        let (is_replica, head) =
            asked(move |challenge, address| format!("\"{}\"", seal(&own(), challenge, address))).await;
        assert!(is_replica && head.starts_with("GET /.well-known/vmcp-replica HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("host: tools.example"), "{head}");
        let elsewhere: SocketAddr = "10.0.0.9:4483".parse().unwrap();
        let handed_on = asked(move |challenge, _| seal(&own(), challenge, elsewhere)).await.0;
        assert!(!handed_on, "the proof of a replica elsewhere");
        let old = asked(move |_, address| seal(&own(), &"0".repeat(CHALLENGE_CHARS), address)).await.0;
        assert!(!old, "the proof of another time");
        let other = ring("another key, just as long");
        assert!(!asked(move |challenge, address| seal(&other, challenge, address)).await.0);
        assert!(!asked(|_, _| "x".repeat(10_000)).await.0);
        assert!(!asked(|challenge, _| challenge.to_owned()).await.0);
    }

    #[tokio::test]
    async fn a_replica_proves_its_own_address_and_nothing_without_one() {
        let keys = "server: { sessionKeys: [a key of enough characters]";
        let addressed = engine(&format!("{KEYWORDS}{keys}, peerAddress: '10.0.0.5:4483' }}\n")).await;
        let without = engine(&format!("{KEYWORDS}{keys} }}\n")).await;
        let head = |path: &str, challenge: &str| {
            let request = Request::get(path).header(CHALLENGE, challenge);
            request.body(()).unwrap().into_parts().0
        };
        let challenge = "c".repeat(CHALLENGE_CHARS);
        let answered = answer(&head(PATH, &challenge), &addressed.snapshot()).unwrap();
        let body = answered.into_body().collect().await.unwrap().to_bytes();
        let proof = std::str::from_utf8(&body).unwrap().trim_matches('"').to_owned();
        let address = "10.0.0.5:4483".parse().unwrap();
        assert!(proves(&addressed.snapshot().ring(), &proof, &challenge, address));
        assert!(answer(&head(PATH, &challenge), &without.snapshot()).is_none());
        assert!(answer(&head(PATH, "short"), &addressed.snapshot()).is_none());
        assert!(answer(&head("/mcp", &challenge), &addressed.snapshot()).is_none());
    }
}
