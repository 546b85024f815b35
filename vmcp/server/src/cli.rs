//! The command line: parses the arguments, runs one command, and turns its failure into an exit code.
//!
//! | folder | commands |
//! |---|---|
//! | `run` | serve, mcp-server, bridge, try, service |
//! | `setup` | init, add, registry, remove…, validate, secret, model, schema; the same in a cluster |
//! | `ask` | tools, find, call, backends, explain-tool, authz, eval: a server, or an engine in this process |
//! | `lifecycle` | start, stop, restart, status, update |
//! | `operate` | top, logs, log-level, calls, trace, runs, metrics, doctor, console, support-bundle… |
//! | `clients` | connect, hooks, login, logout |
//!
//! | module | holds |
//! |---|---|
//! | `connection` | a running server, or an engine in this process |
//! | `running_server` | the state file by which commands find a server |
//! | `saved_definitions` | definitions of a backend, as a server saved them |
//! | `kubernetes` | a cluster, through the person's `kubectl` |
//! | `console` | results on standard output, notes on standard error, exit codes |
//! | `process` | runtime, signals, the reaper for PID 1 |
//! | `installed_program` | the path of this program that outlives an upgrade |
//! | `options` | options of every command, the configuration file |
//! | `help`, `completions` | the list of commands, completions for shells |

mod ask;
mod clients;
mod completions;
mod connection;
mod console;
mod help;
mod installed_program;
mod kubernetes;
mod lifecycle;
mod operate;
mod options;
mod process;
mod run;
mod running_server;
mod saved_definitions;
mod setup;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use self::console::failure::{CommandFailure, Exit};
use self::console::output::{self, OutputFormat};
use options::GlobalOptions;
use setup::remove::Change;
use setup::server_arguments::with_separator;

