//! The pieces in which the bytes of an event stream arrive do not matter.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use vmcp_wire::sse::{Decoder, Event, EventFields, Part, SseError, decode, encode};

const LIMIT: usize = 48;

/// Decodes bytes that arrive in these pieces: the events, the error, the pause before a reconnect.
fn outcome(pieces: &[&[u8]]) -> (Vec<Event>, Option<SseError>, Option<u64>) {
    let mut decoder = Decoder::new(LIMIT);
    let (mut events, mut data) = (Vec::new(), Vec::new());
    for piece in pieces {
        let mut rest = Bytes::copy_from_slice(piece);
        loop {
            match decoder.next(&mut rest) {
                Ok(Some(Part::Data(bytes))) => data.extend_from_slice(&bytes),
                Ok(Some(Part::End(EventFields { event, id }))) => {
                    let data = String::from_utf8_lossy(&std::mem::take(&mut data)).into_owned();
                    events.push(Event { event, data, id });
                }
                Ok(None) => break,
                Err(error) => return (events, Some(error), decoder.retry()),
            }
        }
    }
    (events, None, decoder.retry())
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let token = select(vec![
        "\n",
        "\n",
        "\r\n",
        "\r",
        "data",
        "data: ",
        "data:x",
        ":",
        ": comment",
        "id: 1",
        "id",
        "event: e",
        "retry: 5",
        "é",
        "\u{feff}",
        "\0",
        " ",
        "0123456789abcdef",
    ]);
    let byte = any::<u8>().prop_map(|byte| vec![byte]);
    vec(prop_oneof![30 => token.prop_map(|text| text.as_bytes().to_vec()), 1 => byte], 0..60)
        .prop_map(|t| t.concat())
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn events_do_not_depend_on_chunks(bytes in stream(), cuts in vec(any::<prop::sample::Index>(), 0..6)) {
        let whole = outcome(&[&bytes]);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&outcome(&single), &whole);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&outcome(&pieces), &whole);
    }

    #[test]
    fn what_is_encoded_is_decoded(event in "[a-z]{1,8}", id in "[^\r\n\0]{0,8}", data in "(?s).{0,40}") {
        let bytes = encode(Some(&event), Some(&id), &data);
        let events = decode([bytes], 4096).unwrap();
        let lines = data.replace("\r\n", "\n").replace('\r', "\n");
        prop_assert_eq!(events, [Event { event: Some(event), data: lines, id: Some(id) }]);
    }
}
