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

/// Decodes like [`decoded`], and takes data early wherever there are some. Stops at an error.
fn decoded_early<'a>(pieces: impl Iterator<Item = &'a [u8]>, least: usize) -> Vec<Event> {
    let mut decoder = Decoder::new(usize::MAX);
    let (mut events, mut early) = (Vec::new(), String::new());
    for mut piece in pieces {
        while let Ok(found) = decoder.next(&mut piece) {
            let Some(mut event) = found else { break };
            event.data.insert_str(0, &std::mem::take(&mut early));
            events.push(event);
        }
        match decoder.take_data(least) {
            Ok(Some(data)) => {
                assert!(!data.is_empty(), "a reader would ask for ever");
                early.push_str(&data);
            }
            Ok(None) => {}
            Err(_) => break,
        }
    }
    events
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = decoded(std::iter::once(bytes));
    assert!(whole.0.iter().all(|event| event.data.len() <= LIMIT));
    assert_eq!(decoded(bytes.chunks(usize::from(size).max(1))), whole);
    // Pieces of changing size, some of them empty.
    let cuts = bytes.split_inclusive(|byte| byte % 7 == size % 7).flat_map(|piece| [piece, &[][..]]);
    assert_eq!(decoded(cuts), whole);

    let unlimited = String::from_utf8_lossy(bytes);
    let unlimited = unlimited.as_bytes();
    let all = Decoder::new(usize::MAX).push(unlimited).expect("valid UTF-8");
    assert_eq!(decoded_early(unlimited.chunks(usize::from(size).max(1)), usize::from(size % 9)), all);

    let data = String::from_utf8_lossy(bytes);
    let events = Decoder::new(usize::MAX).push(&encode(Some("e"), None, &data)).expect("encoded events");
    let lines = data.replace("\r\n", "\n").replace('\r', "\n");
    assert_eq!(events, [Event { event: Some("e".to_owned()), data: lines, id: None }]);
});
