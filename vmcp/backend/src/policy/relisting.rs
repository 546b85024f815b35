//! Decides when a backend is listed again: soon after a failure, later if failures follow each other, and
//! less often the more it announces changes. Pure: the caller passes the time in.

use std::time::{Duration, Instant};

use crate::policy::backoff;
use crate::policy::settings::BackendSettings;

/// Time between two listings from which the second is no flapping: it starts the debounce again.
const CALM: Duration = Duration::from_secs(30);
/// Announced listings in a row that do not count as flapping either: a person edits the backend's tools.
const FREE_FLAPS: u32 = 10;
/// Doublings of the debounce at most: 200 ms become 25.6 s. A full listing costs both ends too much to follow
/// each announcement of a backend that never stops.
const MAX_DOUBLINGS: u32 = 7;

/// Outcome of the last listings of one backend.
#[derive(Debug, Default)]
pub(crate) struct Relisting {
    /// Listings in a row that failed.
    failures: u32,
    /// A listing has succeeded, in this run or in the one that saved the definitions.
    has_listed: bool,
    /// End of the last listing.
    last: Option<Instant>,
    /// Announced listings in a row without calm between them.
    flaps: u32,
}

impl Relisting {
    pub(crate) fn new(has_listed: bool) -> Self {
        Self { has_listed, ..Self::default() }
    }

    /// Time until the next listing, unless the backend announces a change before.
    pub(crate) fn pause(&self, settings: &BackendSettings) -> Duration {
        let retry = match self.failures {
            0 => return settings.refresh_interval,
            failures if self.has_listed => {
                backoff::delay_up_to(settings.first_pause, failures, settings.refresh_interval)
            }
            // Nothing else of the backend can be used: its tools are worth a try every few seconds.
            failures => backoff::delay(settings.first_pause, failures),
        };
        retry.min(settings.refresh_interval)
    }

    /// True if `pause` has passed since the last listing.
    pub(crate) fn is_due(&self, pause: Duration, now: Instant) -> bool {
        self.last.is_none_or(|last| now.duration_since(last) >= pause)
    }

    /// Debounce of an announcement: exponential while announcements come without calm between them.
    pub(crate) fn debounce(&mut self, base: Duration, now: Instant) -> Duration {
        let calm = self.last.is_none_or(|last| now.duration_since(last) >= CALM);
        self.flaps = if calm { 0 } else { (self.flaps + 1).min(FREE_FLAPS + MAX_DOUBLINGS) };
        base * (1 << self.flaps.saturating_sub(FREE_FLAPS))
    }

    /// Records the end of a listing; returns true if it is the first failure after a success.
    pub(crate) fn record(&mut self, succeeded: bool, now: Instant) -> bool {
        self.last = Some(now);
        self.has_listed |= succeeded;
        self.failures = if succeeded { 0 } else { self.failures.saturating_add(1) };
        self.failures == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pauses(mut relisting: Relisting, failures: u32) -> Vec<u64> {
        let settings = BackendSettings::default();
        let pause = |_| {
            relisting.record(false, Instant::now());
            relisting.pause(&settings).as_secs()
        };
        (0..failures).map(pause).collect()
    }

    #[test]
    fn a_first_listing_that_fails_is_repeated_every_few_seconds_until_one_succeeds() {
        let seconds = pauses(Relisting::new(false), 40);
        assert_eq!(seconds[..4], [1, 2, 4, 8]);
        assert!(seconds[5..].iter().all(|pause| (16..=17).contains(pause)), "{seconds:?}");
        let mut relisting = Relisting::new(false);
        assert!(relisting.record(false, Instant::now()) && !relisting.record(false, Instant::now()));
        relisting.record(true, Instant::now());
        let settings = BackendSettings::default();
        assert_eq!(relisting.pause(&settings), settings.refresh_interval);
    }

    #[test]
    fn a_backend_with_definitions_is_asked_ever_less_often() {
        let seconds = pauses(Relisting::new(true), 12);
        assert!((256..300).contains(&seconds[8]) && seconds[9..] == [300, 300, 300], "{seconds:?}");
    }

    #[test]
    fn announcements_without_end_are_followed_ever_less_often() {
        let mut relisting = Relisting::default();
        let (mut now, base) = (Instant::now(), Duration::from_millis(200));
        let mut debounces = Vec::new();
        for _ in 0..24 {
            let debounce = relisting.debounce(base, now);
            now += debounce;
            relisting.record(true, now);
            debounces.push(debounce.as_millis());
        }
        assert!(debounces[..11].iter().all(|debounce| *debounce == 200), "{debounces:?}");
        assert_eq!(debounces[11..14], [400, 800, 1_600]);
        assert_eq!(debounces[21..], [25_600, 25_600, 25_600]);
        assert_eq!(relisting.debounce(base, now + 30 * SECOND), base, "calm forgives");
    }
}
