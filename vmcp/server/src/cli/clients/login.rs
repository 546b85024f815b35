//! `vmcp login` and `vmcp logout`: a person signs in to a remote MCP server, and out again.

mod authorization;
mod callback;
mod device;
mod oauth_client;

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use url::Url;
use vmcp_access::outgoing::logins::Logins;
use vmcp_config::{Backend, Credentials, OAuthClient, Transport};

pub(in crate::cli) use self::authorization::has_display;
use self::authorization::{Plan, SignInRoute};
use crate::cli::completions::candidates;
use crate::cli::connection::duration;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::options::GlobalOptions;
use crate::cli::process;
use vmcp_engine::access::outgoing;

/// Sign in to a remote MCP server
///
/// Opens a browser, or prints the address to open; where no browser can be shown, and the server offers it, a
/// code to enter in a browser elsewhere. The tokens are stored in ~/.config/vmcp/logins, which only
/// you can read, and renewed when they expire; a running server uses them at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp login linear
  vmcp login notes --scope notes:write # a call said that the token lacks it
  vmcp login linear --device           # over ssh: enter a code in a browser elsewhere
  vmcp login linear --no-browser       # the same without codes: paste the address where the browser ends
  vmcp logout linear

A server that does not register clients by itself wants one that you registered there:
  outgoingAuth: { backends: { linear: { type: oauth, oauth: { clientId: … } } } }")]
pub(in crate::cli) struct Arguments {
    /// Name of the backend
    #[arg(add = ArgValueCandidates::new(candidates::backends))]
    backend: String,
    /// Ask for this scope too; repeat it for several
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Sign in by a code that you enter in any browser, where the server offers it
    #[arg(long, conflicts_with_all = ["no_browser", "port"])]
    device: bool,
    /// Print the address instead of opening a browser
    #[arg(long)]
    no_browser: bool,
    /// Port on this machine to which the browser returns [default: any free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Time to sign in
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5m")]
    timeout: Duration,
}

/// The backend to sign out of.
#[derive(Debug, Args)]
pub(in crate::cli) struct LogoutArguments {
    /// Name of the backend
    #[arg(add = ArgValueCandidates::new(candidates::backends))]
    backend: String,
}

/// Runs `vmcp login`.
pub(in crate::cli) fn login(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { backend: name, scopes, device, no_browser, port, timeout } = arguments;
    let file = global.load_file(&global.config_or_running()?)?;
    let spec = file.config.backends.iter().find(|spec| *spec.name == *name).ok_or_else(|| unknown(&name))?;
    let (url, client) = remote(spec)?;
    let logins = logins()?;
    global.start_logs()?;
    let way = match (device, no_browser) {
        (true, _) => SignInRoute::Device,
        (false, true) => SignInRoute::PrintedAddress,
        (false, false) => SignInRoute::Browser,
    };
    let addresses = spec.addresses;
    let plan = Plan { url: url.clone(), addresses, client, more_scopes: scopes, port, timeout, way };
    let login = process::block_on(authorization::run(plan))?;
    logins.store(&name, &url, &login)?;
    notes::note(&format!("signed in to {name}; a running server uses it at once"));
    if login.refresh_token.is_none() && login.expires_at.is_some() {
        notes::note("the server gives no refresh token: sign in again when this one expires");
    }
    Ok(Exit::Done)
}

/// Runs `vmcp logout`.
pub(in crate::cli) fn logout(arguments: &LogoutArguments) -> Result<Exit, CommandFailure> {
    let name = &arguments.backend;
    if vmcp_config::is_backend_name(name) && logins()?.remove(name)? {
        notes::note(&format!(
            "signed out of {name}; its tokens are removed here, and may live on at the server"
        ));
        return Ok(Exit::Done);
    }
    Err(CommandFailure::new(format!("nobody is signed in to `{name}`"))
        .exit(Exit::NothingFound)
        .remedy("`vmcp backends` says who is"))
}

fn logins() -> Result<Logins, CommandFailure> {
    let folder = outgoing::logins_folder().ok_or_else(|| {
        CommandFailure::new("there is no home directory to store logins in").remedy("set HOME")
    })?;
    Ok(Logins::in_folder(folder))
}

fn unknown(name: &str) -> CommandFailure {
    CommandFailure::new(format!("no backend is called `{name}`"))
        .exit(Exit::NothingFound)
        .remedy("`vmcp backends` lists them; `vmcp add NAME URL` adds one")
}

/// Returns the URL to sign in to, and the client that is configured for it.
fn remote(spec: &Backend) -> Result<(Url, OAuthClient), CommandFailure> {
    let name = &spec.name;
    let url = match &spec.transport {
        Transport::Http { url, .. } | Transport::Sse { url, .. } => url.clone(),
        Transport::WebSocket { .. } => {
            return Err(CommandFailure::new(format!("{name} is reached by a websocket, without OAuth"))
                .exit(Exit::Usage)
                .remedy("set its token by `headers` or `outgoingAuth`"));
        }
        Transport::Stdio { .. } => {
            return Err(CommandFailure::new(format!("{name} is a program, which signs in by itself"))
                .exit(Exit::Usage)
                .remedy("its own documentation says how; pass secrets by `env`"));
        }
    };
    match &spec.credentials {
        Credentials::OAuth(client) => Ok((url, client.clone())),
        Credentials::Automatic => Ok((url, OAuthClient::default())),
        other => Err(CommandFailure::new(format!(
            "{name} has other credentials in the configuration (`{}`, or an Authorization header)",
            other.kind()
        ))
        .exit(Exit::Usage)
        .remedy(format!(
            "remove them, or write `outgoingAuth: {{ backends: {{ {name}: {{ type: oauth }} }} }}`"
        ))),
    }
}
