use serde_json::json;

use super::*;

fn pod(uid: &str) -> Arc<Pod> {
    let pod = json!({ "metadata": { "name": uid, "namespace": "n", "uid": uid }, "status": { "podIP": "10.0.0.1" } });
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

fn owner() -> Owner {
    ("n".to_owned(), "x".to_owned())
}

fn report(tools: usize, uptime: u64) -> PodAnswer {
    let report = StatusReport { tools, uptime_seconds: uptime, ..StatusReport::default() };
    PodAnswer { report, token: b"token".to_vec(), trusted: None }
}

/// The interval of these tests.
const INTERVAL: Duration = Duration::from_secs(10);

/// Schedules one pod and takes its first poll.
fn begun(now: Instant) -> Schedule {
    let mut schedule = Schedule::default();
    let (polled, sooner) = schedule.observe(&owner(), &[pod("p")], b"token", PollPlan::every(INTERVAL), now);
    assert!(sooner && polled[0].report.is_none());
    assert_eq!(schedule.take_due(8, now).0.len(), 1);
    schedule
}

#[test]
fn only_news_is_told() {
    let now = Instant::now();
    let mut schedule = begun(now);
    assert!(schedule.answered("p", Ok(report(1, 5)), now), "the first report");
    assert!(!schedule.answered("p", Ok(report(1, 15)), now), "a counter is no news");
    assert!(schedule.answered("p", Ok(report(2, 25)), now), "another tool");
    let (polled, _) = schedule.observe(&owner(), &[pod("p")], b"token", PollPlan::every(INTERVAL), now);
    assert_eq!(polled[0].report.as_ref().map(|report| report.tools), Some(2));
    // The conditions `DefinitionsListed` and `CompositeToolsListed` show issues.
    let mut with_issue = report(2, 25);
    with_issue.report.issues.push("RejectedDefinition: a".to_owned());
    assert!(schedule.answered("p", Ok(with_issue), now), "an issue");
    let (polled, _) = schedule.observe(&owner(), &[pod("p")], b"token", PollPlan::every(INTERVAL), now);
    assert_eq!(polled[0].report.as_ref().map(|report| report.issues.len()), Some(1));
}

#[test]
fn a_pod_that_does_not_answer_is_asked_ever_less_often_and_told_once() {
    let mut now = Instant::now();
    let mut schedule = begun(now);
    let mut told = 0;
    let mut pauses = Vec::new();
    for _ in 0..9 {
        told += u32::from(schedule.answered("p", Err(AskError::Timeout), now));
        let next = schedule.take_due(0, now).1.expect("it is asked again");
        pauses.push((next - now).as_secs());
        now = next;
        assert_eq!(schedule.take_due(8, now).0.len(), 1);
    }
    assert_eq!((told, pauses), (1, vec![2, 4, 8, 16, 32, 64, 120, 120, 120]));
    // No reconcile hastens it.
    schedule.answered("p", Err(AskError::Timeout), now);
    let (polled, sooner) =
        schedule.observe(&owner(), &[pod("p")], b"token", PollPlan::every(INTERVAL / 10), now);
    let failure = polled[0].failure.clone().expect("a failure");
    assert!(!sooner && failure.message.contains("NetworkPolicy"), "{failure:?}");
    assert_eq!(failure.reason, "ConnectionTimedOut");
    assert!(schedule.answered("p", Ok(report(1, 1)), now), "its return is news");
}

#[test]
fn one_lost_answer_changes_nothing() {
    let now = Instant::now();
    let mut schedule = begun(now);
    schedule.answered("p", Ok(report(1, 5)), now);
    assert!(!schedule.answered("p", Err(AskError::Timeout), now + Duration::from_secs(5)));
    assert!(schedule.answered("p", Err(AskError::Timeout), now + MAX_REPORT_AGE), "the report is too old");
    let (polled, _) = schedule.observe(&owner(), &[pod("p")], b"token", PollPlan::every(INTERVAL), now);
    assert!(polled[0].report.is_none() && polled[0].failure.is_some());
}

#[test]
fn pods_that_are_gone_are_forgotten() {
    let now = Instant::now();
    let mut schedule = begun(now);
    schedule.answered("p", Ok(report(1, 5)), now);
    schedule.observe(&owner(), &[pod("q")], b"token", PollPlan::every(INTERVAL), now);
    assert_eq!(schedule.pods.len(), 1);
    schedule.forget("q");
    assert!(schedule.pods.is_empty() && schedule.due.is_empty() && schedule.of_owner.is_empty());
}

#[test]
fn a_new_token_is_tried_before_the_one_that_was_accepted() {
    let now = Instant::now();
    let mut schedule = begun(now);
    schedule.answered("p", Ok(report(1, 5)), now);
    let (_, sooner) = schedule.observe(&owner(), &[pod("p")], b"new", PollPlan::every(INTERVAL), now);
    assert!(sooner);
    let asks = schedule.take_due(8, now).0;
    assert_eq!(asks[0].tokens, [b"new".to_vec(), b"token".to_vec()]);
}

/// A plan of an operator that keeps trusted definitions with this digest.
fn keeping(kept_trust: Option<&str>) -> PollPlan<'_> {
    PollPlan { interval: INTERVAL, kept_trust }
}

