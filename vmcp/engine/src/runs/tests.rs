use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vmcp_store::RunClaim;

use super::kept::ClaimError;
use super::record::RunLookup;
use super::report::{RunBook, RunState};
use super::*;
use crate::access::identity::Principal;
use crate::engine::{Engine, Options, Storage};
use crate::testing::{KEYWORDS, config};

const KEYS: &str = "server: { sessionKeys: [a key of enough characters for runs] }\n";

/// A process with the storage folder of others.
async fn process(dir: &Path) -> Engine {
    let storage = Storage::Dir(dir.to_owned());
    let options = Options { storage, ..Options::default() };
    Engine::start(config(&format!("{KEYWORDS}{KEYS}")), options).await.unwrap()
}

fn lookup(arguments: &str, id: Option<&str>) -> RunLookup {
    RunLookup::new(&Principal::default(), Some([3; 16]), "triage", arguments, id.map(str::to_owned))
}

#[tokio::test]
async fn a_run_of_an_ended_process_is_continued_by_one_other_process() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = futures::join!(process(folder.path()), process(folder.path()));
    let snapshot = one.snapshot();
    let life = Duration::from_mins(5);
    let run = one
        .runs()
        .keeper(&snapshot.config, snapshot.ring(), &lookup("{}", None), "r1", life, CancellationToken::new())
        .await
        .unwrap();
    run.keep("state one").await.unwrap();
    run.keep("state two").await.unwrap();
    let claim = async |engine: &Engine, lookup: RunLookup| {
        engine
            .runs()
            .claim(&engine.snapshot().config, engine.snapshot().ring(), &lookup, CancellationToken::new())
            .await
    };
    assert!(claim(&other, lookup("{\"a\":1}", None)).await.unwrap().is_none(), "other arguments");
    // The lease ends with the run's request, here without its result.
    drop(run);
    let (continued, state) = loop {
        if let Some(claimed) = claim(&other, lookup("{}", None)).await.unwrap() {
            break claimed;
        }
    };
    assert_eq!(state, "state two");
    // It has a driver again: a second claim, at this process or at another one, gets nothing.
    assert!(claim(&other, lookup("{}", None)).await.unwrap().is_none());
    let store = one.runs().store(&snapshot.config).await;
    let second = store.claim(&lookup("{}", None), one.runs().holder()).await.unwrap();
    assert!(matches!(second, RunClaim::Held(_)), "{second:?}");
    continued.keep("state three").await.unwrap();
}

#[tokio::test]
async fn a_state_beyond_the_limit_is_not_continued_and_kept_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let engine = process(folder.path()).await;
    let snapshot = engine.snapshot();
    let life = Duration::from_mins(5);
    let named = lookup("{}", Some("r1"));
    let cancel = CancellationToken::new();
    let run = engine
        .runs()
        .keeper(&snapshot.config, snapshot.ring(), &named, "r1", life, cancel.clone())
        .await
        .unwrap();
    run.keep("state").await.unwrap();
    assert!(run.is_kept());
    run.keep(&"x".repeat(1024 * 1024 + 1)).await.unwrap();
    assert!(!run.is_kept());
    let store = engine.runs().store(&snapshot.config).await;
    store.update("r1", None, Duration::ZERO, run.holder).await.unwrap();
    let refused = engine.runs().claim(&snapshot.config, snapshot.ring(), &named, cancel).await.err();
    assert_eq!(refused, Some(ClaimError::TooLarge("r1".to_owned())));
}

#[tokio::test]
async fn a_process_without_the_lease_writes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = futures::join!(process(folder.path()), process(folder.path()));
    let life = Duration::from_mins(5);
    let cancel = CancellationToken::new();
    let by_request = lookup("{}", None);
    let run = one
        .runs()
        .keeper(&one.snapshot().config, one.snapshot().ring(), &by_request, "r1", life, cancel.clone())
        .await
        .unwrap();
    run.keep("state").await.unwrap();
    let store = one.runs().store(&one.snapshot().config).await;
    store.update("r1", None, Duration::ZERO, run.holder).await.unwrap();
    let stranger = RunLookup::new(&Principal::at("10.0.0.9"), None, "triage", "{}", Some("r1".to_owned()));
    let refused = other
        .runs()
        .claim(&other.snapshot().config, other.snapshot().ring(), &stranger, cancel.clone())
        .await
        .err();
    assert_eq!(refused, Some(ClaimError::Absent("r1".to_owned())));
    let by_id = lookup("other arguments", Some("r1"));
    let (continued, state) = other
        .runs()
        .claim(&other.snapshot().config, other.snapshot().ring(), &by_id, cancel.clone())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(state, "state");
    assert_eq!(run.keep("later").await.unwrap_err(), "another call has continued this run");
    continued.keep("later").await.unwrap();
    continued.end().await;
    let gone =
        other.runs().claim(&other.snapshot().config, other.snapshot().ring(), &by_id, cancel).await.err();
    assert_eq!(gone, Some(ClaimError::Absent("r1".to_owned())));
}

#[tokio::test]
async fn an_answer_is_good_once_over_the_processes_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = futures::join!(process(folder.path()), process(folder.path()));
    let snapshot = one.snapshot();
    let config = &snapshot.config;
    assert!(one.runs().use_answer(config, "a state").await.unwrap());
    assert!(!one.runs().use_answer(config, "a state").await.unwrap());
    assert!(!other.runs().use_answer(config, "a state").await.unwrap());
    assert!(other.runs().use_answer(config, "another").await.unwrap());
    let alone = Runs::new(None);
    assert!(alone.use_answer(config, "a state").await.unwrap());
    assert!(!alone.use_answer(config, "a state").await.unwrap());
}

#[test]
fn the_book_has_the_latest_runs_with_their_steps() {
    let book = RunBook::default();
    let begin = |id: &str| book.begins(id, "triage", "alice", Duration::from_secs(1_700_000_000));
    begin("one");
    book.step("one", "a", RunState::Running, None);
    book.step("one", "a", RunState::Done, None);
    book.step("one", "b", RunState::Failed, Some(&"x".repeat(1000)));
    book.ends("one", RunState::Failed, Some("step `b` failed"));
    begin("two");
    let runs = book.all();
    assert_eq!(runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["two", "one"]);
    let one = &runs[1];
    assert_eq!((one.state, one.begun.as_str()), (RunState::Failed, "2023-11-14T22:13:20.000Z"));
    assert_eq!(one.error.as_deref(), Some("step `b` failed"));
    assert_eq!((one.steps[0].state, one.steps[0].took_ms.is_some()), (RunState::Done, true));
    assert_eq!(one.steps[1].error.as_ref().map(String::len), Some(300));
    assert_eq!(one.steps[1].took_ms, None, "it has not begun");
    // A continued run keeps its steps.
    book.ends("two", RunState::Unknown, Some("its request ended"));
    begin("two");
    assert_eq!((book.all()[0].state, book.all()[0].error.as_deref()), (RunState::Running, None));
    (0..600).for_each(|number| begin(&format!("run {number}")));
    assert_eq!(book.all().len(), 500);
    assert!(book.all().iter().all(|run| run.id != "one"), "ended ones go first");
}
