//! Pictures of scripts, drawn in their worker.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use vmcp_script::picture::{Picture, PictureFormat};
use vmcp_script::pool::{Called, PoolSettings, Script, ScriptEnd, ToolHost, WorkerPool, WorkerProgram};
use vmcp_script::protocol::{CallEnd, Finished, HostCall, StartScript};
use vmcp_script::{ResourceBounds, ScriptLimits};

/// A host whose tool asks once.
struct Asks;

impl ToolHost for Asks {
    type Asking = ();

    async fn call(&self, _: HostCall) -> Called<()> {
        Called::Asks(())
    }

    async fn go_on(&self, (): ()) -> Called<()> {
        Called::Ended(CallEnd::Value(json!("yes")))
    }
}

fn pool() -> Arc<WorkerPool<&'static str>> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_vmcp-test-worker"));
    Arc::new(WorkerPool::new(WorkerProgram { program, arguments: Vec::new() }))
}

fn limits() -> ScriptLimits {
    ScriptLimits { timeout: Duration::from_mins(1), ..ScriptLimits::default() }
}

async fn end(pool: &Arc<WorkerPool<&'static str>>, script: Script<()>) -> ScriptEnd<()> {
    let bounds = ResourceBounds { memory: 128 << 20, cpu_seconds: 120 };
    let settings = PoolSettings { warm: 0, running: 8, running_per_principal: 8, bounds };
    pool.run(&"me", settings, script, &Asks).await
}

fn script(code: &str) -> Script<()> {
    script_with(code, &["fs"])
}

fn script_with(code: &str, namespaces: &[&str]) -> Script<()> {
    let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
    Script::New(StartScript {
        code: code.to_owned(),
        context: None,
        namespaces,
        tool_script: None,
        limits: limits(),
    })
}

async fn run(code: &str) -> Finished {
    match end(&pool(), script(code)).await {
        ScriptEnd::Ended(ran) => ran.finished,
        ScriptEnd::Waits(waiting) => panic!("{waiting:?}"),
    }
}

async fn failure(code: &str) -> String {
    let failure = run(code).await.end.unwrap_err();
    format!("{}: {}", failure.error_type, failure.error)
}

fn file(picture: &Picture) -> Vec<u8> {
    BASE64_STANDARD.decode(&picture.data).unwrap()
}

#[tokio::test]
async fn a_chart_is_a_picture_beside_the_result() {
    let finished = run("rows = [{'k': 'a', 'v': 1}, {'k': 'b', 'v': 2.5}, {'k': 'c', 'v': None}]\n\
         told = plot('bar', rows, 'k', 'v', title='Counts')\n[told, sum(r['v'] or 0 for r in rows)]")
    .await;
    let [picture] = finished.pictures.as_slice() else { panic!("{finished:?}") };
    assert_eq!(picture.format, PictureFormat::Png);
    let png = file(picture);
    assert!(png.starts_with(b"\x89PNG\r\n"));
    let told = format!(
        "picture 1: bar chart, 800 x 480 pixels, image/png, {} bytes; 1 of 3 rows without y left out",
        png.len()
    );
    assert_eq!(finished.end.unwrap(), json!([told, 3.5]));
}

#[tokio::test]
async fn tables_are_taken_in_every_form() {
    // Each says the same, and so is the same chart.
    let same = [
        "[{'k': 'a', 'v': 1}, {'k': 'b', 'v': 2}], 'k', 'v'",
        "[{'k': 'a', 'v': 1}, {'k': 'b', 'v': 2}]",
        "[{'k': 'a', 'v': '1'}, {'k': 'b', 'v': 2.0}], x='k', y=['v']",
        "{'k': ['a', 'b'], 'v': [1, 2]}, 'k', 'v'",
        "{'a': 1, 'b': 2}, 'k', 'v'",
        "[('a', 1), ['b', 2]], 0, 1, x_label='k', y_label='v'",
        "[[1, 'a'], [2, 'b']], 1, 0, x_label='k', y_label='v'",
    ];
    let call = |rows: &&str| format!("plot('bar', {rows}, format='svg')\n");
    let calls: String = same.iter().map(call).collect();
    let finished = run(&calls).await;
    let pictures: Vec<String> =
        finished.pictures.iter().map(|picture| String::from_utf8(file(picture)).unwrap()).collect();
    assert_eq!(pictures.len(), same.len(), "{:?}", finished.end);
    for (picture, rows) in pictures.iter().zip(same) {
        assert!(
            picture.contains("<title>b: 2</title>") && picture.contains(">k</text>"),
            "{rows}: {picture}"
        );
        assert_eq!(*picture, pictures[0], "{rows}");
    }
    for other in [
        "plot('hist', [1, 2, 2, 3], bins=3)",
        "plot('hist', [{'ms': 3}, {'ms': 4}], y='ms')",
        "plot('line', [3, 1, 2])",
        "plot('line', {'t': ['2026-01-01', '2026-01-02'], 'a': [1, 2], 'b': [2, 3]}, 't', ['a', 'b'])",
        "import datetime\nplot('line', [(datetime.date(2026, 1, d), d) for d in range(1, 9)])",
        "plot('scatter', [{'x': n, 'y': n * n, 'c': str(n % 3)} for n in range(50)], 'x', 'y', series='c')",
        "plot('pie', {'a': 3, 'b': 1})",
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\nplot('bar', [P('a', 1)], 'x', 'y')",
    ] {
        let finished = run(other).await;
        assert!(finished.end.is_ok() && finished.pictures.len() == 1, "{other}: {finished:?}");
    }
}

