//! The log level that was set on a connection to a legacy server. Pure: the caller passes the time in.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use vmcp_wire::level::Level;

/// Pause before a level that could not be set is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// The level set last, and the time at which setting it failed.
#[derive(Debug, Default)]
pub(crate) struct ChosenLevel(Mutex<LevelChoice>);

#[derive(Debug, Default)]
struct LevelChoice {
    level: Option<Level>,
    failed: Option<Instant>,
}

/// The message to a server about a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Nothing: it has the level, refused it, or is being told.
    Needless,
    /// The level is new.
    New,
    /// Setting the same level failed some time ago.
    Again,
}

impl ChosenLevel {
    pub(crate) fn is_set(&self) -> bool {
        self.0.lock().level.is_some()
    }

    /// Stores `level`. The server must be told on any change for a connection `owned` by one client, only on
    /// a more verbose level for a shared one, and again after a failure.
    pub(crate) fn choose(&self, level: Level, owned: bool, now: Instant) -> Telling {
        let mut choice = self.0.lock();
        let differs = choice.level.is_none_or(|old| if owned { old != level } else { old > level });
        if differs {
            *choice = LevelChoice { level: Some(level), failed: None };
            return Telling::New;
        }
        let retry = choice.level == Some(level)
            && choice.failed.take_if(|failed| now.duration_since(*failed) >= RETRY_PAUSE).is_some();
        if retry { Telling::Again } else { Telling::Needless }
    }

    /// Records that the server could not be told `level`.
    pub(crate) fn fail(&self, level: Level, now: Instant) {
        let mut choice = self.0.lock();
        if choice.level == Some(level) {
            choice.failed = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_connection_only_becomes_more_verbose() {
        let (shared, now) = (ChosenLevel::default(), Instant::now());
        assert!(!shared.is_set());
        let told: Vec<bool> = [Level::Warning, Level::Error, Level::Debug, Level::Info]
            .into_iter()
            .map(|level| shared.choose(level, false, now) == Telling::New)
            .collect();
        assert_eq!(told, [true, false, true, false]);
        let own = ChosenLevel::default();
        assert_eq!(own.choose(Level::Debug, true, now), Telling::New);
        assert_eq!(own.choose(Level::Debug, true, now), Telling::Needless);
        assert_eq!(own.choose(Level::Error, true, now), Telling::New);
        assert!(own.is_set());
    }

    #[test]
    fn a_level_that_could_not_be_set_is_tried_again_after_a_pause() {
        let (chosen, now) = (ChosenLevel::default(), Instant::now());
        assert_eq!(chosen.choose(Level::Info, true, now), Telling::New);
        chosen.fail(Level::Info, now);
        assert_eq!(chosen.choose(Level::Info, true, now + RETRY_PAUSE / 2), Telling::Needless);
        assert_eq!(chosen.choose(Level::Info, true, now + RETRY_PAUSE), Telling::Again);
        assert_eq!(chosen.choose(Level::Info, true, now + RETRY_PAUSE), Telling::Needless, "being told");
        chosen.fail(Level::Warning, now);
        assert_eq!(chosen.choose(Level::Info, true, now + RETRY_PAUSE * 2), Telling::Needless, "old news");
    }
}
