//! Token bucket over the bytes that a program writes to its standard error: a program that writes without end
//! must not fill the disk by vmcp's log.

use std::time::Instant;

/// Bytes that a program may write at once.
const BURST: u64 = 256 * 1024;
/// Bytes that it may write in each second after that.
const PER_SECOND: u64 = 8 * 1024;

/// The bytes that a program may still write to the log.
#[derive(Debug)]
pub(crate) struct LogAllowance {
    /// Bytes left at `since`.
    left: u64,
    since: Instant,
    /// Lines held back since the last one that was allowed.
    held_back: u64,
}

/// The fate of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineFate {
    /// The line is logged; `held_back` lines before it were not.
    Logged { held_back: u64 },
    /// The line is left out.
    HeldBack,
}

impl LogAllowance {
    pub(crate) fn new(now: Instant) -> Self {
        Self { left: BURST, since: now, held_back: 0 }
    }

    /// Decides about a line of `bytes`.
    pub(crate) fn take(&mut self, bytes: usize, now: Instant) -> LineFate {
        let earned = now.saturating_duration_since(self.since).as_millis() * u128::from(PER_SECOND) / 1000;
        if earned > 0 {
            self.left = self.left.saturating_add(u64::try_from(earned).unwrap_or(BURST)).min(BURST);
            self.since = now;
        }
        // After a pause the program gets a share at a time, or each line would announce the one before.
        let wanted = if self.held_back > 0 { BURST / 4 } else { 0 }.max(bytes as u64);
        if self.left < wanted {
            self.held_back += 1;
            return LineFate::HeldBack;
        }
        self.left -= bytes as u64;
        LineFate::Logged { held_back: std::mem::take(&mut self.held_back) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let start = Instant::now();
        let mut allowance = LogAllowance::new(start);
        let logged = (0..20_000).filter(|_| allowance.take(1024, start) != LineFate::HeldBack).count();
        assert_eq!(logged as u64, BURST / 1024);
        let later = start + Duration::from_mins(1);
        assert_eq!(allowance.take(100, later), LineFate::Logged { held_back: 20_000 - logged as u64 });
        assert_eq!(allowance.take(100, later), LineFate::Logged { held_back: 0 });
    }

    #[test]
    fn a_steady_program_loses_no_line() {
        let start = Instant::now();
        let mut allowance = LogAllowance::new(start);
        for second in 0..1000 {
            let now = start + Duration::from_secs(second);
            assert_eq!(allowance.take(4096, now), LineFate::Logged { held_back: 0 });
        }
    }
}
