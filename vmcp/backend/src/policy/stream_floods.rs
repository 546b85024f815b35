//! [`StreamFloods`]: the latest stream of a backend that was ended because it flooded.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time for which a flood is shown as the last error and is not logged again. The stream is opened again
/// every few seconds, so a server that floods on is shown without a gap.
const SHOWN: Duration = Duration::from_mins(1);

/// Floods of one backend, whichever of its streams they came on.
#[derive(Debug, Default)]
pub(crate) struct StreamFloods(Mutex<Option<Flood>>);

#[derive(Debug)]
struct Flood {
    latest: Instant,
    logged: Instant,
    detail: String,
}

impl StreamFloods {
    /// Records that a stream was ended, and logs the first flood of a minute.
    pub(crate) fn record(&self, detail: &str) {
        if self.note(detail, Instant::now()) {
            tracing::warn!(
                error = detail,
                "closed a stream of the backend; it is opened again ever more slowly"
            );
        }
    }

    /// Returns true if the flood is worth a line in the log.
    fn note(&self, detail: &str, now: Instant) -> bool {
        let mut flood = self.0.lock();
        let logged =
            flood.as_ref().map(|flood| flood.logged).filter(|logged| now.duration_since(*logged) < SHOWN);
        *flood = Some(Flood { latest: now, logged: logged.unwrap_or(now), detail: detail.to_owned() });
        logged.is_none()
    }

    /// Returns the flood of the last minute.
    pub(crate) fn recent(&self) -> Option<String> {
        self.recent_at(Instant::now())
    }

    fn recent_at(&self, now: Instant) -> Option<String> {
        let mut flood = self.0.lock();
        flood.take_if(|flood| now.duration_since(flood.latest) >= SHOWN);
        flood.as_ref().map(|flood| flood.detail.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_shown_for_a_minute_and_logged_once_in_it() {
        let (floods, start) = (StreamFloods::default(), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        assert_eq!(floods.recent_at(start), None);
        let logged: Vec<_> = (0..130).filter(|second| floods.note("too much", at(*second))).collect();
        assert_eq!(logged, [0, 60, 120]);
        assert_eq!(floods.recent_at(at(188)).as_deref(), Some("too much"));
        assert_eq!(floods.recent_at(at(189)), None);
    }
}
