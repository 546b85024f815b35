//! Arguments that describe one MCP server, for `vmcp add` and `vmcp try`, as people type and paste them.
//!
//! | module | holds |
//! |---|---|
//! | `typed_words` | programs without `--` in front |
//! | `derived_name` | names from addresses and commands |
//! | `pasted` | entries in JSON |

mod derived_name;
mod pasted;
mod typed_words;

use clap::Args;
use serde_json::{Map, Value, json};
use url::Url;
use vmcp_client_files::import::{self, ClientText, Imported, IsTaken, Surroundings};
use vmcp_config::Secret;

use crate::cli::console::failure::{CommandFailure, Exit};

pub(in crate::cli) use self::typed_words::with_separator;

/// Names of transports in the command lines of other clients.
const TRANSPORTS: [&str; 6] = ["http", "streamable-http", "sse", "ws", "websocket", "stdio"];

/// A program or an address.
#[derive(Debug, Args)]
pub(in crate::cli) struct ServerArguments {
    /// Address of a remote server, or its entry in JSON, as other clients have it
    address: Option<String>,
    /// Environment variable of the program; repeatable
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Header of requests to the address; repeatable
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Transport of the server [default: streamable HTTP for an address, stdio for a program]
    #[arg(short, long, value_name = "TRANSPORT", value_parser = TRANSPORTS, ignore_case = true)]
    transport: Option<String>,
    /// Program to start and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A server, with the values that the person gave.
#[derive(Debug)]
pub(in crate::cli) enum Description {
    /// A server at a URL.
    Remote { url: String, headers: Vec<(String, Secret)> },
    /// A program; without words, the program that an image starts.
    Program { command: Vec<String>, env: Vec<(String, Secret)> },
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it like NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it like \"Authorization: Bearer …\"")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl ServerArguments {
    /// Returns the arguments with a command in place of an address that is a program: `npx -- -y x`,
    /// `"npx -y x"`.
    pub(in crate::cli) fn normalized(mut self) -> ServerArguments {
        let is_program = |text: &String| {
            let is_line = text.contains(char::is_whitespace) || !self.command.is_empty();
            is_line && !typed_words::is_address(text) && !typed_words::is_for_shell(text)
        };
        if let Some(text) = self.address.take_if(|text| is_program(text)) {
            let first = text.split_whitespace().map(str::to_owned);
            self.command = first.chain(std::mem::take(&mut self.command)).collect();
        }
        self
    }

    /// Returns the name and the server, whose address, entry or whole command may stand in the place of the
    /// name.
    pub(in crate::cli) fn with_name(
        mut self,
        name: Option<String>,
    ) -> Result<(Option<String>, ServerArguments), CommandFailure> {
        let is_server = |text: &String| {
            let program = text.split_once(char::is_whitespace).map(|(program, _)| program);
            typed_words::is_address(text) || program.is_some_and(typed_words::is_program)
        };
        let Some(text) = name.as_ref().filter(|text| is_server(text)) else {
            return Ok((name, self.normalized()));
        };
        if self.address.is_some() || !self.command.is_empty() {
            return Err(CommandFailure::new("the name of the server comes first")
                .exit(Exit::Usage)
                .remedy("`vmcp add NAME ADDRESS`, or `vmcp add NAME -- COMMAND`"));
        }
        self.address = Some(text.clone());
        Ok((None, self.normalized()))
    }

    /// Returns a name for the server: from its address, or from its command.
    pub(in crate::cli) fn derived_name(&self) -> Result<String, CommandFailure> {
        let name = match &self.address {
            Some(address) => derived_name::of_address(address),
            None => derived_name::of_command(&self.command),
        };
        name.ok_or_else(|| {
            CommandFailure::new("the server has no name")
                .exit(Exit::Usage)
                .remedy("give the name first: `vmcp add NAME …`")
        })
    }

    /// Returns the servers by name, as entries of a client's file: one, or the pasted ones.
    pub(in crate::cli) fn servers(self, name: Option<&str>) -> Result<Map<String, Value>, CommandFailure> {
        self.refuse_unused_options()?;
        if let Some(text) = self.pasted() {
            return pasted::servers(text, name);
        }
        if self.address.is_none() && self.command.is_empty() {
            return Err(CommandFailure::new("neither a command nor an address")
                .exit(Exit::Usage)
                .remedy("give the address of the server, or its command after `--`"));
        }
        let name = name.map_or_else(|| self.derived_name(), |name| Ok(name.to_owned()))?;
        let transport = self.transport();
        let ServerArguments { address, env, header, transport: _, command } = self;
        let object = |pairs: Vec<(String, String)>| {
            pairs.into_iter().map(|(name, value)| (name, Value::String(value))).collect::<Map<_, _>>()
        };
        let server = match address {
            Some(url) => json!({ "url": url, "headers": object(header), "type": transport }),
            None => json!({ "command": command, "env": object(env) }),
        };
        Ok(Map::from_iter([(name, server)]))
    }

    /// Returns the transport in lower case, if it was given.
    pub(in crate::cli) fn transport(&self) -> Option<String> {
        self.transport.as_ref().map(|transport| transport.to_ascii_lowercase())
    }

    /// Returns the address if it is an entry in JSON.
    fn pasted(&self) -> Option<&str> {
        self.address.as_deref().filter(|text| pasted::is_pasted(text))
    }

    /// Returns the server as it was given.
    pub(in crate::cli) fn describe(self) -> Result<Description, CommandFailure> {
        self.refuse_unused_options()?;
        if self.pasted().is_some() {
            return Err(CommandFailure::new("an entry in JSON is for a configuration file")
                .exit(Exit::Usage)
                .remedy("save it, then `vmcp init --from FILE --kubernetes`"));
        }
        let ServerArguments { address, env, header, transport: _, command } = self;
        let secret = |pairs: Vec<(String, String)>| {
            pairs.into_iter().map(|(name, value)| (name, Secret::from(value))).collect::<Vec<_>>()
        };
        Ok(match address {
            Some(url) => Description::Remote { url, headers: secret(header) },
            None => Description::Program { command, env: secret(env) },
        })
    }

    /// Refuses variables for an address, headers for a program, and the like: they would be lost. Refuses
    /// `NAME=VALUE` in front of a program too, which a shell alone understands: a secret would be written as
    /// the name of the program.
    fn refuse_unused_options(&self) -> Result<(), CommandFailure> {
        if self.command.first().is_some_and(|word| typed_words::is_assignment(word)) {
            return Err(CommandFailure::new("a variable stands in the place of the program")
                .exit(Exit::Usage)
                .remedy("give it by --env NAME=VALUE, and the command after `--`"));
        }
        let transport = self.transport();
        let is_stdio = transport.as_deref() == Some("stdio");
        let (unused, remedy) = match &self.address {
            Some(text) if !typed_words::is_address(text) && typed_words::is_for_shell(text) => {
                (true, "quotes and operators are for a shell: give the words of the command after `--`")
            }
            Some(_) if !self.command.is_empty() => {
                (true, "give the address of the server, or its command after `--`, not both")
            }
            Some(_) if self.pasted().is_some() => {
                let is_any = !self.env.is_empty() || !self.header.is_empty() || transport.is_some();
                (is_any, "write variables, headers and the transport into the JSON")
            }
            Some(_) if is_stdio => (true, "a server at an address has another transport than stdio"),
            Some(_) => (!self.env.is_empty(), "a server at an address takes --header, not --env"),
            None if transport.is_some() && !is_stdio => (true, "a program has the transport stdio"),
            None => (!self.header.is_empty(), "a program takes --env, not --header"),
        };
        if unused {
            return Err(CommandFailure::new("an option that the server makes no use of")
                .exit(Exit::Usage)
                .remedy(remedy));
        }
        Ok(())
    }

    /// Refuses secrets in the address or among the words of the command, where whoever sees them described
    /// would read them.
    pub(in crate::cli) fn refuse_secrets_in_words(&self, name: &str) -> Result<(), CommandFailure> {
        if self.address.is_none() && self.command.is_empty() {
            return Ok(());
        }
        let words = ServerArguments {
            address: self.address.clone(),
            command: self.command.iter().map(|word| as_reference(word)).collect(),
            env: Vec::new(),
            header: Vec::new(),
            transport: None,
        };
        let url = self.address.as_deref().and_then(|address| Url::parse(address).ok());
        let signs_in = url.is_some_and(|url| !url.username().is_empty() || url.password().is_some());
        if !signs_in && import_servers(&words.servers(Some(name))?, None)?.variables.is_empty() {
            return Ok(());
        }
        let (place, remedy) = match self.address {
            Some(_) => ("the address", "give it as a header: --header \"NAME: VALUE\""),
            None => (
                "an argument",
                "give it as a variable, which Kubernetes puts in its place: --env TOKEN=… -- … '$(TOKEN)'",
            ),
        };
        let message =
            format!("{place} has a secret in it, and everybody who may read the resource would see it");
        Err(CommandFailure::new(message).exit(Exit::Usage).remedy(remedy))
    }
}

/// Imports servers as those of a client's file: with their secrets apart. `is_taken` returns true for a
/// variable that has another value already.
pub(in crate::cli) fn import_servers(
    servers: &Map<String, Value>,
    is_taken: Option<IsTaken<'_>>,
) -> Result<Imported, CommandFailure> {
    let file = json!({ "mcpServers": servers }).to_string();
    let source = ClientText { name: "the command line", text: &file, folder: None, client: None };
    let surroundings = Surroundings { is_taken, ..Surroundings::default() };
    let imported = import::import_files(&[source], &surroundings)?;
    if imported.backends.is_empty() {
        return Err(CommandFailure::new(imported.notes.join("; ")));
    }
    Ok(imported)
}

/// Writes `$(NAME)`, in whose place the kubelet puts a variable, as the reference that the import knows.
fn as_reference(word: &str) -> String {
    let mut parts = word.split("$(");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((name, rest)) => text.extend(["${", name, "}", rest]),
            None => text.extend(["$(", part]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: Option<&str>, command: &[&str]) -> bool {
        let server = ServerArguments {
            address: address.map(str::to_owned),
            command: command.iter().map(ToString::to_string).collect(),
            env: Vec::new(),
            header: Vec::new(),
            transport: None,
        };
        server.refuse_secrets_in_words("a").is_err()
    }

    #[test]
    fn a_secret_among_the_words_is_refused_and_a_variable_in_its_place_is_not() {
        for (command, expected) in [
            (&["run", "--api-key", "sk-0123456789"][..], true),
            (&["run", "--token=hunter2-hunter2"], true),
            (&["run", "--header", "Authorization: Bearer hunter2-hunter2"], true),
            (&["run", "--api-key", "$(API_KEY)"], false),
            (&["run", "--token=$(TOKEN)"], false),
            (&["run", "--header", "Authorization: Bearer $(TOKEN)"], false),
            (&["run", "--verbose", "/srv/$(files"], false),
        ] {
            assert_eq!(refused(None, command), expected, "{command:?}");
        }
        for (address, expected) in [
            ("https://mcp.example.com/mcp?api_key=sk-0123456789", true),
            ("https://me:hunter2@mcp.example.com/mcp", true),
            ("https://mcp.example.com/mcp?view=all", false),
        ] {
            assert_eq!(refused(Some(address), &[]), expected, "{address}");
        }
    }
}
