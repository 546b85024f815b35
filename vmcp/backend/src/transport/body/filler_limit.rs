//! [`FillerLimit`]: a token bucket over the bytes of a stream that carry no message: comments, blank lines,
//! fields without data, pings of a websocket.
//!
//! Servers and proxies keep a silent stream alive with a comment now and then, and some pad its beginning by
//! a few KiB. A stream that floods such bytes costs its reader time without an end: no limit of messages is
//! ever reached. So its reading is slow, and its bytes are bounded.

use std::time::{Duration, Instant};

use crate::transport::link_error::LinkError;

/// Bytes without a message that a stream may send at once.
const BURST: u64 = 64 * 1024;
/// Bytes without a message that it may send in each second after that.
const PER_SECOND: u64 = 16 * 1024;
/// Bytes without a message that are read in a row; then the reader pauses.
pub(super) const TURN: usize = 4 * 1024;
/// Length of the pause, which bounds the reading to some 4 MiB a second.
pub(in crate::transport) const PAUSE: Duration = Duration::from_millis(1);
/// Bytes that the fields of an event with data are worth.
const PER_EVENT: u64 = 1024;

/// Bytes without a message that one stream may still send.
#[derive(Debug)]
pub(in crate::transport) struct FillerLimit {
    left: u64,
    /// The time until which `left` was refilled.
    since: Instant,
    /// Bytes without a message since the last pause.
    turn: u64,
}

impl FillerLimit {
    pub(in crate::transport) fn new(now: Instant) -> Self {
        Self { left: BURST, since: now, turn: 0 }
    }

    /// Counts bytes of the stream, `data` of which are those of messages. Data pays for as much filler, such
    /// as the field names of its lines.
    pub(in crate::transport) fn take(&mut self, bytes: usize, data: usize) -> Result<(), LinkError> {
        let (bytes, paid) = (bytes as u64, 2 * data as u64);
        if bytes <= paid {
            self.earn(paid - bytes);
            return Ok(());
        }
        let filler = bytes - paid;
        self.turn += filler;
        if self.left < filler {
            self.refill(Instant::now());
        }
        self.left =
            self.left.checked_sub(filler).ok_or(LinkError::Flood { burst: BURST, per_second: PER_SECOND })?;
        Ok(())
    }

    /// Returns true once after each [`TURN`]: the reader is to pause.
    pub(in crate::transport) fn take_turn(&mut self) -> bool {
        let is_over = self.turn >= TURN as u64;
        if is_over {
            self.turn = 0;
        }
        is_over
    }

    /// Pays for the fields of an event that had data.
    pub(in crate::transport) fn end_event(&mut self) {
        self.earn(PER_EVENT);
    }

    fn earn(&mut self, bytes: u64) {
        self.turn = self.turn.saturating_sub(bytes);
        self.left = self.left.saturating_add(bytes).min(BURST);
    }

    /// Adds the bytes of the time that has passed.
    fn refill(&mut self, now: Instant) {
        let millis = now.saturating_duration_since(self.since).as_millis();
        let earned = u64::try_from(millis * u128::from(PER_SECOND) / 1000).unwrap_or(BURST);
        if earned > 0 {
            self.left = self.left.saturating_add(earned).min(BURST);
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn filler_is_bounded_and_refilled_by_time() {
        let start = Instant::now();
        let mut limit = FillerLimit::new(start);
        limit.take(BURST as usize, 0).unwrap();
        assert!(matches!(limit.take(100_000, 0), Err(LinkError::Flood { .. })));
        limit.refill(start + Duration::from_secs(4));
        limit.take(4 * PER_SECOND as usize, 0).unwrap();
        assert!(limit.take(100_000, 0).is_err());
        limit.refill(start + Duration::from_hours(1));
        assert_eq!(limit.left, BURST);
    }

    #[test]
    fn filler_is_read_in_turns() {
        let mut limit = FillerLimit::new(Instant::now());
        let pauses = (0..BURST).filter(|_| {
            limit.take(1, 0).unwrap();
            limit.take_turn()
        });
        assert_eq!(pauses.count(), BURST as usize / TURN);
    }

    #[test]
    fn messages_pay_for_their_fields() {
        let mut limit = FillerLimit::new(Instant::now());
        for _ in 0..1_000_000 {
            limit.take("event: message\nid: 12345678\ndata: 1\n\n".len(), 1).unwrap();
            limit.end_event();
            assert!(!limit.take_turn());
        }
        // Pretty-printed JSON, a line of data each.
        for _ in 0..1_000_000 {
            limit.take("data:   \"a\": 1,\n".len(), 10).unwrap();
        }
        assert_eq!(limit.left, BURST);
    }
}
