//! Fuzzes event streams: the pieces in which the bytes arrive do not matter, and an encoded event is decoded
//! the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vmcp_wire::sse::{Decoder, Event, SseError, encode};

const LIMIT: usize = 64;

type Decoded = (Vec<Event>, Option<SseError>, Option<u64>);

fn decoded<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = Decoder::new(LIMIT);
    let mut events = Vec::new();
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Some(error), decoder.retry()),
            }
        }
    }
    (events, None, decoder.retry())
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = decoded(std::iter::once(bytes));
    assert!(whole.0.iter().all(|event| event.data.len() <= LIMIT));
    assert_eq!(decoded(bytes.chunks(usize::from(size).max(1))), whole);
    // Pieces of changing size, some of them empty.
    let cuts = bytes.split_inclusive(|byte| byte % 7 == size % 7).flat_map(|piece| [piece, &[][..]]);
    assert_eq!(decoded(cuts), whole);

    let data = String::from_utf8_lossy(bytes);
    let events = Decoder::new(usize::MAX).push(&encode(Some("e"), None, &data)).expect("encoded events");
    let lines = data.replace("\r\n", "\n").replace('\r', "\n");
    assert_eq!(events, [Event { event: Some("e".to_owned()), data: lines, id: None }]);
});
