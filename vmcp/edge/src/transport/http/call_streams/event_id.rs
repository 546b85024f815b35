//! [`EventId`]: the id of a server-sent event. It has the random id of the stream, the sealed address of the
//! stream's process, and the event's number in the stream.

/// The random id of a stream.
pub(super) type StreamId = [u8; 16];

/// The id of one event of a [`CallStream`](super::call_stream::CallStream).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventId<'a> {
    pub(super) stream: StreamId,
    /// The sealed address of the stream's process; empty if other replicas do not reach it.
    pub(super) home: &'a str,
    pub(super) number: u64,
}

impl<'a> EventId<'a> {
    /// Writes the id as it stands in an event.
    pub(super) fn to_text(self) -> String {
        let separator = if self.home.is_empty() { "" } else { "." };
        format!("{}{separator}{}-{}", hex::encode(self.stream), self.home, self.number)
    }

    /// Reads a `Last-Event-ID`.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (stream, number) = text.rsplit_once('-')?;
        let (stream, home) = stream.split_once('.').unwrap_or((stream, ""));
        let mut id = StreamId::default();
        hex::decode_to_slice(stream, &mut id).ok()?;
        Some(Self { stream: id, home, number: number.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_and_nothing_else_is() {
        for home in ["", "a-b_c"] {
            let id = EventId { stream: [7; 16], home, number: 12 };
            assert_eq!(EventId::parse(&id.to_text()), Some(id));
        }
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
