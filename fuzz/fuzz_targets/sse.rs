//! Fuzzes event streams: the pieces in which the bytes arrive do not matter, and an encoded event is decoded
//! the same.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use vmcp_wire::sse::{Decoder, Event, EventFields, Part, SseError, decode, encode};

const LIMIT: usize = 64;

type Decoded = (Vec<(EventFields, Vec<u8>)>, Option<SseError>, Option<u64>);

fn decoded<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = Decoder::new(LIMIT);
    let (mut events, mut data) = (Vec::new(), Vec::new());
    for piece in pieces {
        let mut piece = Bytes::copy_from_slice(piece);
        loop {
            match decoder.next(&mut piece) {
                Ok(Some(Part::Data(bytes))) => {
                    assert!(!bytes.is_empty(), "a reader would ask for ever");
                    data.extend_from_slice(&bytes);
                }
                Ok(Some(Part::End(fields))) => events.push((fields, std::mem::take(&mut data))),
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
    assert!(whole.0.iter().all(|(_, data)| data.len() <= LIMIT));
    assert_eq!(decoded(bytes.chunks(usize::from(size).max(1))), whole);
    // Pieces of changing size, some of them empty.
    let cuts = bytes.split_inclusive(|byte| byte % 7 == size % 7).flat_map(|piece| [piece, &[][..]]);
    assert_eq!(decoded(cuts), whole);

    let data = String::from_utf8_lossy(bytes);
    let events = decode([encode(Some("e"), None, &data)], usize::MAX).expect("encoded events");
    let lines = data.replace("\r\n", "\n").replace('\r', "\n");
    assert_eq!(events, [Event { event: Some("e".to_owned()), data: lines, id: None }]);
});
