//! Runs of composite tools that another process can continue, and answers that were used.
//!
//! The driver of a run holds its lease and renews it. Once the lease is over, another driver claims the run;
//! then the first one can write it no more.

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::StateStore;
use crate::error::StoreError;

/// Runs of one owner whose lease may be over; beyond, the first to expire are forgotten.
pub const MAX_RUNS_OF_OWNER: usize = 100;

/// The first bytes of a holder that name its process; the others name the run's driver in it.
pub const HOLDER_PROCESS_BYTES: usize = 8;

/// A driver of a run, and the end of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLease {
    /// Random id of the driver. The first [`HOLDER_PROCESS_BYTES`] are the same for all drivers of a process.
    pub holder: [u8; 16],
    /// The present time.
    pub now: i64,
    /// End of the lease.
    pub until: i64,
}

/// A run as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptRun<'a> {
    /// Id of the run.
    pub id: &'a str,
    /// Digest of the principal and the tool.
    pub owner: &'a [u8; 32],
    /// Digest of the session and the arguments.
    pub request: &'a [u8; 32],
    /// Time after which the run is forgotten.
    pub expires_at: i64,
    /// State of the run, sealed.
    pub state: &'a str,
}

/// Name of the run that a process wants to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunName<'a> {
    /// The run of this id.
    Id(&'a str),
    /// A run of the same request.
    Request(&'a [u8; 32]),
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunClaim {
    /// The owner has no such run.
    Absent,
    /// A driver holds it; the lease ends in so many milliseconds, unless it is renewed.
    Held(i64),
    /// The claiming driver holds the lease now.
    Claimed {
        /// Id of the run.
        id: String,
        /// Its sealed state.
        state: String,
    },
}

impl StateStore {
    /// Keeps a new run. Expired runs are forgotten, and of the owner's abandoned runs all but the latest 100.
    pub fn insert_run(&self, run: &KeptRun<'_>, lease: RunLease) -> Result<(), StoreError> {
        let KeptRun { id, owner, request, expires_at, state } = run;
        self.write(|transaction| {
            transaction.execute("DELETE FROM runs WHERE expires_at <= ?1", [lease.now])?;
            transaction.execute(
                "DELETE FROM runs WHERE lease_until <= ?2 AND id IN (
                   SELECT id FROM runs WHERE owner = ?1 ORDER BY expires_at DESC LIMIT -1 OFFSET ?3)",
                params![owner, lease.now, MAX_RUNS_OF_OWNER - 1],
            )?;
            transaction.execute(
                "INSERT INTO runs (id, owner, request, process, lease_until, expires_at, state)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![id, owner, request, lease.holder, lease.until, expires_at, state],
            )?;
            Ok(())
        })
    }

    /// Moves the end of the lease of a run, and writes its state if there is one; false if the holder has
    /// lost the lease. The lease ends at once with the present time.
    pub fn update_run(&self, id: &str, state: Option<&str>, lease: RunLease) -> Result<bool, StoreError> {
        self.write(|transaction| {
            let changed = transaction.execute(
                "UPDATE runs SET state = coalesce(?3, state), lease_until = ?4
                 WHERE id = ?1 AND process = ?2",
                params![id, lease.holder, state, lease.until],
            )?;
            Ok(changed > 0)
        })
    }

    /// Forgets a run that has ended.
    pub fn remove_run(&self, id: &str, holder: &[u8; 16]) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction
                .execute("DELETE FROM runs WHERE id = ?1 AND process = ?2", params![id, holder])
                .map(drop)
        })
    }

    /// Claims a run whose lease is over. A run that this process drives itself counts only by its id.
    pub fn claim_run(
        &self,
        owner: &[u8; 32],
        name: RunName<'_>,
        lease: RunLease,
    ) -> Result<RunClaim, StoreError> {
        self.write(|transaction| {
            let Some((id, until, state)) = find(transaction, owner, name, lease)? else {
                return Ok(RunClaim::Absent);
            };
            if until > lease.now {
                return Ok(RunClaim::Held(until - lease.now));
            }
            transaction.execute(
                "UPDATE runs SET process = ?2, lease_until = ?3 WHERE id = ?1",
                params![id, lease.holder, lease.until],
            )?;
            Ok(RunClaim::Claimed { id, state })
        })
    }

    /// Notes that an answer is used; false if it was before. Known until `expires_at`.
    pub fn use_answer(&self, digest: &[u8; 32], now: i64, expires_at: i64) -> Result<bool, StoreError> {
        self.write(|transaction| {
            transaction.execute("DELETE FROM used_answers WHERE expires_at <= ?1", [now])?;
            let added = "INSERT OR IGNORE INTO used_answers (digest, expires_at) VALUES (?1, ?2)";
            Ok(transaction.execute(added, params![digest, expires_at])? > 0)
        })
    }
}

