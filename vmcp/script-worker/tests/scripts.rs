//! Scripts in worker processes, from the pool to the end of each.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use vmcp_script::pool::{
    Called, PoolSettings, Ran, Script, ScriptEnd, ToolHost, WaitingScript, WorkerPool, WorkerProgram,
};
use vmcp_script::protocol::{CallEnd, HostCall, Raised, StartScript, ToolUse};
use vmcp_script::{ResourceBounds, ScriptLimits};

/// A host whose tools echo, fail, wait, ask or do not exist.
#[derive(Default)]
struct Host {
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    /// Names of the tools that were called.
    called: Mutex<Vec<String>>,
}

impl ToolHost for Host {
    /// The question of the tool `ask`.
    type Asking = String;

    async fn call(&self, call: HostCall) -> Called<String> {
        if let HostCall::Tool { tool, arguments, .. } = &call {
            self.called.lock().unwrap().push(tool.clone());
            if tool == "ask" {
                return Called::Asks(arguments["question"].as_str().unwrap().to_owned());
            }
        }
        Called::Ended(self.end(call).await)
    }

    async fn check(&self, uses: Vec<ToolUse>) -> Vec<Option<String>> {
        let mistake = |named: ToolUse| match named.arguments {
            None => (named.tool == "missing").then(|| "no tool fs.missing".to_owned()),
            Some(arguments) => arguments.contains_key("wrong").then(|| "wrong is unknown".to_owned()),
        };
        uses.into_iter().map(mistake).collect()
    }

    async fn go_on(&self, asking: String) -> Called<String> {
        match asking.strip_suffix('!') {
            Some(again) => Called::Asks(again.to_owned()),
            None => Called::Ended(CallEnd::Value(json!(format!("yes, {asking}")))),
        }
    }
}

impl Host {
    async fn end(&self, call: HostCall) -> CallEnd {
        let raised = |kind, message: &str| CallEnd::Raised { kind, message: message.to_owned() };
        let HostCall::Tool { server, tool, arguments } = call else {
            return CallEnd::Value(json!([serde_json::to_value(&call).unwrap()]));
        };
        match tool.as_str() {
            "echo" => CallEnd::Value(json!({ "server": server, "args": arguments })),
            "rows" => CallEnd::Value((0..10_000).map(|n| json!({ "n": n, "name": "row" })).collect()),
            "fail" => raised(Raised::Failed, "it is broken"),
            "wait" => {
                let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
                self.most_at_once.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(20)).await;
                self.at_once.fetch_sub(1, Ordering::SeqCst);
                CallEnd::Value(arguments.get("n").cloned().unwrap_or_default())
            }
            "hang" => std::future::pending().await,
            _ => raised(Raised::Unknown, "no such tool"),
        }
    }
}

type Pool = WorkerPool<&'static str>;

fn pool() -> Arc<Pool> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_vmcp-test-worker"));
    Arc::new(WorkerPool::new(WorkerProgram { program, arguments: Vec::new() }))
}

fn settings() -> PoolSettings {
    let bounds = ResourceBounds { memory: 128 << 20, cpu_seconds: 20 };
    PoolSettings { warm: 1, running: 4, running_per_principal: 2, bounds }
}

fn script(code: &str) -> StartScript {
    StartScript {
        code: code.to_owned(),
        tool_script: None,
        context: Some(json!({ "who": "me" })),
        namespaces: vec!["github".to_owned(), "fs".to_owned()],
        limits: ScriptLimits { timeout: Duration::from_secs(20), ..ScriptLimits::default() },
    }
}

async fn run(pool: &Arc<Pool>, code: &str) -> Ran {
    ended(pool.run(&"me", settings(), Script::New(script(code)), &Host::default()).await)
}

fn ended(end: ScriptEnd<String>) -> Ran {
    match end {
        ScriptEnd::Ended(ran) => ran,
        ScriptEnd::Waits(waiting) => panic!("{waiting:?}"),
    }
}

async fn value(pool: &Arc<Pool>, code: &str) -> Value {
    let ran = run(pool, code).await;
    ran.finished.end.unwrap_or_else(|failure| panic!("{code}: {failure:?}"))
}

async fn failure(pool: &Arc<Pool>, code: &str) -> (String, String, Option<u32>) {
    let failure = run(pool, code).await.finished.end.expect_err(code);
    (failure.error_type, failure.error, failure.line)
}