/// Many MCP servers behind one endpoint, found by search.
///
/// vmcp puts all your MCP servers behind one URL and gives a model two tools: `optim_find_tool` finds the few
/// tools that fit what it is about to do, `optim_call_tool` calls any of them.
#[derive(Debug, Parser)]
#[command(name = "vmcp", version, max_term_width = 110, after_help = FIRST_STEPS)]
struct Cli {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

const FIRST_STEPS: &str = "\
First steps:
  vmcp init                             a commented vmcp.yaml; --from claude imports yours
  vmcp model pull                       once, to search by meaning; without it, by keywords
  vmcp start                            http://127.0.0.1:8080/mcp
  vmcp find \"who follows this ticket\"   search the tools of all servers
  vmcp call time_get_current_time timezone=Asia/Tokyo

Exit codes: 0 done, 1 failed, or the tool reported an error, 2 wrong usage, 3 nothing found,
4 a server cannot be reached.";

#[expect(clippy::large_enum_variant, reason = "a process parses one command")]
#[derive(Debug, Subcommand)]
enum Command {
    Serve(run::serve::Arguments),
    McpServer(run::mcp_server::Arguments),
    Bridge(run::bridge::Arguments),
    Init(setup::init::Arguments),
    Add(setup::add::Arguments),
    /// Remove a backend from the configuration file, or with --kubernetes from a cluster
    ///
    /// For programs (-o json) the result with --kubernetes has `removed`, the resources that are deleted.
    Remove(setup::remove::RemoveArguments),
    /// Use a backend again that `vmcp disable` switched off
    Enable(setup::remove::Arguments),
    /// Switch a backend off and keep it in the configuration file
    Disable(setup::remove::Arguments),
    Registry(setup::registry::Arguments),
    Try(run::try_server::Arguments),
    Connect(clients::connect::Arguments),
    Hooks(clients::hooks::Arguments),
    Validate(setup::validate::Arguments),
    Tools(ask::tools::Arguments),
    Find(ask::find::Arguments),
    Call(ask::call::Arguments),
    Backends(ask::backends::Arguments),
    ExplainTool(ask::explain_tool::Arguments),
    Doctor(operate::doctor::Arguments),
    SupportBundle(operate::support_bundle::Arguments),
    Start(lifecycle::start::Arguments),
    Status(lifecycle::status::Arguments),
    Stop(lifecycle::stop::Arguments),
    Restart(lifecycle::restart::Arguments),
    Update(lifecycle::update::Arguments),
    Top(operate::top::Arguments),
    Console(operate::console::Arguments),
    /// Show the latest log lines of the running server
    Logs(operate::follow::Arguments),
    LogLevel(operate::log_level::Arguments),
    /// Show the latest calls: number, time, outcome, duration, size, tool
    Calls(operate::follow::Arguments),
    Trace(operate::trace::Arguments),
    Runs(operate::runs::Arguments),
    Metrics(operate::metrics::Arguments),
    Service(run::service::Arguments),
    Sessions(operate::sessions::Arguments),
    Audit(operate::audit::Arguments),
    Authz(ask::authz::Arguments),
    Model(setup::model::Arguments),
    Eval(ask::eval::Arguments),
    Secret(setup::secret::Arguments),
    Login(clients::login::Arguments),
    /// Remove the tokens of a login
    Logout(clients::login::LogoutArguments),
    Schema(setup::schema::Arguments),
    Completions(completions::Arguments),
    /// Helper process of a server: ends what it started if it is killed
    #[command(hide = true)]
    EndOrphans,
    /// Helper process of a server: confines itself, and runs one script
    #[command(hide = true)]
    ExecWorker(run::exec_worker::Arguments),
    /// Helper process of the operator: checks policies
    #[command(hide = true)]
    CheckPolicies,
}

/// `vmcp serve …` by itself.
#[derive(Debug, Parser)]
#[command(name = "vmcp")]
struct ServeLine {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    command: ServeCommand,
}

#[derive(Debug, Subcommand)]
enum ServeCommand {
    Serve(run::serve::Arguments),
}

/// Parses `vmcp serve …`. To build all commands takes 2 ms, a tenth of a start. Returns `None` for another
/// command, and for a line that the full parser must answer: help, or a mistake.
fn parse_serve_line(arguments: Vec<OsString>) -> Option<Cli> {
    if arguments.get(1)? != "serve" {
        return None;
    }
    let line = ServeLine::try_parse_from(arguments).ok()?;
    let ServeCommand::Serve(arguments) = line.command;
    Some(Cli { global: line.global, command: Command::Serve(arguments) })
}

/// Parses the arguments of any command, and returns the format of its result; exits after help, and after the
/// message of a mistake.
fn parse_any_line() -> (Cli, OutputFormat) {
    let words = with_separator(std::env::args_os().collect());
    let parsed = help::grouped(Cli::command())
        .try_get_matches_from(&words)
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, OutputFormat::of_command(&matches))));
    parsed.unwrap_or_else(|error| {
        // Help and the version go to standard output.
        if error.use_stderr() {
            let mistake = first_paragraph(&error.to_string());
            let failure = CommandFailure::new(mistake).exit(Exit::Usage).remedy("`vmcp --help` lists all");
            output::print_failure(OutputFormat::of_words(&words), &failure);
        }
        error.exit()
    })
}

/// Returns the mistake in a message of clap as one line: the lines in front of the first empty one name the
/// missing arguments, or the possible values.
fn first_paragraph(message: &str) -> String {
    let lines: Vec<_> = message.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ").trim_start_matches("error: ").to_owned()
}

