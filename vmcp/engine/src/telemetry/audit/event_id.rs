//! Ids of events: random UUIDs (version 4), of which a thread draws the random bytes of many at once.

use std::cell::RefCell;

use uuid::{Builder, Uuid};

/// Ids whose bytes are drawn at once.
const DRAWN: usize = 64;

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { bytes: [[0; 16]; DRAWN], left: 0 }) };
}

/// Random bytes, of which the first `left` ids are not given out yet.
struct Pool {
    bytes: [[u8; 16]; DRAWN],
    left: usize,
}

/// Returns an id that no other event has.
pub(super) fn next() -> Uuid {
    POOL.with_borrow_mut(|pool| {
        if pool.left == 0 {
            if getrandom::fill(pool.bytes.as_flattened_mut()).is_err() {
                return Uuid::new_v4();
            }
            pool.left = DRAWN;
        }
        pool.left -= 1;
        let bytes = pool.bytes.get(pool.left).copied().unwrap_or_default();
        Builder::from_random_bytes(bytes).into_uuid()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_of_all_threads_are_different_random_uuids() {
        let draw = || (0..3 * DRAWN).map(|_| next()).collect::<Vec<_>>();
        let threads = [(); 4].map(|()| std::thread::spawn(draw));
        let ids: Vec<Uuid> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert!(ids.iter().all(|id| id.get_version_num() == 4), "{ids:?}");
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4 * 3 * DRAWN);
    }
}