#[tokio::test]
async fn the_value_of_the_last_expression_is_the_result() {
    let pool = pool();
    for (code, expected) in [
        ("sum(x**2 for x in range(1000))", json!(332_833_500)),
        (
            "def f(n):\n    total = 0\n    for i in range(n):\n        total += i\n    return total\nf(10)",
            json!(45),
        ),
        (
            "import json, math, re, datetime, collections\njson.loads(json.dumps({'a': [math.floor(1.5)]}))",
            json!({ "a": [1] }),
        ),
        ("CONTEXT['who']", json!("me")),
        ("x = 1", Value::Null),
        ("{'ü': '\\U0001F600', 1: (2, 3)}", json!({ "ü": "😀", "1": [2, 3] })),
    ] {
        assert_eq!(value(&pool, code).await, expected, "{code}");
    }
    let ran = run(&pool, "print('a', 1)\nprint('b')").await;
    assert_eq!((ran.finished.output.as_str(), ran.calls), ("a 1\nb\n", 0));
}

#[tokio::test]
async fn tools_are_functions_of_their_servers() {
    let pool = pool();
    let echoed = json!({ "server": "github", "args": { "title": "x", "n": 1 } });
    for code in [
        "github.echo(title='x', n=1)",
        "github.echo({'title': 'x', 'n': 1})",
        "f = github.echo\nf(title='x', n=1)",
        "call_tool('github', 'echo', {'title': 'x', 'n': 1})",
        "call_tool(server='github', tool='echo', args={'title': 'x', 'n': 1})",
        "call_tool('github', 'echo', title='x', n=1)",
        "call_tool('github', tool='echo', title='x', n=1)",
    ] {
        assert_eq!(value(&pool, code).await, echoed, "{code}");
    }
    assert_eq!(value(&pool, "call_tool('echo', {'a': 1})").await["server"], Value::Null);
    let total = "rows = fs.rows()\nsum(row['n'] for row in rows)";
    assert_eq!(value(&pool, total).await, json!(49_995_000), "10,000 rows become one number");
    let found = value(&pool, "search_tools('mail', limit=2)").await;
    assert_eq!(found, json!([{ "search": { "query": "mail", "limit": 2 } }]));
    assert_eq!(
        value(&pool, "describe(github.echo)").await,
        json!([{ "describe": { "name": "github.echo" } }])
    );
}

#[tokio::test]
async fn failures_of_tools_are_exceptions_with_their_words() {
    let pool = pool();
    let caught = "try:\n    github.fail()\nexcept RuntimeError as error:\n    result = str(error)\nresult";
    assert_eq!(value(&pool, caught).await, json!("it is broken"));
    let (kind, error, line) = failure(&pool, "x = 1\ngithub.nothing()").await;
    assert_eq!((kind.as_str(), error.as_str(), line), ("LookupError", "no such tool", Some(2)));
    let (kind, error, _) = failure(&pool, "github.echo(1, 2)").await;
    assert!(kind == "TypeError" && error.contains("github.echo takes its arguments by keyword"), "{error}");
    let (kind, _, line) = failure(&pool, "x = 1\nx +").await;
    assert_eq!((kind.as_str(), line), ("SyntaxError", Some(2)));
    assert_eq!(failure(&pool, "nothing_here").await.0, "NameError");
}

#[tokio::test]
async fn a_script_that_names_a_missing_tool_calls_nothing() {
    let (pool, host) = (pool(), Host::default());
    let code = "fs.echo()\ndef later():\n    return fs.missing(n=1)\nfs.echo()";
    let ran = ended(pool.run(&"me", settings(), Script::New(script(code)), &host).await);
    let failure = ran.finished.end.unwrap_err();
    assert_eq!((failure.error_type.as_str(), failure.line, ran.calls), ("LookupError", Some(3), 0));
    assert_eq!(failure.error, "no tool fs.missing (nothing has been called)");
    assert!(host.called.lock().unwrap().is_empty());
    let probed = "try:\n    fs.missing()\nexcept LookupError:\n    r = fs.echo(n=2)['args']['n']\nr";
    let ran = ended(pool.run(&"me", settings(), Script::New(script(probed)), &host).await);
    assert_eq!((ran.finished.end.unwrap(), ran.calls), (json!(2), 2));
}

