//! [`MontyEngine`]: Python in `monty`, an interpreter without files, sockets and processes.

use monty::{MontyRepl, ReplFunctionCall, ReplProgress, ReplStartError};
use monty_types::{
    CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyObject, MontyUuid, NameLookupResult,
    PrintWriter, ResourceLimits, ResourceTracker,
};
use serde_json::Value;

use super::arguments::GivenArguments;
use super::output::Output;
use super::parallel::{self, Collected};
use super::pictures::{self, Pictures};
use super::{Engine, PausedScript, Step};
use super::{snapshot, source, starlark, statistics, tool_uses, values};
use vmcp_script::ScriptLimits;
use vmcp_script::protocol::{
    CallEnd, Failure, Finished, HostCall, Raised, ResumeScript, StartScript, SuspendedScript, ToolScript,
    ToolUse,
};

/// Name under which the interpreter runs the snippet after the prelude, as it stands in tracebacks.
const SCRIPT: &str = "script";
/// Functions of the host that a script finds by their names.
const FUNCTIONS: [&str; 7] = [
    "call_tool",
    "search_tools",
    "describe",
    parallel::BEGIN,
    parallel::CANCEL,
    parallel::END,
    statistics::EXACT,
];

/// Runs scripts in `monty`.
#[derive(Debug, Default)]
pub struct MontyEngine;

type Progress = Result<ReplProgress, Box<ReplStartError>>;

/// Everything of a running script besides the interpreter.
struct Running {
    namespaces: Vec<String>,
    /// Functions of a script of ToolHive; `None`: it is a script in Python.
    functions: Option<Vec<String>>,
    limits: ScriptLimits,
    output: Output,
    pictures: Pictures,
    collected: Collected,
    /// Items of the list that `parallel` returns: a placeholder's place, or a value.
    joined: Option<Vec<Item>>,
    /// Calls that the script made so far.
    calls: usize,
    /// The limit that ended the script.
    stopped: Option<Failure>,
}

enum Item {
    Pending(usize),
    Value(MontyObject),
}

/// The answer to a call of a host's function.
enum Begin {
    Answer(ExtFunctionResult),
    Calls(Vec<HostCall>),
    Stop(Failure),
}

struct Paused {
    call: ReplFunctionCall,
    running: Running,
}

impl Engine for MontyEngine {
    fn uses(&self, script: &StartScript) -> Vec<ToolUse> {
        let module = source::parse(&script.code).filter(|_| script.tool_script.is_none());
        module.map_or_else(Vec::new, |it| tool_uses::find(&it, &script.code, &script.namespaces))
    }

    fn start(&self, script: StartScript) -> Step {
        let StartScript { code, tool_script, context, namespaces, limits } = script;
        let resources = ResourceLimits::default()
            .max_duration(limits.timeout)
            .max_recursion_depth(limits.recursion)
            .max_suspensions(usize::MAX);
        let mut running = Running::new(namespaces, limits);
        let mut inputs = vec![("CONTEXT".to_owned(), context.map_or(MontyObject::None, values::from_json))];
        let mut prelude = parallel::PRELUDE.to_owned();
        let mut code = code;
        if let Some(ToolScript { functions, data }) = tool_script {
            prelude.push_str(starlark::PRELUDE);
            code = match starlark::as_python(&code, &functions) {
                Ok(code) => code,
                Err(failure) => return Step::Finished(Finished::failed(failure)),
            };
            running.functions = Some(functions);
            inputs.extend(data.into_iter().map(|(name, value)| (name, values::from_json(value))));
        }
        let tracker = ResourceTracker::new(resources);
        let mut repl = MontyRepl::new(SCRIPT, tracker, CompileOptions::default());
        let with_modules = source::parse(&code).and_then(|module| source::with_own_modules(&module, &code));
        // One text, so that the script is the second input with and without it.
        if with_modules.is_some() {
            prelude.push_str(statistics::PRELUDE);
        }
        let code = with_modules.unwrap_or(code);
        let prelude = repl.feed_run(&prelude, Vec::new(), PrintWriter::Disabled);
        if let Err(error) = prelude {
            return running.failed(&error);
        }
        let progress = repl.feed_start(&code, inputs, PrintWriter::Callback(&mut running.output));
        running.drive(progress)
    }