/// Parses the arguments, runs the command, and returns its exit code.
pub fn main() -> ExitCode {
    completions::answer_shell::<Cli>();
    let serve = parse_serve_line(std::env::args_os().collect());
    let (line, format) = serve.map_or_else(parse_any_line, |line| (line, OutputFormat::Table));
    let Cli { global, command } = line;
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let outcome = match command {
        Command::Serve(arguments) => run::serve::run(arguments, &global),
        Command::McpServer(arguments) => run::mcp_server::run(arguments, &global),
        Command::Bridge(arguments) => run::bridge::run(arguments, &global),
        Command::Init(arguments) => setup::init::run(arguments, &global),
        Command::Add(arguments) => setup::add::run(arguments, &global),
        Command::Remove(arguments) => setup::remove::remove(&arguments, &global),
        Command::Enable(arguments) => setup::remove::run(Change::Enable, &arguments, &global),
        Command::Disable(arguments) => setup::remove::run(Change::Disable, &arguments, &global),
        Command::Registry(arguments) => setup::registry::run(arguments, &global),
        Command::Try(arguments) => run::try_server::run(arguments, &global),
        Command::Connect(arguments) => clients::connect::run(&arguments, &global),
        Command::Hooks(arguments) => clients::hooks::run(arguments, &global),
        Command::Validate(arguments) => setup::validate::run(arguments, &global),
        Command::Tools(arguments) => ask::tools::run(arguments, &global),
        Command::Find(arguments) => ask::find::run(arguments, &global),
        Command::Call(arguments) => ask::call::run(arguments, &global),
        Command::Backends(arguments) => ask::backends::run(arguments, &global),
        Command::ExplainTool(arguments) => ask::explain_tool::run(arguments, &global),
        Command::Doctor(arguments) => operate::doctor::run(arguments, &global),
        Command::SupportBundle(arguments) => operate::support_bundle::run(&arguments, &global),
        Command::Start(arguments) => lifecycle::start::run(&arguments, &global),
        Command::Status(arguments) => lifecycle::status::run(arguments, &global),
        Command::Stop(arguments) => lifecycle::stop::run(arguments, &global),
        Command::Restart(arguments) => lifecycle::restart::run(arguments, &global),
        Command::Update(arguments) => lifecycle::update::run(&arguments, &global),
        Command::Console(arguments) => operate::console::run(&arguments, &global),
        Command::Logs(arguments) => operate::follow::logs(arguments, &global),
        Command::LogLevel(arguments) => operate::log_level::run(&arguments, &global),
        Command::Top(arguments) => operate::top::run(&arguments, &global),
        Command::Calls(arguments) => operate::follow::calls(arguments, &global),
        Command::Trace(arguments) => operate::trace::run(&arguments, &global),
        Command::Runs(arguments) => operate::runs::run(arguments, &global),
        Command::Metrics(arguments) => operate::metrics::run(&arguments, &global),
        Command::Service(arguments) => run::service::run(&arguments, &global),
        Command::Sessions(arguments) => operate::sessions::run(arguments, &global),
        Command::Audit(arguments) => operate::audit::run(arguments),
        Command::Authz(arguments) => ask::authz::run(arguments, &global),
        Command::Model(arguments) => setup::model::run(arguments, &global),
        Command::Eval(arguments) => ask::eval::run(arguments, &global),
        Command::Secret(arguments) => setup::secret::run(arguments),
        Command::Login(arguments) => clients::login::login(arguments, &global),
        Command::Logout(arguments) => clients::login::logout(&arguments),
        Command::Schema(arguments) => setup::schema::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::CheckPolicies => ask::authz::check::run(),
        Command::ExecWorker(arguments) => return run::exec_worker::run(&arguments),
        Command::EndOrphans => Ok(process::orphan_reaper::run()),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::print_failure(format, &failure);
            failure.report()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::path::{Path, PathBuf};

    use clap::{Command, CommandFactory as _, Parser as _};

    use super::{Cli, OutputFormat, ServeLine, first_paragraph, parse_serve_line};

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
        ServeLine::command().debug_assert();
    }

    #[test]
    fn serve_by_itself_is_parsed_as_among_all_commands() {
        for line in [
            "vmcp serve",
            "vmcp serve --config team.yaml --listen 127.0.0.1:8000 --admin-listen 127.0.0.1:8001",
            "vmcp serve --stdio --profile work --log-level debug --env-file a --env-file b",
            "vmcp serve -c team.yaml --end-after-idle 5m --log-format json",
        ] {
            let among_all = Cli::try_parse_from(line.split(' ')).unwrap();
            let by_itself = parse_serve_line(line.split(' ').map(Into::into).collect()).unwrap();
            assert_eq!(format!("{by_itself:?}"), format!("{among_all:?}"), "{line}");
        }
        for line in
            ["vmcp", "vmcp status", "vmcp --config a serve", "vmcp serve --help", "vmcp serve --lisen"]
        {
            assert!(parse_serve_line(line.split(' ').map(Into::into).collect()).is_none(), "{line}");
        }
    }

    #[test]
    fn the_format_of_a_failure_is_that_of_the_command_or_of_the_words_as_they_are() {
        for (line, expected) in [
            ("vmcp find x -o json", OutputFormat::Json),
            ("vmcp call x a=1 --output yaml", OutputFormat::Yaml),
            ("vmcp tools diff -o json", OutputFormat::Json),
            ("vmcp calls --json", OutputFormat::Json),
            ("vmcp find x", OutputFormat::Table),
            ("vmcp enable x", OutputFormat::Table),
        ] {
            let matches = Cli::command().try_get_matches_from(line.split(' ')).unwrap();
            assert_eq!(OutputFormat::of_command(&matches), expected, "{line}");
        }
        for (line, expected) in [
            ("vmcp finde -o json", OutputFormat::Json),
            ("vmcp find --output=YAML", OutputFormat::Yaml),
            ("vmcp find -ojson", OutputFormat::Json),
            ("vmcp find", OutputFormat::Table),
            ("vmcp call json -o", OutputFormat::Table),
        ] {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            assert_eq!(OutputFormat::of_words(&words), expected, "{line}");
        }
    }

    #[test]
    fn a_mistyped_line_is_told_in_one_line_with_its_arguments() {
        for (line, expected) in [
            ("vmcp call", "the following required arguments were not provided: <NAME>"),
            ("vmcp find x -o jsn", "invalid value 'jsn' for '--output <FORMAT>' [possible values: "),
            ("vmcp find x --nope", "unexpected argument '--nope' found"),
        ] {
            let error = Cli::command().try_get_matches_from(line.split(' ')).unwrap_err();
            let mistake = first_paragraph(&error.to_string());
            assert!(mistake.starts_with(expected) && !mistake.contains('\n'), "{line}: {mistake}");
        }
    }

    /// Adds the sources and pages below a folder; tests name commands that do not exist, too.
    fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() && !path.ends_with("tests") && !path.ends_with("target") {
                texts(&path, found);
            } else if path.extension().is_some_and(|it| it == "rs" || it == "md") {
                found.push(path);
            }
        }
    }

    /// Returns the commands of vmcp that a line names, in backticks or behind a prompt.
    fn named(line: &str) -> Vec<&str> {
        let in_backticks = line.split('`').skip(1).filter_map(|text| text.strip_prefix("vmcp "));
        in_backticks.chain(line.trim_start().strip_prefix("$ vmcp ")).collect()
    }

    /// Returns the first word that the command line does not know.
    fn unknown<'a>(root: &Command, text: &'a str) -> Option<&'a str> {
        // A shell's signs, and names that a message fills in.
        let is_end = |word: &&str| {
            *word == "--" || word.contains('{') || word.starts_with(['#', '|', '>', '&', ';', '\\'])
        };
        let mut commands = vec![root];
        let (mut takes_subcommand, mut is_behind_option) = (true, false);
        for word in text.split_whitespace().take_while(|word| !is_end(word)) {
            let bare = word.trim_end_matches(['.', ',', ';', ':', ')', '…', '"', '\'']);
            if let Some(option) = bare.strip_prefix('-').filter(|it| it.contains(char::is_alphabetic)) {
                let name = option.split('=').next().unwrap_or(option);
                let is_known = |argument: &clap::Arg| match name.strip_prefix('-') {
                    Some(long) => {
                        let aliases = argument.get_all_aliases().unwrap_or_default();
                        argument.get_long() == Some(long) || aliases.contains(&long)
                    }
                    None => argument.get_short() == name.chars().next(),
                };
                if !commands.iter().flat_map(|command| command.get_arguments()).any(is_known) {
                    return Some(word);
                }
                is_behind_option = true;
                continue;
            }
            let found = commands.last().and_then(|command| command.find_subcommand(bare));
            let is_plain = bare.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
            match found.filter(|_| takes_subcommand) {
                Some(command) => commands.push(command),
                None if commands.len() == 1 && is_plain && !is_behind_option => return Some(word),
                None => takes_subcommand = commands.len() == 1,
            }
            is_behind_option = false;
        }
        None
    }

    #[test]
    fn messages_and_pages_name_commands_that_exist() {
        let mut root = Cli::command();
        root.build();
        for (text, expected) in [
            ("doctor github --local", None),
            ("--config a.yaml serve --listen 1:2", None),
            ("try -- npx -y x", None),
            ("tools diff -b github", None),
            ("docter", Some("docter")),
            ("doctor --locale", Some("--locale")),
            ("tools diff --unknown", Some("--unknown")),
        ] {
            assert_eq!(unknown(&root, text), expected, "{text}");
        }
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = vec![repository.join("README.md")];
        for folder in ["vmcp", "operator", "crds", "docs", "changes"] {
            texts(&repository.join(folder), &mut files);
        }
        let (mut count, mut wrong) = (0, Vec::new());
        for path in files {
            for line in fs::read_to_string(&path).unwrap().lines() {
                for text in named(line) {
                    count += 1;
                    let word =
                        unknown(&root, text).map(|word| format!("{}: `vmcp {text}`: {word}", path.display()));
                    wrong.extend(word);
                }
            }
        }
        assert!(count > 500, "{count} commands were found");
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
