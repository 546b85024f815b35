//! Fuzzes sealed tokens, session ids, request states and cursors: arbitrary text never opens, a sealed token
//! does, and a token with one flipped bit does not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vmcp_wire::era::Revision;
use vmcp_wire::lists::cursor::Cursor;
use vmcp_wire::lists::pages::List;
use vmcp_wire::sealed::request_state::{Binding, Continuation, StateError};
use vmcp_wire::sealed::session::{Session, SessionError};
use vmcp_wire::sealed::{KeyRing, NONCE_LENGTH, OpenError};

const NOW: u64 = 1_000;

fn ring(secrets: &[&str]) -> KeyRing {
    KeyRing::from_secrets(secrets).expect("long enough")
}

/// Flips one bit of one character; `None` if the result is not text.
fn flipped(token: &str, at: u16, bit: u8) -> Option<String> {
    let mut bytes = token.as_bytes().to_vec();
    let at = usize::from(at) % bytes.len();
    bytes[at] ^= 1 << (bit % 8);
    String::from_utf8(bytes).ok()
}

fuzz_target!(|input: ([u8; NONCE_LENGTH], u16, u8, &str)| {
    let (nonce, at, bit, text) = input;
    let (old, new) = ("the old secret, long enough", "the new secret, long enough");
    let ring_now = ring(&[new, old]);

    assert!(ring_now.open(text, b"", 0).is_err());
    assert!(Session::open(&ring_now, text, &[0; 32], 0).is_err());
    for list in List::ALL {
        if let Ok(cursor) = Cursor::decode(text, list) {
            assert_eq!(cursor.encode(), text, "one spelling a cursor");
        }
    }
    let cursor = Cursor { list: List::Tools, after: text.to_owned() };
    if text.len() < 8 * 1024 {
        assert_eq!(Cursor::decode(&cursor.encode(), List::Tools), Ok(cursor));
    }

    let (purpose, content) = text.as_bytes().split_at(text.len() / 2);
    let expires = NOW + 1 + u64::from(at);
    let token = ring(&[old]).seal(&nonce, content, purpose, expires);
    if token.len() <= vmcp_wire::sealed::MAX_TOKEN_LENGTH {
        let opened = ring_now.open(&token, purpose, NOW).expect("the second key opens");
        assert_eq!((opened.content.as_slice(), opened.expires), (content, expires));
        assert_eq!(ring_now.open(&token, purpose, expires), Err(OpenError::Expired { at: expires }));
        assert!(ring(&[new]).open(&token, purpose, NOW).is_err());
        assert!(ring_now.open(&token, b"another purpose", NOW).is_err() || purpose == b"another purpose");
        let cut = usize::from(at) % token.len();
        assert!(ring_now.open(&token[..cut], purpose, NOW).is_err(), "truncated");
        if let Some(forged) = flipped(&token, at, bit) {
            assert!(ring_now.open(&forged, purpose, NOW).is_err(), "{forged}");
        }
    }

    let binding = Binding { identity: [nonce[0]; 32], request: [bit; 32] };
    assert!(Continuation::open(&ring_now, text, &binding, 0).is_err());
    let continuation = if bit % 2 == 0 {
        Continuation::Parked { process: [bit; 8], call: [nonce[1]; 16], home: text.to_owned() }
    } else {
        let consent = (bit % 4 == 1).then_some([nonce[1]; 16]);
        Continuation::Relayed { backend: format!("b{at}"), state: text.to_owned(), consent }
    };
    let state = continuation.seal(&ring_now, &nonce, &binding, expires).expect("short enough");
    assert_eq!(Continuation::open(&ring_now, &state, &binding, NOW), Ok(continuation));
    let of_another = Binding { request: [bit ^ 1; 32], ..binding };
    assert_eq!(Continuation::open(&ring_now, &state, &of_another, NOW), Err(StateError::Request));
    if let Some(forged) = flipped(&state, at, bit) {
        assert!(Continuation::open(&ring_now, &forged, &binding, NOW).is_err());
    }

    let half = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let session = Session {
        id: [bit; 16],
        identity: [nonce[0]; 32],
        revision: Revision::ALL[usize::from(bit) % Revision::ALL.len()],
        began: u64::from(at),
        expires,
        client_info: text[..half].to_owned(),
        client_capabilities: text[half..].to_owned(),
    };
    match session.seal(&ring_now, &nonce) {
        Ok(id) => {
            assert_eq!(Session::open(&ring_now, &id, &session.identity, NOW), Ok(session.clone()));
            let stranger = [nonce[0] ^ 1; 32];
            assert_eq!(Session::open(&ring_now, &id, &stranger, NOW), Err(SessionError::Identity));
            if let Some(forged) = flipped(&id, at, bit) {
                assert!(Session::open(&ring_now, &forged, &session.identity, NOW).is_err());
            }
        }
        Err(error) => assert_eq!(error, SessionError::TooLarge { length: text.len() }),
    }
});
