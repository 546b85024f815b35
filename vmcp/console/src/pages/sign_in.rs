//! The page on which a person signs in: with a token, typed once, or at the provider of the configuration.
//! [`logins`] is the page of a person's own logins at servers.

pub mod logins;

use maud::html;

use crate::frame::document;
use crate::links::{ROOT, link};

/// Ways to sign in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignInChoices {
    /// True if the configuration has tokens.
    pub has_tokens: bool,
    /// True if it has a provider.
    pub has_provider: bool,
}

/// Field of the form, and of the link to the provider, with the page that a person wanted: its address behind
/// that of the console.
pub const NEXT: &str = "next";

/// Returns the page; `message` says why the last attempt failed, `next` is the page that a person wanted.
pub fn sign_in(choices: &SignInChoices, message: Option<&str>, next: Option<&str>) -> String {
    let body = html! {
        main id="content" {
            h1 { "Sign in to the console" }
            @if let Some(message) = message { p.notice.problem role="alert" { (message) } }
            @if choices.has_provider {
                @let wanted = next.map(|next| (NEXT, next));
                p { a href=(link("oidc/start", wanted.as_slice())) { "Sign in at your provider" } }
            }
            @if choices.has_tokens {
                @if choices.has_provider { h2 { "With a token" } }
                p { "The server takes one of its tokens (" code { "server.adminTokens" } ", " code { "server.viewerTokens" } "). The browser keeps a key for 12 hours in its place, never the token." }
                form method="post" action=(link("sign-in", &[])) {
                    @if let Some(next) = next { input type="hidden" name=(NEXT) value=(next); }
                    div.field {
                        label for="token" { "Token" }
                        input id="token" name="token" type="password" autocomplete="current-password" required autofocus;
                    }
                    button { "Sign in" }
                }
            }
            @if !choices.has_tokens && !choices.has_provider {
                p { "Without tokens, the server shows its console on its own machine alone, and your request came through a proxy. Set " code { "server.adminTokens" } " to sign in here." }
            }
        }
    };
    document("Sign in", &body)
}

/// Returns the page after a sign-in at the provider, which goes on to the page `next` by itself: an address
/// behind that of the console, or empty.
pub fn signed_in(is_operator: bool, next: &str) -> String {
    let body = html! {
        main id="content" {
            h1 { "Signed in" }
            p { "Your role is " @if is_operator { "operator" } @else { "viewer" } "." }
            p { a href={ (ROOT) (next) } { "Go on to the console" } }
        }
    };
    document("Signed in", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_a_password_and_a_failure_is_told() {
        let choices = SignInChoices { has_tokens: true, has_provider: false };
        let page = sign_in(&choices, Some("wrong token"), Some("tool?a=\"b\""));
        assert!(page.contains("name=\"next\" value=\"tool?a=&quot;b&quot;\""), "{page}");
        assert!(page.contains("type=\"password\"") && page.contains("role=\"alert\">wrong token"), "{page}");
        assert!(!page.contains("/console/oidc/start"), "{page}");
    }

    #[test]
    fn a_server_that_lets_no_person_in_names_the_remedy() {
        let page = sign_in(&SignInChoices::default(), None, None);
        assert!(page.contains("came through a proxy") && page.contains("server.adminTokens"), "{page}");
        assert!(!page.contains("<form"), "{page}");
    }

    #[test]
    fn a_provider_alone_has_no_form() {
        let page = sign_in(&SignInChoices { has_tokens: false, has_provider: true }, None, None);
        assert!(page.contains("href=\"/console/oidc/start\"") && !page.contains("<form"), "{page}");
        let next = Some("tool?server=a&tool=b");
        let wanted = sign_in(&SignInChoices { has_tokens: true, has_provider: true }, None, next);
        let link = "href=\"/console/oidc/start?next=tool%3Fserver%3Da%26tool%3Db\"";
        assert!(wanted.contains(link), "{wanted}");
        assert!(signed_in(false, "").contains("viewer") && signed_in(true, "").contains("operator"));
        let page = signed_in(true, "calls?who=\"><b>");
        assert!(page.contains("href=\"/console/calls?who=&quot;&gt;&lt;b&gt;\""), "{page}");
    }
}
