//! The contract of [`Store`], checked for a file and in memory alike.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use vmcp_store::DefinitionKind::{self, Tool};
use vmcp_store::{ChangeKind, ContentKey, RecordedChange, Store, ToolVector};

/// Runs `check` on both kinds of store.
fn both(check: impl Fn(&Store)) {
    check(&Store::in_memory().unwrap());
    let dir = tempfile::tempdir().unwrap();
    check(&Store::open(dir.path()).unwrap());
}

fn tool<'a>(backend: &'a str, tool: &'a str, text: &str, vector: &'a [f32]) -> ToolVector<'a> {
    let key = ContentKey::new(1, "m", text);
    ToolVector { key, backend, tool, description: "what it does", model_id: "m", vector }
}

#[test]
fn vectors_come_back_by_the_key_of_their_text() {
    both(|store| {
        let (a, b, unknown) =
            (ContentKey::new(1, "m", "a"), ContentKey::new(1, "m", "b"), ContentKey::new(1, "m", "c"));
        let vectors = [tool("s", "a", "a", &[0.6, 0.8]), tool("s", "b", "b", &[1.0, 0.0])];
        store.put_vectors(&vectors, 1).unwrap();
        let found = store.vectors(&[a, b, unknown]).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[&a], [0.6, 0.8]);
        assert_eq!(found[&b], [1.0, 0.0]);
        assert!(store.vectors(&[]).unwrap().is_empty());
    });
}

#[test]
fn the_key_covers_version_model_and_text_without_ambiguity() {
    let keys = [
        ContentKey::new(1, "m", "text"),
        ContentKey::new(2, "m", "text"),
        ContentKey::new(1, "mt", "ext"),
        ContentKey::new(1, "", "mtext"),
        ContentKey::new(1, "n", "text"),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[at + 1..].contains(key), "key {at} is not unique");
    }
}

#[test]
fn a_changed_text_replaces_the_tools_row() {
    both(|store| {
        store.put_vectors(&[tool("s", "t", "old", &[1.0])], 1).unwrap();
        store.put_vectors(&[tool("s", "t", "new", &[0.5])], 2).unwrap();
        let (old, new) = (ContentKey::new(1, "m", "old"), ContentKey::new(1, "m", "new"));
        let found = store.vectors(&[old, new]).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(new, vec![0.5])]);
    });
}

#[test]
fn processes_with_different_models_keep_their_vectors_side_by_side() {
    both(|store| {
        let key = |model: &str| ContentKey::new(1, model, "text");
        let models = ["a", "b", "c", "d", "e"];
        let put = |model: &str, now: i64| {
            let row = ToolVector { key: key(model), model_id: model, ..tool("s", "t", "text", &[1.0]) };
            store.put_vectors(&[row], now).unwrap();
        };
        put("a", 1);
        put("b", 2);
        assert_eq!(store.vectors(&models.map(key)).unwrap().len(), 2, "b does not take the place of a");
        put("a", 3);
        for (at, model) in models.iter().enumerate().skip(2) {
            put(model, 2 + i64::try_from(at).unwrap());
        }
        let found = store.vectors(&models.map(key)).unwrap();
        assert_eq!(found.len(), 4);
        assert!(!found.contains_key(&key("b")), "the model with the oldest row gives way");
    });
}

#[test]
fn many_keys_are_answered_in_one_go() {
    both(|store| {
        let names: Vec<String> = (0..5000).map(|n| format!("tool{n}")).collect();
        let vectors: Vec<_> = names.iter().map(|name| tool("s", name, name, &[1.0, 2.0, 3.0])).collect();
        store.put_vectors(&vectors, 1).unwrap();
        let keys: Vec<_> = vectors.iter().map(|vector| vector.key).collect();
        assert_eq!(store.vectors(&keys).unwrap().len(), 5000);
    });
}

#[test]
fn tools_and_backends_that_are_gone_are_forgotten() {
    both(|store| {
        let kept = tool("s", "kept", "kept", &[1.0]);
        let vectors = [kept.clone(), tool("s", "gone", "gone", &[1.0]), tool("other", "t", "t", &[1.0])];
        store.put_vectors(&vectors, 1).unwrap();
        store.set_schema_hashes("s", [(Tool, "kept", "1"), (Tool, "gone", "2")], 1).unwrap();
        store.set_schema_hashes("other", [(Tool, "t", "3")], 1).unwrap();
        store.save_definitions("other", "f", "{}", 1).unwrap();

        assert_eq!(store.retain_definitions("s", &[(Tool, "kept")]).unwrap(), 1);
        assert_eq!(store.schema_hashes("s").unwrap().len(), 1);
        assert_eq!(store.forget_backends(&["other"]).unwrap(), 1);
        assert_eq!(store.schema_hash("other", "t").unwrap(), None);
        assert_eq!(store.definitions("other", "f").unwrap(), None);

        let keys = vectors.map(|vector| vector.key);
        let left: Vec<_> = store.vectors(&keys).unwrap().into_keys().collect();
        assert_eq!(left, [kept.key]);
    });
}

