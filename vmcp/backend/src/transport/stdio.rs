//! Stdio transport: a child process that speaks newline-delimited JSON on its standard streams, in a process
//! group of its own that ends with the connection.

mod codex;
mod framing;
mod standard_error;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};
use tokio::process::{ChildStderr, Command};
use tokio::sync::mpsc;
use tokio::task::coop;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use vmcp_codex::AdapterSettings;
use vmcp_config::Secret;
use vmcp_config::rules::NamePattern;
use vmcp_wire::rpc;

use self::framing::{Framing, Output};
use crate::policy::settings::SERVED_VARIABLE;
use crate::program::environment;
use crate::program::last_words::LastWords;
use crate::program::orphan_guard::{OrphanGuard, WatchedGroup};
use crate::program::program_activity::ProgramActivity;
use crate::transport::link_error::LinkError;
use crate::transport::mux::{Mux, QueuedMessage};

/// Lines that are not messages, blank ones included, after which reading pauses for [`STRAY_PAUSE`]: a
/// program that floods such lines is slowed down (backpressure) and leaves the thread to others.
const STRAY_LINES: u32 = 64;
const STRAY_PAUSE: Duration = Duration::from_millis(1);
/// Number of the signal that asks a process to end.
const SIGTERM: i32 = 15;
/// Time for the exit status to follow the end of standard output; a grandchild that lives on may hold it back
/// for ever.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_millis(500);

/// The program to run.
#[derive(Clone, Debug)]
pub(crate) struct Program<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a BTreeMap<String, Secret>,
    pub(crate) cwd: Option<&'a Path>,
    /// Folder in front of the program's `PATH`.
    pub(crate) bin: Option<&'a Path>,
    /// Variables of vmcp's environment that the program gets besides the usual ones.
    pub(crate) inherit_env: &'a [NamePattern],
    /// Digest of the configuration that is served.
    pub(crate) served: Option<&'a str>,
    /// Ends the program's process group if vmcp is killed.
    pub(crate) guard: Option<&'a Arc<OrphanGuard>>,
    /// Passes the whole environment and standard error through; see
    /// [`BackendSettings::in_our_place`](crate::BackendSettings::in_our_place).
    pub(crate) in_our_place: bool,
    /// Collects the program's last words.
    pub(crate) last_words: Arc<LastWords>,
    /// Follows the program's process group.
    pub(crate) activity: Arc<ProgramActivity>,
    /// Settings of the adapter, if the program is Codex's app server.
    pub(crate) codex: Option<AdapterSettings>,
}

/// ProcessLimits of a child process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessLimits {
    pub(crate) line_bytes: usize,
    pub(crate) kill_grace: Duration,
}

/// Starts the program. It lives until it exits or `closed` is cancelled; then `mux` ends with the reason. The
/// returned task ends when the process group is gone.
pub(crate) fn start(
    program: &Program<'_>,
    limits: ProcessLimits,
    mux: Arc<Mux>,
    to_write: mpsc::Receiver<QueuedMessage>,
    closed: CancellationToken,
) -> Result<tokio::task::JoinHandle<()>, LinkError> {
    let mut child =
        spawn(program).map_err(|error| LinkError::Connect { detail: not_started(program, &error) })?;
    let (stdin, stdout, stderr) =
        (child.child.stdin().take(), child.child.stdout().take(), child.child.stderr().take());
    let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(LinkError::Connect { detail: "the child has no standard streams".to_owned() });
    };
    if let Some(settings) = &program.codex {
        let (stdin, stdout) = codex::adapted(stdin, stdout, settings.clone(), limits.line_bytes);
        return Ok(supervise(child, (stdin, stdout, stderr), program, limits, mux, to_write, closed));
    }
    Ok(supervise(child, (stdin, stdout, stderr), program, limits, mux, to_write, closed))
}

/// Relays messages between the program's streams and `mux` until the program ends or `closed` is cancelled.
fn supervise<I, O>(
    mut child: ProcessGroupGuard,
    (stdin, stdout, stderr): (I, O, ChildStderr),
    program: &Program<'_>,
    limits: ProcessLimits,
    mux: Arc<Mux>,
    to_write: mpsc::Receiver<QueuedMessage>,
    closed: CancellationToken,
) -> tokio::task::JoinHandle<()>
where
    I: AsyncWrite + Unpin + Send + 'static,
    O: AsyncRead + Unpin + Send + 'static,
{
    let tail = Arc::clone(&program.last_words);
    tail.clear();
    let log = tokio::spawn(
        standard_error::follow(stderr, Arc::clone(&tail), program.in_our_place).in_current_span(),
    );
    let writer = tokio::spawn(write(stdin, to_write));
    let supervise = async move {
        let reason = tokio::select! {
            reason = read(stdout, limits.line_bytes, &mux, &tail) => reason,
            () = closed.cancelled() => "stopped".to_owned(),
        };
        let reason = if reason.is_empty() {
            let status = timeout(EXIT_STATUS_TIMEOUT, child.child.wait()).await;
            let _ = timeout(EXIT_STATUS_TIMEOUT, log).await;
            match status {
                Ok(Ok(status)) => tail.explain(&format!("exited with {status}")),
                _ => tail.explain("closed its standard output"),
            }
        } else {
            reason
        };
        mux.end(reason);
        // Dropping the writer closes the child's standard input, which asks it to leave.
        writer.abort();
        child.leave(limits.kill_grace).await;
    };
    tokio::spawn(supervise.in_current_span())
}

