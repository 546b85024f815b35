//! [`RefusalFloods`]: refusals that leave an event, so many a second for each principal; the others are
//! counted, and the count is an event.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;

use super::event::queued_event::ShareKey;
use crate::access::identity::Principal;

/// Refusals of one principal in a second that leave events.
const MAX_OF_PRINCIPAL: u32 = 20;
/// Refusals of all strangers together in a second that leave events.
const MAX_OF_STRANGERS: u32 = 100;
/// Length of a window.
const WINDOW: Duration = Duration::from_secs(1);
/// Principals that are counted by themselves (LRU); the count of an evicted principal is told with the next
/// refusal of another.
const MAX_COUNTED: usize = 4096;

/// The windows of all principals.
#[derive(Debug)]
pub(super) struct RefusalFloods(Mutex<LruCache<ShareKey, Window>>);

/// Refusals of a principal in the present second.
#[derive(Debug)]
struct Window {
    since: Instant,
    told: u32,
    left_out: u64,
    principal: Principal,
}

/// The decision about one refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flood {
    /// It leaves an event, which tells of so many that left none before it.
    Told(u64),
    /// It leaves none. The count of a principal that made room is told in an event of its own.
    LeftOut,
}

impl Default for RefusalFloods {
    fn default() -> RefusalFloods {
        RefusalFloods(Mutex::new(LruCache::sparse(
            NonZeroUsize::new(MAX_COUNTED).unwrap_or(NonZeroUsize::MIN),
        )))
    }
}

impl RefusalFloods {
    /// Counts a refusal.
    pub(super) fn enter(&self, share: ShareKey, principal: &Principal, now: Instant) -> Flood {
        let most = if share == ShareKey::Strangers { MAX_OF_STRANGERS } else { MAX_OF_PRINCIPAL };
        let mut windows = self.0.lock();
        let evicted = (windows.len() == MAX_COUNTED && !windows.contains(&share))
            .then(|| windows.pop_lru())
            .flatten()
            .map_or(0, |(_, evicted)| evicted.left_out);
        let fresh = || Window { since: now, told: 0, left_out: evicted, principal: principal.clone() };
        let window = windows.get_or_insert_mut(share, fresh);
        if now.duration_since(window.since) >= WINDOW {
            (window.since, window.told) = (now, 0);
        }
        if window.told == most {
            window.left_out += 1;
            return Flood::LeftOut;
        }
        window.told += 1;
        Flood::Told(std::mem::take(&mut window.left_out))
    }

    /// Returns the counts of floods that have ended before `now`, each with its principal, and forgets them.
    pub(super) fn ended(&self, now: Instant) -> Vec<(ShareKey, Principal, u64)> {
        let mut windows = self.0.lock();
        let is_over = |window: &Window| window.left_out > 0 && now.duration_since(window.since) >= WINDOW;
        let over: Vec<ShareKey> =
            windows.iter().filter(|(_, window)| is_over(window)).map(|(share, _)| *share).collect();
        let taken = over.into_iter().filter_map(|share| windows.pop(&share).map(|window| (share, window)));
        taken.map(|(share, window)| (share, window.principal, window.left_out)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(principal: &Principal) -> ShareKey {
        ShareKey::Principal(principal.key())
    }

    #[test]
    fn a_flood_is_told_in_part_and_the_rest_is_counted_by_principal() {
        let (floods, start) = (RefusalFloods::default(), Instant::now());
        let (bob, alice) = (Principal::at("10.0.0.1"), Principal::at("10.0.0.2"));
        let enter = |principal: &Principal, at| floods.enter(share(principal), principal, at);
        let told = (0..150).filter(|_| enter(&bob, start) != Flood::LeftOut).count();
        assert_eq!(told, MAX_OF_PRINCIPAL as usize);
        assert_eq!(enter(&alice, start), Flood::Told(0), "others are told of");
        assert_eq!(enter(&bob, start + WINDOW), Flood::Told(130));
        assert_eq!(enter(&bob, start + WINDOW), Flood::Told(0));
    }

    #[test]
    fn the_count_of_a_flood_that_has_ended_is_not_forgotten() {
        let (floods, start) = (RefusalFloods::default(), Instant::now());
        let bob = Principal::at("10.0.0.1");
        for _ in 0..50 {
            floods.enter(share(&bob), &bob, start);
        }
        assert_eq!(floods.ended(start), []);
        assert_eq!(floods.ended(start + WINDOW), [(share(&bob), bob.clone(), 30)]);
        assert_eq!(floods.ended(start + WINDOW), []);
        // Many others make room for each other without a loss.
        for _ in 0..50 {
            floods.enter(share(&bob), &bob, start);
        }
        let mut told = 0;
        for number in 0..=MAX_COUNTED {
            let other = Principal::at(&format!("10.{}.{}.9", number / 250 + 1, number % 250));
            if let Flood::Told(left_out) = floods.enter(share(&other), &other, start) {
                told += left_out;
            }
        }
        assert_eq!(told, 30);
    }
}
