//! `vmcp sessions`: ends the sessions of a person at the running server, and refuses their credentials.

use clap::{Args, Subcommand};
use serde_json::Value;
use url::form_urlencoded;

use crate::cli::connection::{self, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;

/// End sessions of a person, and refuse their credentials
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    End(EndArguments),
    Allow(AllowArguments),
    List(ListArguments),
}

/// End all sessions and streams of a person, and refuse tokens from before now
///
/// A new sign-in is let in. API keys and client certificates of the subject are refused for the whole time.
/// Every replica of server.peers follows within two seconds.
#[derive(Debug, Args)]
struct EndArguments {
    #[command(flatten)]
    whose: Whose,
    /// Time for which keys and certificates are refused, such as 24h or 7days
    #[arg(long = "for", value_name = "DURATION", default_value = "24h")]
    life: String,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Let the credentials in again that `vmcp sessions end` refused
#[derive(Debug, Args)]
struct AllowArguments {
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Show the orders in force
#[derive(Debug, Args)]
struct ListArguments {
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Whose {
    /// Subject: the claim `sub`, or the subject of a key or a certificate
    #[arg(long)]
    subject: Option<String>,
    /// Claim `jti` of one token
    #[arg(long, value_name = "ID")]
    jti: Option<String>,
    /// Only credentials of this issuer; `apiKeys` for keys
    #[arg(long, value_name = "URL", requires = "subject")]
    issuer: Option<String>,
}

impl Whose {
    fn path(&self, order: &str, life: Option<&str>) -> String {
        let parameters = [("subject", &self.subject), ("jti", &self.jti), ("issuer", &self.issuer)];
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(parameters.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))));
        query.extend_pairs(life.map(|life| ("for", life)));
        format!("admin/sessions/{order}?{}", query.finish())
    }
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    match arguments.command {
        Command::End(EndArguments { whose, life, server_options }) => {
            connection::with_server(global, &server_options, async |connection| {
                connection.post(&whose.path("end", Some(&life))).await?;
                notes::note("sessions are ended; tokens from before now are refused");
                Ok(Exit::Done)
            })
        }
        Command::Allow(AllowArguments { whose, server_options }) => {
            connection::with_server(global, &server_options, async |connection| {
                connection.post(&whose.path("allow", None)).await?;
                notes::note("the credentials are let in again");
                Ok(Exit::Done)
            })
        }
        Command::List(ListArguments { output: format, server_options }) => {
            connection::with_server(global, &server_options, async |connection| {
                let report: Value = connection.report("admin/sessions/ended").await?;
                output::print(format, &report, || shown(&report))?;
                Ok(Exit::Done)
            })
        }
    }
}

/// Returns one line an order.
fn shown(report: &Value) -> String {
    let orders = report.get("orders").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if orders.is_empty() {
        return "no credentials are refused".to_owned();
    }
    let line = |order: &Value| {
        let text =
            |name: &str| order.get(name).and_then(Value::as_str).map(|value| format!("{name} {value}"));
        let whose: Vec<_> = ["subject", "token_id", "issuer"].into_iter().filter_map(text).collect();
        let is_lifted = order.get("is_lifted").and_then(Value::as_bool).unwrap_or_default();
        format!("{}: {}", if is_lifted { "let in again" } else { "refused" }, whose.join(", "))
    };
    orders.iter().map(line).collect::<Vec<_>>().join("\n")
}
