mod against_go;

use serde_json::{Value, json};

use super::*;

fn data() -> Data {
    Data::new(&json!({
        "params": { "q": "bug", "n": 1_000_000, "f": 2.5, "yes": true, "none": null, "list": [1, "two"], "empty": "" },
        "steps": { "search": { "status": "completed", "output": { "items": [{ "title": "a<b" }], "text": "{\"k\":[1,2]}" } } },
        "vars": {}, "workflow": { "id": "w" },
    }))
}

fn text(source: &str) -> Result<String, String> {
    Template::parse(source).and_then(|template| template.text(&data()))
}

fn value(source: &str) -> Result<Value, String> {
    Template::parse(source).and_then(|template| template.value(&data()))
}

#[test]
fn texts_are_those_of_go() {
    for (source, expected) in [
        ("no action", "no action"),
        ("File {{.params.q}}?", "File bug?"),
        ("{{.params.n}} {{.params.f}} {{.params.yes}} {{.params.list}}", "1000000 2.5 true [1 two]"),
        ("{{json .steps.search.output.items}}", r#"[{"title":"a\u003cb"}]"#),
        ("{{quote .params.q}}|{{.params.q | quote}}", "\"bug\"|\"bug\""),
        ("{{(fromJson .steps.search.output.text).k}}", "[1 2]"),
        ("{{range $i, $it := .params.list}}{{$i}}={{$it}};{{end}}", "0=1;1=two;"),
        ("{{if .params.missing}}a{{else}}b{{end}}", "b"),
        ("{{with .params.missing.deeper}}a{{else}}b{{end}}", "b"),
        ("{{eq .params.q \"bug\"}}", "true"),
        ("{{or .params.missing .params.q}}", "bug"),
        ("{{printf \"%s-%d\" .params.q 3}}", "bug-3"),
        ("{{index .steps \"search\" \"status\"}}", "completed"),
        ("{{json .params.none}}", "null"),
        ("{{printf \"%v\" .params.none}}{{print .params.none}}", "<nil><nil>"),
        ("{{define \"x\"}}<{{.}}>{{end}}{{template \"x\" .params.q}}", "<bug>"),
        ("{{define \"x\"}}{{if .}}data{{else}}none{{end}}{{end}}{{template \"x\"}}", "none"),
        (
            "{{gt .params.n 0.5}} {{eq 3 3.0}} {{le .params.f 3}} {{eq .params.f 1 2.5}}",
            "true true true true",
        ),
        (
            "{{printf \"%.2f|%05d|%-4s|%v\" .params.n 42 .params.q .params.list}}",
            "1000000.00|00042|bug |[1 two]",
        ),
        ("{{-\n  if .params.yes -}}\n a\n{{-\tend}}", "a"),
        ("{{html .params.q 1 2}}|{{js \"a=b\"}}|{{urlquery \"a b\"}}", "bug1 2|a\\u003Db|a+b"),
    ] {
        assert_eq!(text(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn one_action_keeps_its_type() {
    assert_eq!(value("{{.params.n}}"), Ok(json!(1_000_000)));
    assert_eq!(value("{{.params.yes}}"), Ok(json!(true)));
    assert_eq!(value("{{.params.list}}"), Ok(json!([1, "two"])));
    assert_eq!(value("{{ .steps.search.output }}"), Ok(data_of_search()));
    assert_eq!(value("{{json .params.list}}"), Ok(json!("[1,\"two\"]")));
    assert_eq!(value("{{len .params.list}}"), Ok(json!(2)));
    assert_eq!(value("n={{.params.n}}"), Ok(json!("n=1000000")));
    assert_eq!(value("{{.params.n}} "), Ok(json!("1000000 ")));
    assert_eq!(value("plain"), Ok(json!("plain")));
    assert_eq!(value("{{.params.empty}}"), Ok(json!("")));
}

fn data_of_search() -> Value {
    json!({ "items": [{ "title": "a<b" }], "text": "{\"k\":[1,2]}" })
}

#[test]
fn a_missing_value_is_an_error_that_names_it() {
    for (source, named) in [
        ("{{.params.missing}}", ".params.missing"),
        ("a {{.steps.search.output.nothing.deeper}} b", ".steps.search.output.nothing.deeper"),
        ("{{json .params.missing}}", ".params.missing"),
        ("{{.params.missing | json}}", ".params.missing"),
        ("{{json $.params.missing}}", ".params.missing"),
        ("{{range .params.list}}{{json $.params.gone}}{{end}}", ".params.gone"),
        ("{{quote .params.missing}}", ".params.missing"),
        ("{{.params.none}}", ".params.none"),
        ("{{print .params.missing}}", ".params.missing"),
        ("{{printf \"%s\" .params.missing}}", ".params.missing"),
        ("{{.params.missing | printf \"%s-%s\" .params.q}}", ".params.missing"),
        ("{{range .params.list}}{{html $.params.gone}}{{end}}", ".params.gone"),
        ("{{len .params.missing}}", ".params.missing"),
        ("{{if gt .params.missing 1}}a{{end}}", ".params.missing"),
        ("{{index .params.missing \"a\"}}", ".params.missing"),
        ("{{index .params \"gone\"}}", ".params[\"gone\"]"),
        ("{{index $.steps.search.output \"nothing\"}}!", "$.steps.search.output[\"nothing\"]"),
        ("{{range .params.list}}{{.x}}{{end}}", "field x"),
    ] {
        let error = text(source).unwrap_err();
        assert!(error.contains(named) && !error.contains("no value"), "{source}: {error}");
        assert!(value(source).is_err(), "{source}");
    }
}

#[test]
fn mistakes_are_found_when_a_template_is_read() {
    for (source, named) in [
        ("{{.params.q", "unclosed action"),
        ("{{upper .params.q}}", "\"upper\" is not defined"),
        ("{{.parms.q}}", ".parms is not defined"),
        ("{{steps.search.output}}", "write .steps"),
        ("a {{json params.q}}", "write .params"),
        ("{{if .params.q}}", "without {{end}}"),
        ("{{.params.q}}{{end}}", "unexpected {{end}}"),
    ] {
        let error = Template::parse(source).unwrap_err();
        assert!(error.contains(named), "{source}: {error}");
    }
}

#[test]
fn references_to_steps_are_found() {
    let template = Template::parse(
        "{{if .steps.a}}{{range .params.l}}{{$.steps.b.output}}{{.steps.no}}{{end}}{{end}}{{index .steps \"c-d\" \"output\"}}{{.steps.e.status}}",
    )
    .unwrap();
    assert_eq!(template.steps.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "c-d", "e"]);
    assert_eq!(template.outputs.iter().map(String::as_str).collect::<Vec<_>>(), ["b", "c-d"]);
}

#[test]
fn loops_recursion_and_texts_are_bounded() {
    for source in [
        "{{range 1000000000}}{{end}}",
        "{{range 99999}}{{range 99999}}{{end}}{{end}}",
        "{{define \"x\"}}{{template \"x\"}}{{end}}{{template \"x\"}}",
        "{{$x := \"0123456789\"}}{{range 60}}{{$x = print $x $x}}{{end}}{{$x}}",
        "{{$x := printf \"%1000000d\" 1}}{{range 60}}{{$x = print $x $x}}{{end}}{{$x}}",
        "{{range 60000}}{{printf \"%1000d\" 1}}{{end}}",
    ] {
        let begun = std::time::Instant::now();
        assert!(text(source).is_err(), "{source}");
        assert!(begun.elapsed().as_secs() < 20, "{source}");
    }
}

#[test]
fn a_rendering_that_multiplies_its_work_ends_in_its_time() {
    let doubled = |number: usize| {
        let call = format!("{{{{template \"t{}\" .}}}}", number + 1);
        format!("{{{{define \"t{number}\"}}}}{call}{call}{{{{end}}}}")
    };
    let chain: String = (0..40).map(doubled).collect();
    let chain = format!("{chain}{{{{define \"t40\"}}}}{{{{end}}}}{{{{template \"t0\" .}}}}");
    let halves = format!(
        "{{{{define \"x\"}}}}{{{{if .}}}}{{{{template \"x\" (slice . 1)}}}}{{{{template \"x\" (slice . 1)}}}}\
         {{{{end}}}}{{{{end}}}}{{{{template \"x\" \"{}\"}}}}",
        "a".repeat(50)
    );
    for source in [chain, halves] {
        let begun = std::time::Instant::now();
        let error = text(&source).unwrap_err();
        assert!(error.contains("took longer than 2 seconds"), "{source:.60}: {error}");
        assert!(begun.elapsed().as_secs() < 10, "{source:.60}: {:?}", begun.elapsed());
    }
    assert_eq!(
        text("{{define \"x\"}}{{range .}}{{.}}{{end}}{{end}}{{template \"x\" .params.list}}"),
        text("{{range .params.list}}{{.}}{{end}}")
    );
}

#[test]
fn a_template_that_cannot_end_is_refused_when_it_is_read() {
    for (source, error) in [
        ("{{range 1000000000}}x{{end}}", "a loop of 1000000000 turns"),
        ("{{if .params.x}}{{range 100001}}x{{end}}{{end}}", "a loop of 100001 turns"),
        ("{{define \"x\"}}{{template \"x\"}}{{end}}{{template \"x\"}}", "\"x\" always calls itself"),
        (
            "{{define \"x\"}}{{template \"y\"}}{{end}}{{define \"y\"}}{{template \"x\"}}{{end}}{{template \"x\"}}",
            "always calls itself",
        ),
    ] {
        let refused = Template::parse(source).unwrap_err();
        assert!(refused.contains(error), "{source}: {refused}");
    }
    // It may end, and is bounded while it is rendered.
    let tree = "{{define \"x\"}}{{with .child}}{{template \"x\" .}}{{end}}{{end}}{{template \"x\" .params}}";
    assert!(Template::parse(tree).is_ok());
    assert!(Template::parse("{{range 100000}}x{{end}}").is_ok());
}
