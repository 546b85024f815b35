//! [`ProviderHealth`]: decides, by failed queries and background work, whether a provider is down. Pure; the
//! time comes from the caller.

use std::time::{Duration, Instant};

use vmcp_embed::EmbedError;

/// Longest pause between two attempts. The operator looks at its pods every 10 s, and tells within a minute
/// that a service is back.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(40);
/// Longest pause that an overloaded service gets if it asks for one.
const MAX_ASKED_PAUSE: Duration = Duration::from_mins(5);
/// Pause while the local model is missing: the user is probably fetching it, and a look opens one file.
const MISSING_MODEL_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause while the local model is damaged; a look reads all of it.
const MAX_MODEL_RETRY_PAUSE: Duration = Duration::from_secs(3);
/// Queries in a row that fail before a provider that can be reached counts as down. Queries at one time count
/// as one: a slow moment fails all of them.
const MAX_FAILED_QUERIES: u32 = 3;

/// A failure of the provider, and the time of the next attempt.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Outage {
    pub(in crate::engine) error: EmbedError,
    pub(in crate::engine) retry_at: Instant,
}

/// Failures since the last answers.
#[derive(Debug, Default)]
pub(in crate::engine) struct ProviderHealth {
    outage: Option<Outage>,
    /// Failed attempts of the background task in a row.
    attempts: u32,
    /// Failed queries in a row.
    failed_queries: u32,
    /// Time at which the last of them failed.
    counted_at: Option<Instant>,
}

/// Consequence of a failed query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Verdict {
    /// None: other queries may succeed.
    Passes,
    /// The background task asks for the canary, and its answer decides: the queries of one client may be all
    /// that the service has no vectors for.
    Suspect,
    /// The provider counts as down from now on.
    Down,
}

/// Weight of a failed query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// Other queries fail too, without a connection, a permission or a model.
    Decides,
    /// Several in a row make an outage.
    Counts,
    /// Several in a row make the provider suspect: the text may be the cause.
    Suspects,
    /// Says nothing about other queries: the service is full for a moment, refuses this text or has just
    /// changed.
    Passes,
}

impl ProviderHealth {
    /// Returns the outage, while the provider should not be asked.
    pub(in crate::engine) fn outage(&self) -> Option<&Outage> {
        self.outage.as_ref()
    }

    /// Records a query that was sent at `began` and failed. During an outage nothing changes: a search must
    /// not put the next attempt off.
    pub(in crate::engine) fn query_failed(
        &mut self,
        error: &EmbedError,
        began: Instant,
        now: Instant,
    ) -> Verdict {
        let weight = weight(error);
        if self.outage.is_some() || weight == Weight::Passes {
            return Verdict::Passes;
        }
        if weight != Weight::Decides {
            if self.counted_at.is_none_or(|counted| began >= counted) {
                self.failed_queries = self.failed_queries.saturating_add(1);
                self.counted_at = Some(now);
            }
            if self.failed_queries < MAX_FAILED_QUERIES {
                return Verdict::Passes;
            }
            if weight == Weight::Suspects {
                self.failed_queries = 0;
                return Verdict::Suspect;
            }
        }
        self.failed(error.clone(), now);
        Verdict::Down
    }

    /// Records a query that was answered.
    pub(in crate::engine) fn query_answered(&mut self) {
        self.failed_queries = 0;
    }

    /// Records a failed attempt of the background task; returns the outage.
    pub(in crate::engine) fn failed(&mut self, error: EmbedError, now: Instant) -> Outage {
        let down = Outage { retry_at: now + self.pause(&error), error };
        self.outage = Some(down.clone());
        down
    }

    /// Records an attempt of the background task that the service had no room for; returns the pause before
    /// the next one. Searches go on: each finds room or not.
    pub(in crate::engine) fn refused(&mut self, error: &EmbedError) -> Duration {
        self.pause(error)
    }

    /// Records an answer to the background task; returns true if it ends an outage.
    pub(in crate::engine) fn recovered(&mut self) -> bool {
        (self.attempts, self.failed_queries) = (0, 0);
        self.outage.take().is_some()
    }

    /// Exponential backoff from 1 s, or the longer pause that the service asks for.
    fn pause(&mut self, error: &EmbedError) -> Duration {
        let attempts = self.attempts;
        self.attempts = attempts.saturating_add(1);
        let longest = match error {
            EmbedError::ModelMissing { .. } => return MISSING_MODEL_PAUSE,
            EmbedError::ModelCorrupt { .. } => MAX_MODEL_RETRY_PAUSE,
            _ => MAX_RETRY_PAUSE,
        };
        let backoff = Duration::from_secs(1_u64 << attempts.min(6)).min(longest);
        backoff.max(error.retry_after().unwrap_or_default().min(MAX_ASKED_PAUSE))
    }
}

