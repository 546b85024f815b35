use super::*;
use crate::definition::DefinitionKind;
use crate::discovered::{Discovered, Listing};
use crate::issue::IssueReason;
use vmcp_config::rules::{
    Aggregation, FaultyDefinitions, NameLength, NamePattern, PrefixFormat, Strategy, ToolOverride, ToolRules,
    Visibility,
};

fn raws(jsons: &[&str]) -> Vec<Box<RawValue>> {
    jsons.iter().map(|json| RawValue::from_string((*json).to_owned()).unwrap()).collect()
}

fn backend(name: &str, listing: Listing) -> (Arc<str>, Arc<Discovered>) {
    (name.into(), Arc::new(Discovered::read(listing)))
}

fn tools(name: &str, jsons: &[&str]) -> (Arc<str>, Arc<Discovered>) {
    backend(name, Listing { tools: raws(jsons), ..Listing::default() })
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools.iter().map(|tool| tool.name.as_str()).collect()
}

const SEARCH: &str =
    r#"{"name":"search","description":"Finds\u202e things.","inputSchema":{"type":"object"},"x":[1.0]}"#;

#[test]
fn sorted_and_independent_of_the_order_of_backends() {
    let (a, b) = (tools("a", &[SEARCH, r#"{"name":"Z"}"#]), tools("b", &[SEARCH]));
    let rules = Aggregation::default();
    let catalog = Catalog::build(&[b.clone(), a.clone()], &rules);
    assert_eq!(names(&catalog), ["a_Z", "a_search", "b_search"]);
    let other_order = Catalog::build(&[a, b], &rules);
    let bytes = |catalog: &Catalog| -> Vec<String> {
        catalog.tools.iter().map(|tool| format!("{} {}", tool.name, tool.raw.get())).collect()
    };
    assert_eq!(bytes(&other_order), bytes(&catalog));

    let tool = catalog.tool("a_search").unwrap();
    assert_eq!((&*tool.backend, tool.definition.name.as_str()), ("a", "search"));
    assert_eq!(tool.raw.get(), SEARCH.replace("\"search\"", "\"a_search\""));
    assert_eq!(tool.description, "Finds things.");
    assert_eq!(tool.size as usize, "a_search".len() + "Finds\u{202e} things.".chars().count() + 17);
    assert_eq!(tool.tokens, tool.size.div_ceil(4));
    assert!(catalog.tool("search").is_none());
}

#[test]
fn filters_hide_but_keep_tools_routable() {
    let rules = |edit: fn(&mut ToolRules)| {
        let mut of_a = ToolRules::default();
        edit(&mut of_a);
        Aggregation { per_backend: [("a".into(), of_a)].into(), ..Aggregation::default() }
    };
    let backends = [tools("a", &[SEARCH, r#"{"name":"get_x"}"#]), tools("b", &[SEARCH])];
    let listed = |rules: &Aggregation| -> Vec<String> {
        let catalog = Catalog::build(&backends, rules);
        assert_eq!(catalog.tools.len(), 3, "hidden tools stay");
        catalog.listed().map(|tool| tool.name.clone()).collect()
    };
    assert_eq!(listed(&rules(|a| a.filter.push(NamePattern::new("get_*")))), ["a_get_x", "b_search"]);
    assert_eq!(listed(&rules(|a| a.exclude.push(NamePattern::new("get_*")))), ["a_search", "b_search"]);
    assert_eq!(listed(&rules(|a| a.exclude_all = true)), ["b_search"]);
    assert_eq!(
        listed(&Aggregation { default_visibility: Visibility::Deny, ..rules(|_| ()) }),
        ["a_get_x", "a_search"]
    );
    assert!(listed(&Aggregation { exclude_all_tools: true, ..Aggregation::default() }).is_empty());
    // Filters see the name after overrides.
    let renamed = rules(|a| {
        a.overrides
            .insert("search".into(), ToolOverride { name: Some("find".into()), ..ToolOverride::default() });
        a.filter.push(NamePattern::new("find"));
    });
    assert_eq!(listed(&renamed), ["a_find", "b_search"]);
}

#[test]
fn overrides() {
    let mut rules = Aggregation::default();
    let change = ToolOverride {
        name: Some("find".into()),
        description: Some("New.".into()),
        ..ToolOverride::default()
    };
    let of_a = ToolRules {
        overrides: [("search".to_owned(), change.clone()), ("gone".to_owned(), change)].into(),
        exclude: vec![NamePattern::new("serch_*")],
        ..ToolRules::default()
    };
    rules.per_backend.insert("a".into(), of_a);
    let catalog = Catalog::build(&[tools("a", &[SEARCH])], &rules);
    let tool = catalog.tool("a_find").unwrap();
    let expected = SEARCH.replace("\"search\"", "\"a_find\"").replace(r#""Finds\u202e things.""#, "\"New.\"");
    assert_eq!((tool.raw.get(), tool.description.as_str()), (expected.as_str(), "New."));
    assert_eq!(tool.hash, tool.definition.hash);
    let issues: Vec<_> = catalog.issues.iter().map(|issue| (issue.reason, issue.name.as_str())).collect();
    assert_eq!(issues, [(IssueReason::UnknownOverride, "gone"), (IssueReason::UnmatchedPattern, "serch_*")]);
}

#[test]
fn looks_up_by_the_backends_names() {
    let backends = [
        tools("Db", &[r#"{"name":"list_tables"}"#, r#"{"name":"Get"}"#, r#"{"name":"get"}"#]),
        tools("x", &[SEARCH]),
    ];
    let catalog = Catalog::build(&backends, &Aggregation::default());
    let found = |backend: &str, name: &str| match catalog.tool_of(backend, name).as_slice() {
        [tool] => tool.name.clone(),
        [] => "none".to_owned(),
        several => format!("{} fit", several.len()),
    };
    assert_eq!(found("Db", "list_tables"), "Db_list_tables");
    assert_eq!(found("db", "LIST_TABLES"), "Db_list_tables");
    assert_eq!(found("Db", "get"), "Db_get");
    assert_eq!(found("Db", "GET"), "2 fit");
    assert_eq!(found("Db", "Db_list_tables"), "Db_list_tables");
    assert_eq!(found("x", "Db_list_tables"), "none", "another backend's");
    assert_eq!(found("y", "get"), "none");
}

#[test]
fn resources_templates_and_prompts() {
    let listing = |uri: &str| Listing {
        resources: raws(&[&format!(r#"{{"uri":"{uri}","name":"r"}}"#), r#"{"uri":"s://same","name":"r"}"#]),
        resource_templates: raws(&[r#"{"uriTemplate":"t://{x}","name":"t"}"#]),
        prompts: raws(&[r#"{"arguments":[],"name":"ask"}"#]),
        ..Listing::default()
    };
    let backends = [backend("b", listing("s://b")), backend("a", listing("s://a"))];
    let catalog = Catalog::build(&backends, &Aggregation::default());
    let served = |uri: &str| catalog.resources_for(uri).next().map(|target| target.backend().to_string());
    assert_eq!(served("s://b").as_deref(), Some("b"));
    assert_eq!(served("s://same").as_deref(), Some("a"), "the first by name");
    assert_eq!(served("t://1").as_deref(), Some("a"));
    assert_eq!(served("t://1/2"), None);
    assert_eq!((catalog.resources.len(), catalog.templates.len()), (3, 1));
    assert_eq!(catalog.issues.iter().filter(|issue| issue.reason == IssueReason::Shadowed).count(), 2);
    assert_eq!(catalog.prompt("b_ask").unwrap().raw.get(), r#"{"arguments":[],"name":"b_ask"}"#);
    assert!(catalog.prompt("ask").is_none());

    let order = vec!["z".into(), "b".into()];
    let strategy = Strategy::Priority { order, format: PrefixFormat::new("{workload}_") };
    let by_priority = Catalog::build(&backends, &Aggregation { strategy, ..Aggregation::default() });
    for uri in ["s://same", "t://1"] {
        assert_eq!(by_priority.resources_for(uri).next().map(|target| &**target.backend()), Some("b"));
    }

    let bare =
        Catalog::build(&backends, &Aggregation { strategy: Strategy::Manual, ..Aggregation::default() });
    assert!(bare.prompts.is_empty() && bare.issues.iter().any(|issue| issue.kind == DefinitionKind::Prompt));
}

#[test]
fn bad_backends_cost_only_themselves() {
    let duplicates: Vec<_> = (0..10_000).map(|n| format!(r#"{{"name":"same\u0007","n":{n}}}"#)).collect();
    let duplicates: Vec<_> = duplicates.iter().map(String::as_str).collect();
    let many: Vec<_> = (0..50_000).map(|n| format!(r#"{{"name":"tool.{n}"}}"#)).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let recursive =
        r##"{"name":"tree","inputSchema":{"type":"object","properties":{"child":{"$ref":"#"}}}}"##;
    let backends =
        [tools("dup", &duplicates), tools("many", &many), tools("good", &[SEARCH, recursive, "[]"])];
    let catalog = Catalog::build(&backends, &Aggregation::default());
    assert_eq!(catalog.tools.len(), 1 + 20_000 + 2);
    assert_eq!(catalog.tools_of("dup").next().unwrap().name, "dup_same_");
    let count = |reason| catalog.issues.iter().filter(|issue| issue.reason == reason).count();
    assert_eq!((count(IssueReason::DuplicateDefinition), count(IssueReason::RejectedDefinition)), (9_999, 2));
    assert!(catalog.tool("good_tree").is_some() && catalog.tool("good_search").is_some());
}

#[test]
fn tokens_of_the_list_count_what_is_listed() {
    let backends = [tools("a", &[SEARCH]), tools("b", &[SEARCH])];
    let all = Catalog::build(&backends, &Aggregation::default());
    assert_eq!(all.tokens(), u64::from(all.tools.iter().map(|tool| tool.size).sum::<u32>()).div_ceil(4));
    let mut rules = Aggregation::default();
    rules.per_backend.insert("b".into(), ToolRules { exclude_all: true, ..ToolRules::default() });
    assert_eq!(Catalog::build(&backends, &rules).tokens(), u64::from(all.tool("a_search").unwrap().tokens));
    assert_eq!(Catalog::default().tokens(), 0);
}

#[test]
fn one_faulty_definition_costs_no_list() {
    let union = r#"{"name":"union","inputSchema":{"type":"object","anyOf":[{}]}}"#;
    let nulls =
        r#"{"name":"nulls","description":null,"inputSchema":{"type":"object","required":null},"x":1.50}"#;
    let screens = r##"{"name":"screens","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"s":{"$ref":"#/$defs/S"}}}}"##;
    let backends = [tools("a", &[SEARCH, union, nulls, screens])];
    let catalog = Catalog::build(&backends, &Aggregation::default());
    let entry =
        |name: &str| catalog.tool(name).map(|tool| (tool.raw.get().to_owned(), tool.listed, tool.in_lists));
    let (raw, listed, in_lists) = entry("a_union").unwrap();
    assert!(raw == union.replace("union", "a_union") && listed && !in_lists, "found, callable, not listed");
    let (raw, _, in_lists) = entry("a_nulls").unwrap();
    assert_eq!(raw, r#"{"name":"a_nulls","inputSchema":{"type":"object"},"x":1.50}"#);
    assert!(in_lists);
    let (raw, _, in_lists) = entry("a_screens").unwrap();
    assert!(in_lists && raw == r#"{"name":"a_screens","inputSchema":{"type":"object"}}"#, "{raw}");
    assert_eq!(entry("a_search").unwrap().0, SEARCH.replace("\"search\"", "\"a_search\""));
    let issues: Vec<_> = catalog.issues.iter().map(|issue| (issue.reason, issue.name.as_str())).collect();
    assert_eq!(
        issues,
        [
            (IssueReason::MendedDefinition, "nulls"),
            (IssueReason::MendedDefinition, "screens"),
            (IssueReason::UnlistedDefinition, "union"),
        ]
    );
    assert!(catalog.issues.iter().any(|issue| issue.message.contains("#/$defs/S")), "{:?}", catalog.issues);

    let rules = Aggregation { faulty_definitions: FaultyDefinitions::PassThrough, ..Aggregation::default() };
    let catalog = Catalog::build(&backends, &rules);
    assert!(catalog.issues.is_empty() && catalog.tools.iter().all(|tool| tool.in_lists));
    assert_eq!(catalog.tool("a_nulls").unwrap().raw.get(), nulls.replace("\"nulls\"", "\"a_nulls\""));
}

#[test]
fn the_longest_name_is_a_setting() {
    let long = format!(r#"{{"name":"{}"}}"#, "n".repeat(70));
    let backends = [tools("a", &[&long])];
    for (rules, length) in [
        (Aggregation::default(), 50),
        (Aggregation { name_length: NameLength::new(64).unwrap(), ..Aggregation::default() }, 64),
        (
            Aggregation {
                name_length: NameLength::new(32).unwrap(),
                strategy: Strategy::Manual,
                ..Aggregation::default()
            },
            32,
        ),
        (Aggregation { strategy: Strategy::Passthrough, ..Aggregation::default() }, 70),
    ] {
        assert_eq!(Catalog::build(&backends, &rules).tools[0].name.len(), length);
    }
}
