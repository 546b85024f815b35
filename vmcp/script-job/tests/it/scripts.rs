//! Names, values and exceptions of a script in a Job: the same as in a worker.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_script::pool::Ran;

use super::cluster::{Cluster, Host, run};

const LONG: Duration = Duration::from_secs(30);

async fn ran(code: &str) -> Ran {
    run(&Cluster::default(), &Host::default(), code, LONG).await
}

async fn value(code: &str) -> Value {
    ran(code).await.finished.end.unwrap_or_else(|failure| panic!("{code}: {failure:?}"))
}

async fn failure(code: &str) -> (String, String, Option<u32>) {
    let failure = ran(code).await.finished.end.expect_err(code);
    (failure.error_type, failure.error, failure.line)
}

#[tokio::test]
async fn the_value_of_the_last_expression_is_the_result() {
    for (code, expected) in [
        ("sum(x**2 for x in range(1000))", json!(332_833_500)),
        ("import urllib.parse\nurllib.parse.quote('ü b')", json!("%C3%BC%20b")),
        ("CONTEXT['who']", json!("me")),
        ("x = 1", Value::Null),
        ("{'ü': '\\U0001F600', 1: (2, {3})}", json!({ "ü": "😀", "1": [2, [3]] })),
        ("[float('inf'), 2**64, 2**63 - 1, b'a']", json!(["inf", "18446744073709551616", i64::MAX, "b'a'"])),
        ("class P:\n    def __init__(self):\n        self.x = 1\nP()", json!({ "x": 1 })),
    ] {
        assert_eq!(value(code).await, expected, "{code}");
    }
    let printed = ran("print('a', 1)\nprint('b')").await;
    assert_eq!(printed.finished.output, "a 1\nb\n");
}

#[tokio::test]
async fn tools_are_functions_and_their_failures_exceptions() {
    for (code, expected) in [
        ("github.echo(a=1)", json!({ "server": "github", "args": { "a": 1 } })),
        ("call_tool('fs', 'echo', {'a': 2})", json!({ "server": "fs", "args": { "a": 2 } })),
        ("call_tool('echo', a=(1,))", json!({ "server": null, "args": { "a": [1] } })),
        ("sum(row['n'] for row in fs.rows())", json!(49_995_000)),
        ("[it['args']['n'] for it in parallel([lambda: fs.echo(n=1), (fs.echo, {'n': 2})])]", json!([1, 2])),
        ("search_tools('mail', limit=2)", json!({ "search": { "query": "mail", "limit": 2 } })),
        ("describe(fs.echo)", json!({ "describe": { "name": "fs.echo" } })),
        ("try:\n    fs.fail()\nexcept RuntimeError as error:\n    r = str(error)\nr", json!("it is broken")),
    ] {
        assert_eq!(value(code).await, expected, "{code}");
    }
    for (code, kind, part, line) in [
        ("x = 1\nfs.fail()", "RuntimeError", "it is broken", Some(2)),
        ("fs.echo(1)", "TypeError", "by keyword", Some(1)),
        ("x = 1\nfs.missing()", "LookupError", "no tool fs.missing", Some(2)),
        ("def f(:", "SyntaxError", "", Some(1)),
        ("parallel([lambda: parallel([])])", "ValueError", "parallel inside of parallel", Some(1)),
        ("parallel([lambda: fs.echo(x=fs.echo())])", "ValueError", "when parallel returns", Some(1)),
        ("x = []\nx.append(x)\nx", "ValueError", "contains itself", None),
        ("'x' * 5000", "ResultLimitError", "longer than 2000 bytes", None),
        ("print('x' * 5000)", "OutputLimitError", "more than 1000 bytes", None),
        (
            "for n in range(9):\n    try:\n        fs.echo(n=n)\n    except BaseException:\n        pass",
            "CallLimitError",
            "more than 3 calls",
            Some(3),
        ),
    ] {
        let (found, error, at) = failure(code).await;
        assert_eq!((found.as_str(), at), (kind, line), "{code}: {error}");
        assert!(error.contains(part), "{code}: {error}");
    }
}

#[tokio::test]
async fn nothing_of_a_script_runs_before_its_tools_are_known() {
    let host = Host::default();
    let ran = run(&Cluster::default(), &host, "fs.echo()\nfs.missing()", LONG).await;
    assert_eq!(ran.finished.end.unwrap_err().error_type, "LookupError");
    assert!(host.called.lock().is_empty(), "{:?}", host.called.lock());
}

#[tokio::test]
async fn a_tool_that_asks_is_refused() {
    let (kind, error, line) = failure("x = 1\nfs.ask()").await;
    assert_eq!((kind.as_str(), line), ("PermissionError", Some(2)));
    assert!(error.contains("a script in a Kubernetes Job cannot wait for the answer"), "{error}");
    assert!(error.contains("with call_tool"), "{error}");
}

/// A PNG of one pixel, as any drawing library writes it.
const DRAW: &str = r"
import struct, zlib
def chunk(kind, data):
    body = kind + data
    return struct.pack('>I', len(data)) + body + struct.pack('>I', zlib.crc32(body))
png = b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0))
png += chunk(b'IDAT', zlib.compress(b'\0\0')) + chunk(b'IEND', b'')
def save(name, data):
    with open(f'{PICTURES}/{name}', 'wb') as file:
        file.write(data)
";

#[tokio::test]
async fn pictures_that_a_script_saves_stand_beside_its_result() {
    let ran_one = ran(&format!("{DRAW}save('b.png', png)\nsave('a.png', png)\n1 + 1")).await;
    assert_eq!(ran_one.finished.end, Ok(json!(2)));
    let pictures = ran_one.finished.pictures;
    assert_eq!(pictures.len(), 2);
    assert!(pictures.iter().all(|picture| picture.data.starts_with("iVBORw0KGgo")), "{pictures:?}");
    let failed = ran(&format!("{DRAW}save('a.png', png)\nmissing_name")).await;
    assert_eq!(failed.finished.end.unwrap_err().error_type, "NameError");
    assert_eq!(failed.finished.pictures.len(), 1, "also if the script fails later");
    for (code, part) in [
        ("save('a.png', png + b'x' * 20_000_000)", "a.png in PICTURES has 20000"),
        ("save('table.csv', b'a,b')", "table.csv in PICTURES is no PNG"),
        ("for n in range(9): save(f'{n}.png', png)", "PICTURES has 9 files, the limit is 8"),
    ] {
        let refused = ran(&format!("{DRAW}{code}\n1")).await;
        let failure = refused.finished.end.expect_err(code);
        assert_eq!(failure.error_type, "ValueError", "{code}");
        assert!(failure.error.contains(part), "{code}: {}", failure.error);
        assert!(refused.finished.pictures.is_empty(), "{code}");
    }
}

#[tokio::test]
async fn a_script_reads_no_address_and_no_setting() {
    let names =
        value("import os\nsorted(k for k in os.environ if k.startswith(('VMCP', 'KUBERNETES')))").await;
    assert_eq!(names, json!([]));
}
