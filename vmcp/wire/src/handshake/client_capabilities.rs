//! The capabilities that a client declares: the questions that it answers ([`AnswerableQuestions`]) and its
//! extensions ([`ClientExtensions`]).

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_json::text;

use crate::message::methods;

/// The id of the extension that makes a modern call a task.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// A `ClientCapabilities` with just the tasks extension, as JSON.
pub const TASKS_REQUIRED: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

pub(super) const EXTENSIONS: &str = "extensions";
pub(super) const EXPERIMENTAL: &str = "experimental";

/// The questions that a client has declared to answer: elicitation, sampling and roots.
///
/// A server asks only for what the client declared, and a capability counts as declared if its value is an
/// object.
///
/// ```
/// use serde_json::value::RawValue;
/// use vmcp_wire::handshake::client_capabilities::AnswerableQuestions;
///
/// let declared: &RawValue = serde_json::from_str(r#"{"elicitation":{},"sampling":{}}"#)?;
/// let answerable = AnswerableQuestions::read(Some(declared));
/// assert!(answerable.allow("elicitation/create", None), "no mode means forms");
/// assert!(!answerable.allow("roots/list", None));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "a set of five")]
pub struct AnswerableQuestions {
    form_elicitation: bool,
    url_elicitation: bool,
    roots: bool,
    sampling: bool,
    sampling_with_tools: bool,
}

