//! The outcome of a call: as a word, and in a sentence with the place that says more.

use maud::{Markup, html};

use crate::text;

/// Shows an outcome as a word; color is never the only sign.
pub(super) fn outcome(outcome: &str) -> Markup {
    let class = match outcome {
        "ok" => "good",
        "cancelled" => "warn",
        _ => "bad",
    };
    html! { span class=(class) { (text::inert(outcome, text::MAX_LINE)) } }
}

/// Returns the meaning of a failure, with the setting or the page that says more; empty for others.
pub(super) fn meaning(outcome: &str) -> &'static str {
    match outcome {
        "tool_error" => {
            "The tool answered with an error of its own. The client got its words, and the page of the \
             tool has the last ones."
        }
        "rpc_error" => "The server answered with an error of the protocol, whose code is below.",
        "denied" => {
            "A policy, a webhook or the decision point denied the call. The deciding policy is below."
        }
        "rate_limited" => {
            "A limit of rateLimiting was reached, and nothing was sent. The page Configuration has the limits \
             in force; the caller's other calls show the rate."
        }
        "insufficient_scope" => "The client's token lacks a scope that the tool needs (toolScopes).",
        "not_confirmed" => {
            "The call needs the consent of a person (aggregation.confirm), and did not get it."
        }
        "withheld" => "The server answered, and a webhook withholds the result.",
        "circuit_open" => {
            "The server failed several times in a row, so vmcp sends nothing before the next try. The page of \
             the server has its last error and the remedy."
        }
        "timeout" => "The server sent neither an answer nor progress within the time limit of the call.",
        "unavailable" => {
            "The server could not be reached, or went away during the call. Its page has the last error and \
             the remedy."
        }
        "protocol" => "The server's answer breaks the protocol. The page Logs says more.",
        "invalid_request" => "The request cannot be sent as it is, and nothing was sent.",
        "too_large" => "The answer is larger than the limit for messages of the server.",
        "overloaded" => {
            "vmcp had no room for the answer (server.maxBufferedBytes). The page Clients has the bytes in \
             use."
        }
        "cancelled" => "The client cancelled the call, or went away.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_a_word_and_a_meaning() {
        assert_eq!(outcome("ok").into_string(), "<span class=\"good\">ok</span>");
        assert_eq!(outcome("<b>").into_string(), "<span class=\"bad\">&lt;b&gt;</span>");
        assert!(meaning("rate_limited").contains("rateLimiting") && meaning("denied").contains("policy"));
        assert_eq!((meaning("ok"), meaning("other")), ("", ""));
    }
}