/// Runs a script that draws one SVG; returns its text.
async fn svg_of(code: &str) -> String {
    let finished = run(code).await;
    let [picture] = finished.pictures.as_slice() else { panic!("{code}: {finished:?}") };
    String::from_utf8(file(picture)).unwrap()
}

#[tokio::test]
async fn a_time_keeps_its_zone() {
    let line = |at: &str| {
        format!(
            "import datetime\nplot('line', [({at}, 1), ('2026-01-02T00:00:00Z', 2)], x_label='t', \
             format='svg')"
        )
    };
    let expected = svg_of(&line("'2026-01-01T10:30:00Z'")).await;
    for at in ["12, 0, tzinfo=zone(hours=1, minutes=30)", "8, 0, tzinfo=zone(hours=-2, minutes=-30)"] {
        let at = at.replace("zone(", "datetime.timezone(datetime.timedelta(") + "))";
        let drawn = svg_of(&line(&format!("datetime.datetime(2026, 1, 1, {at}"))).await;
        assert_eq!(drawn, expected, "{at}");
    }
}

#[tokio::test]
async fn long_texts_with_one_beginning_are_different_categories_and_series() {
    let bars = svg_of("plot('bar', {'x' * 300 + 'a': 1, 'x' * 300 + 'b': 2}, format='svg')").await;
    assert!(bars.contains(": 1</title>") && bars.contains(": 2</title>"), "{bars}");
    let rows = "[{'k': 'a', 'v': 1, 's': 'x' * 300 + 'a'}, {'k': 'a', 'v': 2, 's': 'x' * 300 + 'b'}]";
    let bars = svg_of(&format!("plot('bar', {rows}, 'k', 'v', series='s', format='svg')")).await;
    assert!(bars.contains(": 1</title>") && bars.contains(": 2</title>"), "{bars}");
    assert!(!bars.contains(&"x".repeat(200)), "shown texts are cut: {bars}");
}

#[tokio::test]
async fn mistakes_are_exceptions_that_name_argument_and_limit() {
    for (code, expected) in [
        ("plot('area', [1])", "ValueError: plot: kind must be one of bar, line, scatter, hist, pie"),
        ("plot('bar')", "TypeError: plot: rows is required"),
        ("plot('bar', 5)", "TypeError: plot: rows must be a list of dicts"),
        ("plot('bar', [])", "ValueError: plot: rows: no row has a value"),
        (
            "plot('bar', [{'a': 1, 'b': 2}], 'k', 'b')",
            "ValueError: plot: x: no row has the column \"k\"; the first row has \"a\", \"b\"",
        ),
        (
            "plot('bar', [{'a': 1, 'b': 'x'}], 'a', 'b')",
            "ValueError: plot: y: row 0 has \"x\", which is no number",
        ),
        ("plot('bar', [1], fill='red')", "TypeError: plot: no argument \"fill\"; there are kind, rows,"),
        ("plot('bar', [1], kind='bar')", "TypeError: plot: kind is given twice"),
        ("plot('bar', [1], width=5000)", "ValueError: plot: width must be from 200 to 1600 pixels"),
        ("plot('bar', [1], format='gif')", "ValueError: plot: format must be one of png, svg"),
        ("plot('line', list(range(200001)))", "ValueError: plot: rows: 200001 values; the limit is 200000"),
        ("emit_svg()", "TypeError: emit_svg: text is required"),
        ("emit_svg('<svg')", "ValueError: emit_svg: text is no SVG that can be read"),
        ("emit_svg('x' * 20000000)", "ValueError: emit_svg: text has 20000000 bytes; the limit is 1048576"),
        (
            "emit_svg('<svg xmlns=\"http://www.w3.org/2000/svg\"><image href=\"file:///etc/passwd\"/></svg>')",
            "ValueError: emit_svg: text line 1: <image> is not allowed",
        ),
        (
            "for n in range(9):\n    plot('bar', [1])",
            "ValueError: plot: the script made 8 pictures; the limit is 8",
        ),
    ] {
        let failure = failure(code).await;
        assert!(failure.starts_with(expected), "{code}: {failure}");
    }
    let caught = "try:\n    plot('bar', [])\nexcept ValueError as e:\n    r = 'caught'\nr";
    assert_eq!(run(caught).await.end, Ok(json!("caught")));
}