    fn resume(&self, script: ResumeScript) -> Result<Box<dyn PausedScript>, Failure> {
        let ResumeScript { script, limits } = script;
        let call = snapshot::read(&script.engine, &script.state)?;
        let output = Output::continued(script.output, script.is_output_over, limits.output_bytes);
        let mut running = Running::new(script.namespaces, limits);
        running.output = output;
        running.functions = script.functions;
        running.calls = script.calls;
        running.pictures = Pictures::continued(script.pictures);
        if is_end_of_parallel(&call) {
            running.joined = Some(items(&call.args));
        }
        Ok(Box::new(Paused { call, running }))
    }
}

impl PausedScript for Paused {
    fn resume(self: Box<Self>, ends: Vec<CallEnd>) -> Step {
        let Paused { call, mut running } = *self;
        let result = running.result_of(ends);
        let progress = call.resume(result, PrintWriter::Callback(&mut running.output));
        running.drive(progress)
    }

    fn suspend(self: Box<Self>) -> Result<SuspendedScript, Failure> {
        let Paused { call, running } = *self;
        let Running { namespaces, functions, limits, output, pictures, calls, .. } = running;
        Ok(SuspendedScript {
            engine: snapshot::engine(),
            state: snapshot::write(SCRIPT, call, limits.suspended_bytes)?,
            namespaces,
            functions,
            output: output.text,
            is_output_over: output.is_over,
            pictures: pictures.made,
            calls,
        })
    }
}

impl Running {
    fn new(namespaces: Vec<String>, limits: ScriptLimits) -> Running {
        let (output, pictures) = (Output::new(limits.output_bytes), Pictures::default());
        let collected = Collected::default();
        Running {
            namespaces,
            functions: None,
            limits,
            output,
            pictures,
            collected,
            joined: None,
            calls: 0,
            stopped: None,
        }
    }

    /// True for a function of a script of ToolHive that calls a tool.
    fn is_function(&self, name: &str) -> bool {
        self.functions.iter().flatten().any(|function| function == name)
    }

    /// Runs until the script waits for calls, or ends.
    fn drive(mut self, mut progress: Progress) -> Step {
        loop {
            progress = match progress {
                Err(error) => return self.failed(&error.error),
                Ok(ReplProgress::Complete { value, .. }) => return self.complete(&value),
                Ok(ReplProgress::NameLookup(lookup)) => {
                    let found = self.lookup(&lookup.name, lookup.object_id());
                    lookup.resume(found, PrintWriter::Callback(&mut self.output))
                }
                Ok(ReplProgress::FunctionCall(call)) => match self.begin(&call) {
                    Begin::Answer(result) => call.resume(result, PrintWriter::Callback(&mut self.output)),
                    Begin::Calls(calls) => {
                        return Step::Calls(calls, Box::new(Paused { call, running: self }));
                    }
                    Begin::Stop(failure) => self.stop(call, failure),
                },
                Ok(ReplProgress::OsCall(call)) => {
                    let message = format!(
                        "{} is not there: a script has no files, no environment and no clock; \
                                           pass data in CONTEXT, or call a tool",
                        call.function_call.name()
                    );
                    let error = MontyException::new(ExcType::PermissionError, Some(message));
                    call.resume(error, PrintWriter::Callback(&mut self.output))
                }
                Ok(ReplProgress::ResolveFutures(futures)) => {
                    let message = "nothing is left to await: calls of tools return their results at once";
                    let error = MontyException::new(ExcType::RuntimeError, Some(message.to_owned()));
                    futures.abort(error, PrintWriter::Callback(&mut self.output))
                }
            };
        }
    }

    fn stop(&mut self, call: ReplFunctionCall, failure: Failure) -> Progress {
        let error = MontyException::new(ExcType::RuntimeError, Some(failure.error.clone()));
        self.stopped = Some(failure);
        call.abort(error, PrintWriter::Callback(&mut self.output))
    }

    /// Finds a name that the script does not define, or an attribute of a server.
    fn lookup(&self, name: &str, object: Option<MontyUuid>) -> NameLookupResult {
        let function =
            |name: String| NameLookupResult::Value(MontyObject::Function { name, docstring: None });
        if let Some(object) = object {
            let server = self.server(object);
            return server.map_or(NameLookupResult::Undefined, |server| function(format!("{server}.{name}")));
        }
        if FUNCTIONS.contains(&name) || self.is_function(name) {
            return function(name.to_owned());
        }
        match self.namespaces.iter().position(|namespace| namespace == name) {
            Some(place) => NameLookupResult::Value(parallel::instance(name, place as u128 + 1)),
            // A server of this name goes first.
            None if pictures::is_function(name) => function(name.to_owned()),
            None => NameLookupResult::Undefined,
        }
    }

