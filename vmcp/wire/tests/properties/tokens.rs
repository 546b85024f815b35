//! Sealed tokens, cursors and header values are read back as they were written; any other text is refused.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use vmcp_wire::era::Revision;
use vmcp_wire::headers;
use vmcp_wire::lists::cursor::Cursor;
use vmcp_wire::lists::pages::List;
use vmcp_wire::sealed::session::Session;
use vmcp_wire::sealed::{KeyRing, OpenError};

fn ring() -> KeyRing {
    KeyRing::from_secrets([b"the secret of these tests"]).unwrap()
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn a_sealed_token_opens_only_as_it_was_sealed(
        content in vec(any::<u8>(), 0..64),
        associated in vec(any::<u8>(), 0..16),
        nonce in any::<[u8; 24]>(),
        expires in 1..u64::MAX,
        (bit, at) in (0..8_u8, any::<prop::sample::Index>()),
    ) {
        let token = ring().seal(&nonce, &content, &associated, expires);
        let opened = ring().open(&token, &associated, expires - 1).unwrap();
        prop_assert_eq!((opened.content, opened.expires), (content, expires));
        prop_assert_eq!(ring().open(&token, &associated, expires), Err(OpenError::Expired { at: expires }));

        let mut flipped = token.clone().into_bytes();
        flipped[at.index(token.len())] ^= 1 << bit;
        let flipped = String::from_utf8_lossy(&flipped).into_owned();
        let refused = ring().open(&flipped, &associated, 0).unwrap_err();
        prop_assert!(matches!(refused, OpenError::Forged | OpenError::Malformed), "{refused}");

        let cut = &token[..at.index(token.len())];
        let refused = ring().open(cut, &associated, 0).unwrap_err();
        prop_assert!(matches!(refused, OpenError::Forged | OpenError::Malformed), "{refused}");
        let other = [associated.as_slice(), b"x"].concat();
        prop_assert_eq!(ring().open(&token, &other, 0), Err(OpenError::Forged));
    }

    #[test]
    fn a_session_is_read_back(
        (id, identity, nonce) in any::<([u8; 16], [u8; 32], [u8; 24])>(),
        revision in select(Revision::ALL.to_vec()),
        (began, expires) in (any::<u64>(), 1..u64::MAX),
        (client_info, client_capabilities) in (".{0,40}", ".{0,40}"),
    ) {
        let session = Session { id, identity, revision, began, expires, client_info, client_capabilities };
        let token = session.seal(&ring(), &nonce).unwrap();
        prop_assert_eq!(Session::open(&ring(), &token, &identity, expires - 1), Ok(session));
    }

    #[test]
    fn a_cursor_is_read_back(list in select(List::ALL.to_vec()), after in ".{0,40}") {
        let cursor = Cursor { list, after };
        let text = cursor.encode();
        prop_assert_eq!(Cursor::decode(&text, list), Ok(cursor));
    }

    #[test]
    fn a_header_value_is_read_back_and_breaks_no_header(text in prop_oneof![".{0,24}", "=\\?base64\\?.{0,8}\\?=", "(?s).{0,8}"]) {
        let value = headers::encode(&text);
        prop_assert!(value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')));
        prop_assert_eq!(value.trim_matches([' ', '\t']), &*value);
        prop_assert_eq!(headers::decode(&value), Some(text.as_str().into()));
    }
}
