//! [`ServerRegistrar`]: writes changes of servers to where their configuration is kept. The command line
//! implements it over the configuration file, `vmcp-cluster-servers` over resources of Kubernetes; a process
//! whose configuration others write has none.

pub mod registry_reader;

use std::collections::BTreeMap;
use std::future::ready;

use futures::future::BoxFuture;
use url::Url;
use vmcp_config::addresses::ReachableAddresses;
use vmcp_config::{Secret, ServerSource};
use vmcp_registry::plan::Draft;

/// A change of the configured servers.
#[derive(Debug, Clone)]
pub enum ServerChange {
    /// Adds a server.
    Add(NewServer),
    /// Removes a server.
    Remove {
        /// Its name.
        name: String,
    },
    /// Switches a server on or off.
    SetEnabled {
        /// Its name.
        name: String,
        /// True for on.
        enabled: bool,
    },
}

/// A server to be added.
#[derive(Debug, Clone)]
pub struct NewServer {
    /// Its name, a legal one.
    pub name: String,
    /// Its address or command line.
    pub place: ServerPlace,
    /// False to add it switched off.
    pub enabled: bool,
    /// Addresses that the host of its URL may have. In a cluster, the operator decides about them by the same
    /// rules.
    pub addresses: ReachableAddresses,
    /// Image in whose pod its program runs, from a rule; `None` for an address, for an image with a program
    /// of its own, and where vmcp starts programs itself.
    pub image: Option<String>,
    /// The entry of a registry that it is from; `None`: a client described it.
    pub registered: Option<Box<RegisteredServer>>,
    /// Existing secrets in place of values, by the name of the header or variable. `place` has the name with
    /// an empty value.
    pub secret_refs: BTreeMap<String, SecretReference>,
}

impl NewServer {
    /// Makes a server that is switched on, at any address, and of no registry.
    pub fn new(name: impl Into<String>, place: ServerPlace) -> NewServer {
        NewServer {
            name: name.into(),
            place,
            enabled: true,
            addresses: ReachableAddresses::Any,
            image: None,
            registered: None,
            secret_refs: BTreeMap::new(),
        }
    }
}

/// An existing secret that a client names, by leave of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretReference {
    /// Its name: at `vmcp secret`, or of a Secret.
    pub name: String,
    /// Its key, in a Secret.
    pub key: Option<String>,
}

/// A server of a registry. Its secrets are placeholders: the configuration refers to variables in their
/// place, which the user sets.
#[derive(Debug, Clone)]
pub struct RegisteredServer {
    /// The backend that its entry becomes.
    pub draft: Draft,
    /// Name, version, package and registry, in one line.
    pub origin: String,
}

/// Facts about a change that was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MadeChange {
    /// Variables, or keys of a Secret, that the user has to set for a new server to work, by the name of its
    /// input.
    pub needed: BTreeMap<String, String>,
    /// Place where the user sets them, such as "`.env` beside the configuration file"; empty if none is
    /// needed.
    pub needed_in: String,
}

/// Address or command line of a new server. All texts are literal: none refers to a variable or a file.
#[derive(Debug, Clone)]
pub enum ServerPlace {
    /// A program that vmcp starts.
    Program {
        /// The program and its arguments; at least one word.
        words: Vec<String>,
        /// Variables of the program, by name.
        env: BTreeMap<String, Secret>,
    },
    /// An image, whose own program runs in a pod.
    Image {
        /// The image, with its tag or digest.
        image: String,
        /// Arguments of the program.
        args: Vec<String>,
        /// Variables of the program, by name.
        env: BTreeMap<String, Secret>,
    },
    /// A server over streamable HTTP, or over a websocket if the scheme of its address is `ws` or `wss`.
    Remote {
        /// Its address, without credentials.
        url: Url,
        /// Headers of every request, or of a websocket's handshake, by name.
        headers: BTreeMap<String, Secret>,
    },
}

impl<'a> From<&'a ServerPlace> for ServerSource<'a> {
    fn from(place: &'a ServerPlace) -> ServerSource<'a> {
        match place {
            ServerPlace::Program { words, env } => ServerSource::Program {
                words: words.iter().map(String::as_str).collect(),
                env: env.keys().map(String::as_str).collect(),
            },
            ServerPlace::Image { image, args, env } => ServerSource::Image {
                image,
                args: args.iter().map(String::as_str).collect(),
                env: env.keys().map(String::as_str).collect(),
            },
            ServerPlace::Remote { url, headers } => {
                ServerSource::Remote { url, headers: headers.keys().map(String::as_str).collect() }
            }
        }
    }
}

/// Reason why a change was not made. Nothing is written then. Shows no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistrarError {
    /// There is a server of this name already.
    #[error("a server `{0}` already exists; remove it first, or choose another name")]
    Taken(String),
    /// The name is unknown.
    #[error("server not found: {0}")]
    Unknown(String),
    /// The server is defined by others; the text says where.
    #[error("{0}")]
    Foreign(String),
    /// The configuration with the change would have mistakes.
    #[error("{0}")]
    Invalid(String),
    /// The configuration cannot be read or written.
    #[error("{0}")]
    Unwritable(String),
}

/// Keeper of the configured servers.
pub trait ServerRegistrar: Send + Sync {
    /// Makes a change, whole or not at all. The engine applies it soon after. Of two additions of one name at
    /// the same moment, one is [`RegistrarError::Taken`].
    fn change(&self, change: ServerChange) -> BoxFuture<'_, Result<MadeChange, RegistrarError>>;

    /// True if programs run in pods of their own, from the image of a rule, and not beside vmcp.
    fn runs_programs_in_pods(&self) -> bool {
        false
    }

    /// Refuses a server that cannot be added here. Asked before the user is.
    fn check(&self, _server: &NewServer) -> Result<(), RegistrarError> {
        Ok(())
    }

    /// Returns address or command line of a server that may be changed here, with the names of its values and
    /// without the values. `None`: they are those of the configured backend.
    fn place<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<Option<ServerPlace>, RegistrarError>> {
        Box::pin(ready(Ok(None)))
    }
}