    fn server(&self, object: MontyUuid) -> Option<&str> {
        let id = u128::from_be_bytes(*object.as_bytes());
        let place = usize::try_from(id.checked_sub(1)?).ok()?;
        self.namespaces.get(place).map(String::as_str)
    }

    fn begin(&mut self, call: &ReplFunctionCall) -> Begin {
        let given = GivenArguments { positional: &call.args, keywords: &call.kwargs };
        let made = match (call.function_name.as_str(), call.object_id) {
            (name, Some(object)) => match self.server(object) {
                Some(server) => tool(&format!("{server}.{name}"), &given),
                None => {
                    Err("the result of a call inside of parallel is there when parallel returns".to_owned())
                }
            },
            (parallel::BEGIN, None) if self.collected.calls.is_some() => {
                return raised(ExcType::ValueError, "parallel inside of parallel".to_owned());
            }
            (parallel::BEGIN, None) => {
                self.collected.calls = Some(Vec::new());
                return Begin::Answer(MontyObject::None.into());
            }
            (parallel::CANCEL, None) => {
                self.collected.calls = None;
                return Begin::Answer(MontyObject::None.into());
            }
            (parallel::END, None) => return self.join(given.positional),
            (statistics::EXACT, None) => {
                return Begin::Answer(match statistics::exact(given.positional) {
                    Ok(value) => value.into(),
                    Err(error) => error.into(),
                });
            }
            ("call_tool", None) if self.functions.is_some() => given.of_tool_script_call(),
            (name, None) if self.is_function(name) => given.of_tool_script(name),
            (name, None) if pictures::is_function(name) => {
                return Begin::Answer(match self.pictures.draw(name, &given, &self.limits) {
                    Ok(told) => MontyObject::String(told).into(),
                    Err(error) => error.into(),
                });
            }
            ("call_tool", None) => given.of_call_tool(),
            ("search_tools", None) => given.of_search(),
            ("describe", None) => match given.of_describe() {
                // A tool or a server of this name goes first.
                Ok(HostCall::Describe { name })
                    if pictures::is_function(&name)
                        && !self.is_function(&name)
                        && !self.namespaces.contains(&name) =>
                {
                    return Begin::Answer(MontyObject::String(pictures::stub(&name).to_owned()).into());
                }
                described => described,
            },
            (name, None) if !name.contains('.') => {
                return Begin::Answer(ExtFunctionResult::NotFound(name.to_owned()));
            }
            (name, None) => tool(name, &given),
        };
        match made {
            Err(message) => raised(ExcType::TypeError, message),
            Ok(_) if self.calls >= self.limits.calls => Begin::Stop(
                Failure::new(
                    "CallLimitError",
                    format!("the script made more than {} calls", self.limits.calls),
                )
                .with_limit(self.limits.calls),
            ),
            Ok(made) => {
                self.calls += 1;
                match &mut self.collected.calls {
                    Some(calls) => {
                        calls.push(made);
                        Begin::Answer(parallel::placeholder(calls.len() - 1).into())
                    }
                    None => Begin::Calls(vec![made]),
                }
            }
        }
    }

    /// Makes the collected calls; `positional` is the list of placeholders.
    fn join(&mut self, positional: &[MontyObject]) -> Begin {
        let calls = self.collected.calls.take().unwrap_or_default();
        let items = items(positional);
        if calls.is_empty() {
            let values = items.into_iter().map(|item| match item {
                Item::Value(value) => value,
                Item::Pending(_) => MontyObject::None,
            });
            return Begin::Answer(MontyObject::List(values.collect()).into());
        }
        self.joined = Some(items);
        Begin::Calls(calls)
    }

