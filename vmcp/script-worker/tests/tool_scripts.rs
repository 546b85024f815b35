//! Scripts of ToolHive (`execute_tool_script`): the scripts of its own tests, and what its Starlark has that
//! Python has not.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use vmcp_script::pool::{Called, PoolSettings, Script, ScriptEnd, ToolHost, WorkerPool, WorkerProgram};
use vmcp_script::protocol::{CallEnd, Finished, HostCall, Raised, StartScript, ToolScript};
use vmcp_script::{ResourceBounds, ScriptLimits};

/// The tools of ToolHive's tests.
#[derive(Default)]
struct Host {
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl ToolHost for Host {
    type Asking = Infallible;

    async fn call(&self, call: HostCall) -> Called<Infallible> {
        let HostCall::Tool { server: None, tool, arguments } = call else { panic!("{call:?}") };
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        let raised = |kind, message: &str| CallEnd::Raised { kind, message: message.to_owned() };
        Called::Ended(match tool.as_str() {
            "echo" => CallEnd::Value(Value::Object(arguments)),
            "check_status" | "check-status" => {
                let status = if arguments["service"] == "db" { "degraded" } else { "healthy" };
                CallEnd::Value(json!({ "service": arguments["service"], "status": status }))
            }
            "fail" => raised(Raised::Failed, "it is broken"),
            _ => raised(Raised::Unknown, "no such tool"),
        })
    }

    async fn go_on(&self, asking: Infallible) -> Called<Infallible> {
        match asking {}
    }
}

async fn run_at(host: &Host, code: &str, data: Value) -> Finished {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_vmcp-test-worker"));
    let pool: Arc<WorkerPool<&'static str>> =
        Arc::new(WorkerPool::new(WorkerProgram { program, arguments: Vec::new() }));
    let bounds = ResourceBounds { memory: 128 << 20, cpu_seconds: 20 };
    let settings = PoolSettings { warm: 0, running: 4, running_per_principal: 2, bounds };
    let data = data.as_object().cloned().unwrap_or_else(Map::new);
    let functions = ["echo", "check_status", "fail"].map(str::to_owned).into();
    let script = StartScript {
        code: code.to_owned(),
        tool_script: Some(ToolScript { functions, data }),
        context: None,
        namespaces: Vec::new(),
        limits: ScriptLimits { timeout: Duration::from_secs(20), ..ScriptLimits::default() },
    };
    match pool.run(&"me", settings, Script::New(script), host).await {
        ScriptEnd::Ended(ran) => ran.finished,
        ScriptEnd::Waits(waiting) => panic!("{waiting:?}"),
    }
}

async fn run(code: &str, data: Value) -> Finished {
    run_at(&Host::default(), code, data).await
}

async fn value(code: &str) -> Value {
    let finished = run(code, Value::Null).await;
    finished.end.unwrap_or_else(|failure| panic!("{code}: {failure:?}"))
}

async fn failure(code: &str) -> (String, Option<u32>) {
    let failure = run(code, Value::Null).await.end.unwrap_err();
    (failure.error, failure.line)
}

#[tokio::test]
async fn scripts_of_toolhive_have_the_results_of_toolhive() {
    for (code, expected) in [
        ("return 42", json!(42)),
        ("return \"hello\"", json!("hello")),
        ("x = 1 + 1", Value::Null),
        ("", Value::Null),
        ("# nothing", Value::Null),
        (
            "\nitems = [1, 2, 3, 4, 5]\ntotal = 0\nfor item in items:\n    if item % 2 == 0:\n        total = total + item\nreturn total\n",
            json!(6),
        ),
        ("\nd = {\"key\": \"value\", \"count\": 42}\nreturn d\n", json!({ "key": "value", "count": 42 })),
        (
            "\nservices = [\"api\", \"db\", \"cache\"]\ndegraded = []\nfor svc in services:\n    status = check_status(service=svc)\n    \
             if status[\"status\"] != \"healthy\":\n        degraded.append(status[\"service\"])\nreturn degraded\n",
            json!(["db"]),
        ),
        (
            "\nresult = echo(name=\"alice\", count=42)\nreturn {\"name\": result[\"name\"], \"count\": result[\"count\"]}\n",
            json!({ "name": "alice", "count": 42 }),
        ),
        ("return call_tool(\"check-status\", service=\"db\")[\"status\"]", json!("degraded")),
        ("return call_tool(\"echo\", {\"server\": 1}, tool=2)", json!({ "server": 1, "tool": 2 })),
        ("return echo(\"a\", 2, key=None)", json!({ "arg0": "a", "arg1": 2, "key": null })),
        ("if True:\n    return 1\nreturn 2", json!(1)),
    ] {
        assert_eq!(value(code).await, expected, "{code}");
    }
    let printed = run("print(\"log line 1\")\nprint(\"log line 2\")\nreturn \"done\"", Value::Null).await;
    assert_eq!((printed.end.unwrap(), printed.output.as_str()), (json!("done"), "log line 1\nlog line 2\n"));
}

#[tokio::test]
async fn parallel_fans_out_and_returns_results_in_order() {
    let host = Host::default();
    let two = "\nresults = parallel([\n    lambda: call_tool(\"echo\", input=\"codemodealpha\"),\n    \
               lambda: call_tool(\"echo\", input=\"codemodebeta\"),\n])\nreturn {\"count\": len(results), \"results\": results}\n";
    let expected =
        json!({ "count": 2, "results": [{ "input": "codemodealpha" }, { "input": "codemodebeta" }] });
    assert_eq!(run_at(&host, two, Value::Null).await.end.unwrap(), expected);
    assert_eq!(host.most_at_once.load(Ordering::SeqCst), 2);
    let example = "# 'deps' is supplied via the data argument.\nresults = parallel([\n    \
                   lambda d=d: echo(package=d[\"name\"], version=d[\"version\"])\n    for d in deps\n])\n\
                   vulnerable = [r for r in results if r.get(\"vulns\")]\n\
                   return {\"checked\": len(results), \"vulnerable\": vulnerable}";
    let deps =
        json!([{ "name": "lodash", "version": "4.17.20" }, { "name": "express", "version": "4.17.1" }]);
    let finished = run(example, json!({ "deps": deps })).await;
    assert_eq!(finished.end.unwrap(), json!({ "checked": 2, "vulnerable": [] }));
    // Functions that work with a result, or return none of a tool.
    let worked = "def job(n):\n    print(n)\n    return echo(n=n)[\"n\"] + 1\n\
                  return parallel([lambda n=n: job(n) for n in range(3)]) + parallel([lambda: 7]) + parallel([])";
    let finished = run(worked, Value::Null).await;
    assert_eq!((finished.end.unwrap(), finished.output.as_str()), (json!([1, 2, 3, 7]), "0\n1\n2\n"));
    // A function behind a variable, a parameter or a dict may call a tool, too.
    for code in [
        "get = lambda: echo(n=1)\nreturn parallel([lambda: echo(value=get())])",
        "def run(f):\n    return parallel([lambda: echo(value=f())])\nreturn run(lambda: echo(n=1))",
        "ops = {\"x\": lambda: echo(n=1)}\nreturn parallel([lambda: echo(value=ops[\"x\"]())])",
    ] {
        assert_eq!(run(code, Value::Null).await.end.unwrap(), json!([{ "value": { "n": 1 } }]), "{code}");
    }
    let (error, _) = failure("return parallel([lambda: fail_(), lambda: echo(n=1)])").await;
    assert!(error.contains("fail_"), "{error}");
    let broken = run("return parallel([lambda: call_tool(\"fail\"), lambda: echo(n=1)])", Value::Null).await;
    assert_eq!(broken.end.unwrap_err().error, "it is broken");
}

#[tokio::test]
async fn what_starlark_has_works_or_is_told_with_the_python_for_it() {
    for (code, expected) in [
        ("return \"%s has %d of %s%%, %r\" % (\"a\", 3.0, None, \"b\")", json!("a has 3 of None%, 'b'")),
        ("return \"%(name)s\" % {\"name\": \"x\"}", json!("x")),
        ("t = \"%x\"\nreturn t % 255", json!("ff")),
        ("return 7 % 4 + -7 % 4", json!(4)),
        (
            "return [type(x) for x in [None, True, 1, 1.5, \"a\", [], {}, (), len]]",
            json!(["NoneType", "bool", "int", "float", "string", "list", "dict", "tuple", "function"]),
        ),
        ("x = [1, 2]\ndef add(n):\n    x.append(n)\n    return x\nreturn add(3)", json!([1, 2, 3])),
        (
            "d = {}\nfor k in [\"b\", \"a\"]:\n    d[k] = len(d)\nreturn [d.keys()[0] if False else list(d.keys())[0], sorted(d)]",
            json!(["b", ["a", "b"]]),
        ),
        ("text = \"\"\"a\n  b\n\"\"\"\nreturn text", json!("a\n  b\n")),
        (
            "return [getattr(1, \"none\", 5), \"{}-{}\".format(1, 2), \"a,b\".split(\",\")]",
            json!([5, "1-2", ["a", "b"]]),
        ),
        ("n = 0\nwhile n < 3:\n    n += 1\nreturn n", json!(3)),
        ("import json\nreturn json.loads(\"[1]\")", json!([1])),
        ("import statistics\nreturn statistics.mean([1, 2, 3])", json!(2)),
    ] {
        assert_eq!(value(code).await, expected, "{code}");
    }
    for (code, text, line) in [
        ("load(\"module.star\", \"func\")", "`load` of Starlark is not there", 1),
        ("x = 1\nreturn struct(a = x)", "write a dict", 2),
        ("return json.encode({})", "write `import json`", 1),
        ("x = 1\nfail(\"no\", x)", "fail: no 1", 2),
        ("return \"%.2f\" % 1", "write an f-string", 1),
        ("return \"%s\" % (1, 2)", "too many arguments", 1),
        ("x = 1\nreturn no_such_tool()", "no_such_tool", 2),
        ("return execute_tool_script(script=\"return 1\")", "execute_tool_script", 1),
        ("return call_tool(\"execute_tool_script\")", "no such tool", 1),
        ("return call_tool(1)", "write call_tool(\"name\"", 1),
        ("x = 1\nreturn ][", "", 2),
    ] {
        let (error, at) = failure(code).await;
        assert!(error.contains(text) && at == Some(line), "{code}: {error} at {at:?}");
    }
}
