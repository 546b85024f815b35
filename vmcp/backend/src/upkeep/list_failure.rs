//! Failures of one list: what came in place of a page, and whether asking again may help.

use std::fmt;
use std::time::Duration;

use serde_json::value::RawValue;
use vmcp_config::sanitize;
use vmcp_json::object::Object;
use vmcp_wire::codes;
use vmcp_wire::lists::{pages::List, pages::PageError};

use crate::transport::LinkError;

/// Most characters of a server's words that are kept.
const MAX_WORDS: usize = 200;

/// The reason why a list is not there, or not whole.
#[derive(Debug)]
pub(super) enum ListFailure {
    /// The exchange failed.
    Link(LinkError),
    /// The server answered with a JSON-RPC error.
    Refused { code: Option<i64>, message: String },
    /// The server answered with something that is not a page.
    Page(PageError),
    /// No answer within this time, or none yet.
    Silent(Option<Duration>),
    /// Page follows page.
    Endless,
    /// The server ended over the list twice: it is not asked for now.
    Deadly,
}

impl ListFailure {
    pub(super) fn refused(error: &RawValue) -> Self {
        let error = Object::parse(error).unwrap_or_default();
        let message = error.get_str("message").unwrap_or_default().into_owned();
        Self::Refused { code: error.text("code").and_then(|code| code.parse().ok()), message }
    }

    /// True if the server says that it does not have the list: many servers declare a capability and do not
    /// know each of its lists. One that declares tools and cannot list them has a problem, whatever it calls
    /// it.
    pub(super) fn is_usual(&self, list: List) -> bool {
        list != List::Tools && matches!(self, Self::Refused { code: Some(codes::METHOD_NOT_FOUND), .. })
    }

    /// False if asking again soon is useless.
    pub(super) fn may_pass(&self, list: List) -> bool {
        match self {
            Self::Endless | Self::Deadly => false,
            // The path, the method or the kind of request does not exist.
            Self::Link(LinkError::Status(refusal)) if matches!(refusal.status.as_u16(), 404 | 405 | 501) => {
                list == List::Tools
            }
            _ => !self.is_usual(list),
        }
    }

    pub(super) fn is_endless(&self) -> bool {
        matches!(self, Self::Endless)
    }

    /// The failure as a clause; `pages` came before it.
    pub(super) fn reason(&self, pages: usize) -> String {
        let behind = if pages > 0 { format!(", after {pages} pages") } else { String::new() };
        format!("{self}{behind}")
    }
}

impl fmt::Display for ListFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) => f.write_str(&shown(&error.detail())),
            Self::Refused { code: Some(code), message } => {
                write!(f, "the server refused with {code}: {}", shown(message))
            }
            Self::Refused { code: None, message } => write!(f, "the server refused: {}", shown(message)),
            Self::Page(error) => error.fmt(f),
            Self::Silent(Some(time)) => write!(f, "no answer within {} seconds", time.as_secs_f64()),
            Self::Silent(None) => f.write_str("no answer yet"),
            Self::Endless => f.write_str("the list has no end"),
            Self::Deadly => {
                f.write_str("the server ends when it is asked for the list, which is left out for an hour")
            }
        }
    }
}

fn shown(words: &str) -> String {
    sanitize::text(words).chars().take(MAX_WORDS).collect()
}

impl From<LinkError> for ListFailure {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl From<PageError> for ListFailure {
    fn from(error: PageError) -> Self {
        Self::Page(error)
    }
}