/// Returns why a program did not start. The operating system reports a missing working directory like a
/// missing program.
fn not_started(program: &Program<'_>, error: &std::io::Error) -> String {
    match program.cwd.filter(|cwd| !cwd.is_dir()) {
        Some(cwd) => {
            format!(
                "cannot start `{}`: its working directory {} does not exist",
                program.command,
                cwd.display()
            )
        }
        None => format!("cannot start `{}`: {error}", program.command),
    }
}

/// A process group that does not outlive this value.
struct ProcessGroupGuard {
    child: Box<dyn ChildWrapper>,
    _watched: Option<WatchedGroup>,
}

impl ProcessGroupGuard {
    async fn leave(mut self, grace: Duration) {
        if timeout(grace, self.child.wait()).await.is_err() {
            let _ = self.child.signal(SIGTERM);
            let _ = timeout(grace, self.child.wait()).await;
        }
        // `drop` kills whatever is left.
    }
}

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        // Fails if no process of the group is left, which is the aim.
        let _ = self.child.start_kill();
    }
}

fn spawn(program: &Program<'_>) -> std::io::Result<ProcessGroupGuard> {
    let mut command = Command::new(program.command);
    command.args(program.args);
    if !program.in_our_place {
        command.env_clear();
        command.envs(environment::inherited(program.inherit_env));
    }
    if let Some(served) = program.served {
        let before = std::env::var(SERVED_VARIABLE).unwrap_or_default();
        let list = if before.is_empty() { served.to_owned() } else { format!("{before}:{served}") };
        command.env(SERVED_VARIABLE, list);
    }
    command.envs(program.env.iter().map(|(name, value)| (name, value.expose())));
    if let Some(path) = program.bin.and_then(|bin| path_behind(bin, program.env)) {
        command.env("PATH", path);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(cwd) = program.cwd {
        command.current_dir(cwd);
    }
    let child = CommandWrap::from(command).wrap(ProcessGroup::leader()).spawn()?;
    // The leader's id is the id of the group.
    let group = child.id();
    if let Some(group) = group {
        program.activity.follow(group);
    }
    let watched = program.guard.zip(group).and_then(|(guard, group)| guard.watch(group));
    Ok(ProcessGroupGuard { child, _watched: watched })
}

/// Returns the program's `PATH` behind a folder; `None` if the folder's name holds the separator.
fn path_behind(folder: &Path, env: &BTreeMap<String, Secret>) -> Option<OsString> {
    let configured = env.get("PATH").map(|path| OsString::from(path.expose()));
    let path = configured.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path))).ok()
}

/// Hands every line to the multiplexer. Returns the reason of the end; an empty one if standard output was
/// closed.
async fn read(stdout: impl AsyncRead + Unpin, limit: usize, mux: &Mux, words: &LastWords) -> String {
    let mut reader = BufReader::with_capacity(64 * 1024, stdout);
    let mut line = Vec::new();
    let mut framing = Framing::new(limit);
    let mut strays = 0_u32;
    loop {
        // The buffer may hold hundreds of lines: other tasks and timers have their turn between them.
        coop::consume_budget().await;
        match next_line(&mut reader, &mut line, limit).await {
            Ok(LineRead::Whole) => {
                let text = line.trim_ascii();
                let is_message = !framing.is_open()
                    && text.first() == Some(&b'{')
                    && mux.try_receive(&Bytes::copy_from_slice(text)).is_ok();
                if !is_message && !mux.refuse_bytes(text) {
                    take(framing.line(text), mux, words);
                    strays = strays.wrapping_add(1);
                    if strays.is_multiple_of(STRAY_LINES) {
                        sleep(STRAY_PAUSE).await;
                    }
                }
            }
            Ok(LineRead::TooLong) => return format!("wrote a line longer than the limit of {limit} bytes"),
            Ok(LineRead::End) => return String::new(),
            Err(error) => return format!("reading its standard output failed: {error}"),
        }
        // One large answer must not hold its memory for the life of the process.
        if line.capacity() > 1024 * 1024 {
            line = Vec::new();
        }
    }
}

/// Hands output that is not one message a line to the multiplexer, and keeps what is no message.
fn take(output: Vec<Output>, mux: &Mux, words: &LastWords) {
    for output in output {
        let stray = match output {
            Output::Message(message) | Output::Aside(message) => {
                let message = Bytes::from(message);
                match mux.try_receive(&message) {
                    Ok(()) => continue,
                    Err(_) => String::from_utf8_lossy(&message).into_owned(),
                }
            }
            Output::Stray(stray) => stray,
        };
        let said = mux.ignore("a line that is no message", stray.as_bytes());
        words.push(&format!("on standard output{said}"));
    }
}

enum LineRead {
    Whole,
    TooLong,
    End,
}

async fn next_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    limit: usize,
) -> std::io::Result<LineRead> {
    line.clear();
    let read = reader.take(limit as u64 + 1).read_until(b'\n', line).await?;
    Ok(match read {
        0 => LineRead::End,
        _ if line.len() > limit => LineRead::TooLong,
        _ => LineRead::Whole,
    })
}

async fn write(mut stdin: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<QueuedMessage>) {
    while let Some(QueuedMessage { message, .. }) = messages.recv().await {
        let written = async {
            // JSON that a client wrote over several lines must become one: the newline ends a message.
            let mut line = rpc::single_line(message.into());
            line.push(b'\n');
            stdin.write_all(&line).await?;
            stdin.flush().await
        };
        // The reader notices the end of the process and says why.
        if written.await.is_err() {
            return;
        }
    }
}
