//! Frames between the server and a worker: four bytes of length, most significant first, then JSON.
//!
//! ```text
//! worker → server   ready
//! server → worker   start (code, context, names of servers, limits)
//! worker → server   uses (tools that the text names), if there are any
//! server → worker   checked
//! worker → server   calls (one, or many of `parallel`)      repeated
//! server → worker   results, in the order of the calls      repeated
//! worker → server   finished; the worker ends
//! ```
//!
//! A script whose tool asks the user leaves its worker, and goes on in another one:
//!
//! ```text
//! server → worker   suspend, in place of results
//! worker → server   suspended (state of the interpreter); the worker ends
//!
//! server → worker   resume (that state), in place of start
//! worker → server   resumed: it waits for the results of its calls
//! ```

pub mod streams;

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits::ScriptLimits;
use crate::picture::Picture;

/// Largest frame in bytes, both ways: results of tools are the largest. A longer one ends the worker.
pub const MAX_FRAME: usize = 64 << 20;
/// Most tools in [`FromWorker::Uses`]; a worker leaves further ones out, the server refuses a longer frame.
pub const MAX_USES: usize = 200;

/// A frame to a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// The script to run. A worker gets one.
    Start(Box<StartScript>),
    /// The script to go on with, in place of [`ToWorker::Start`].
    Resume(Box<ResumeScript>),
    /// The mistake of each tool of [`FromWorker::Uses`], in their order; `None`: the caller may call it, or
    /// the arguments of the entry fit.
    Checked(Vec<Option<String>>),
    /// Ends of the calls of the last frame, in their order.
    Results(Vec<CallEnd>),
    /// Asks for the state of the script, in place of [`ToWorker::Results`].
    Suspend,
}

/// A script.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StartScript {
    /// The text, in Python unless `tool_script` is given.
    pub code: String,
    /// The text is a script of ToolHive, in Starlark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_script: Option<ToolScript>,
    /// Value of the name `CONTEXT`; `None` in Python if it is absent.
    pub context: Option<Value>,
    /// Python names of the servers whose tools are functions, such as `github`.
    pub namespaces: Vec<String>,
    /// Bounds of the script.
    pub limits: ScriptLimits,
}

/// Names that a script of ToolHive finds besides those of its text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolScript {
    /// Python names of the tools that the text may name; each is a function.
    pub functions: Vec<String>,
    /// Values of names in the script.
    pub data: Map<String, Value>,
}

/// A script that goes on in this worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResumeScript {
    /// The script, as another worker wrote it.
    pub script: SuspendedScript,
    /// Bounds of the script.
    pub limits: ScriptLimits,
}

/// A script that waits for the results of its calls outside of a worker. Workers alone read its `state`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedScript {
    /// The interpreter and the form of `state`; a worker refuses another one's.
    pub engine: String,
    /// State of the interpreter, compressed, in base64.
    pub state: String,
    /// Python names of the servers, which values of the script refer to by their places.
    pub namespaces: Vec<String>,
    /// Names of the functions of a script of ToolHive; `None`: it is a script in Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<Vec<String>>,
    /// Text that the script has printed.
    pub output: String,
    /// True if the script tried to print more than it may.
    pub is_output_over: bool,
    /// Pictures that the script has made.
    #[serde(default)]
    pub pictures: Vec<Picture>,
    /// Calls that the script has made.
    pub calls: usize,
}

/// A frame from a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWorker {
    /// The worker is confined and waits for its script.
    Ready(Confinement),
    /// The text of the script names these tools; asked once, before its first call.
    Uses(Vec<ToolUse>),
    /// The script waits for these calls.
    Calls(Vec<HostCall>),
    /// The script of [`ToWorker::Resume`] waits for the results of its calls.
    Resumed,
    /// The answer to [`ToWorker::Suspend`].
    Suspended(Result<Box<SuspendedScript>, Failure>),
    /// The script has ended.
    Finished(Finished),
}

/// Confinements that the kernel took; resource limits are always in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// System calls are filtered.
    pub seccomp: bool,
    /// No file can be opened, no port reached.
    pub landlock: bool,
}

/// A call that a script makes to the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostCall {
    /// A tool.
    Tool {
        /// The server by its name or its Python name; `None`: the tool's listed name says it.
        server: Option<String>,
        /// The tool by its name or its Python name.
        tool: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// `search_tools`.
    Search {
        /// The task, in plain words.
        query: String,
        /// Most tools of the answer.
        limit: Option<usize>,
    },
    /// `describe`: the stub of one tool.
    Describe {
        /// The tool, as `server.tool` or by its listed name.
        name: String,
    },
}

