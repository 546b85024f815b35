//! Randomness and wall-clock time.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the seconds since the Unix epoch; 0 if the clock is before it.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the milliseconds since the Unix epoch; 0 if the clock is before it.
pub fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the milliseconds since the Unix epoch as databases store them; 0 if the clock is before it.
pub fn now_ms() -> i64 {
    i64::try_from(now_millis()).unwrap_or(i64::MAX)
}

/// Returns the milliseconds of a time since the Unix epoch, as databases store them; 0 before the epoch.
pub fn milliseconds(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Returns a random UUID (version 4) as text.
pub(crate) fn random_uuid() -> String {
    uuid::Builder::from_random_bytes(random()).into_uuid().to_string()
}

/// Returns random bytes from the operating system's generator.
///
/// # Panics
///
/// Without a generator, where the system is broken: no session could be made safely.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[expect(
        clippy::expect_used,
        reason = "without randomness no session can be made safely; the system is broken"
    )]
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}