#[tokio::test]
async fn the_bytes_of_pictures_are_bounded() {
    let code = "plot('bar', [1])\nplot('bar', [1])";
    for (limits, expected) in [
        (ScriptLimits { picture_bytes: 100, ..limits() }, "the picture would have"),
        (ScriptLimits { pictures_bytes: 100, ..limits() }, "all pictures would have"),
    ] {
        let Script::New(script) = script(code) else { panic!() };
        let ScriptEnd::Ended(ran) = end(&pool(), Script::New(StartScript { limits, ..script })).await else {
            panic!()
        };
        let failure = ran.finished.end.unwrap_err();
        assert!(
            failure.error.contains(expected) && failure.error.ends_with("the limit is 100"),
            "{failure:?}"
        );
        assert!(ran.finished.pictures.is_empty());
    }
}

#[tokio::test]
async fn an_svg_of_a_script_comes_back_without_what_is_active() {
    let code = "svg = '<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"20\">\
                <rect width=\"40\" height=\"20\" fill=\"#336699\" onload=\"alert(1)\"/></svg>'\n\
                emit_svg(svg)\nemit_svg(svg, format='svg')";
    let finished = run(code).await;
    let [png, svg] = finished.pictures.as_slice() else { panic!("{finished:?}") };
    assert_eq!((png.format, svg.format), (PictureFormat::Png, PictureFormat::Svg));
    let text = String::from_utf8(file(svg)).unwrap();
    assert!(text.contains("#336699") && !text.contains("alert"), "{text}");
    let told = format!("picture 2: SVG, 40 x 20 pixels, image/svg+xml, {} bytes", text.len());
    assert_eq!(finished.end.unwrap(), json!(told));
}

#[tokio::test]
async fn pictures_outlive_a_failure_and_a_question() {
    let failed = run("plot('bar', [1])\n1 / 0").await;
    assert_eq!(
        (failed.pictures.len(), failed.end.unwrap_err().error_type.as_str()),
        (1, "ZeroDivisionError")
    );
    let pool = pool();
    let code = "plot('bar', [1])\nanswer = fs.ask()\nplot('line', [1, 2])\nanswer";
    let ScriptEnd::Waits(waiting) = end(&pool, script(code)).await else { panic!("the tool asks") };
    assert_eq!(waiting.script.pictures.len(), 1);
    let ScriptEnd::Ended(ran) = end(&pool, Script::Waiting(*waiting, limits())).await else { panic!() };
    assert_eq!((ran.finished.pictures.len(), ran.finished.end), (2, Ok(json!("yes"))));
}

#[tokio::test]
async fn the_functions_are_described_and_give_way_to_servers() {
    let described = run("describe('plot') + describe(emit_svg)").await.end.unwrap();
    let text = described.as_str().unwrap();
    assert!(text.contains("def plot(") && text.contains("def emit_svg("), "{text}");
    let ScriptEnd::Waits(waiting) = end(&pool(), script_with("plot.bar(x=1)", &["plot"])).await else {
        panic!("the server `plot` is called")
    };
    assert_eq!(waiting.made, 1);
    let ScriptEnd::Waits(waiting) = end(&pool(), script_with("describe('plot')", &["plot"])).await else {
        panic!("the server answers, as its tool may have the name `plot`")
    };
    assert_eq!(waiting.made, 1);
    assert_eq!(run("def plot(x):\n    return x\nplot(1)").await.end, Ok(Value::from(1)));
}

#[tokio::test]
async fn hostile_drawings_end_within_the_bounds_of_the_script() {
    // Layers of the size of the picture in each other: the most memory that the bounds of SVG leave.
    let code = "deep = '<g opacity=\"0.9\">' * 60 + '<rect width=\"9999\" height=\"9999\"/>' + '</g>' * 60\n\
                emit_svg('<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1400\" height=\"1400\">' + deep + '</svg>')";
    let ended = run(code).await.end;
    let error_type = ended.as_ref().err().map(|failure| failure.error_type.as_str());
    // Other systems bound the time of a worker only, which the drawing may keep.
    if cfg!(target_os = "linux") {
        assert_eq!(error_type, Some("MemoryError"), "{ended:?}");
    } else {
        assert!(matches!(error_type, None | Some("MemoryError" | "TimeoutError")), "{ended:?}");
    }
    assert_eq!(run("1 + 1").await.end, Ok(json!(2)), "the next script has a worker of its own");
}
