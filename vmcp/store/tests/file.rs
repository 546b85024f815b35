//! Properties of the file: permissions, other processes, damage, versions.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::fs;
use std::path::Path;
use std::process::Command;

use rusqlite::Connection;
use vmcp_store::{ContentKey, FILE_NAME, Store, StoreError, ToolVector};

fn put(store: &Store, name: &str) -> ContentKey {
    let key = ContentKey::new(1, "m", name);
    let vector =
        ToolVector { key, backend: "s", tool: name, description: "", model_id: "m", vector: &[0.6, 0.8] };
    store.put_vectors(&[vector], 7).unwrap();
    key
}

fn unusable(dir: &Path) -> std::path::PathBuf {
    dir.join(format!("{FILE_NAME}.unusable"))
}

#[test]
fn a_reopened_file_has_what_was_stored() {
    let dir = tempfile::tempdir().unwrap();
    let key = put(&Store::open(dir.path()).unwrap(), "t");
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.vectors(&[key]).unwrap()[&key], [0.6, 0.8]);
    assert!(!unusable(dir.path()).exists());
}

#[cfg(unix)]
#[test]
fn folder_and_files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("a/b");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;

    let store = Store::open(&dir).unwrap();
    put(&store, "t");
    assert_eq!(mode(&dir), 0o700);
    let files: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.iter().any(|path| path.to_string_lossy().ends_with("-wal")), "{files:?}");
    for file in &files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }

    // A file that was once readable by others is closed to them.
    drop(store);
    fs::set_permissions(dir.join(FILE_NAME), fs::Permissions::from_mode(0o644)).unwrap();
    let _store = Store::open(&dir).unwrap();
    assert_eq!(mode(&dir.join(FILE_NAME)), 0o600);
}

#[test]
fn the_schema_has_every_column_of_the_seed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    put(&store, "t");
    let raw = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    raw.prepare(
        "SELECT id, backend_id, tool_name, tool_description, embedding, model_id, created_at, updated_at,
                description_hash, dimensions FROM tool_embeddings",
    )
    .unwrap();
    raw.prepare("SELECT server_name, tool_name, schema_hash, last_checked_at FROM tool_schema_hashes")
        .unwrap();
    let index =
        "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name = 'idx_tool_embeddings_backend'";
    assert_eq!(raw.query_row(index, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    let blob: Vec<u8> = raw.query_row("SELECT embedding FROM tool_embeddings", [], |row| row.get(0)).unwrap();
    assert_eq!(blob, [0.6_f32.to_le_bytes(), 0.8_f32.to_le_bytes()].concat());
}

#[test]
fn a_blob_of_another_width_is_a_miss() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let key = put(&store, "t");
    let raw = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    for blob in [vec![0_u8; 40], vec![0; 7], vec![]] {
        raw.execute("UPDATE tool_embeddings SET embedding = ?1", [blob]).unwrap();
        assert!(store.vectors(&[key]).unwrap().is_empty());
    }
}

#[test]
fn a_damaged_file_is_moved_aside_and_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    for garbage in [b"this is no database, however long it is".repeat(50), vec![0xff; 17]] {
        fs::write(dir.path().join(FILE_NAME), &garbage).unwrap();
        put(&Store::open(dir.path()).unwrap(), "t");
        assert_eq!(fs::read(unusable(dir.path())).unwrap(), garbage);
    }
}

#[test]
fn a_file_damaged_in_the_middle_is_moved_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    {
        let store = Store::open(dir.path()).unwrap();
        for n in 0..200 {
            put(&store, &format!("tool{n}"));
        }
    }
    let mut bytes = fs::read(&path).unwrap();
    let page = 4096;
    assert!(bytes.len() > 4 * page);
    bytes[page..3 * page].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert!(unusable(dir.path()).exists());
    put(&store, "t");
}

#[test]
fn a_file_of_a_newer_version_is_moved_aside() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    let raw = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    put(&Store::open(dir.path()).unwrap(), "t");
    assert!(unusable(dir.path()).exists());
}

#[test]
fn hashes_and_changes_of_an_earlier_version_are_those_of_tools() {
    let dir = tempfile::tempdir().unwrap();
    let raw = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    raw.execute_batch(
        "CREATE TABLE tool_embeddings (id INTEGER PRIMARY KEY, backend_id TEXT, tool_name TEXT,
           tool_description TEXT, description_hash BLOB, embedding BLOB, dimensions INTEGER, model_id TEXT,
           created_at INTEGER, updated_at INTEGER, UNIQUE (backend_id, tool_name));
         CREATE TABLE tool_schema_hashes (server_name TEXT, tool_name TEXT, schema_hash TEXT,
           last_checked_at INTEGER, UNIQUE (server_name, tool_name));
         CREATE TABLE tool_changes (id INTEGER PRIMARY KEY, server_name TEXT, tool_name TEXT, kind TEXT,
           old_hash TEXT, new_hash TEXT, changed_at INTEGER);
         CREATE TABLE tool_schemas (server_name TEXT PRIMARY KEY, fingerprint TEXT, definitions TEXT,
           saved_at INTEGER);
         INSERT INTO tool_schema_hashes VALUES ('s', 't', 'aa', 1);
         INSERT INTO tool_embeddings VALUES (1, 's', 't', 'd', x'00', x'0000803f', 1, 'm', 1, 1);
         INSERT INTO tool_changes VALUES (1, 's', 'gone', 'removed', 'bb', NULL, 1);
         PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(raw);
    let store = Store::open(dir.path()).unwrap();
    assert!(!unusable(dir.path()).exists());
    assert_eq!(store.schema_hash("s", "t").unwrap().unwrap().hash, "aa");
    let removed = store.removed_hashes("s").unwrap();
    assert_eq!(removed[&(vmcp_store::DefinitionKind::Tool, "gone".to_owned())], "bb");
    assert_eq!(store.forget_backends(&["s"]).unwrap(), 1, "its vector was kept too");
}

#[test]
fn a_folder_that_cannot_be_made_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file.join("below")).err().unwrap();
    assert!(matches!(error, StoreError::Unwritable { .. }), "{error}");
    assert!(error.to_string().contains("optimizer.storage.dir"), "{error}");
}

/// The other process of the test below, not a test of its own: that test runs this binary again with the
/// variable set.
#[test]
fn writer_process() {
    let Some(dir) = std::env::var_os("VMCP_STORE_TEST_DIR") else { return };
    let name = std::env::var("VMCP_STORE_TEST_NAME").unwrap();
    let store = Store::open(Path::new(&dir)).unwrap();
    for n in 0..100 {
        put(&store, &format!("{name}{n}"));
    }
}

#[test]
fn several_processes_share_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> = ["p", "q", "r"]
        .map(|name| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "file::writer_process"])
                .env("VMCP_STORE_TEST_DIR", dir.path())
                .env("VMCP_STORE_TEST_NAME", name)
                .spawn()
                .unwrap()
        })
        .into();
    let store = Store::open(dir.path()).unwrap();
    let keys: Vec<_> = (0..100).map(|n| put(&store, &format!("own{n}"))).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let theirs =
        ["p", "q", "r"].map(|name| (0..100).map(move |n| ContentKey::new(1, "m", &format!("{name}{n}"))));
    let keys: Vec<_> = keys.into_iter().chain(theirs.into_iter().flatten()).collect();
    assert_eq!(store.vectors(&keys).unwrap().len(), 400);
    assert!(!unusable(dir.path()).exists());
}