#[tokio::test]
async fn a_script_that_calls_a_tool_with_wrong_constants_calls_nothing() {
    let (pool, host) = (pool(), Host::default());
    for (code, kind, line) in [
        ("fs.echo(n=1)\nfs.echo(wrong=2)", "ValueError", 2),
        ("fs.echo(n=1)\nfs.echo(wrong=2)\nfs.missing()", "LookupError", 3),
    ] {
        let ran = ended(pool.run(&"me", settings(), Script::New(script(code)), &host).await);
        let failure = ran.finished.end.unwrap_err();
        assert_eq!(
            (failure.error_type.as_str(), failure.line, ran.calls),
            (kind, Some(line), 0),
            "{failure:?}"
        );
        assert!(failure.error.ends_with(" (nothing has been called)"), "{failure:?}");
    }
    assert!(host.called.lock().unwrap().is_empty());
    for code in ["try:\n    fs.echo(wrong=2)\nexcept ValueError:\n    pass\n1", "n = 2\nfs.echo(wrong=n)\n1"]
    {
        assert_eq!(value(&pool, code).await, json!(1), "{code}");
    }
}

#[tokio::test]
async fn parallel_calls_run_at_the_same_time_within_the_limit() {
    let pool = pool();
    let host = Host::default();
    let code = "parallel([(lambda n=n: fs.wait(n=n)) for n in range(25)]) + parallel([(fs.wait, {'n': 99})]) + parallel([])";
    let ran = ended(pool.run(&"me", settings(), Script::New(script(code)), &host).await);
    let mut expected: Vec<_> = (0..25).collect();
    expected.push(99);
    assert_eq!(ran.finished.end.unwrap(), json!(expected));
    assert_eq!(host.most_at_once.load(Ordering::SeqCst), 10);
    let (kind, error, _) = failure(&pool, "parallel([lambda: fs.echo()['args']])").await;
    assert!(kind == "TypeError" && error.contains("PendingResult"), "{kind}: {error}");
    let inner = failure(&pool, "parallel([lambda: fs.echo(value=fs.echo())])").await;
    assert_eq!(inner.0, "TypeError");
    assert!(inner.1.contains("is there when parallel returns"), "{}", inner.1);
    let nested = failure(&pool, "parallel([lambda: parallel([lambda: fs.echo()])])").await;
    assert_eq!((nested.0.as_str(), nested.1.as_str()), ("ValueError", "parallel inside of parallel"));
    let after = "try:\n    parallel([lambda: fs.fail(), lambda: fs.echo()])\nexcept RuntimeError:\n    pass\nfs.echo(a=1)['args']";
    assert_eq!(value(&pool, after).await, json!({ "a": 1 }));
}

#[tokio::test]
async fn each_limit_has_its_own_error() {
    let pool = pool();
    let calls = run(&pool, "for _ in range(10000):\n    fs.echo()").await;
    let failure = calls.finished.end.unwrap_err();
    assert_eq!((failure.error_type.as_str(), failure.limit, calls.calls), ("CallLimitError", Some(100), 100));
    let kinds = [
        ("while True:\n    print('x' * 1000)", "OutputLimitError"),
        ("'x' * 1_000_000", "ResultLimitError"),
        ("def f():\n    return f()\nf()", "RecursionError"),
        ("a = []\na.append(a)\na", "ValueError"),
    ];
    for (code, kind) in kinds {
        let failure = run(&pool, code).await.finished.end.unwrap_err();
        assert_eq!(failure.error_type, kind, "{code}: {failure:?}");
    }
    let (one, two) = (
        StartScript {
            limits: ScriptLimits { timeout: Duration::from_secs(1), ..ScriptLimits::default() },
            ..script("fs.hang()")
        },
        script("1"),
    );
    let host = Host::default();
    let few = PoolSettings { running_per_principal: 1, ..settings() };
    let (one, two) = tokio::join!(
        pool.run(&"me", few, Script::New(one), &host),
        pool.run(&"me", few, Script::New(two), &host)
    );
    let (one, two) = (ended(one), ended(two));
    assert_eq!(one.finished.end.unwrap_err().error, "Code execution timed out after 1 seconds");
    assert_eq!(two.finished.end.unwrap_err().error_type, "BusyError");
}

/// Runs a script until it waits, as another process reads its state: from JSON.
async fn waiting(pool: &Arc<Pool>, task: Script<String>, host: &Host) -> WaitingScript<String> {
    match pool.run(&"me", settings(), task, host).await {
        ScriptEnd::Waits(waiting) => serde_json::from_str(&serde_json::to_string(&waiting).unwrap()).unwrap(),
        ScriptEnd::Ended(ran) => panic!("{ran:?}"),
    }
}

