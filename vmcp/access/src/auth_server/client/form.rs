//! Parameters of a query or a form: each at most once (RFC 6749, 3.1).

use url::form_urlencoded;

use crate::auth_server::oauth_error::{OAuthError, error};

/// Most parameters that are read.
const MAX_PARAMETERS: usize = 64;

/// The parameters of one request.
#[derive(Debug, Default)]
pub(in crate::auth_server) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads parameters; a repeated parameter is an error. Empty values count as absent.
    pub(in crate::auth_server) fn read(text: &[u8]) -> Result<Self, OAuthError> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text).filter(|(_, value)| !value.is_empty()) {
            // RFC 8707 lets a client name several resources.
            let is_again = parameters.iter().any(|(known, _)| *known == name) && name != "resource";
            if is_again || parameters.len() == MAX_PARAMETERS {
                return Err(error("invalid_request", "a parameter is given twice, or there are too many"));
            }
            parameters.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(parameters))
    }

    /// Returns a parameter.
    pub(in crate::auth_server) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a parameter.
    pub(in crate::auth_server) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}
