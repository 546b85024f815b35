//! Resumption of a broken event stream: the pause before each attempt, and a bound on attempts that bring
//! nothing.

use std::time::Duration;

use crate::policy::backoff;

/// Pause if the server sets none, and the longest that it may set.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Base of the exponential backoff below which no pause goes, whatever the server sets: `retry: 0` must not
/// make a client spin.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// Streams in a row without an event; then the answer is lost. With the backoff this is more than 20 s.
const MAX_EMPTY_STREAMS: u32 = 20;

/// Resumptions of one answer's stream.
#[derive(Debug, Default)]
pub(super) struct Resumptions {
    /// Streams in a row that brought no event.
    empty: u32,
}

impl Resumptions {
    /// The pause before a stream that ended is continued; `None` if it must not be. `brought_events` is about
    /// the stream that ended, `wanted` is the pause that the server set.
    pub(super) fn next_pause(&mut self, brought_events: bool, wanted: Option<Duration>) -> Option<Duration> {
        self.empty = if brought_events { 0 } else { self.empty + 1 };
        let wanted = wanted.unwrap_or(DEFAULT_PAUSE).min(MAX_PAUSE);
        (self.empty < MAX_EMPTY_STREAMS).then(|| wanted.max(backoff::delay(MIN_PAUSE, self.empty + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_without_events_are_continued_ever_more_slowly_and_not_for_ever() {
        let mut resumptions = Resumptions::default();
        let pauses: Vec<Duration> =
            std::iter::from_fn(|| resumptions.next_pause(false, Some(Duration::ZERO))).take(1000).collect();
        assert_eq!(pauses.len(), 19);
        assert!(pauses.iter().all(|pause| *pause >= MIN_PAUSE));
        assert!(pauses.iter().sum::<Duration>() > Duration::from_secs(20));
    }

    #[test]
    fn events_start_the_count_anew_and_the_server_sets_longer_pauses() {
        let mut resumptions = Resumptions::default();
        for _ in 0..100 {
            assert!(resumptions.next_pause(false, None) >= Some(DEFAULT_PAUSE));
            let pause = resumptions.next_pause(true, Some(Duration::from_secs(7)));
            assert_eq!(pause, Some(Duration::from_secs(7)));
        }
        assert_eq!(resumptions.next_pause(true, Some(Duration::from_hours(1))), Some(MAX_PAUSE));
    }
}
