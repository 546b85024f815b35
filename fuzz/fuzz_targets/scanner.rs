//! Fuzzes the scanner of answers: it accepts what the parser accepts, and agrees with the strict scanner, and
//! with itself when the answer arrives in other pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use vmcp_fuzz::strict;
use vmcp_wire::envelope::Message;
use vmcp_wire::payload::{self, Key, Reply, ScanError, ScannedKeys, Scanner};

const KEYS: [Key; 14] = [
    Key::Version,
    Key::Id,
    Key::Method,
    Key::Result,
    Key::Error,
    Key::ResultType,
    Key::IsError,
    Key::RequestState,
    Key::TtlMs,
    Key::CacheScope,
    Key::StructuredContent,
    Key::Meta,
    Key::ServerInfo,
    Key::SubscriptionId,
];

fn scan<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<ScannedKeys, ScanError> {
    let mut scanner = Scanner::default();
    for piece in pieces {
        scanner.push(piece)?;
    }
    scanner.finish()
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = scan(std::iter::once(bytes));
    // The pieces may decide which of several mistakes is seen first, but not which keys are found.
    assert_eq!(scan(bytes.chunks(usize::from(size).max(1))).ok(), whole.clone().ok());
    let cuts = bytes.split_inclusive(|byte| byte % 5 == size % 5).flat_map(|piece| [piece, &[][..]]);
    assert_eq!(scan(cuts).ok(), whole.clone().ok());

    // The strict scanner reads the same, byte by byte.
    let strict = strict::scan(bytes);
    assert_eq!(strict.is_ok(), whole.is_ok(), "{strict:?}, {whole:?}");
    if let (Ok(strict), Ok(keys)) = (strict, &whole) {
        let found = KEYS.iter().filter_map(|key| Some((key.name(), keys.range(*key)?)));
        assert_eq!(found.collect::<Vec<_>>(), strict);
    }

    let parsed = serde_json::from_slice::<&RawValue>(bytes).ok().filter(|raw| raw.get().starts_with('{'));
    // More is accepted only where no key matters, as the strict scanner does.
    let keys = match whole {
        Ok(keys) => keys,
        Err(ScanError::Duplicate(_) | ScanError::LetterCase) => return,
        Err(error) => return assert!(parsed.is_none(), "{error}"),
    };
    let Some(id) = keys.range(Key::Id) else { return };
    let id = String::from_utf8_lossy(&bytes[id]).into_owned();
    let (is_result, text) = match payload::reply(bytes.to_vec().into(), keys, &id) {
        Ok(Reply::Result(payload)) => (true, payload.into_raw()),
        Ok(Reply::Error(payload)) => (false, payload.into_raw()),
        Err(_) => return,
    };
    // The payload that is relayed unparsed is the one that the parser reads, unless it refuses the message.
    match Message::parse(bytes) {
        Ok(Message::Response(response)) => assert!(is_result && response.result.get() == text.get()),
        Ok(Message::Error(error)) => assert!(!is_result && error.error.get() == text.get()),
        Ok(_) => panic!("an answer to the scanner only"),
        Err(_) => {}
    }
});
