//! [`LogFold`]: folds bursts of log lines, so that a server that logs without end does not fill the log.

use std::time::{Duration, Instant};

/// Lines of a burst that are logged; the rest of it, such as a traceback or the dozens of lines with which
/// SDKs refuse an unknown method, is logged at debug level.
const MAX_BURST_LINES: u32 = 8;
/// Pause that ends a burst.
const BURST_PAUSE: Duration = Duration::from_secs(1);
/// Time after which a burst without a pause counts as the next one.
const MAX_BURST: Duration = Duration::from_mins(1);

/// Folds the lines of one source.
#[derive(Debug, Default)]
pub(crate) struct LogFold {
    /// Lines of the present burst.
    lines: u32,
    /// Lines folded since the last line that was logged.
    folded: u64,
    /// Begin of the present burst, and its last line.
    burst: Option<(Instant, Instant)>,
}

/// The place of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinePlace {
    /// The line is logged; `folded` lines of the burst before it were not.
    Logged { folded: u64 },
    /// The first line of a burst that is folded.
    FirstFolded,
    /// The line is folded.
    Folded,
}

impl LogFold {
    /// Decides about a line.
    pub(crate) fn place(&mut self, now: Instant) -> LinePlace {
        let goes_on = |(begun, last): &(Instant, Instant)| {
            now.duration_since(*last) <= BURST_PAUSE && now.duration_since(*begun) < MAX_BURST
        };
        let begun = self.burst.filter(goes_on).map(|(begun, _)| begun);
        if begun.is_none() {
            self.lines = 0;
        }
        self.burst = Some((begun.unwrap_or(now), now));
        self.lines = self.lines.saturating_add(1);
        if self.lines <= MAX_BURST_LINES {
            return LinePlace::Logged { folded: std::mem::take(&mut self.folded) };
        }
        self.folded += 1;
        if self.lines == MAX_BURST_LINES + 1 { LinePlace::FirstFolded } else { LinePlace::Folded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_ends_with_a_pause_and_its_folded_lines_are_counted() {
        let (mut fold, start) = (LogFold::default(), Instant::now());
        let mut at = |millis| fold.place(start + Duration::from_millis(millis));
        for line in 0..8 {
            assert_eq!(at(line * 10), LinePlace::Logged { folded: 0 });
        }
        assert_eq!(at(80), LinePlace::FirstFolded);
        assert_eq!(at(90), LinePlace::Folded);
        assert_eq!(at(3000), LinePlace::Logged { folded: 2 });
        assert_eq!(at(3001), LinePlace::Logged { folded: 0 });
    }

    #[test]
    fn a_flood_without_a_pause_shows_some_lines_a_minute() {
        let (mut fold, start) = (LogFold::default(), Instant::now());
        let places: Vec<_> = (0..600_000).map(|n| fold.place(start + Duration::from_millis(n))).collect();
        let logged = places.iter().filter(|place| matches!(place, LinePlace::Logged { .. })).count();
        assert_eq!(logged, 10 * MAX_BURST_LINES as usize);
        assert!(places.contains(&LinePlace::Logged { folded: 60_000 - 8 }));
    }
}
