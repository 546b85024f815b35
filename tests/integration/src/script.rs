//! Scripts in Python and JavaScript that drive the real clients.

pub(crate) mod console_page;

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Runs `script` through the standard input of `program` and returns the one JSON line that it prints.
///
/// Node looks for packages from the folder of a script: read from standard input, that is `folder`.
pub async fn run_script(program: &Path, args: &[&str], script: &str, folder: &Path) -> Value {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(script.as_bytes()).await.expect("the script to be read");
    drop(input);
    let run = tokio::time::timeout(crate::WAIT_TIMEOUT * 2, child.wait_with_output()).await;
    let output = run.expect("the script to end").expect("its output");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{} {args:?} failed:\n{out}\n{err}", program.display());
    let line = out.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON ({error}) in:\n{out}\n{err}"))
}