    /// Returns the value, or the first exception, of the calls that the script waits for.
    fn result_of(&mut self, ends: Vec<CallEnd>) -> ExtFunctionResult {
        let mut ended = Vec::with_capacity(ends.len());
        for end in ends {
            match end {
                CallEnd::Value(value) => ended.push(values::from_json(value)),
                CallEnd::Raised { kind, message } => {
                    self.joined = None;
                    return MontyException::new(exception(kind), Some(message)).into();
                }
            }
        }
        let value = match self.joined.take() {
            None => ended.into_iter().next().unwrap_or(MontyObject::None),
            Some(items) => {
                let value = |item| match item {
                    Item::Pending(place) => ended.get(place).cloned().unwrap_or(MontyObject::None),
                    Item::Value(value) => value,
                };
                MontyObject::List(items.into_iter().map(value).collect())
            }
        };
        value.into()
    }

    fn complete(self, value: &MontyObject) -> Step {
        let most = self.limits.result_bytes;
        let too_long = || {
            let error =
                format!("the result is longer than {most} bytes; return less, such as a count or a part");
            Failure::new("ResultLimitError", error).with_limit(most)
        };
        // The value itself is larger than its JSON, so it is refused before it is copied.
        let end = if value.deep_host_size() > most.saturating_mul(200) {
            Err(too_long())
        } else {
            let json = values::to_json(value).map_err(|unfit| Failure::new("ValueError", unfit.to_string()));
            json.and_then(|json| if fits(&json, most) { Ok(json) } else { Err(too_long()) })
        };
        let end = if self.output.is_over { Err(self.output_failure()) } else { end };
        Step::Finished(Finished { end, output: self.output.text, pictures: self.pictures.made })
    }

    fn output_failure(&self) -> Failure {
        let most = self.limits.output_bytes;
        Failure::new("OutputLimitError", format!("the script printed more than {most} bytes"))
            .with_limit(most)
    }

    fn failed(mut self, error: &MontyException) -> Step {
        let line = error.traceback().iter().rev().find(|frame| is_script(&frame.filename));
        let message = error.message().unwrap_or_default();
        let is_time = error.exc_type() == ExcType::TimeoutError && message.starts_with("time limit exceeded");
        let failure = if let Some(stopped) = self.stopped.take() {
            stopped
        } else if self.output.is_over {
            self.output_failure()
        } else if is_time {
            Failure::timed_out(&self.limits)
        } else {
            Failure::new(&error.exc_type().to_string(), message)
        };
        let before = if self.functions.is_some() { starlark::LINES_BEFORE } else { 0 };
        let line = line.filter(|_| !is_time).map(|frame| frame.start.line.saturating_sub(before));
        let failure = Failure { line, ..failure };
        Step::Finished(Finished { end: Err(failure), output: self.output.text, pictures: self.pictures.made })
    }
}

/// True if the call makes the calls that `parallel` has collected.
fn is_end_of_parallel(call: &ReplFunctionCall) -> bool {
    call.function_name == parallel::END && call.object_id.is_none()
}

/// Reads the list of placeholders and values that `parallel` has collected.
fn items(positional: &[MontyObject]) -> Vec<Item> {
    let items = match positional {
        [MontyObject::List(items)] => items.as_slice(),
        _ => &[],
    };
    let item =
        |item: &MontyObject| parallel::place(item).map_or_else(|| Item::Value(item.clone()), Item::Pending);
    items.iter().map(item).collect()
}

/// True for a file of the script itself, and not of the prelude, which is the interpreter's first input.
fn is_script(filename: &str) -> bool {
    !filename.contains("-0>")
}

fn tool(function: &str, given: &GivenArguments<'_>) -> Result<HostCall, String> {
    let arguments = given.of_tool(function)?;
    let (server, tool) = function.split_once('.').ok_or_else(|| format!("{function} is no tool"))?;
    Ok(HostCall::Tool { server: Some(server.to_owned()), tool: tool.to_owned(), arguments })
}

fn raised(kind: ExcType, message: String) -> Begin {
    Begin::Answer(MontyException::new(kind, Some(message)).into())
}

fn exception(kind: Raised) -> ExcType {
    match kind {
        Raised::Failed => ExcType::RuntimeError,
        Raised::Unknown => ExcType::LookupError,
        Raised::Arguments => ExcType::ValueError,
        Raised::Unanswered => ExcType::OSError,
        Raised::Asks => ExcType::PermissionError,
    }
}

/// True if a value takes at most `most` bytes as JSON; writes no more than that.
fn fits(value: &Value, most: usize) -> bool {
    struct Counted(usize);
    impl std::io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(Counted(most), value).is_ok()
}