#[tokio::test]
async fn a_script_whose_tool_asks_goes_on_in_another_process_and_repeats_nothing() {
    let code = "class Point:\n    def __init__(self, x):\n        self.x = x\n\
                print('before')\nseen = {'rows': [1, 2.5, 10**30, 'ü'], 'pair': (1, 2)}\npoint = Point(3)\n\
                def ask(question):\n    return fs.ask(question=question)\n\
                first = github.echo(n=1)['args']['n']\n\
                answer = [ask('Go on?!') for _ in range(1)][0]\nprint('after')\n\
                [answer, first, seen['rows'][2] == 10**30, point.x, CONTEXT['who'], fs.echo(n=2)['args']['n']]";
    let host = Host::default();
    let mut script = Script::New(script(code));
    for _ in 0..2 {
        // Each pool has worker processes of its own; its last worker has ended with the question.
        let waiting = waiting(&pool(), script, &host).await;
        assert_eq!((waiting.made, waiting.script.output.as_str()), (2, "before\n"));
        assert!(waiting.script.state.len() < 16 << 10, "{} bytes", waiting.script.state.len());
        script = Script::Waiting(waiting, ScriptLimits::default());
    }
    let ran = ended(pool().run(&"me", settings(), script, &host).await);
    assert_eq!(ran.finished.end.unwrap(), json!(["yes, Go on?", 1, true, 3, "me", 2]));
    assert_eq!((ran.finished.output.as_str(), ran.calls), ("before\nafter\n", 3));
    assert_eq!(*host.called.lock().unwrap(), ["echo", "ask", "echo"]);
}

#[tokio::test]
async fn the_calls_of_parallel_that_have_ended_are_kept_while_others_ask() {
    let host = Host::default();
    let code = "total = parallel([lambda: fs.wait(n=1), lambda: fs.ask(question='A'), (fs.ask, {'question': 'B!'})])\n\
                try:\n    parallel([lambda: fs.ask(question='C'), lambda: fs.fail()])\n\
                except RuntimeError as error:\n    total.append(str(error))\ntotal";
    let mut script = Script::New(script(code));
    for asking in [vec!["A", "B!"], vec!["B"], vec!["C"]] {
        let waiting = waiting(&pool(), script, &host).await;
        let asks = |called: &Called<String>| match called {
            Called::Asks(question) => Some(question.clone()),
            Called::Ended(_) => None,
        };
        assert_eq!(waiting.calls.iter().filter_map(asks).collect::<Vec<_>>(), asking);
        script = Script::Waiting(waiting, ScriptLimits::default());
    }
    let ran = ended(pool().run(&"me", settings(), script, &host).await);
    assert_eq!(ran.finished.end.unwrap(), json!([1, "yes, A", "yes, B", "it is broken"]));
    assert_eq!(*host.called.lock().unwrap(), ["wait", "ask", "ask", "ask", "fail"]);
}

#[tokio::test]
async fn a_suspended_script_is_refused_by_another_engine_and_beyond_its_size() {
    let (pool, host) = (pool(), Host::default());
    let asks = "fs.ask(question='A')";
    let mut old = waiting(&pool, Script::New(script(asks)), &host).await;
    old.script.engine = "monty 0.0.22 (snapshot 1.7)".to_owned();
    let mut damaged = waiting(&pool, Script::New(script(asks)), &host).await;
    damaged.script.state.truncate(400);
    for (waiting, text) in [(old, "was suspended by monty 0.0.22"), (damaged, "is damaged")] {
        let refused = Script::Waiting(waiting, ScriptLimits::default());
        let refused = ended(pool.run(&"me", settings(), refused, &host).await);
        let failure = refused.finished.end.unwrap_err();
        assert!(failure.error_type == "SuspendError" && failure.error.contains(text), "{failure:?}");
    }
    let large = "import base64\nheld = [str(hash(str(n))) for n in range(40000)]\nfs.ask(question='A')";
    let failure = run(&pool, large).await.finished.end.unwrap_err();
    assert_eq!((failure.error_type.as_str(), failure.limit), ("SuspendLimitError", Some(160 << 10)));
}

#[tokio::test]
async fn a_script_has_one_time_limit_over_all_its_processes() {
    let (pool, host) = (pool(), Host::default());
    let mut spent = waiting(&pool, Script::New(script("fs.ask(question='A')\nfs.hang()")), &host).await;
    spent.took = Duration::from_millis(19_500);
    let limits = ScriptLimits { timeout: Duration::from_secs(20), ..ScriptLimits::default() };
    let ran = ended(pool.run(&"me", settings(), Script::Waiting(spent, limits), &host).await);
    let failure = ran.finished.end.unwrap_err();
    assert_eq!(failure.error, "Code execution timed out after 20 seconds");
}

