//! [`Continuation`]: the state that a modern client carries between two rounds of a request, sealed into
//! `requestState`. It is good for a repeat of the same request by the same identity only, until it expires.

use std::time::Duration;

use sha2::{Digest, Sha256};
use vmcp_json::duplicates;

use crate::message::owned::OwnedParams;
use crate::sealed::{KeyRing, Nonce, OpenError};

/// The most bytes that a backend's own state may have; a larger one cannot be sealed.
pub const MAX_STATE: usize = 256 * 1024;

/// Lifetime of a sealed state: the time that a client has to answer.
pub const STATE_LIFETIME: Duration = Duration::from_mins(10);

const CONTEXT: &[u8] = b"request state";
const VERSION: u8 = 2;
const RELAYED: u8 = 0;
const PARKED: u8 = 1;

/// The receiver of the repeated request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Continuation {
    /// The backend, which keeps what it needs in a state of its own.
    Relayed {
        /// The backend's name.
        backend: String,
        /// The backend's own state.
        state: String,
        /// Names the user's consent to the call, which the process that heard it takes once.
        consent: Option<[u8; 16]>,
    },
    /// A parked call, which waits for the answers in one of vmcp's processes.
    Parked {
        /// The id of the process.
        process: [u8; 8],
        /// The id of the call.
        call: [u8; 16],
        /// The address at which other processes reach it; empty if they do not.
        home: String,
    },
}

/// The identity and the request that a state belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// Digest of the identity that asks.
    pub identity: [u8; 32],
    /// [`digest`] of the request.
    pub request: [u8; 32],
}

/// The reason why a state is refused; answer with -32602.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The text is not a valid token.
    #[error("`requestState`: {0}; repeat the request without requestState and inputResponses")]
    Token(#[from] OpenError),
    /// The token is genuine, but of a form that this version does not read.
    #[error("`requestState` was issued by another version of this server; repeat the request without it")]
    Content,
    /// The state belongs to another identity.
    #[error("`requestState` belongs to another identity")]
    Identity,
    /// The state belongs to another request.
    #[error("`requestState` belongs to another request: method, name and arguments must be the same")]
    Request,
    /// The backend's own state is larger than [`MAX_STATE`].
    #[error("the backend's `requestState` has {length} bytes; the limit is {MAX_STATE}")]
    TooLarge {
        /// Its bytes.
        length: usize,
    },
}

impl Continuation {
    /// Seals the text for the client. `nonce` must be fresh and random; `expires` is in seconds since the
    /// Unix epoch.
    pub fn seal(
        &self,
        ring: &KeyRing,
        nonce: &Nonce,
        to: &Binding,
        expires: u64,
    ) -> Result<String, StateError> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&to.identity);
        out.extend_from_slice(&to.request);
        match self {
            Self::Relayed { backend, state, consent } => {
                if state.len() > MAX_STATE {
                    return Err(StateError::TooLarge { length: state.len() });
                }
                out.push(RELAYED);
                out.push(u8::from(consent.is_some()));
                out.extend_from_slice(&consent.unwrap_or_default());
                out.extend_from_slice(&(backend.len() as u16).to_be_bytes());
                out.extend_from_slice(backend.as_bytes());
                out.extend_from_slice(state.as_bytes());
            }
            Self::Parked { process, call, home } => {
                out.push(PARKED);
                out.extend_from_slice(process);
                out.extend_from_slice(call);
                out.extend_from_slice(home.as_bytes());
            }
        }
        Ok(ring.seal(nonce, &out, CONTEXT, expires))
    }

    /// Opens the text that a client sent back. `now` is in seconds since the Unix epoch.
    pub fn open(ring: &KeyRing, text: &str, from: &Binding, now: u64) -> Result<Self, StateError> {
        let opened = ring.open_long(text, CONTEXT, now)?;
        let (to, continuation) = decode(&opened.content).ok_or(StateError::Content)?;
        if to.identity != from.identity {
            return Err(StateError::Identity);
        }
        if to.request == from.request { Ok(continuation) } else { Err(StateError::Request) }
    }
}

fn decode(opened: &[u8]) -> Option<(Binding, Continuation)> {
    let ([version], rest) = opened.split_first_chunk()?;
    let (identity, rest) = rest.split_first_chunk()?;
    let (request, rest) = rest.split_first_chunk()?;
    let ([kind], rest) = rest.split_first_chunk()?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let continuation = match *kind {
        RELAYED => {
            let ([has_consent], rest) = rest.split_first_chunk()?;
            let (consent, rest) = rest.split_first_chunk()?;
            let consent = (*has_consent == 1).then_some(*consent);
            let (length, rest) = rest.split_first_chunk()?;
            let (backend, state) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
            Continuation::Relayed { backend: text(backend)?, state: text(state)?, consent }
        }
        PARKED => {
            let (process, rest) = rest.split_first_chunk()?;
            let (call, home) = rest.split_first_chunk()?;
            Continuation::Parked { process: *process, call: *call, home: text(home)? }
        }
        _ => return None,
    };
    (*version == VERSION).then_some((Binding { identity: *identity, request: *request }, continuation))
}

