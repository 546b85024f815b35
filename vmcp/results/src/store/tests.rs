use super::*;

const BOUNDS: Bounds = Bounds { per_owner: 10_000, total: 25_000 };

fn ring(secret: &str) -> KeyRing {
    KeyRing::from_secrets([secret]).unwrap()
}

/// Keeps a text for an owner; ids count up.
fn keep(store: &ResultStore, owner: u8, id: u8, text: &str, now: u64) -> Result<String, KeepError> {
    let keep = Keep {
        owner: [owner; 32],
        stored: Arc::new(StoredResult {
            origin: Origin { tool: "t".to_owned() },
            content: Content::of_text(text.to_owned()),
            expires: now + 100,
        }),
        id: [id; ID_BYTES],
        nonce: [id; 24],
        at_rest: true,
    };
    let ring = ring("a secret of enough bytes");
    let reference = keep.reference().to_string();
    store.keep(keep, BOUNDS, Moment { ring: &ring, now }).map(|()| reference)
}

fn get(store: &ResultStore, owner: u8, reference: &str, now: u64) -> Option<String> {
    let ring = ring("a secret of enough bytes");
    let stored = store.get(&[owner; 32], reference, Moment { ring: &ring, now })?;
    Some(stored.content.text().to_owned())
}

fn stores() -> (tempfile::TempDir, [ResultStore; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let stores = [ResultStore::open(None, 0), ResultStore::open(Some(folder.path().join("results")), 0)];
    (folder, stores)
}

#[test]
fn a_result_is_its_owners_alone_until_it_expires() {
    let (_folder, stores) = stores();
    for store in stores {
        let reference = keep(&store, 1, 1, r#"{"a":1}"#, 10).unwrap();
        assert_eq!(reference.len(), 26);
        assert_eq!(get(&store, 1, &reference, 109).as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(get(&store, 2, &reference, 20), None, "another's");
        assert_eq!(get(&store, 1, &reference, 110), None, "expired");
        for tampered in [
            reference.replace("res_", ""),
            format!("{reference}A"),
            reference.to_uppercase(),
            "res_../../etc/passwd".to_owned(),
            String::new(),
            format!("res_{}", "A".repeat(22)),
        ] {
            assert_eq!(get(&store, 1, &tampered, 20), None, "{tampered}");
        }
        store.sweep(110);
        assert_eq!(store.usage(), Usage::default());
    }
}

#[test]
fn the_least_recently_used_of_the_owner_goes_and_no_others() {
    let (_folder, stores) = stores();
    for store in stores {
        let text = "x".repeat(4_000);
        let other = keep(&store, 2, 100, &text, 1).unwrap();
        let first = keep(&store, 1, 1, &text, 1).unwrap();
        let second = keep(&store, 1, 2, &text, 1).unwrap();
        assert!(get(&store, 1, &first, 2).is_some());
        let third = keep(&store, 1, 3, &text, 3).unwrap();
        let is_kept = [&first, &second, &third].map(|reference| get(&store, 1, reference, 4).is_some());
        assert_eq!(is_kept, [true, false, true]);
        assert!(get(&store, 2, &other, 4).is_some());
        assert!(store.usage().bytes <= 3 * 4_200 && store.usage().evicted == 1, "{:?}", store.usage());
        for owner in 3..9 {
            keep(&store, owner, owner, &text, 5).unwrap();
        }
        assert!(store.usage().bytes <= BOUNDS.total, "{:?}", store.usage());
        assert!(matches!(keep(&store, 1, 9, &"y".repeat(10_001), 6), Err(KeepError::TooLarge { .. })));
    }
}

#[test]
fn files_outlive_the_process_and_open_with_the_same_keys_only() {
    let folder = tempfile::tempdir().unwrap();
    let open = |now| ResultStore::open(Some(folder.path().to_owned()), now);
    let first = open(0);
    let reference = keep(&first, 1, 1, "some text that is secret", 10).unwrap();
    drop(first);
    let again = open(20);
    assert_eq!(again.usage().results, 1);
    assert_eq!(get(&again, 1, &reference, 20).as_deref(), Some("some text that is secret"));
    let stranger = ring("another secret of enough bytes");
    assert!(again.get(&[1; 32], &reference, Moment { ring: &stranger, now: 20 }).is_none());
    let owner = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read_dir(&owner).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&file).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"secret"), "sealed");
    let mut altered = bytes.clone();
    altered[..8].copy_from_slice(&u64::MAX.to_be_bytes());
    std::fs::write(&file, &altered).unwrap();
    assert_eq!(get(&again, 1, &reference, 200), None, "the sealed expiry counts");
    altered = bytes;
    *altered.last_mut().unwrap() ^= 1;
    std::fs::write(&file, &altered).unwrap();
    assert_eq!(get(&again, 1, &reference, 20), None, "altered");
    drop(again);
    let (part, stranger) = (file.with_extension("part"), owner.join("notes"));
    for path in [&part, &stranger] {
        std::fs::write(path, "half a result").unwrap();
    }
    let changed = std::fs::metadata(&part).unwrap().modified().unwrap();
    let begun = changed.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs();
    open(begun + 3_599);
    assert!(part.exists(), "perhaps still written");
    open(begun + 3_600);
    assert!(!part.exists() && stranger.exists(), "only a part goes");
    std::fs::remove_file(&stranger).unwrap();
    std::fs::write(&file, &altered).unwrap();
    assert_eq!(open(1_000).usage().results, 0);
    assert!(!owner.exists(), "expired files are removed");
}
