//! The configuration in force, secrets masked.

use maud::html;
use vmcp_config::status::ConfigurationStatus;

use crate::frame::Frame;
use crate::text;

/// Returns the page; `yaml` is the configuration in force with its secrets masked.
pub fn configuration(frame: &Frame, status: &ConfigurationStatus, yaml: &str) -> String {
    let content = html! {
        p { "Defaults are filled in, secrets are masked." }
        dl.facts {
            @if let Some(at) = status.applied_at { dt { "In force since" } dd { (humantime::format_rfc3339_seconds(at)) } }
            dt { "Changes since the start" } dd { (status.applied) }
            @if !status.digest.is_empty() { dt { "SHA-256 of the file" } dd { code { (status.digest) } } }
            @if !status.needs_restart.is_empty() { dt { "Waits for a restart" } dd { (status.needs_restart.join(", ")) } }
        }
        @if let Some(refused) = &status.refused {
            h2 { "Refused" }
            p { "The newest text of the file is not in force:" }
            ul {
                @for problem in &refused.problems {
                    li { code { (text::line(&problem.path)) } ": " (text::line(&problem.message)) " – " (text::line(&problem.remedy)) }
                }
            }
            @if refused.problems.is_empty() { (text::prose(&refused.message)) }
        }
        h2 { "In force" }
        (text::document("Configuration in force", yaml))
    };
    frame.page("configuration", "Configuration", &content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_escaped() {
        let page = configuration(&Frame::default(), &ConfigurationStatus::default(), "a: <b>\nkey: '***'\n");
        assert!(page.contains("a: &lt;b&gt;\nkey: '***'"), "{page}");
    }
}
