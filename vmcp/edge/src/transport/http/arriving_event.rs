//! Writes a message that is still arriving as one server-sent event.

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream::{self, Stream, StreamExt as _};
use vmcp_json::byte_rope::ByteRope;

use crate::request::arriving_response::{BrokenOff, Pieces};

/// Yields the bytes of one event, under `id` if there is one: `first`, then `rest` as it arrives. A message
/// that breaks off leaves the event without its end, so that no client takes it for a whole one.
pub(super) fn arriving_event(
    id: Option<&str>,
    first: ByteRope,
    rest: Pieces,
) -> impl Stream<Item = Result<Bytes, BrokenOff>> + Send + use<> {
    let begin = id.map_or_else(String::new, |id| format!("id: {id}\n")) + "data: ";
    let begin = stream::once(async { Ok(Bytes::from(begin)) });
    let first = stream::once(async { Ok(first) });
    let message = first.chain(rest).map(|pieces| pieces.map(|pieces| lines(pieces.into_bytes())));
    let end = stream::once(async { Ok(Bytes::from_static(b"\n\n")) });
    begin.chain(message).chain(end)
}

/// Begins a new `data` line at each line break. JSON has line breaks only where space may be, so that a
/// carriage return is as good as a space.
fn lines(piece: Bytes) -> Bytes {
    if !piece.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return piece;
    }
    let mut lines = BytesMut::with_capacity(piece.len() + 64);
    for byte in piece {
        match byte {
            b'\n' => lines.put_slice(b"\ndata: "),
            b'\r' => lines.put_u8(b' '),
            other => lines.put_u8(other),
        }
    }
    lines.freeze()
}

#[cfg(test)]
mod tests {
    use vmcp_wire::sse;

    use super::*;

    #[tokio::test]
    async fn the_event_reads_as_the_message_however_it_is_cut() {
        let message = "{\"a\":\r\n [1,\n2]}";
        for size in 1..message.len() {
            let mut pieces = message.as_bytes().chunks(size).map(|piece| ByteRope::from(piece.to_vec()));
            let first = pieces.next().unwrap();
            let rest = stream::iter(pieces.map(Ok).collect::<Vec<_>>()).boxed();
            let sent: Vec<_> = arriving_event(None, first, rest).map(Result::unwrap).collect().await;
            let sent = sent.concat();
            let events = sse::decode([sent], 1 << 20).unwrap();
            let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(events.iter().map(|event| parsed(&event.data)).collect::<Vec<_>>(), [parsed(message)]);
        }
    }
}
