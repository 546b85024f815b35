//! Child processes with captured output, which is printed when the test fails.

use parking_lot::Mutex;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{WAIT_TIMEOUT, eventually};

/// A child process; killed when dropped.
pub struct Process {
    name: String,
    child: Child,
    output: Arc<Mutex<String>>,
    readers: JoinSet<()>,
}

/// Longest time to read output after a process has ended: its own children may hold its pipes open for ever.
const LAST_WORDS: Duration = Duration::from_secs(5);

impl Process {
    /// Starts `command` and captures standard output and standard error.
    pub fn start(name: &str, command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.kill_on_drop(true).spawn().unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let output = Arc::<Mutex<String>>::default();
        let mut readers = JoinSet::new();
        readers.spawn(keep(child.stdout.take(), Arc::clone(&output)));
        readers.spawn(keep(child.stderr.take(), Arc::clone(&output)));
        Self { name: name.to_owned(), child, output, readers }
    }

    /// Returns everything that it has written so far.
    pub fn output(&self) -> String {
        self.output.lock().clone()
    }

    /// Waits for a line that contains `text`, and returns the rest of that line.
    pub async fn line_after(&self, text: &str) -> String {
        eventually(&format!("`{text}` from {}", self.name), async || {
            self.output().lines().find_map(|line| Some(line.split_once(text)?.1.to_owned()))
        })
        .await
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id().unwrap_or_else(|| panic!("{} has ended:\n{}", self.name, self.output()))
    }

    /// Fails the test if it has ended.
    pub fn assert_running(&mut self) {
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("{} ended with {status}:\n{}", self.name, self.output());
        }
    }

    /// Returns its resident memory in MiB.
    pub fn resident_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
    }

    /// Sends a signal by name, such as `TERM`.
    pub async fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(format!("-{signal}")).arg(self.id().to_string()).status().await;
        assert!(status.is_ok_and(|status| status.success()), "kill -{signal} {}", self.name);
    }

    /// Waits for its end and for the rest of its output.
    pub async fn ended(&mut self) -> ExitStatus {
        let status = timeout(WAIT_TIMEOUT, self.child.wait())
            .await
            .unwrap_or_else(|_| panic!("{} does not end:\n{}", self.name, self.output()))
            .expect("waiting for a child");
        let _ = timeout(LAST_WORDS, async { while self.readers.join_next().await.is_some() {} }).await;
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "the test failed: its runner shows this")]
            {
                eprintln!("--- last lines of {}:\n{}\n---", self.name, last_lines(&self.output(), 60));
            }
        }
    }
}

/// Returns the last `count` lines of `text`.
pub fn last_lines(text: &str, count: usize) -> String {
    let before = text.lines().count().saturating_sub(count);
    text.lines().skip(before).collect::<Vec<_>>().join("\n")
}

/// Returns the ids of the children of a process, zombies included.
pub fn children(process: u32) -> Vec<u32> {
    // Children are listed by thread. A thread, or the process, may have ended meanwhile.
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let children =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let children: Vec<String> = children.collect();
    children.iter().flat_map(|ids| ids.split_whitespace()).map(|id| id.parse().expect("an id")).collect()
}

async fn keep(pipe: Option<impl AsyncRead + Unpin>, output: Arc<Mutex<String>>) {
    let Some(pipe) = pipe else { return };
    let mut lines = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut output = output.lock();
        output.push_str(&line);
        output.push('\n');
    }
}
