//! Arguments that describe one MCP server, for `vmcp add` and `vmcp try`.

use clap::Args;
use serde_json::{Map, Value, json};
use url::Url;
use vmcp_client_files::import::{self, ClientText, Imported, IsTaken, Surroundings};
use vmcp_config::Secret;

use crate::cli::console::failure::{CommandFailure, Exit};

/// A program or an address.
#[derive(Debug, Args)]
pub(in crate::cli) struct ServerArguments {
    /// Address of a remote server
    #[arg(conflicts_with = "command")]
    address: Option<String>,
    /// Environment variable of the program; repeatable
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Header of requests to the address; repeatable
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
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
    /// Returns the server as the import of a client's file would: with its secrets apart. `is_taken` returns
    /// true for a variable that has another value already.
    pub(in crate::cli) fn import(
        self,
        name: &str,
        is_taken: Option<IsTaken<'_>>,
    ) -> Result<Imported, CommandFailure> {
        self.refuse_unused_options()?;
        let ServerArguments { address, env, header, command } = self;
        let object = |pairs: Vec<(String, String)>| {
            pairs.into_iter().map(|(name, value)| (name, Value::String(value))).collect::<Map<_, _>>()
        };
        let server = match (address, command.split_first()) {
            (Some(url), _) => json!({ "url": url, "headers": object(header) }),
            (None, Some((program, args))) => {
                json!({ "command": program, "args": args, "env": object(env) })
            }
            (None, None) => {
                return Err(CommandFailure::new("neither a command nor an address")
                    .exit(Exit::Usage)
                    .remedy("give the address of the server, or its command after `--`"));
            }
        };
        let file = json!({ "mcpServers": { name: server } }).to_string();
        let source = ClientText { name: "the command line", text: &file, folder: None, client: None };
        let surroundings = Surroundings { is_taken, ..Surroundings::default() };
        let imported = import::import_files(&[source], &surroundings)?;
        if imported.backends.is_empty() {
            return Err(CommandFailure::new(imported.notes.join("; ")));
        }
        Ok(imported)
    }

    /// Returns the server as it was given.
    pub(in crate::cli) fn describe(self) -> Result<Description, CommandFailure> {
        self.refuse_unused_options()?;
        let ServerArguments { address, env, header, command } = self;
        let secret = |pairs: Vec<(String, String)>| {
            pairs.into_iter().map(|(name, value)| (name, Secret::from(value))).collect::<Vec<_>>()
        };
        Ok(match address {
            Some(url) => Description::Remote { url, headers: secret(header) },
            None => Description::Program { command, env: secret(env) },
        })
    }

    /// Refuses variables for an address, and headers for a program: they would be lost.
    fn refuse_unused_options(&self) -> Result<(), CommandFailure> {
        let (unused, remedy) = match &self.address {
            Some(_) => (!self.env.is_empty(), "a server at an address takes --header, not --env"),
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
        };
        let url = self.address.as_deref().and_then(|address| Url::parse(address).ok());
        let signs_in = url.is_some_and(|url| !url.username().is_empty() || url.password().is_some());
        if !signs_in && words.import(name, None)?.variables.is_empty() {
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
