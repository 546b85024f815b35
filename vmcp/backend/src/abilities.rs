//! What a client can be asked, read from the capabilities that it declared.

use std::fmt::Write as _;

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_wire::methods;

/// What our own connections declare to legacy servers: some list tools only to clients that can be asked. Whether the
/// client at hand can be is decided when they ask.
pub(crate) const DECLARED: &str =
    r#"{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"tools":{}}}"#;

/// The requests that a client has declared to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "a set of four")]
pub(crate) struct Abilities {
    form: bool,
    url: bool,
    sampling: bool,
    roots: bool,
}

impl Abilities {
    /// Reads `ClientCapabilities`; what cannot be read is not declared.
    pub(crate) fn read(capabilities: Option<&RawValue>) -> Self {
        let Some(capabilities) = capabilities.and_then(|raw| Object::parse(raw).ok()) else {
            return Self::default();
        };
        let declared = |key| capabilities.get(key).filter(|value| value.get() != "null");
        let elicitation = declared("elicitation").map(|raw| Object::parse(raw).unwrap_or_default());
        let mode = |mode| elicitation.as_ref().is_some_and(|modes| modes.text(mode).is_some());
        Self {
            // Without a mode it means forms: revisions before 2025-11-25 knew no other.
            form: elicitation.is_some() && (mode("form") || !mode("url")),
            url: mode("url"),
            sampling: declared("sampling").is_some(),
            roots: declared("roots").is_some(),
        }
    }

    /// Whether there is nothing that the client could be asked.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// `ClientCapabilities` with just these.
    pub(crate) fn declaration(self) -> String {
        let Self { form, url, sampling, roots } = self;
        let mut entries = Vec::new();
        if form || url {
            let mut modes = String::new();
            for (mode, declared) in [("form", form), ("url", url)] {
                if declared {
                    let comma = if modes.is_empty() { "" } else { "," };
                    let _ = write!(modes, r#"{comma}"{mode}":{{}}"#);
                }
            }
            entries.push(format!(r#""elicitation":{{{modes}}}"#));
        }
        entries.extend(roots.then(|| r#""roots":{}"#.to_owned()));
        entries.extend(sampling.then(|| r#""sampling":{}"#.to_owned()));
        format!("{{{}}}", entries.join(","))
    }

    /// Why the client cannot be asked this; `None` if it can.
    pub(crate) fn refusal(self, method: &str, params: Option<&RawValue>) -> Option<&'static str> {
        let (able, refusal) = match method {
            methods::ELICIT if is_url_mode(params) => {
                (self.url, "the client does not support elicitation in URL mode")
            }
            methods::ELICIT => (self.form, "the client does not support elicitation"),
            methods::SAMPLE => (self.sampling, "the client does not support sampling"),
            methods::ROOTS_LIST => (self.roots, "the client does not support roots"),
            _ => (false, "the method is not supported by this client"),
        };
        (!able).then_some(refusal)
    }
}

/// `ClientCapabilities` as a legacy server may know them: all but the tasks of 2025-11-25, whose requests to the client
/// are not relayed.
pub(crate) fn relayed(capabilities: Option<&RawValue>) -> String {
    let Some(capabilities) = capabilities.and_then(|raw| Object::parse(raw).ok()) else {
        return "{}".to_owned();
    };
    let mut edit = capabilities.edit();
    edit.remove("tasks");
    edit.finish().into_cow().into_owned()
}

fn is_url_mode(params: Option<&RawValue>) -> bool {
    let params = params.and_then(|params| Object::parse(params).ok());
    params.and_then(|params| params.get_str("mode")).is_some_and(|mode| mode == "url")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(capabilities: &str) -> Abilities {
        Abilities::read(Some(&RawValue::from_string(capabilities.to_owned()).unwrap()))
    }

    #[test]
    fn elicitation_without_a_mode_means_forms() {
        for (declared, form, url) in [
            (r#"{"elicitation":{}}"#, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
            (r#"{"elicitation":null,"sampling":{}}"#, false, false),
            ("[]", false, false),
        ] {
            let read = read(declared);
            assert_eq!((read.form, read.url), (form, url), "{declared}");
        }
    }

    #[test]
    fn a_declaration_reads_as_what_it_was_made_from() {
        for bits in 0..16_u8 {
            let bit = |n: u8| bits & (1 << n) != 0;
            let abilities = Abilities { form: bit(0), url: bit(1), sampling: bit(2), roots: bit(3) };
            assert_eq!(read(&abilities.declaration()), abilities);
            assert_eq!(abilities.is_empty(), bits == 0);
        }
        assert_eq!(read(DECLARED), Abilities { form: true, url: true, sampling: true, roots: true });
    }

    #[test]
    fn tasks_are_not_relayed() {
        let raw = RawValue::from_string(r#"{"tasks":{"list":{}},"x":{"y":[1]}}"#.to_owned()).unwrap();
        assert_eq!(relayed(Some(&raw)), r#"{"x":{"y":[1]}}"#);
        assert_eq!(relayed(None), "{}");
    }

    #[test]
    fn only_what_was_declared_is_asked() {
        let url = RawValue::from_string(r#"{"mode":"url"}"#.to_owned()).unwrap();
        let forms = read(r#"{"elicitation":{}}"#);
        assert_eq!(forms.refusal("elicitation/create", None), None);
        assert!(forms.refusal("elicitation/create", Some(&url)).is_some());
        assert!(forms.refusal("sampling/createMessage", None).is_some());
        assert!(forms.refusal("tasks/get", None).is_some());
        assert_eq!(read(r#"{"roots":{}}"#).refusal("roots/list", None), None);
    }
}
