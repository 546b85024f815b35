use super::*;

/// A budget that no test but one reaches.
const ROOM: usize = 1 << 20;

fn fingerprint(of: &str) -> Fingerprint {
    Fingerprint::of_hash(of)
}

fn trusted(of: &str, approved_at: i64) -> TrustedTool {
    TrustedTool { fingerprint: fingerprint(of), approved_at }
}

/// A document about the backend `a`: trusted tools with the time of their approval, and pending ones.
fn document(tools: &[(&str, &str, i64)], pending: &[(&str, &str)]) -> Arc<TrustedTools> {
    let mut document = TrustedTools::default();
    for (tool, definition, at) in tools {
        document
            .trusted
            .entry("a".to_owned())
            .or_default()
            .insert((*tool).to_owned(), trusted(definition, *at));
    }
    for (tool, definition) in pending {
        document
            .pending
            .entry("a".to_owned())
            .or_default()
            .insert((*tool).to_owned(), fingerprint(definition));
    }
    Arc::new(document)
}

fn joined(kept: &TrustedTools, reports: &[Arc<TrustedTools>], approvals: &str) -> (TrustedTools, KeptTrust) {
    let text = kept.to_text();
    let kept = join(Some(text.as_bytes()), reports, approvals, None, (ROOM, 100));
    (TrustedTools::parse(&kept.text).expect("a document"), kept)
}

#[test]
fn the_first_definition_that_a_pod_reports_is_kept() {
    let first = join(None, &[], "", None, (ROOM, 100));
    assert_eq!((first.text.as_str(), first.is_unreadable), ("{}", false));
    let (kept, _) = joined(&TrustedTools::default(), &[document(&[("t", "good", 0)], &[])], "");
    assert_eq!(kept, *document(&[("t", "good", 0)], &[]));
    let two = [document(&[("t", "poisoned", 0)], &[]), document(&[("t", "other", 0)], &[])];
    assert_eq!(joined(&kept, &two, "").0, kept, "what pods see later replaces nothing");
    let (first_of_two, _) = joined(&TrustedTools::default(), &two, "");
    assert_eq!(first_of_two.tool("a", "t"), Some(&trusted("poisoned", 0)));
}

#[test]
fn only_a_later_approval_replaces_a_definition() {
    let kept = document(&[("t", "good", 5)], &[]);
    let earlier = [document(&[("t", "older", 4)], &[])];
    assert_eq!(joined(&kept, &earlier, "").0, *kept);
    let later = [document(&[("t", "better", 6)], &[]), document(&[("t", "good", 5)], &[])];
    assert_eq!(joined(&kept, &later, "").0.tool("a", "t"), Some(&trusted("better", 6)));
}

#[test]
fn the_annotation_approves_the_very_definition_that_waits() {
    let kept = document(&[("t", "good", 200)], &[]);
    let report = [document(&[("t", "good", 200)], &[("t", "better"), ("u", "new")])];
    let of = |definition: &str| approval(&("a".to_owned(), "t".to_owned(), fingerprint(definition)));
    let (document_after, after) = joined(&kept, &report, &format!("b/x@y, {}", of("better")));
    assert_eq!(document_after.tool("a", "t"), Some(&trusted("better", 201)), "later, by whatever clock");
    let waits: Vec<_> = after.pending.iter().map(|(_, tool, _)| tool.as_str()).collect();
    assert_eq!(waits, ["u"]);
    let (document_after, after) = joined(&kept, &report, &of("worse"));
    assert_eq!((document_after, after.pending.len()), (TrustedTools::clone(&kept), 2), "another definition");
    let no_longer = [document(&[("t", "good", 200)], &[])];
    assert_eq!(joined(&kept, &no_longer, &of("better")).0, *kept, "an annotation that was left behind");
}

#[test]
fn definitions_of_other_backends_are_dropped_only_with_a_valid_configuration() {
    let kept = document(&[("t", "good", 0)], &[]);
    let text = kept.to_text();
    let others = BTreeSet::from(["b".to_owned()]);
    let without = join(Some(text.as_bytes()), std::slice::from_ref(&kept), "", Some(&others), (ROOM, 1));
    assert_eq!((without.text.as_str(), without.tools), ("{}", 0));
    assert_eq!(join(Some(text.as_bytes()), &[], "", None, (ROOM, 1)).text, text);
}

#[test]
fn a_document_that_cannot_be_read_stays_until_a_pod_reports_its_own() {
    let broken = join(Some(b"tampered"), &[], "", None, (ROOM, 1));
    assert_eq!((broken.text.as_str(), broken.is_unreadable), ("tampered", true));
    let report = document(&[("t", "good", 0)], &[]);
    let mended = join(Some(b"tampered"), std::slice::from_ref(&report), "", None, (ROOM, 1));
    assert_eq!((mended.text, mended.is_unreadable), (report.to_text(), false));
}

#[test]
fn a_backend_with_ever_new_tools_displaces_no_other() {
    let mut report = TrustedTools::default();
    let many = (0..100).map(|number| (format!("tool_{number}"), trusted("x", 0))).collect();
    report.trusted.insert("a".to_owned(), many);
    report.trusted.insert("b".to_owned(), [("only".to_owned(), trusted("y", 0))].into());
    let report = Arc::new(report);
    let budget = 2000;
    let first = join(None, std::slice::from_ref(&report), "", None, (budget, 1));
    assert!(first.text.len() <= budget, "{}", first.text.len());
    let document = TrustedTools::parse(&first.text).expect("a document");
    assert!(document.tool("b", "only").is_some());
    let omitted = first.omitted["a"];
    assert_eq!((first.tools, first.omitted.len()), (101 - omitted, 1));
    assert!(omitted > 50 && omitted < 100, "{omitted}");
    let again = join(Some(first.text.as_bytes()), &[report], "", None, (budget, 1));
    assert_eq!(again.text, first.text, "it comes to rest");
}

#[test]
fn a_backend_with_ever_new_tools_leaves_room_for_tools_that_others_add_later() {
    let report = |first: usize, of_b: &[&str]| {
        let mut report = TrustedTools::default();
        let many = (first..first + 100).map(|number| (format!("tool_{number}"), trusted("x", 0))).collect();
        report.trusted.insert("a".to_owned(), many);
        let few = of_b.iter().map(|tool| ((*tool).to_owned(), trusted("y", 0))).collect();
        report.trusted.insert("b".to_owned(), few);
        Arc::new(report)
    };
    let budget = 2000;
    let first = join(None, &[report(0, &["one"])], "", None, (budget, 1));
    let second = join(Some(first.text.as_bytes()), &[report(100, &["one", "two"])], "", None, (budget, 2));
    let document = TrustedTools::parse(&second.text).expect("a document");
    assert!(document.tool("b", "two").is_some());
    assert!(second.text.len() <= budget, "{}", second.text.len());
    assert_eq!(second.omitted, BTreeMap::from([("a".to_owned(), 100)]));
}
