//! Exports that a collector refuses for the moment are sent again: exponential backoff with jitter.
//!
//! Source: the specification of OTLP, "Failures" of OTLP/HTTP.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};

use super::OtlpClient;

/// Attempts after the first one.
const MAX_RETRIES: u32 = 3;
/// Time before the second attempt; it doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Longest jitter, in milliseconds.
const MAX_JITTER_MS: u64 = 100;
/// Statuses after which another attempt may succeed.
const PASSING: [StatusCode; 4] = [
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// An attempt that failed.
struct FailedAttempt {
    reason: String,
    /// True if another attempt may succeed.
    is_passing: bool,
    /// Time that the collector wants to be left alone.
    pause: Duration,
}

impl OtlpClient {
    /// Sends a message in protobuf and returns the collector's message. Begins no attempt later than `limit`
    /// after the first one. An error names neither the URL nor a header.
    pub(in crate::telemetry) fn export(
        &self,
        url: &str,
        message: &Bytes,
        limit: Duration,
    ) -> Result<Bytes, String> {
        with_retries(limit, || self.exchange(url, message.clone()), pause)
    }
}

/// Waits on a thread of exports.
#[expect(clippy::disallowed_methods, reason = "the thread exports and does nothing else")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Makes attempts until one succeeds, fails for good, or is the last one.
fn with_retries(
    limit: Duration,
    attempt: impl Fn() -> Result<Response<Bytes>, String>,
    pause: impl Fn(Duration),
) -> Result<Bytes, String> {
    let started = Instant::now();
    let mut delay = FIRST_DELAY;
    let mut retries = 0;
    loop {
        let failed = match attempt() {
            Ok(answer) if answer.status().is_success() => return Ok(answer.into_body()),
            Ok(answer) => FailedAttempt::from(&answer),
            Err(reason) => FailedAttempt { reason, is_passing: true, pause: Duration::ZERO },
        };
        let jitter = Duration::from_millis(fastrand::u64(..=MAX_JITTER_MS));
        let wait = delay.max(failed.pause).saturating_add(jitter);
        let is_over = started.elapsed().saturating_add(wait) >= limit;
        if !failed.is_passing || is_over || retries == MAX_RETRIES {
            return Err(failed.reason);
        }
        pause(wait);
        delay *= 2;
        retries += 1;
    }
}

impl From<&Response<Bytes>> for FailedAttempt {
    fn from(answer: &Response<Bytes>) -> Self {
        let status = answer.status();
        let seconds = answer.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
        Self {
            reason: format!("the collector answered with status {}", status.as_u16()),
            is_passing: PASSING.contains(&status),
            pause: Duration::from_secs(seconds.unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Returns the outcome of the attempts, and the pauses between them in whole tenths of a second.
    fn outcome(statuses: &[u16], limit: Duration) -> (Result<Bytes, String>, Vec<u128>) {
        let (left, pauses) = (RefCell::new(statuses.iter()), RefCell::new(Vec::new()));
        let attempt = || {
            let status = *left.borrow_mut().next().expect("a further attempt");
            if status == 0 {
                return Err("unreachable".to_owned());
            }
            let mut answer = Response::new(Bytes::from_static(b"taken"));
            *answer.status_mut() = StatusCode::from_u16(status).unwrap();
            if status == 429 {
                answer.headers_mut().insert(RETRY_AFTER, "2".parse().unwrap());
            }
            Ok(answer)
        };
        let outcome = with_retries(limit, attempt, |time| pauses.borrow_mut().push(time.as_millis() / 100));
        (outcome, pauses.into_inner())
    }

    #[test]
    fn a_refusal_for_the_moment_is_met_with_three_more_attempts() {
        let long = Duration::from_secs(10);
        let (taken, pauses) = outcome(&[503, 0, 200], long);
        assert_eq!(taken.unwrap(), "taken");
        assert!(matches!(pauses[..], [1 | 2, 2 | 3]), "{pauses:?}");
        let (failed, pauses) = outcome(&[502, 504, 503, 503], long);
        assert_eq!(
            (failed.unwrap_err().as_str(), pauses.len()),
            ("the collector answered with status 503", 3)
        );
        let (failed, _) = outcome(&[0, 0, 0, 0], long);
        assert_eq!(failed.unwrap_err(), "unreachable");
    }

    #[test]
    fn a_refusal_for_good_and_a_passed_limit_end_the_attempts() {
        let (failed, pauses) = outcome(&[401], Duration::from_secs(10));
        assert_eq!(
            (failed.unwrap_err().as_str(), pauses.len()),
            ("the collector answered with status 401", 0)
        );
        let (failed, pauses) = outcome(&[503], Duration::from_millis(50));
        assert!(failed.is_err() && pauses.is_empty());
    }

    #[test]
    fn the_collector_says_how_long_it_wants_to_be_left_alone() {
        let (taken, pauses) = outcome(&[429, 200], Duration::from_secs(10));
        assert!(taken.is_ok() && matches!(pauses[..], [20 | 21]), "{pauses:?}");
        let (failed, pauses) = outcome(&[429], Duration::from_secs(1));
        assert!(failed.is_err() && pauses.is_empty());
    }
}
