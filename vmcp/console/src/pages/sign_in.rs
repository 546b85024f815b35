//! The form in which a person types an admin token, once.

use maud::html;

use crate::frame::document;
use crate::links::link;

/// Returns the page; `message` says why the last attempt failed.
pub fn sign_in(message: Option<&str>) -> String {
    let body = html! {
        main id="content" {
            h1 { "Sign in to the console" }
            p { "The server wants one of its admin tokens (" code { "server.adminTokens" } "). The browser keeps a key for 12 hours in its place, never the token." }
            @if let Some(message) = message { p.notice.problem role="alert" { (message) } }
            form method="post" action=(link("sign-in", &[])) {
                div.field {
                    label for="token" { "Admin token" }
                    input id="token" name="token" type="password" autocomplete="current-password" required autofocus;
                }
                button { "Sign in" }
            }
        }
    };
    document("Sign in", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_a_password_and_a_failure_is_told() {
        let page = sign_in(Some("wrong token"));
        assert!(page.contains("type=\"password\"") && page.contains("role=\"alert\">wrong token"), "{page}");
    }
}