/// Returns the SHA-256 of the things that a request asks for: method, subject and arguments, in a canonical
/// form. Other keys, other space or another order of keys make no difference.
#[must_use]
pub fn digest(method: &str, params: &OwnedParams) -> [u8; 32] {
    let mut hash = Sha256::new();
    let subject = params.subject(method).unwrap_or_default();
    for part in [method, &subject] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    if let Some(arguments) = params.get("arguments") {
        absorb(&mut hash, arguments);
    }
    hash.finalize().into()
}

fn absorb(hash: &mut Sha256, json: &str) {
    // Readers differ in the value that they take of a key that occurs twice.
    if duplicates::duplicate_key(json).is_some() {
        hash.update([b'!']);
        hash.update(json.as_bytes());
    }
    // Numbers count as they are written: two that are the same to a float may differ to a backend.
    let mut numbers: Vec<_> = duplicates::numbers(json).collect();
    numbers.sort_unstable();
    for number in numbers {
        hash.update((number.len() as u64).to_be_bytes());
        hash.update(number.as_bytes());
    }
    match serde_json::from_str::<serde_json::Value>(json) {
        Ok(value) => canonical(hash, &value),
        // A number that no type can hold, such as 1e400, is compared as it is written.
        Err(_) => hash.update(json.as_bytes()),
    }
}

/// Hashes a value with its keys sorted. Recursion is safe: the envelope has bounded the depth. Each length is
/// hashed in front of its text, so that no two values run together.
fn canonical(hash: &mut Sha256, value: &serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Object(object) => {
            hash.update([b'{']);
            hash.update((object.len() as u64).to_be_bytes());
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in entries {
                hash.update((key.len() as u64).to_be_bytes());
                hash.update(key.as_bytes());
                canonical(hash, value);
            }
        }
        Value::Array(array) => {
            hash.update([b'[']);
            hash.update((array.len() as u64).to_be_bytes());
            for value in array {
                canonical(hash, value);
            }
        }
        leaf => {
            let text = leaf.to_string();
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINDING: Binding = Binding { identity: [1; 32], request: [2; 32] };

    fn ring() -> KeyRing {
        KeyRing::from_secrets([b"a secret of enough bytes"]).unwrap()
    }

    #[test]
    fn a_state_comes_back_to_where_it_came_from() {
        for continuation in [
            Continuation::Relayed {
                backend: "größe".into(),
                state: "x".repeat(20_000),
                consent: Some([5; 16]),
            },
            Continuation::Relayed { backend: String::new(), state: String::new(), consent: None },
            Continuation::Parked { process: [3; 8], call: [4; 16], home: "10.0.0.1:4483".to_owned() },
        ] {
            let text = continuation.seal(&ring(), &[7; 24], &BINDING, 100).unwrap();
            let open = |text: &str, binding, now| Continuation::open(&ring(), text, &binding, now);
            assert_eq!(open(&text, BINDING, 99), Ok(continuation));
            assert_eq!(open(&text, Binding { identity: [9; 32], ..BINDING }, 99), Err(StateError::Identity));
            assert_eq!(open(&text, Binding { request: [9; 32], ..BINDING }, 99), Err(StateError::Request));
            assert!(matches!(open(&text, BINDING, 100), Err(StateError::Token(OpenError::Expired { .. }))));
            let cut = &text[..text.len() - 2];
            assert!(matches!(open(cut, BINDING, 99), Err(StateError::Token(_))));
        }
        let large =
            Continuation::Relayed { backend: "b".into(), state: "x".repeat(MAX_STATE + 1), consent: None };
        let refused = large.seal(&ring(), &[7; 24], &BINDING, 100);
        assert_eq!(refused, Err(StateError::TooLarge { length: MAX_STATE + 1 }));
    }

    #[test]
    fn a_digest_is_of_what_is_asked_and_not_of_how_it_is_written() {
        let of = |params: &str| digest("tools/call", &OwnedParams::from_text(params).unwrap());
        let first = of(r#"{"name":"t","arguments":{"a":[1,{}],"b":"é"}}"#);
        let same =
            r#"{"_meta":{}, "arguments": {"b":"\u00e9", "a":[ 1, {} ]}, "name":"t","requestState":"x"}"#;
        assert_eq!(first, of(same));
        for other in [
            r#"{"name":"u","arguments":{"a":[1,{}],"b":"é"}}"#,
            r#"{"name":"t","arguments":{"a":[1],"b":"é"}}"#,
            r#"{"name":"t","arguments":{"a":[1,[]],"b":"é"}}"#,
            r#"{"name":"t"}"#,
        ] {
            assert_ne!(first, of(other), "{other}");
        }
        let simple = of(r#"{"name":"t","arguments":{"to":"alice"}}"#);
        for twice in [r#"{"to":"MALLORY","to":"alice"}"#, r#"{"\u0074o":"MALLORY","to":"alice"}"#] {
            assert_ne!(simple, of(&format!(r#"{{"name":"t","arguments":{twice}}}"#)), "{twice}");
        }
        let number = |n: &str| of(&format!(r#"{{"name":"t","arguments":{{"n":{n}}}}}"#));
        assert_ne!(number("123456789012345678901"), number("123456789012345678902"), "equal as floats");
        assert_ne!(
            of(r#"{"name":"t","arguments":{"a":1e400}}"#),
            of(r#"{"name":"t","arguments":{"a":2e400}}"#)
        );
    }
}
