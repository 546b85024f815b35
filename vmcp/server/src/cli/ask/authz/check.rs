//! `vmcp check-policies`: checks the policies of resources for the operator, in a process of its own: a text
//! that overwhelms the parser ends this process alone.

use std::io::{self, Read as _};

use vmcp_access::policy;
use vmcp_config::Authz;

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output;

/// Most bytes that are read: the largest policies, written as JSON; more are refused.
const MAX_INPUT_BYTES: u64 = 16 << 20;

/// Reads an [`Authz`] as JSON from standard input, and prints its findings as a JSON list.
pub(in crate::cli) fn run() -> Result<Exit, CommandFailure> {
    let mut text = String::new();
    io::stdin().take(MAX_INPUT_BYTES).read_to_string(&mut text)?;
    let authz: Authz = serde_json::from_str(&text).map_err(io::Error::from)?;
    let findings = serde_json::to_string(&policy::findings(&authz)).map_err(io::Error::from)?;
    output::result(&findings)?;
    Ok(Exit::Done)
}