#[test]
fn trusted_definitions_are_asked_for_once_where_they_differ_from_the_kept_ones() {
    let now = Instant::now();
    let mut schedule = begun(now);
    let answer = |digest: &str, trusted: Option<TrustedTools>| {
        let mut answer = report(1, 5);
        answer.report.trusted_tools = digest.to_owned();
        PodAnswer { trusted: trusted.map(Ok), ..answer }
    };
    schedule.answered("p", Ok(answer("of-pod", None)), now);
    let ask = |schedule: &mut Schedule, kept: Option<&str>, now: Instant| {
        let (mut polled, _) = schedule.observe(&owner(), &[pod("p")], b"token", keeping(kept), now);
        let ask = schedule.take_due(8, now).0.pop().expect("a poll");
        (polled.remove(0).trusted, ask)
    };
    let at = |polls: u32| now + INTERVAL * polls;
    assert!(!ask(&mut schedule, None, at(1)).1.wants_trust("of-pod"), "the operator keeps none");
    schedule.answered("p", Ok(answer("of-pod", None)), at(1));
    let (_, first) = ask(&mut schedule, Some("kept"), at(2));
    assert!(first.wants_trust("of-pod") && !first.wants_trust("kept") && !first.wants_trust(""));
    let answered = schedule.answered("p", Ok(answer("of-pod", Some(TrustedTools::default()))), at(2));
    assert!(answered, "other definitions are news");
    let (trusted, again) = ask(&mut schedule, Some("kept"), at(3));
    assert!(trusted.is_some() && !again.wants_trust("of-pod"), "known already");
    assert!(!schedule.answered("p", Ok(answer("of-pod", None)), at(3)), "no news");
    let (_, joined) = ask(&mut schedule, Some("of-pod"), at(4));
    assert!(!joined.wants_trust("of-pod"));
    schedule.answered("p", Ok(answer("of-pod", None)), at(4));
    assert!(ask(&mut schedule, Some("of-pod"), at(5)).0.is_none(), "memory is given back");
}

/// An answer with trusted definitions: one tool of a backend of this name.
fn trusting(backend: &str) -> PodAnswer {
    let mut document = TrustedTools::default();
    document.trusted.insert(backend.to_owned(), std::collections::BTreeMap::new());
    let mut answer = report(1, 5);
    backend.clone_into(&mut answer.report.trusted_tools);
    PodAnswer { trusted: Some(Ok(document)), ..answer }
}

#[test]
fn pods_of_an_owner_share_equal_documents_and_have_few_different_ones() {
    let now = Instant::now();
    let mut schedule = Schedule::default();
    let pods: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(pod).to_vec();
    schedule.observe(&owner(), &pods, b"token", keeping(Some("kept")), now);
    for (uid, backend) in [("a", "one"), ("b", "one"), ("c", "two"), ("d", "three"), ("e", "four")] {
        assert!(schedule.answered(uid, Ok(trusting(backend)), now), "{uid}");
    }
    // The fifth different one; one failure alone says nothing.
    assert!(schedule.answered("f", Ok(trusting("five")), now), "its first report");
    assert!(schedule.answered("f", Ok(trusting("five")), now), "the second failure is told");
    let (polled, _) = schedule.observe(&owner(), &pods, b"token", keeping(Some("kept")), now);
    let of = |index: usize| polled[index].trusted.as_ref();
    assert!(Arc::ptr_eq(of(0).expect("kept"), of(1).expect("kept")), "one copy");
    assert!(of(5).is_none() && polled[5].trust_unread.is_some());
    assert!(schedule.answered("f", Ok(trusting("two")), now), "an equal one is kept again");
    let (polled, _) = schedule.observe(&owner(), &pods, b"token", keeping(Some("kept")), now);
    assert!(polled[5].trusted.is_some() && polled[5].trust_unread.is_none());
}

#[test]
fn trusted_definitions_that_cannot_be_read_are_told_once() {
    let now = Instant::now();
    let mut schedule = begun(now);
    let unread = || {
        let mut answer = report(1, 5);
        answer.report.trusted_tools = "of-pod".to_owned();
        PodAnswer { trusted: Some(Err("too large".to_owned())), ..answer }
    };
    let told = [(); 4].map(|()| schedule.answered("p", Ok(unread()), now));
    assert_eq!(told, [true, true, false, false], "the first report, and the second failure");
    let (polled, _) = schedule.observe(&owner(), &[pod("p")], b"token", keeping(Some("kept")), now);
    assert_eq!(polled[0].trust_unread.as_deref(), Some("too large"));
    assert!(schedule.answered("p", Ok(trusting("of-pod")), now), "its end is news");
}
