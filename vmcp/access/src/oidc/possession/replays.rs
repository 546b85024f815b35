//! [`ProofReplays`]: proofs that this process has accepted; each is good once.
//!
//! Replicas do not tell each other: a proof that is stolen together with its token is good once at each, for
//! [`MAX_AGE`].

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::dpop_proof::{MAX_AGE, MAX_AHEAD, ProofId};
use crate::oidc::rejection::{ProofError, Rejection};

/// Time for which a proof is remembered: then its `iat` is too old.
const MEMORY: Duration = Duration::from_secs(MAX_AGE + MAX_AHEAD + 1);
/// Most proofs that are remembered, some 100 bytes each; a further one is refused: to forget an earlier one
/// would let it be used again.
const MAX_PROOFS: usize = 250_000;
/// Most proofs of one key, so that no client fills the store: 700 requests a second.
const MAX_PROOFS_OF_KEY: u32 = 50_000;

/// Accepted proofs.
#[derive(Debug, Default)]
pub(crate) struct ProofReplays(Mutex<Accepted>);

#[derive(Debug, Default)]
struct Accepted {
    ids: HashSet<ProofId>,
    /// From the oldest on, with the key's thumbprint.
    order: VecDeque<(Instant, ProofId, [u8; 32])>,
    by_key: HashMap<[u8; 32], u32>,
}

impl ProofReplays {
    /// Accepts a proof of a key, once.
    pub(super) fn admit(&self, key: [u8; 32], id: ProofId, now: Instant) -> Result<(), Rejection> {
        let mut accepted = self.0.lock();
        accepted.forget(now);
        if accepted.ids.contains(&id) {
            return Err(ProofError::Replayed.into());
        }
        let of_key = accepted.by_key.get(&key).copied().unwrap_or_default();
        if accepted.ids.len() >= MAX_PROOFS || of_key >= MAX_PROOFS_OF_KEY {
            return Err(Rejection::Busy);
        }
        accepted.ids.insert(id);
        accepted.order.push_back((now, id, key));
        accepted.by_key.insert(key, of_key + 1);
        Ok(())
    }
}

impl Accepted {
    fn forget(&mut self, now: Instant) {
        while let Some((at, id, key)) = self.order.front().copied() {
            if now.saturating_duration_since(at) < MEMORY {
                return;
            }
            self.order.pop_front();
            self.ids.remove(&id);
            if let Entry::Occupied(mut entry) = self.by_key.entry(key) {
                *entry.get_mut() -= 1;
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> ProofId {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_le_bytes());
        id
    }

    #[test]
    fn a_proof_is_good_once_and_one_key_does_not_fill_the_store() {
        let (replays, start) = (ProofReplays::default(), Instant::now());
        assert_eq!(replays.admit([1; 32], id(0), start), Ok(()));
        assert_eq!(replays.admit([1; 32], id(0), start), Err(ProofError::Replayed.into()));
        let last = (start + MEMORY).checked_sub(Duration::from_millis(1)).unwrap();
        assert_eq!(replays.admit([1; 32], id(0), last), Err(ProofError::Replayed.into()));
        for number in 1..MAX_PROOFS_OF_KEY {
            assert_eq!(replays.admit([1; 32], id(number), start), Ok(()), "{number}");
        }
        assert_eq!(replays.admit([1; 32], id(MAX_PROOFS_OF_KEY), start), Err(Rejection::Busy));
        assert_eq!(replays.admit([2; 32], id(MAX_PROOFS_OF_KEY), start), Ok(()));
        assert_eq!(replays.admit([1; 32], id(0), start + MEMORY), Ok(()), "its time has passed");
        let accepted = replays.0.lock();
        assert_eq!((accepted.ids.len(), accepted.order.len(), accepted.by_key.len()), (1, 1, 1));
    }

    #[test]
    fn a_full_store_forgets_nothing() {
        let (replays, start) = (ProofReplays::default(), Instant::now());
        for number in 0..MAX_PROOFS as u32 {
            replays.admit([(number % 100) as u8; 32], id(number), start).unwrap();
        }
        assert_eq!(replays.admit([200; 32], id(u32::MAX), start), Err(Rejection::Busy));
        assert_eq!(replays.admit([0; 32], id(0), start), Err(ProofError::Replayed.into()));
    }
}