#[test]
fn a_backend_that_another_process_used_of_late_is_retained() {
    both(|store| {
        for (backend, at) in [("configured", 1), ("unused", 1), ("used", 1)] {
            store.put_vectors(&[tool(backend, "t", backend, &[1.0])], at).unwrap();
            store.save_definitions(backend, "f", "{}", at).unwrap();
        }
        store.set_schema_hashes("used", [(Tool, "t", "1")], 5).unwrap();
        assert_eq!(store.retain_backends(&["configured"], 5).unwrap(), 1);
        let is_saved = |backend| store.definitions(backend, "f").unwrap().is_some();
        assert_eq!(["configured", "unused", "used"].map(is_saved), [true, false, true]);
        assert_eq!(store.retain_backends(&["configured"], 6).unwrap(), 1);
        assert!(!is_saved("used"));
    });
}

#[test]
fn schema_hashes_move_their_time_also_when_unchanged() {
    both(|store| {
        assert_eq!(store.schema_hash("s", "t").unwrap(), None);
        store.set_schema_hashes("s", [(Tool, "t", "aa"), (Tool, "u", "bb")], 1).unwrap();
        store.set_schema_hashes("s", [(Tool, "t", "aa")], 2).unwrap();
        let hash = store.schema_hash("s", "t").unwrap().unwrap();
        assert_eq!((hash.hash.as_str(), hash.last_checked_at), ("aa", 2));
        let names: Vec<_> =
            store.schema_hashes("s").unwrap().into_iter().map(|hash| hash.definition.1).collect();
        assert_eq!(names, ["t", "u"]);
    });
}

fn change(tool: &str, kind: ChangeKind, at: i64) -> RecordedChange {
    let hash = Some(format!("hash{at}"));
    let (before, after) = match kind {
        ChangeKind::Added => (None, hash),
        ChangeKind::Updated => (Some("before".to_owned()), hash),
        ChangeKind::Removed => (hash, None),
    };
    RecordedChange { backend: "s".to_owned(), definition: (Tool, tool.to_owned()), kind, before, after, at }
}

#[test]
fn changes_are_kept_newest_first() {
    both(|store| {
        let changes = [
            change("a", ChangeKind::Added, 1),
            change("b", ChangeKind::Added, 2),
            change("a", ChangeKind::Updated, 3),
            change("b", ChangeKind::Removed, 4),
        ];
        store.record_changes(&changes).unwrap();
        let [first, .., fourth] = changes;
        assert_eq!(store.changes(1).unwrap(), std::slice::from_ref(&fourth));
        assert_eq!(store.changes(100).unwrap().last(), Some(&first));
    });
}

#[test]
fn the_record_of_changes_is_bounded() {
    both(|store| {
        let changes: Vec<_> = (0..10_050).map(|at| change("t", ChangeKind::Updated, at)).collect();
        store.record_changes(&changes).unwrap();
        let kept = store.changes(usize::MAX).unwrap();
        assert_eq!(kept.len(), 10_000);
        assert_eq!(kept.last().unwrap().at, 50);
    });
}

#[test]
fn changes_of_resources_push_out_none_of_tools() {
    both(|store| {
        let flood = (0..10_050).map(|at| RecordedChange {
            definition: (DefinitionKind::Resource, "file:///a".to_owned()),
            ..change("a", ChangeKind::Updated, at)
        });
        store.record_changes(&[change("a", ChangeKind::Removed, 1)]).unwrap();
        store.record_changes(&flood.collect::<Vec<_>>()).unwrap();
        assert_eq!(store.changes(usize::MAX).unwrap().len(), 10_001);
        assert!(store.removed_hashes("s").unwrap().contains_key(&(Tool, "a".to_owned())));
    });
}

#[test]
fn a_prompt_and_a_tool_of_one_name_have_hashes_of_their_own() {
    both(|store| {
        store.set_schema_hashes("s", [(Tool, "a", "1"), (DefinitionKind::Prompt, "a", "2")], 1).unwrap();
        assert_eq!(store.schema_hash("s", "a").unwrap().unwrap().hash, "1");
        store.retain_definitions("s", &[(DefinitionKind::Prompt, "a")]).unwrap();
        let left: Vec<_> = store.schema_hashes("s").unwrap().into_iter().map(|hash| hash.hash).collect();
        assert_eq!(left, ["2"]);
    });
}

#[test]
fn definitions_belong_to_a_backend_as_it_was_configured() {
    both(|store| {
        store.save_definitions("s", "one", r#"{"tools":[]}"#, 1).unwrap();
        let saved = store.definitions("s", "one").unwrap().unwrap();
        assert_eq!((saved.json.as_str(), saved.saved_at), (r#"{"tools":[]}"#, 1));
        assert_eq!(store.definitions("s", "two").unwrap(), None);
        store.save_definitions("s", "two", "{}", 2).unwrap();
        assert_eq!(store.definitions("s", "one").unwrap(), None);
    });
}