/// Returns id, end of the lease and state of a run; of several, the one whose lease ends first.
fn find(
    transaction: &Transaction<'_>,
    owner: &[u8; 32],
    name: RunName<'_>,
    lease: RunLease,
) -> rusqlite::Result<Option<(String, i64, String)>> {
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    match name {
        RunName::Id(id) => transaction
            .query_row(
                "SELECT id, lease_until, state FROM runs WHERE owner = ?1 AND id = ?2 AND expires_at > ?3",
                params![owner, id, lease.now],
                row,
            )
            .optional(),
        RunName::Request(request) => transaction
            .query_row(
                "SELECT id, lease_until, state FROM runs
                 WHERE owner = ?1 AND request = ?2 AND expires_at > ?3
                 AND (substr(process, 1, ?5) <> substr(?4, 1, ?5) OR lease_until <= ?3)
                 ORDER BY lease_until LIMIT 1",
                params![owner, request, lease.now, lease.holder, HOLDER_PROCESS_BYTES],
                row,
            )
            .optional(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: [u8; 32] = [1; 32];
    const REQUEST: [u8; 32] = [2; 32];

    fn lease(process: u8, now: i64) -> RunLease {
        RunLease { holder: [process; 16], now, until: now + 10 }
    }

    fn run(id: &str) -> KeptRun<'_> {
        KeptRun { id, owner: &OWNER, request: &REQUEST, expires_at: 1000, state: "s0" }
    }

    #[test]
    fn a_run_belongs_to_the_driver_with_the_lease() {
        let store = StateStore::in_memory().unwrap();
        store.insert_run(&run("r"), lease(1, 0)).unwrap();
        let claim =
            |process, now| store.claim_run(&OWNER, RunName::Request(&REQUEST), lease(process, now)).unwrap();
        assert_eq!(claim(2, 4), RunClaim::Held(6));
        assert_eq!(claim(1, 4), RunClaim::Absent, "it is no abandoned run of its own process");
        assert!(store.update_run("r", Some("s1"), lease(1, 5)).unwrap());
        assert_eq!(claim(2, 14), RunClaim::Held(1), "renewed");
        assert_eq!(claim(2, 15), RunClaim::Claimed { id: "r".to_owned(), state: "s1".to_owned() });
        assert!(!store.update_run("r", Some("s2"), lease(1, 16)).unwrap(), "the lease is lost");
        assert!(!store.update_run("r", None, lease(1, 16)).unwrap());
        store.remove_run("r", &[1; 16]).unwrap();
        assert_eq!(claim(3, 16), RunClaim::Held(9), "and it is still there");
        store.remove_run("r", &[2; 16]).unwrap();
        assert_eq!(claim(3, 99), RunClaim::Absent);
        assert!(!store.update_run("r", Some("s3"), lease(1, 99)).unwrap(), "no late writer brings it back");
    }

    #[test]
    fn two_drivers_of_one_process_do_not_share_a_run() {
        let store = StateStore::in_memory().unwrap();
        let lease = |driver, now| {
            let mut holder = [1; 16];
            holder[15] = driver;
            RunLease { holder, now, until: now + 10 }
        };
        store.insert_run(&run("r"), lease(1, 0)).unwrap();
        let claim = |now| store.claim_run(&OWNER, RunName::Request(&REQUEST), lease(2, now)).unwrap();
        assert_eq!(claim(9), RunClaim::Absent, "it is no abandoned run of its own process");
        assert!(matches!(claim(10), RunClaim::Claimed { .. }), "the first driver could not renew its lease");
        assert!(!store.update_run("r", Some("s1"), lease(1, 11)).unwrap());
        assert!(store.update_run("r", None, lease(2, 11)).unwrap());
        let by_id = store.claim_run(&OWNER, RunName::Id("r"), lease(3, 21)).unwrap();
        assert_eq!(by_id, RunClaim::Claimed { id: "r".to_owned(), state: "s0".to_owned() });
    }

    #[test]
    fn a_run_is_named_by_its_owner_only_and_until_it_expires() {
        let store = StateStore::in_memory().unwrap();
        store.insert_run(&run("r"), lease(1, 0)).unwrap();
        let by_id = |owner, now| store.claim_run(owner, RunName::Id("r"), lease(2, now)).unwrap();
        assert_eq!(by_id(&[9; 32], 20), RunClaim::Absent);
        assert_eq!(by_id(&OWNER, 1000), RunClaim::Absent);
        assert!(matches!(by_id(&OWNER, 999), RunClaim::Claimed { .. }));
    }

    #[test]
    fn abandoned_runs_of_one_owner_are_bounded_and_live_ones_stay() {
        let store = StateStore::in_memory().unwrap();
        store.insert_run(&run("live"), lease(1, 5000 - 4100)).unwrap();
        store.update_run("live", None, RunLease { until: 900, ..lease(1, 890) }).unwrap();
        for number in 0..150 {
            let id = format!("r{number:03}");
            let run = KeptRun { id: &id, expires_at: 2000 + number, ..run("") };
            store.insert_run(&run, RunLease { until: 20 + number, ..lease(1, 10 + number) }).unwrap();
        }
        let there =
            |id: &str| store.claim_run(&OWNER, RunName::Id(id), lease(2, 500)).unwrap() != RunClaim::Absent;
        assert!(there("live") && there("r149") && there("r060"));
        assert!(!there("r000") && !there("r030"));
    }

    #[test]
    fn an_answer_is_used_once() {
        let store = StateStore::in_memory().unwrap();
        assert!(store.use_answer(&[1; 32], 0, 10).unwrap());
        assert!(!store.use_answer(&[1; 32], 9, 19).unwrap());
        assert!(store.use_answer(&[2; 32], 9, 19).unwrap());
        assert!(store.use_answer(&[1; 32], 10, 20).unwrap(), "it is forgotten");
    }
}
