//! Learned pairs on disk.

use rusqlite::Connection;
use vmcp_store::{StateStore, StoredPair};

use crate::both_stores::both;

fn pair(id: &str, confidence: f64) -> StoredPair {
    StoredPair {
        id: id.to_owned(),
        backend: "files".to_owned(),
        tool: "read".to_owned(),
        model_id: "model".to_owned(),
        vector: vec![0.6, -0.8],
        query: Some("open the notes".to_owned()),
        confidence,
        last_used_at: 7,
        corrects: true,
    }
}

#[test]
fn pairs_survive_a_restart_and_replace_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let store = StateStore::open(dir.path()).unwrap();
    store.put_learned(&[pair("a", 1.5), StoredPair { query: None, ..pair("b", 0.5) }]).unwrap();
    store.put_learned(&[StoredPair { last_used_at: 9, corrects: false, ..pair("a", 1.3) }]).unwrap();
    drop(store);
    let store = StateStore::open(dir.path()).unwrap();
    let all = store.all_learned().unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0], StoredPair { last_used_at: 9, corrects: false, ..pair("a", 1.3) });
    assert_eq!(all[1].query, None);
    store.delete_learned(&["a".to_owned(), "unknown".to_owned()]).unwrap();
    assert_eq!(store.all_learned().unwrap().len(), 1);
}

#[test]
fn pairs_of_an_earlier_version_still_change_searches() {
    let dir = tempfile::tempdir().unwrap();
    let store = StateStore::open(dir.path()).unwrap();
    store.put_learned(&[StoredPair { corrects: false, ..pair("a", 1.5) }]).unwrap();
    drop(store);
    let raw = Connection::open(dir.path().join("state.db")).unwrap();
    raw.execute_batch("ALTER TABLE dynamic_entries DROP COLUMN corrects; DROP TABLE runs; DROP TABLE used_answers; DROP TABLE observed_shapes; DROP TABLE sessions; DROP TABLE session_events; DROP TABLE session_store; ALTER TABLE tool_baselines DROP COLUMN approved_at; DROP TABLE searches; DROP TABLE search_calls; DROP TABLE unsearched_calls; DROP TABLE tool_sequels; PRAGMA user_version = 3;").unwrap();
    drop(raw);
    let stored = StateStore::open(dir.path()).unwrap().all_learned().unwrap();
    assert_eq!(stored, [pair("a", 1.5)]);
}

#[test]
fn the_same_query_has_one_identity_and_another_has_another() {
    let id = StoredPair::id_of(None, "Open  the notes", "files", "read");
    assert_eq!(id, StoredPair::id_of(None, "open the Notes ", "files", "read"));
    assert_ne!(id, StoredPair::id_of(None, "open the note", "files", "read"));
    assert_ne!(id, StoredPair::id_of(None, "open the notes", "files", "write"));
    let owned = StoredPair::id_of(Some("ab12"), "open the notes", "files", "read");
    assert_ne!(id, owned);
    assert_eq!((StoredPair::owner_of(&owned), StoredPair::owner_of(&id)), (Some("ab12"), None));
    assert!(!id.contains("notes"), "{id}");
}

/// Hash of a query in 32 bits, as an ordinary string hash has it (`h · 31 + c`).
fn short_hash(query: &str) -> u32 {
    query.bytes().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)))
}

#[test]
fn queries_of_one_short_hash_stay_apart_and_a_repeated_one_is_kept_once() {
    let queries = ["sort pages count merge", "budget charts move users"];
    assert_eq!(short_hash(queries[0]), short_hash(queries[1]));
    both(|store| {
        for query in [queries[0], queries[1], queries[0]] {
            let id = StoredPair::id_of(None, query, "files", "read");
            store.put_learned(&[StoredPair { query: Some(query.to_owned()), ..pair(&id, 1.5) }]).unwrap();
        }
        let mut stored: Vec<_> =
            store.all_learned().unwrap().into_iter().filter_map(|pair| pair.query).collect();
        stored.sort_by_key(|query| queries.iter().position(|known| known == query));
        assert_eq!(stored, queries);
    });
}
