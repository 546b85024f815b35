//! [`EventId`]: the id of a server-sent event: its stream, by a random id, and its number in it.

use super::call_stream::StreamId;

/// The id of one event of a [`CallStream`](super::call_stream::CallStream).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) stream: StreamId,
    pub(super) number: u64,
}

impl EventId {
    /// Writes the id as it stands in an event.
    pub(super) fn to_text(self) -> String {
        format!("{}-{}", hex::encode(self.stream), self.number)
    }

    /// Reads a `Last-Event-ID`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        let mut id = StreamId::default();
        hex::decode_to_slice(stream, &mut id).ok()?;
        Some(Self { stream: id, number: number.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_and_nothing_else_is() {
        let id = EventId { stream: [7; 16], number: 12 };
        assert_eq!(EventId::parse(&id.to_text()), Some(id));
        for text in [
            "",
            "-",
            "12",
            "07-1",
            "zz07070707070707070707070707070707-1",
            "07070707070707070707070707070707-x",
        ] {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
    }
}
