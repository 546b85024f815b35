//! The command line: parses the arguments, runs one command, and turns its failure into an exit code.
//!
//! | module | holds |
//! |---|---|
//! | `serve`, `bridge` | servers, which run until a signal |
//! | `running` (status, stop, restart), `follow` (logs, calls), `metrics`, `service` | a running server |
//! | `sessions` | withdraws credentials at a running server |
//! | `tools`, `find`, `call`, `backends`, `doctor` | commands that ask a server through `connection` |
//! | `add`, `remove` (also `enable` and `disable`) | commands that edit the configuration file |
//! | `kubernetes` | `add` and `remove` in a cluster, by `kubectl` |
//! | `connect` | writes vmcp into another client's file, and undoes that |
//! | `try_server` | starts one server, without a configuration file |
//! | `authz` | asks the policies of the configuration file |
//! | `audit` | verifies files of audit events |
//! | `validate`, `init`, `secret`, `schema`, `model`, `eval`, `completions` | commands that work alone |
//! | `connection` | a running server, or an engine in this process |
//! | `console` | results on standard output, notes on standard error, exit codes |
//! | `process` | runtime, signals, the reaper for PID 1 |
//! | `login` | a person signs in to a remote server, and out |
//! | `known_clients`, `server_arguments` | files of other clients; a server on the command line |
//! | `options` | options of every command, the configuration file |
//! | `running_server` | the state file by which commands find a server |

mod add;
mod audit;
mod authz;
mod backends;
mod bridge;
mod call;
mod completions;
mod config_edit;
mod connect;
mod connection;
mod console;
mod doctor;
mod eval;
mod find;
mod follow;
mod init;
mod known_clients;
mod kubernetes;
mod login;
mod metrics;
mod model;
mod options;
mod process;
mod remove;
mod running;
mod running_server;
mod schema;
mod secret;
mod serve;
mod server_arguments;
mod service;
mod sessions;
mod tools;
mod try_server;
mod validate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use options::GlobalOptions;
use remove::Change;

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
  vmcp serve                            http://127.0.0.1:8080/mcp
  vmcp find \"who follows this ticket\"   search the tools of all servers
  vmcp call time_get_current_time timezone=Asia/Tokyo

Exit codes: 0 done, 1 failed, or the tool reported an error, 2 wrong usage, 3 nothing found,
4 a server cannot be reached.";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Bridge(bridge::Arguments),
    Init(init::Arguments),
    Add(add::Arguments),
    /// Remove a backend from the configuration file, or with --kubernetes from a cluster
    Remove(remove::RemoveArguments),
    /// Use a backend again that `vmcp disable` switched off
    Enable(remove::Arguments),
    /// Switch a backend off and keep it in the configuration file
    Disable(remove::Arguments),
    Try(try_server::Arguments),
    Connect(connect::Arguments),
    Validate(validate::Arguments),
    Tools(tools::Arguments),
    Find(find::Arguments),
    Call(call::Arguments),
    Backends(backends::Arguments),
    Doctor(doctor::Arguments),
    Status(running::StatusArguments),
    Stop(running::StopArguments),
    Restart(running::RestartArguments),
    /// Show the latest log lines of the running server
    Logs(follow::Arguments),
    /// Show the latest calls: time, outcome, duration, size, tool
    Calls(follow::Arguments),
    Metrics(metrics::Arguments),
    Service(service::Arguments),
    Sessions(sessions::Arguments),
    Authz(authz::Arguments),
    Audit(audit::Arguments),
    Model(model::Arguments),
    Eval(eval::Arguments),
    Secret(secret::Arguments),
    Login(login::Arguments),
    /// Remove the tokens of a login
    Logout(login::LogoutArguments),
    Schema(schema::Arguments),
    Completions(completions::Arguments),
    /// Helper process of a server: ends what it started if it is killed
    #[command(hide = true)]
    EndOrphans,
}

/// Parses the arguments, runs the command, and returns its exit code.
pub fn main() -> ExitCode {
    completions::answer_shell::<Cli>();
    let Cli { global, command } = Cli::parse();
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let outcome = match command {
        Command::Serve(arguments) => serve::run(arguments, &global),
        Command::Bridge(arguments) => bridge::run(arguments, &global),
        Command::Init(arguments) => init::run(arguments, &global),
        Command::Add(arguments) => add::run(arguments, &global),
        Command::Remove(arguments) => remove::remove(&arguments, &global),
        Command::Enable(arguments) => remove::run(Change::Enable, &arguments, &global),
        Command::Disable(arguments) => remove::run(Change::Disable, &arguments, &global),
        Command::Try(arguments) => try_server::run(arguments, &global),
        Command::Connect(arguments) => connect::run(&arguments, &global),
        Command::Validate(arguments) => validate::run(arguments, &global),
        Command::Tools(arguments) => tools::run(arguments, &global),
        Command::Find(arguments) => find::run(arguments, &global),
        Command::Call(arguments) => call::run(arguments, &global),
        Command::Backends(arguments) => backends::run(arguments, &global),
        Command::Doctor(arguments) => doctor::run(arguments, &global),
        Command::Status(arguments) => running::status(arguments, &global),
        Command::Stop(arguments) => running::stop(arguments, &global),
        Command::Restart(arguments) => running::restart(arguments, &global),
        Command::Logs(arguments) => follow::logs(arguments, &global),
        Command::Calls(arguments) => follow::calls(arguments, &global),
        Command::Metrics(arguments) => metrics::run(&arguments, &global),
        Command::Service(arguments) => service::run(&arguments, &global),
        Command::Audit(arguments) => audit::run(arguments),
        Command::Sessions(arguments) => sessions::run(arguments, &global),
        Command::Authz(arguments) => authz::run(arguments, &global),
        Command::Model(arguments) => model::run(arguments, &global),
        Command::Eval(arguments) => eval::run(arguments, &global),
        Command::Secret(arguments) => secret::run(arguments),
        Command::Login(arguments) => login::login(arguments, &global),
        Command::Logout(arguments) => login::logout(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::EndOrphans => Ok(process::orphan_reaper::run()),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
