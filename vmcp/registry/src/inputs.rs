//! [`Input`]: a value that an entry asks a person for, or fixes.

use std::collections::BTreeMap;

use crate::fields::Fields;

/// Type of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InputFormat {
    /// Any text.
    #[default]
    Text,
    /// A decimal number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Path of a file on the person's machine.
    FilePath,
}

/// One value of a command, an environment, a header or a URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Input {
    /// Meaning, for the person.
    pub description: Option<String>,
    /// True if the server does not work without it.
    pub is_required: bool,
    /// True if it must not be shown.
    pub is_secret: bool,
    /// Fixed value, with `{NAME}` for each of `variables`; the person is asked for these alone.
    pub value: Option<String>,
    /// Value if the person gives none.
    pub default: Option<String>,
    /// Allowed values; none: any.
    pub choices: Vec<String>,
    /// Type of the value.
    pub format: InputFormat,
    /// Values within `value`, by name.
    pub variables: BTreeMap<String, Input>,
}

/// An input with the name of its variable or header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedInput {
    /// Name of the environment variable or header.
    pub name: String,
    /// Its value.
    pub input: Input,
}

/// One argument of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// The flag, dashes included; `None` for a positional argument.
    pub flag: Option<String>,
    /// Label of a positional argument.
    pub hint: Option<String>,
    /// Its value.
    pub input: Input,
}

impl Input {
    pub(crate) fn read(fields: Fields<'_>, at: &str) -> Input {
        let variables = fields.map(at, "variables").into_iter();
        // Variables have none of their own: the schema ends there, and so does this recursion.
        let variables = variables.map(|(name, path, fields)| (name.to_owned(), Input::plain(fields, &path)));
        Input { variables: variables.collect(), ..Input::plain(fields, at) }
    }

    fn plain(fields: Fields<'_>, at: &str) -> Input {
        let format = match fields.text(at, "format").as_deref() {
            Some("number") => InputFormat::Number,
            Some("boolean") => InputFormat::Boolean,
            Some("filepath" | "file_path") => InputFormat::FilePath,
            _ => InputFormat::Text,
        };
        Input {
            description: fields.words(at, "description"),
            is_required: fields.flag(at, "isRequired"),
            is_secret: fields.flag(at, "isSecret"),
            value: fields.text(at, "value"),
            default: fields.text(at, "default"),
            choices: fields.texts(at, "choices"),
            format,
            variables: BTreeMap::new(),
        }
    }
}

impl NamedInput {
    pub(crate) fn read_list(fields: Fields<'_>, at: &str, key: &str) -> Vec<NamedInput> {
        let items = fields.objects(at, key).into_iter();
        let read = |(path, fields): (String, Fields<'_>)| {
            let Some(name) = fields.text(&path, "name") else {
                fields.note(&path, "`name` is missing");
                return None;
            };
            Some(NamedInput { name, input: Input::read(fields, &path) })
        };
        items.filter_map(read).collect()
    }
}

impl Argument {
    pub(crate) fn read_list(fields: Fields<'_>, at: &str, key: &str) -> Vec<Argument> {
        let items = fields.objects(at, key).into_iter();
        let read = |(path, fields): (String, Fields<'_>)| {
            let flag = fields.text(&path, "name");
            match fields.text(&path, "type").as_deref() {
                Some("named") if flag.is_none() => {
                    fields.note(&path, "a named argument without `name`");
                    return None;
                }
                Some("named" | "positional") => {}
                _ => {
                    fields.note(&path, "`type` is neither named nor positional");
                    return None;
                }
            }
            let is_named = fields.text(&path, "type").as_deref() == Some("named");
            Some(Argument {
                flag: flag.filter(|_| is_named),
                hint: fields.text(&path, "valueHint"),
                input: Input::read(fields, &path),
            })
        };
        items.filter_map(read).collect()
    }
}