/// True if the service is there and has no room for one more request.
pub(in crate::engine) fn is_overload(error: &EmbedError) -> bool {
    matches!(error, EmbedError::Status { status: 429, .. })
}

fn weight(error: &EmbedError) -> Weight {
    match error {
        EmbedError::Status { status: 400 | 413 | 422 | 429, .. } | EmbedError::ModelChanged { .. } => {
            Weight::Passes
        }
        EmbedError::Answer { .. } | EmbedError::Status { status: 424 | 500, .. } => Weight::Suspects,
        EmbedError::Timeout { .. } | EmbedError::Status { status: 501.., .. } => Weight::Counts,
        EmbedError::Settings(_)
        | EmbedError::Unreachable { .. }
        | EmbedError::Status { .. }
        | EmbedError::ModelMissing { .. }
        | EmbedError::ModelCorrupt { .. }
        | EmbedError::Model(_) => Weight::Decides,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16) -> EmbedError {
        let (endpoint, message) = ("x".to_owned(), "m".to_owned());
        EmbedError::Status { endpoint, status, message, retry_after: None }
    }

    fn slow() -> EmbedError {
        EmbedError::Timeout { endpoint: "x".to_owned(), after: Duration::from_secs(2) }
    }

    fn unreachable() -> EmbedError {
        EmbedError::Unreachable { endpoint: "x".to_owned(), reason: "y".to_owned() }
    }

    #[test]
    fn a_model_that_is_fetched_is_noticed_at_once_and_a_service_is_spared() {
        let pauses = |error: EmbedError, attempts: u32| {
            let mut health = ProviderHealth::default();
            (0..attempts).map(|_| health.refused(&error).as_secs_f32()).collect::<Vec<_>>()
        };
        let missing = EmbedError::ModelMissing { model: "m", dir: "x".into() };
        assert_eq!(pauses(missing, 2), [0.25, 0.25]);
        assert_eq!(pauses(unreachable(), 8), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 40.0]);
        let asked = |seconds| EmbedError::Status {
            endpoint: "x".to_owned(),
            status: 429,
            message: String::new(),
            retry_after: Some(Duration::from_secs(seconds)),
        };
        assert_eq!(pauses(asked(3), 4), [3.0, 3.0, 4.0, 8.0], "as long as the service says, at least");
        assert_eq!(pauses(asked(3_600), 1), [300.0]);
    }

    #[test]
    fn a_refused_query_takes_vectors_from_no_other() {
        let (mut health, now) = (ProviderHealth::default(), Instant::now());
        for error in [status(429), status(422), EmbedError::ModelChanged { model: "m".to_owned() }] {
            (0..10).for_each(|_| {
                assert_eq!(health.query_failed(&error, now, now), Verdict::Passes, "{error}");
            });
        }
        let verdict = health.query_failed(&unreachable(), now, now);
        assert_eq!(verdict, Verdict::Down, "no connection is an outage at once");
        for error in [status(401), status(404)] {
            assert_eq!(ProviderHealth::default().query_failed(&error, now, now), Verdict::Down, "{error}");
        }
    }

    #[test]
    fn texts_of_one_client_that_have_no_vector_make_no_outage() {
        let endpoint = "x".to_owned();
        for error in [EmbedError::Answer { endpoint, reason: "NaN".to_owned() }, status(424), status(500)] {
            let (mut health, start) = (ProviderHealth::default(), Instant::now());
            let verdicts = [0, 1, 2, 3].map(|second| {
                let now = start + Duration::from_secs(second);
                health.query_failed(&error, now, now)
            });
            let expected = [Verdict::Passes, Verdict::Passes, Verdict::Suspect, Verdict::Passes];
            assert_eq!(verdicts, expected, "{error}");
            assert!(health.outage().is_none());
        }
    }

    #[test]
    fn slow_queries_at_one_time_are_one_and_several_in_a_row_an_outage() {
        let (mut health, start) = (ProviderHealth::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut failed = |error: &EmbedError, began, now| health.query_failed(error, at(began), at(now));
        for _ in 0..8 {
            assert_eq!(failed(&slow(), 0, 2), Verdict::Passes, "eight at once are one moment");
        }
        assert_eq!(failed(&slow(), 2, 4), Verdict::Passes);
        health.query_answered();
        let mut failed = |error: &EmbedError, began, now| health.query_failed(error, at(began), at(now));
        assert_eq!(failed(&slow(), 5, 7), Verdict::Passes, "an answer in between starts anew");
        assert_eq!(failed(&status(503), 7, 8), Verdict::Passes);
        assert_eq!(failed(&slow(), 9, 11), Verdict::Down);
        assert_eq!(failed(&unreachable(), 11, 11), Verdict::Passes, "it is down already");
        assert!(health.recovered() && !health.recovered());
    }
}
