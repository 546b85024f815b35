//! The log level that was set on a connection to a legacy server.

use std::sync::atomic::{AtomicU8, Ordering};

use vmcp_wire::level::Level;

/// The level set last: 0 for none, 1 for the first of [`Level::ALL`], and so on.
#[derive(Debug, Default)]
pub(crate) struct ChosenLevel(AtomicU8);

impl ChosenLevel {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Stores `level`; returns true if the server must be told: on any change for a connection `owned` by one
    /// client, only on a more verbose level for a shared one.
    pub(crate) fn choose(&self, level: Level, owned: bool) -> bool {
        let wanted = level as u8 + 1;
        let differs = |old: u8| old == 0 || if owned { old != wanted } else { old > wanted };
        let choice = |old| differs(old).then_some(wanted);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, choice).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_connection_only_becomes_more_verbose() {
        let shared = ChosenLevel::default();
        assert!(!shared.is_set());
        let told: Vec<bool> = [Level::Warning, Level::Error, Level::Debug, Level::Info]
            .into_iter()
            .map(|level| shared.choose(level, false))
            .collect();
        assert_eq!(told, [true, false, true, false]);
        let own = ChosenLevel::default();
        assert!(own.choose(Level::Debug, true) && !own.choose(Level::Debug, true));
        assert!(own.choose(Level::Error, true) && own.is_set());
    }
}
