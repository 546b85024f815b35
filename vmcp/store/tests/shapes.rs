//! Observed shapes on disk.

use vmcp_store::{StateStore, StoredShape};

fn shape(hash: &str, calls: u64) -> StoredShape {
    StoredShape {
        backend: "files".to_owned(),
        hash: hash.to_owned(),
        tool: "read".to_owned(),
        calls,
        shape: "{}".to_owned(),
        last_at: 7,
    }
}

#[test]
fn shapes_survive_a_restart_and_replace_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let store = StateStore::open(dir.path()).unwrap();
    store.put_shapes(&[shape("a", 1), shape("b", 2)]).unwrap();
    store.put_shapes(&[shape("a", 5)]).unwrap();
    drop(store);
    let store = StateStore::open(dir.path()).unwrap();
    assert_eq!(store.all_shapes().unwrap(), [shape("a", 5), shape("b", 2)]);
    store
        .delete_shapes(&[("files".to_owned(), "a".to_owned()), ("other".to_owned(), "b".to_owned())])
        .unwrap();
    assert_eq!(store.all_shapes().unwrap(), [shape("b", 2)]);
}
