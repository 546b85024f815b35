use super::*;
use crate::discovered::{Discovered, Listing};
use crate::rules::{Aggregation, Strategy};

fn catalog(strategy: Strategy, tools: &[String]) -> Catalog {
    let tools = tools.iter().map(|json| RawValue::from_string(json.clone()).unwrap()).collect();
    let discovered = Discovered::read(Listing { tools, ..Listing::default() });
    Catalog::build(&[("a".into(), Arc::new(discovered))], &Aggregation { strategy, ..Aggregation::default() })
}

fn tool(name: &str, description: &str) -> String {
    format!(r#"{{"name":"{name}","description":"{description}","inputSchema":{{"a":1,"b":2}},"icons":[]}}"#)
}

#[test]
fn counts_per_backend() {
    let before: Vec<_> = (0..10).map(|n| tool(&format!("t{n}"), "d")).collect();
    let mut after: Vec<_> = before.iter().skip(3).cloned().collect();
    after[0] = tool("t3", "D");
    after.extend([tool("new1", "d"), tool("new2", "d")]);
    let diff = Catalog::diff(&catalog(Strategy::default(), &before), &catalog(Strategy::default(), &after));
    let backend = &diff.backends["a"];
    assert_eq!(
        (backend.added.len(), backend.updated.len(), backend.removed.len(), backend.unchanged),
        (2, 1, 3, 6)
    );
    let [update] = backend.updated.as_slice() else { panic!() };
    assert_eq!((update.tool.as_str(), update.resolved.as_str()), ("t3", "a_t3"));
    assert!(update.before.is_some() && update.before != update.after);
    assert_eq!(update.keys, ["description"]);
    assert!(backend.added[0].before.is_none() && backend.removed[0].after.is_none());
    assert!(diff.tools_changed && !diff.resources_changed && !diff.prompts_changed && !diff.is_empty());
}

#[test]
fn form_does_not_count_but_every_key_does() {
    let before = catalog(Strategy::default(), &[tool("t", "d")]);
    let reordered = r#"{ "icons":[], "inputSchema":{"b":2,"a":1}, "description":"d", "name":"t" }"#;
    assert!(Catalog::diff(&before, &catalog(Strategy::default(), &[reordered.to_owned()])).is_empty());

    let with_icon = tool("t", "d").replace("[]", "[1]");
    let diff = Catalog::diff(&before, &catalog(Strategy::default(), &[with_icon]));
    let update = &diff.backends["a"].updated[0];
    assert_eq!((update.keys.as_slice(), update.before == update.after), (&["icons".to_owned()][..], true));
    assert!(diff.tools_changed);
}

#[test]
fn our_own_renames_change_the_list_but_no_definition() {
    let tools = [tool("t", "d")];
    let diff = Catalog::diff(&catalog(Strategy::default(), &tools), &catalog(Strategy::Manual, &tools));
    assert!(diff.tools_changed && diff.backends["a"].is_empty() && diff.backends["a"].unchanged == 1);
}