/// A tool that the text of a script names, or a call of it whose arguments are constants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Python name of the server.
    pub server: String,
    /// Python name of the tool.
    pub tool: String,
    /// Line of the script, from 1.
    pub line: u32,
    /// Arguments of a call whose arguments are all constants. The tool itself has an entry without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
}

/// The end of a [`HostCall`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// Its value.
    Value(Value),
    /// An exception, which the script may catch.
    Raised {
        /// Its type.
        kind: Raised,
        /// The tool's own words.
        message: String,
    },
}

/// Types of exceptions of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Raised {
    /// `RuntimeError`: the tool itself failed.
    Failed,
    /// `LookupError`: no such tool, or none that the caller may call.
    Unknown,
    /// `ValueError`: the arguments do not fit the tool's schema.
    Arguments,
    /// `OSError`: the server gave no answer.
    Unanswered,
    /// `PermissionError`: the call needs an answer of the user, or a right that the caller lacks, or its
    /// result is withheld.
    Asks,
}

/// The end of a script.
#[derive(Debug, Serialize, Deserialize)]
pub struct Finished {
    /// The value of the last expression, `null` without one; or the failure.
    pub end: Result<Value, Failure>,
    /// Text that the script printed.
    pub output: String,
    /// Pictures that the script made, in their order.
    #[serde(default)]
    pub pictures: Vec<Picture>,
}

impl Finished {
    /// Makes the end of a script that failed before it printed or drew anything, or whose worker is gone.
    pub fn failed(failure: Failure) -> Finished {
        Finished { end: Err(failure), output: String::new(), pictures: Vec::new() }
    }
}

/// The failure of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Type of the exception in Python, or the name of the limit's error.
    pub error_type: String,
    /// Text for the model that wrote the script.
    pub error: String,
    /// Line of the script, from 1, where it is known.
    pub line: Option<u32>,
    /// The limit that was exceeded, in the unit that `error` names.
    pub limit: Option<u64>,
}

impl Failure {
    /// Makes a failure without a line or limit.
    pub fn new(error_type: &str, error: impl Into<String>) -> Failure {
        Failure { error_type: error_type.to_owned(), error: error.into(), line: None, limit: None }
    }

    /// Makes the failure of a script whose time is over.
    pub fn timed_out(limits: &ScriptLimits) -> Failure {
        let seconds = limits.timeout.as_secs_f64();
        Failure::new("TimeoutError", format!("Code execution timed out after {seconds} seconds"))
    }

    /// Adds the limit that was exceeded.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Failure {
        self.limit = u64::try_from(limit).ok();
        self
    }
}

/// Writes a frame. Fails beyond [`MAX_FRAME`].
pub fn encode(frame: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, frame)?;
    let length = bytes.len().saturating_sub(4);
    check_length(length)?;
    let length = u32::try_from(length).map_err(io::Error::other)?.to_be_bytes();
    for (byte, length) in bytes.iter_mut().zip(length) {
        *byte = length;
    }
    Ok(bytes)
}

/// Fails if a frame of this length is too long.
fn check_length(length: usize) -> io::Result<()> {
    if length > MAX_FRAME {
        let message = format!("a frame of {length} bytes, the limit is {MAX_FRAME}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(())
}

/// Reads a frame, blocking.
pub fn read_blocking<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    check_length(length)?;
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::from)
}

/// Writes a frame, blocking.
pub fn write_blocking(output: &mut impl Write, frame: &impl Serialize) -> io::Result<()> {
    output.write_all(&encode(frame)?)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_and_bounded() {
        let bytes = encode(&FromWorker::Ready(Confinement { seccomp: true, landlock: false })).unwrap();
        let read: FromWorker = read_blocking(&mut bytes.as_slice()).unwrap();
        assert!(matches!(read, FromWorker::Ready(Confinement { seccomp: true, landlock: false })));
        for broken in
            [&bytes[..3], &bytes[..bytes.len() - 1], &[0xff, 0xff, 0xff, 0xff, b'{'], &[0, 0, 0, 1, b'{']]
        {
            assert!(read_blocking::<FromWorker>(&mut &*broken).is_err(), "{broken:?}");
        }
        let long: io::Error = read_blocking::<FromWorker>(&mut [0xff; 8].as_slice()).unwrap_err();
        assert!(long.to_string().contains("the limit is 67108864"), "{long}");
    }
}
