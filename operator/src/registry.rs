//! Container registries: the program that an image starts by itself, and who may ask.
//!
//! The bridge starts the program of a stdio server, and Kubernetes does not tell what an image would start
//! without a command. Its registry does: the configuration of the image has `Entrypoint` and `Cmd`.

mod image_reference;
mod program_lookup;
mod pull_credentials;
mod registry_client;

pub(crate) use self::image_reference::ImageReference;
pub(crate) use self::program_lookup::{FAILURE_TTL, Lookup, ProgramLookups};
pub(crate) use self::pull_credentials::{DOCKER_CONFIG_KEY, PullCredentials};
pub(crate) use self::registry_client::{ImageProgram, RegistryClient, RegistryError};
