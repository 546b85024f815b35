//! [`ConsoleSources`]: parts of pages that only the command line knows.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use vmcp_console::pages::connect::ClientSnippet;

/// Returns the remedy for the last error of a server, given its name and the error; `None` if it is unknown.
pub type RemedySource = fn(&str, &str) -> Option<String>;
/// Begins a login of this server at one of its backends, given the backend's name. Returns the address at
/// which a person on this machine signs in, or the reason why there is none.
pub type LoginSource = Arc<dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;
/// Returns the entries of vmcp in the files of clients, given the URL of the client port, if there is one.
pub type SnippetSource = Arc<dyn Fn(Option<&str>) -> Vec<ClientSnippet> + Send + Sync>;

/// Parts of pages that only the command line knows. Without a source, its part of a page is empty.
#[derive(Clone, Default)]
pub struct ConsoleSources {
    /// Remedies, as `vmcp doctor` gives them.
    pub remedy: Option<RemedySource>,
    /// Entries, as `vmcp connect` writes them.
    pub snippets: Option<SnippetSource>,
    /// Logins, as `vmcp login` makes them.
    pub login: Option<LoginSource>,
}

impl fmt::Debug for ConsoleSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConsoleSources { remedy, snippets, login } = self;
        f.debug_struct("ConsoleSources")
            .field("remedy", &remedy.is_some())
            .field("snippets", &snippets.is_some())
            .field("login", &login.is_some())
            .finish()
    }
}
