//! The configuration in force: each value with its source, secrets masked.

use maud::{Markup, html};
use serde_json::Value;
use vmcp_config::status::ConfigurationStatus;
use vmcp_config::{EffectiveSetting, SettingSource};

use super::catalog::filter;
use crate::frame::{Frame, table};
use crate::text;

/// Most settings in each table; the rest is counted.
const MAX_SETTINGS: usize = 2_000;

/// Returns the page; `settings` and `yaml` are the configuration in force with its secrets masked.
pub fn configuration(
    frame: &Frame,
    status: &ConfigurationStatus,
    settings: &[EffectiveSetting],
    yaml: &str,
) -> String {
    let (defaults, written): (Vec<_>, Vec<_>) =
        settings.iter().partition(|setting| setting.source == SettingSource::Default);
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
        h2 { "Settings" }
        (filter("tr[data-row]", "Filter the settings"))
        @if written.is_empty() { p { "Every setting has its default." } }
        @else { (sources("Settings that are written", &written)) }
        h3 { "Defaults" }
        (sources("Defaults", &defaults))
        h2 { "As YAML" }
        (text::document("Configuration in force", yaml))
    };
    frame.page("configuration", "Configuration", &content)
}

fn sources(label: &str, settings: &[&EffectiveSetting]) -> Markup {
    let more = settings.len().saturating_sub(MAX_SETTINGS);
    html! {
        (table(label, &["Setting", "Value", "Source"], &html! {
            @for setting in settings.iter().take(MAX_SETTINGS) {
                tr data-row {
                    th scope="row" { code { (text::line(&setting.path)) } }
                    td.wide { code { (text::line(&value(&setting.value))) } }
                    td { (source(setting)) }
                }
            }
        }))
        @if more > 0 { p { (more) " more are in " code { "/admin/config_dump" } "." } }
    }
}

/// Returns a value as YAML has it: a string without quotes.
fn value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn source(setting: &EffectiveSetting) -> Markup {
    let line = setting.line.map(|line| format!(", line {line}")).unwrap_or_default();
    html! {
        @match &setting.source {
            SettingSource::Default => "default",
            SettingSource::File => { "file" (line) }
            SettingSource::Environment => "environment",
            SettingSource::Reference(written) => { "file" (line) ", by " code { (text::line(written)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn setting(path: &str, value: Value, source: SettingSource) -> EffectiveSetting {
        EffectiveSetting { path: path.to_owned(), value, source, line: None }
    }

    #[test]
    fn each_value_has_its_source_and_is_escaped() {
        let reference = SettingSource::Reference("${TOKEN}".to_owned());
        let settings = [
            setting("server.listen", json!("127.0.0.1:8080"), SettingSource::Default),
            setting("backends[0].name", json!("<b>"), SettingSource::File),
            setting("server.adminTokens[0]", json!("***"), reference),
            EffectiveSetting {
                line: Some(12),
                ..setting("server.console", json!("off"), SettingSource::File)
            },
        ];
        let yaml = "a: <b>\nkey: '***'\n";
        let page = configuration(&Frame::default(), &ConfigurationStatus::default(), &settings, yaml);
        assert!(page.contains("a: &lt;b&gt;\nkey: '***'"), "{page}");
        for part in
            ["<td>default</td>", "<td>file</td>", "file, by <code><bdi>${TOKEN}", "<td>file, line 12</td>"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("<b>"), "{page}");
    }

    #[test]
    fn thousands_of_settings_are_cut_and_counted() {
        let settings = vec![setting("a", json!(1), SettingSource::File); MAX_SETTINGS + 7];
        let page = configuration(&Frame::default(), &ConfigurationStatus::default(), &settings, "");
        assert!(page.contains("7 more are in"), "the rest is counted");
        assert_eq!(page.matches("<td>file</td>").count(), MAX_SETTINGS);
    }
}