impl AnswerableQuestions {
    /// Reads `ClientCapabilities`; what cannot be read is not declared.
    #[must_use]
    pub fn read(capabilities: Option<&RawValue>) -> Self {
        let declared = capabilities.and_then(|raw| Object::parse(raw).ok()).unwrap_or_default();
        let elicitation = inner(&declared, "elicitation");
        let sampling = inner(&declared, "sampling");
        let has = |part: &Option<Object<'_>>, key: &str| {
            part.as_ref().and_then(|part| part.text(key)).is_some_and(text::is_object)
        };
        let url_elicitation = has(&elicitation, "url");
        Self {
            // Revisions before 2025-11-25 know no modes: an elicitation that names none means forms.
            form_elicitation: elicitation.is_some() && (has(&elicitation, "form") || !url_elicitation),
            url_elicitation,
            roots: inner(&declared, "roots").is_some(),
            sampling: sampling.is_some(),
            sampling_with_tools: has(&sampling, "tools"),
        }
    }

    /// True if the client answers no questions at all.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Writes the `ClientCapabilities` that declare these questions and nothing else, as JSON.
    #[must_use]
    pub fn to_capabilities(self) -> String {
        let modes = match (self.form_elicitation, self.url_elicitation) {
            (true, true) => Some(r#""elicitation":{"form":{},"url":{}}"#),
            (true, false) => Some(r#""elicitation":{"form":{}}"#),
            (false, true) => Some(r#""elicitation":{"url":{}}"#),
            (false, false) => None,
        };
        let sampling = match (self.sampling, self.sampling_with_tools) {
            (true, true) => Some(r#""sampling":{"tools":{}}"#),
            (true, false) => Some(r#""sampling":{}"#),
            (false, _) => None,
        };
        let roots = self.roots.then_some(r#""roots":{}"#);
        let entries: Vec<_> = [modes, roots, sampling].into_iter().flatten().collect();
        format!("{{{}}}", entries.join(","))
    }

    /// True if the client may be asked `method` with `params`.
    #[must_use]
    pub fn allow(self, method: &str, params: Option<&RawValue>) -> bool {
        self.refusal(method, params).is_none()
    }

    /// The reason why the client cannot be asked `method` with `params`, or `None` if it can.
    #[must_use]
    pub fn refusal(self, method: &str, params: Option<&RawValue>) -> Option<&'static str> {
        let (declared, refusal) = match QuestionKind::of(method, params) {
            Some(QuestionKind::FormElicitation) => {
                (self.form_elicitation, "the client does not support elicitation")
            }
            Some(QuestionKind::UrlElicitation) => {
                (self.url_elicitation, "the client does not support elicitation in URL mode")
            }
            Some(QuestionKind::Roots) => (self.roots, "the client does not support roots"),
            Some(QuestionKind::Sampling) => (self.sampling, "the client does not support sampling"),
            Some(QuestionKind::SamplingWithTools) => {
                (self.sampling_with_tools, "the client does not support tools in sampling")
            }
            None => (false, "the method is not supported by this client"),
        };
        (!declared).then_some(refusal)
    }
}

/// Returns the part of `ClientCapabilities` that a question needs, as JSON, for `data.requiredCapabilities`;
/// `None` for any other method.
#[must_use]
pub fn required(method: &str, params: Option<&RawValue>) -> Option<&'static str> {
    Some(match QuestionKind::of(method, params)? {
        QuestionKind::FormElicitation => r#"{"elicitation":{"form":{}}}"#,
        QuestionKind::UrlElicitation => r#"{"elicitation":{"url":{}}}"#,
        QuestionKind::Roots => r#"{"roots":{}}"#,
        QuestionKind::Sampling => r#"{"sampling":{}}"#,
        QuestionKind::SamplingWithTools => r#"{"sampling":{"tools":{}}}"#,
    })
}

/// The questions that capabilities tell apart.
#[derive(Debug, Clone, Copy)]
enum QuestionKind {
    FormElicitation,
    UrlElicitation,
    Roots,
    Sampling,
    SamplingWithTools,
}

impl QuestionKind {
    /// Returns the kind of a question. Requests for a client's tasks (2025-11-25) are none: they are never
    /// relayed.
    fn of(method: &str, params: Option<&RawValue>) -> Option<Self> {
        let params = || params.and_then(|params| Object::parse(params).ok()).unwrap_or_default();
        match method {
            methods::ELICIT if params().get_str("mode").as_deref() == Some("url") => {
                Some(Self::UrlElicitation)
            }
            methods::ELICIT => Some(Self::FormElicitation),
            methods::ROOTS_LIST => Some(Self::Roots),
            methods::SAMPLE if params().text("tools").is_some() => Some(Self::SamplingWithTools),
            methods::SAMPLE => Some(Self::Sampling),
            _ => None,
        }
    }
}

/// The extensions that a client declares.
#[derive(Debug, Clone, Default)]
pub struct ClientExtensions<'a> {
    pub(super) extensions: Object<'a>,
    pub(super) experimental: Object<'a>,
}

impl<'a> ClientExtensions<'a> {
    /// Reads `ClientCapabilities`; what cannot be read is not declared.
    #[must_use]
    pub fn read(capabilities: Option<&'a RawValue>) -> Self {
        let object = capabilities.and_then(|raw| Object::parse(raw).ok()).unwrap_or_default();
        let part = |key| inner(&object, key).unwrap_or_default();
        Self { extensions: part(EXTENSIONS), experimental: part(EXPERIMENTAL) }
    }

    /// True if the client takes a task instead of a result.
    #[must_use]
    pub fn has_tasks(&self) -> bool {
        self.extensions.text(TASKS_EXTENSION).is_some_and(text::is_object)
    }
}

/// Removes the tasks extension from capabilities: those of a legacy client, which cannot have modern tasks,
/// or of a call that must not become one. `None` if the client does not declare the extension.
#[must_use]
pub fn without_tasks_extension(capabilities: &RawValue) -> Option<String> {
    let object = Object::parse(capabilities).ok()?;
    let extensions = inner(&object, EXTENSIONS)?;
    extensions.text(TASKS_EXTENSION)?;
    let mut inner = extensions.edit();
    inner.remove(TASKS_EXTENSION);
    let mut edit = object.edit();
    edit.set(EXTENSIONS, inner.finish());
    Some(edit.finish().into_cow().into_owned())
}

pub(super) fn inner<'a>(object: &Object<'a>, key: &str) -> Option<Object<'a>> {
    Object::parse(object.get(key)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(capabilities: &str, method: &str, params: &str) -> bool {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        AnswerableQuestions::read(Some(&raw(capabilities))).allow(method, Some(&raw(params)))
    }

    #[test]
    fn a_client_is_asked_for_what_it_declared_and_nothing_else() {
        let form = r#"{"message":"?"}"#;
        let url = r#"{"mode":"url","url":"https://example.com"}"#;
        for (capabilities, forms, urls) in [
            ("{}", false, false),
            (r#"{"elicitation":{}}"#, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
            (r#"{"elicitation":null}"#, false, false),
            (r#"{"elicitation":[]}"#, false, false),
        ] {
            assert_eq!(may(capabilities, methods::ELICIT, form), forms, "{capabilities}");
            assert_eq!(may(capabilities, methods::ELICIT, url), urls, "{capabilities}");
        }
        assert!(may(r#"{"sampling":{}}"#, methods::SAMPLE, "{}"));
        assert!(!may(r#"{"sampling":{}}"#, methods::SAMPLE, r#"{"tools":[]}"#));
        assert!(may(r#"{"sampling":{"tools":{}}}"#, methods::SAMPLE, r#"{"tools":[]}"#));
        assert!(may(r#"{"roots":{"listChanged":true}}"#, methods::ROOTS_LIST, "{}"));
        assert!(!may(r#"{"roots":{}}"#, "vendor/ask", "{}"));
        assert!(!may(r#"{"tasks":{"list":{}}}"#, methods::TASKS_LIST, "{}"), "tasks are never asked for");
        assert!(!may(r#"{"sampling":true}"#, methods::SAMPLE, "{}"), "a capability is an object");
        assert!(!AnswerableQuestions::read(None).allow(methods::ROOTS_LIST, None));
    }

    #[test]
    fn a_declaration_reads_as_what_it_was_made_from() {
        let raw = |text: String| RawValue::from_string(text).unwrap();
        for bits in 0..32_u8 {
            let bit = |n: u8| bits & (1 << n) != 0;
            let answerable = AnswerableQuestions {
                form_elicitation: bit(0),
                url_elicitation: bit(1),
                roots: bit(2),
                sampling: bit(3),
                sampling_with_tools: bit(3) && bit(4),
            };
            let declaration = raw(answerable.to_capabilities());
            assert_eq!(AnswerableQuestions::read(Some(&declaration)), answerable);
            assert_eq!(answerable.is_empty(), bits.trailing_zeros() >= 4);
        }
    }

    #[test]
    fn what_a_question_requires_allows_it() {
        for (method, params) in [
            (methods::ELICIT, "{}"),
            (methods::ELICIT, r#"{"mode":"url"}"#),
            (methods::ROOTS_LIST, "{}"),
            (methods::SAMPLE, "{}"),
            (methods::SAMPLE, r#"{"tools":[]}"#),
        ] {
            let params_of_method = RawValue::from_string(params.to_owned()).unwrap();
            assert!(
                may(required(method, Some(&params_of_method)).unwrap(), method, params),
                "{method} {params}"
            );
        }
        assert_eq!(required("vendor/ask", None), None);
    }

    #[test]
    fn the_tasks_extension_can_be_taken_out_of_what_a_client_declares() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let all = raw(r#"{"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{}}}"#);
        assert!(ClientExtensions::read(Some(&all)).has_tasks());
        assert!(!ClientExtensions::read(None).has_tasks());
        let without = without_tasks_extension(&all).unwrap();
        assert!(!ClientExtensions::read(Some(&raw(&without))).has_tasks());
        assert!(without.contains("a/b") && without_tasks_extension(&raw("{}")).is_none());
    }
}
