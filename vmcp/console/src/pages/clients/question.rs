//! [`ClientQuestion`]: the client that a question is about, as a form holds it.

use maud::{Markup, html};

/// Id of the list of proposed subjects.
const SUBJECTS: &str = "known-subjects";
/// Most characters of each text of the form.
pub const MAX_CHARS: usize = 4_000;

/// The client that a question is about, and the choices of its form.
#[derive(Debug, Clone, Default)]
pub struct ClientQuestion {
    /// Subject of its identity; empty: a client without credentials.
    pub who: String,
    /// Further claims of its token, as one JSON object; may be empty.
    pub claims: String,
    /// Issuer that vouches for the subject; may be empty.
    pub issuer: String,
    /// Profile whose path it uses; may be empty.
    pub profile: String,
    /// Subjects to choose from: those of keys.
    pub subjects: Vec<String>,
    /// Issuers of the configuration.
    pub issuers: Vec<String>,
    /// Profiles of the configuration.
    pub profiles: Vec<String>,
    /// Mistake in the typed texts.
    pub mistake: Option<String>,
}

impl ClientQuestion {
    /// Returns the fields. A choice of one issuer, or of no profile, is not asked for.
    pub fn fields(&self) -> Markup {
        html! {
            div.field {
                label for="who" { "Subject (" code { "sub" } ")" }
                input id="who" name="who" placeholder="without credentials" value=(self.who) list=[self.list()];
                @if self.list().is_some() {
                    datalist id=(SUBJECTS) { @for subject in &self.subjects { option value=(subject) {} } }
                }
            }
            @if self.issuers.len() > 1 { (select("issuer", "Issuer", "any", &self.issuers, &self.issuer)) }
            div.field {
                label for="claims" { "Further claims, as JSON" }
                input id="claims" name="claims" spellcheck="false" placeholder="{\"groups\": [\"staff\"]}" value=(self.claims);
            }
            @if !self.profiles.is_empty() { (select("profile", "Profile", "none", &self.profiles, &self.profile)) }
        }
    }

    /// Returns the id of the proposals, if there are some.
    fn list(&self) -> Option<&'static str> {
        (!self.subjects.is_empty()).then_some(SUBJECTS)
    }

    /// Shows the mistake, if there is one.
    pub(crate) fn mistake(&self) -> Markup {
        html! { @if let Some(mistake) = &self.mistake { p.notice.problem role="alert" { (crate::text::line(mistake)) } } }
    }
}

/// Returns a choice among values, with a name for none of them.
pub(crate) fn select(name: &str, label: &str, none: &str, values: &[String], chosen: &str) -> Markup {
    html! {
        div.field {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                option value="" { (none) }
                @for value in values { option value=(value) selected[value == chosen] { (value) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_choices_that_exist_are_asked_for_and_what_was_typed_stays() {
        let question = ClientQuestion { who: "\"><b>".to_owned(), ..ClientQuestion::default() };
        let fields = question.fields().into_string();
        assert!(fields.contains("value=\"&quot;&gt;&lt;b&gt;\"") && !fields.contains("<select"), "{fields}");
        let issuers = ["https://a".to_owned(), "https://b".to_owned()].to_vec();
        let question = ClientQuestion { issuers, issuer: "https://b".to_owned(), ..question };
        let question = ClientQuestion { subjects: vec!["c&i".to_owned()], ..question };
        let fields = question.fields().into_string();
        assert!(fields.contains("<option value=\"https://b\" selected>"), "{fields}");
        assert!(fields.contains("list=\"known-subjects\"") && fields.contains("<option value=\"c&amp;i\">"));
    }
}
