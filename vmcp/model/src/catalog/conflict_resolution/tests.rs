use super::*;
use proptest::prelude::*;
use vmcp_config::rules::Strategy;

/// `backend/tool`, `backend/tool=wanted`, `-backend/tool` for a hidden one.
fn run(strategy: &Strategy, claims: &[&str]) -> (Vec<String>, Vec<IssueReason>) {
    let mut parsed: Vec<_> = claims
        .iter()
        .map(|claim| {
            let (listed, claim) = claim.strip_prefix('-').map_or((true, *claim), |rest| (false, rest));
            let (backend, tool) = claim.split_once('/').unwrap();
            let (original, wanted) = tool.split_once('=').unwrap_or((tool, tool));
            (Arc::<str>::from(backend), original, wanted, listed)
        })
        .collect();
    parsed.sort();
    let claims: Vec<_> = parsed
        .iter()
        .map(|(backend, original, wanted, listed)| Claim { backend, original, wanted, listed: *listed })
        .collect();
    let mut issues = Vec::new();
    let rules = Aggregation {
        strategy: strategy.clone(),
        name_length: NameLength::new(64).unwrap(),
        ..Aggregation::default()
    };
    let names = resolve(&claims, DefinitionKind::Tool, &rules, &mut issues);
    let shown = claims
        .iter()
        .zip(names)
        .filter_map(|(claim, name)| Some(format!("{}/{}:{}", claim.backend, claim.original, name?)))
        .collect();
    (shown, issues.iter().map(|issue| issue.reason).collect())
}

fn priority(order: &[&str]) -> Strategy {
    Strategy::Priority {
        order: order.iter().map(|backend| Arc::from(*backend)).collect(),
        format: PrefixFormat::default(),
    }
}

#[test]
fn prefix_names_every_tool() {
    let (names, issues) = run(&Strategy::default(), &["a/search", "b/search", "a/x.y", "b/only=renamed"]);
    assert_eq!(names, ["a/search:a_search", "a/x.y:a_x_y", "b/only:b_renamed", "b/search:b_search"]);
    assert_eq!(issues, []);
}

#[test]
fn priority_prefers_the_listed_and_prefixes_the_rest() {
    let (names, issues) =
        run(&priority(&["b", "a"]), &["a/search", "b/search", "c/search", "a/only", "c/own"]);
    assert_eq!(names, ["a/only:only", "b/search:search", "c/own:own", "c/search:c_search"]);
    assert_eq!(issues, [IssueReason::Shadowed, IssueReason::NamePrefixed]);

    let (names, issues) = run(&priority(&[]), &["a/search", "b/search"]);
    assert_eq!(names, ["a/search:a_search", "b/search:b_search"]);
    assert_eq!(issues, [IssueReason::NamePrefixed; 2]);
}

#[test]
fn manual_reports_what_overrides_did_not_settle() {
    let (names, issues) = run(&Strategy::Manual, &["a/search", "b/search", "b/x"]);
    assert_eq!(
        (names.as_slice(), issues),
        (&["b/x:x".to_owned()][..], vec![IssueReason::UnresolvedConflict; 2])
    );
    let (names, issues) = run(&Strategy::Manual, &["a/search", "b/search=find"]);
    assert_eq!((names.len(), issues.len()), (2, 0));
}

#[test]
fn what_is_hidden_takes_no_name_from_what_is_listed() {
    let (names, issues) = run(&Strategy::Manual, &["-a/search", "b/search"]);
    assert_eq!(names, ["a/search:a_search", "b/search:search"]);
    assert_eq!(issues, []);
    let (names, _) = run(&Strategy::default(), &["-a/b_c", "a_b/c"]);
    assert_eq!(names.last().unwrap(), "a_b/c:a_b_c");
}

#[test]
fn passthrough_leaves_names_alone() {
    let long = format!("a/{}", "x".repeat(100));
    let (names, issues) = run(&Strategy::Passthrough, &["a/x.y z", "a/2", &long]);
    assert_eq!(names, ["a/2:2", "a/x.y z:x.y z", &format!("{long}:{}", "x".repeat(100))]);
    assert_eq!(issues, []);
}

#[test]
fn reserved_names_are_left_out() {
    for strategy in [priority(&["a"]), Strategy::Manual, Strategy::Passthrough] {
        let (names, issues) = run(
            &strategy,
            &["a/optim.find_tool", "a/optim_call_tool", "a/composite.x", "b/optim.find_tool", "a/ok"],
        );
        assert_eq!(names, ["a/ok:ok"]);
        assert_eq!(issues, [IssueReason::ReservedToolName; 4]);
    }
    let (names, _) = run(&Strategy::default(), &["a/optim.find_tool", "optim/find_tool", "optim/other"]);
    assert_eq!(names, ["a/optim.find_tool:a_optim_find_tool", "optim/other:optim_other"]);
}

#[test]
fn nobody_takes_over_a_generated_name() {
    let (names, issues) = run(&Strategy::default(), &["a/b_c", "a_b/c"]);
    let [one, two] = names.as_slice() else { panic!() };
    assert!(one.starts_with("a/b_c:a_b_c_") && two.starts_with("a_b/c:a_b_c_"), "{names:?}");
    assert_eq!(issues, [IssueReason::NameCollision; 2]);

    // Within one backend, the name that needed no change stays.
    let (names, _) = run(&Strategy::default(), &["a/x_y", "a/x.y"]);
    assert!(names.contains(&"a/x_y:a_x_y".to_owned()) && names.len() == 2, "{names:?}");
}

#[test]
fn a_made_up_hash_takes_no_name() {
    let (names, _) = run(&Strategy::default(), &["a/b_c", "a_b/c"]);
    let stolen = names.first().unwrap().split_once(":a_").unwrap().1.to_owned();
    let (names, _) = run(&Strategy::default(), &["a/b_c", "a_b/c", &format!("a/{stolen}")]);
    assert_eq!(names.len(), 3);
    let (names, _) = run(&Strategy::default(), &["a/b_c", "a_b/c", &format!("a_{stolen}/x")]);
    assert_eq!(names.len(), 3);
}

fn strategies() -> impl proptest::strategy::Strategy<Value = Strategy> {
    prop_oneof![
        Just(Strategy::default()),
        Just(Strategy::Prefix { format: PrefixFormat::new("") }),
        Just(priority(&["b", "a"])),
        Just(Strategy::Manual),
    ]
}

proptest! {
    #[test]
    fn legal_unique_and_independent_of_order(
        strategy in strategies(),
        claims in prop::collection::btree_map(("[ab_]{1,2}", "[ab_.é]{1,4}|\\PC{0,80}"), any::<bool>(), 0..40),
    ) {
        let claims: Vec<String> = claims
            .into_iter()
            .map(|((backend, tool), listed)| format!("{}{backend}/{}", if listed { "" } else { "-" }, tool.replace(['=', '/'], ".")))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let mut forward: Vec<_> = claims.iter().map(String::as_str).collect();
        forward.dedup_by_key(|claim| claim.trim_start_matches('-').to_owned());
        let (names, issues) = run(&strategy, &forward);
        forward.reverse();
        prop_assert_eq!(&(names.clone(), issues), &run(&strategy, &forward));
        let resolved: Vec<_> = names.iter().map(|name| name.rsplit_once(':').unwrap().1).collect();
        let unique: BTreeSet<_> = resolved.iter().collect();
        prop_assert_eq!(unique.len(), resolved.len());
        for name in resolved {
            prop_assert!(names::is_legal(name), "{}", name);
        }
    }
}
