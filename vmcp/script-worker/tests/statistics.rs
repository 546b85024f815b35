//! `import statistics` in scripts, beside the results of CPython (`statistics/cases.py` writes them).
#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_script::pool::{Called, PoolSettings, Script, ScriptEnd, ToolHost, WorkerPool, WorkerProgram};
use vmcp_script::protocol::{Finished, HostCall, StartScript};
use vmcp_script::{ResourceBounds, ScriptLimits};

/// A host without tools.
struct NoTools;

impl ToolHost for NoTools {
    type Asking = Infallible;

    async fn call(&self, call: HostCall) -> Called<Infallible> {
        panic!("{call:?}")
    }

    async fn go_on(&self, asking: Infallible) -> Called<Infallible> {
        match asking {}
    }
}

async fn run(code: String) -> Finished {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_vmcp-test-worker"));
    let pool = Arc::new(WorkerPool::new(WorkerProgram { program, arguments: Vec::new() }));
    let bounds = ResourceBounds { memory: 128 << 20, cpu_seconds: 30 };
    let settings = PoolSettings { warm: 0, running: 1, running_per_principal: 1, bounds };
    let script = StartScript {
        code,
        tool_script: None,
        context: None,
        namespaces: vec!["statistics".to_owned()],
        limits: ScriptLimits::default(),
    };
    match pool.run(&"me", settings, Script::New(script), &NoTools).await {
        ScriptEnd::Ended(ran) => ran.finished,
        ScriptEnd::Waits(waiting) => panic!("{waiting:?}"),
    }
}

#[tokio::test]
async fn results_are_those_of_cpython_to_the_last_bit() {
    let cases: Vec<(String, String, Value)> =
        serde_json::from_str(include_str!("statistics/cases.json")).unwrap();
    assert!(cases.len() > 200);
    let guarded = |(call, ..): &(String, String, Value)| {
        format!(
            "try:\n    x = statistics.{call}\n    results.append([type(x).__name__, x])\n\
             except statistics.StatisticsError as error:\n    results.append(['error', str(error)])\n"
        )
    };
    let calls: String = cases.iter().map(guarded).collect();
    let finished = run(format!("import json, statistics\nresults = []\n{calls}results")).await;
    let results: Vec<(String, Value)> = serde_json::from_value(finished.end.unwrap()).unwrap();
    assert_eq!(results.len(), cases.len(), "each call has one result");
    for ((call, kind, expected), result) in cases.into_iter().zip(results) {
        assert_eq!(result, (kind, expected), "{call}");
    }
}

#[tokio::test]
async fn the_module_is_imported_in_every_way_and_lacks_what_it_lacks() {
    for (code, expected) in [
        ("import statistics as st, json\nst.mean([1, 3])", json!(2)),
        ("from statistics import (mean,\n    stdev as s)\n[mean([1, 2]), s([1, 3]) > 1]", json!([1.5, true])),
        (
            "def f(rows):\n    import statistics\n    return statistics.median(r['n'] for r in rows)\nf([{'n': 4}])",
            json!(4),
        ),
    ] {
        assert_eq!(run(code.to_owned()).await.end.unwrap(), expected, "{code}");
    }
    let infinite = "import statistics as s\ni = float('inf')\n[str(s.mean([i, 1])), str(s.mean([i, -i])), str(s.stdev([1, i]))]";
    assert_eq!(run(infinite.to_owned()).await.end.unwrap(), json!(["inf", "nan", "inf"]));
    for (code, kind, text, line) in [
        ("x = 1\nfrom statistics import kde", "ImportError", "cannot import name 'kde'", 2),
        ("import statistics\nstatistics.kde([1])", "AttributeError", "kde", 2),
        (
            "from statistics import (\n    mean)\n\nmean(['a'])",
            "TypeError",
            "can't convert to a number: a",
            4,
        ),
        ("import json, secrets", "ModuleNotFoundError", "secrets", 1),
    ] {
        let failure = run(code.to_owned()).await.end.unwrap_err();
        assert_eq!((failure.error_type.as_str(), failure.line), (kind, Some(line)), "{code}: {failure:?}");
        assert!(failure.error.contains(text), "{code}: {failure:?}");
    }
}