/// Scripts that try to escape, or to take what they should not have. None may succeed, outlast its deadline,
/// or spoil the next one.
const HOSTILE: &[&str] = &[
    "while True: pass",
    "[0] * 10**12",
    "'a' * 10**10",
    "x = []\nwhile True: x.append('y' * 10**6)",
    "10 ** 10 ** 8",
    "x = 2\nwhile True: x = x ** 2",
    "def f(n): return f(n + 1)\nf(0)",
    "eval('[' * 100000)",
    "(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((",
    "while True: print('flood' * 1000)",
    "import os\nos.fork()",
    "import os\nos.system('id')",
    "import os\nos.environ['PATH']",
    "import subprocess",
    "import socket",
    "import ctypes",
    "open('/etc/passwd').read()",
    "from pathlib import Path\nPath('/proc/self/environ').read_text()",
    "().__class__.__bases__[0].__subclasses__()",
    "__import__('os').system('id')",
    "for _ in range(10000): fs.echo()",
    "import re\nassert re.match('(a+)+$', 'a' * 40 + 'b'), 'no match'",
    "import re\nre.match('(a*)*\\\\1$', 'a' * 5000 + 'b')",
    "parallel([lambda: parallel([lambda: fs.echo() for _ in range(100)]) for _ in range(100)])",
    "\u{202e}evil\u{2066} = 1",
    "b'\\xff'.decode()",
    "sum(range(10**12))",
    "sorted(range(10**9))",
    "import json\njson.loads('[' * 100000)",
    "raise SystemExit(0)",
    "f\"{1:>10000000000}\"",
    "'%10000000000d' % 1",
    "1 << 10**12",
    "{n: 'x' * 10**6 for n in range(10**9)}",
    "[[0] * 10**6 for _ in range(10**6)]",
    "sorted([2, 1], key=lambda _: [0] * 10**12)",
    "'a'.join(['b' * 10**6] * 10**6)",
    "x = 'a'\nwhile True: x = x.replace('a', 'aa')",
    "exec('import os')",
    "import builtins\nbuiltins.open('/etc/passwd')",
    "(lambda: 0).__globals__['__builtins__']['open']('/etc/passwd')",
];

#[tokio::test]
async fn hostile_scripts_end_in_an_error_in_time_and_the_next_script_works() {
    let pool = pool();
    for code in HOSTILE {
        let timeout = Duration::from_secs(3);
        let hostile =
            StartScript { limits: ScriptLimits { timeout, ..ScriptLimits::default() }, ..script(code) };
        let ran = ended(pool.run(&"me", settings(), Script::New(hostile), &Host::default()).await);
        let failure = ran.finished.end.expect_err(code);
        assert!(!failure.error.is_empty() || failure.error_type == "SystemExit", "{code}: {failure:?}");
        assert!(ran.took <= timeout + Duration::from_millis(500), "{code}: {:?}", ran.took);
        println!("{:?} {failure:?} {:?}", code.get(..40).unwrap_or(code), ran.took);
        assert_eq!(value(&pool, "1 + 1").await, json!(2), "after {code}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_worker_has_no_environment_and_is_confined() {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_vmcp-test-worker"));
    let mut child = std::process::Command::new(program)
        .args(["--memory=134217728", "--cpu-seconds=9"])
        .env_clear()
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let ready: vmcp_script::protocol::FromWorker =
        vmcp_script::protocol::read_blocking(child.stdout.as_mut().unwrap()).unwrap();
    let vmcp_script::protocol::FromWorker::Ready(confined) = ready else { panic!("{ready:?}") };
    let proc = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap();
    assert_eq!(proc("environ"), "");
    let status = proc("status");
    assert!(confined.seccomp && status.contains("Seccomp:\t2"), "{confined:?} {status}");
    // Field 19 of `man 5 proc_pid_stat`; the third follows the name in parentheses.
    let niceness = |stat: &str| -> i32 {
        stat.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap().parse().unwrap()
    };
    let own = niceness(&std::fs::read_to_string("/proc/self/stat").unwrap());
    assert_eq!(niceness(&proc("stat")), (own + 10).min(19), "ten steps below this process");
    let limits = proc("limits");
    for limit in [
        "Max file size             0 ",
        "Max open files            3 ",
        "Max cpu time              9 ",
        "Max core file size        0 ",
    ] {
        assert!(limits.contains(limit), "{limits}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
