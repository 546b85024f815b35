//! Names of fields as people write them: several words for `user_id`, plurals, any letter case.

use std::collections::HashMap;

use super::tokens::{Token, TokenKind};

/// Words that may name one field.
const MAX_WORDS: usize = 5;

/// The columns by their letters and digits.
pub(super) struct Fields {
    exact: HashMap<String, usize>,
    normal: HashMap<String, usize>,
}

impl Fields {
    pub(super) fn new(columns: &[String]) -> Fields {
        let mut fields = Fields { exact: HashMap::new(), normal: HashMap::new() };
        for (column, name) in columns.iter().enumerate() {
            fields.exact.entry(name.clone()).or_insert(column);
            fields.normal.entry(normalized(name)).or_insert(column);
        }
        fields
    }

    /// Returns the column of a name.
    pub(super) fn named(&self, name: &str) -> Option<usize> {
        let normal = normalized(name);
        let spelled = |name: &str| self.normal.get(name).copied();
        self.exact.get(name).copied().or_else(|| spelled(&normal)).or_else(|| {
            let singular = [
                normal.strip_suffix("ies").map(|stem| format!("{stem}y")),
                normal.strip_suffix("es").map(str::to_owned),
                normal.strip_suffix('s').map(str::to_owned),
                (normal.len() > 2).then(|| format!("{normal}s")),
            ];
            singular.into_iter().flatten().filter(|name| !name.is_empty()).find_map(|name| spelled(&name))
        })
    }

    /// Returns the field that the next tokens name, the longest name first, and the number of tokens.
    pub(super) fn at(&self, tokens: &[Token]) -> Option<(usize, usize)> {
        let words = tokens.iter().take(MAX_WORDS).take_while(|token| token.kind == TokenKind::Word).count();
        if let Some(first) = tokens.first().filter(|token| token.kind == TokenKind::Quoted) {
            return Some((self.named(&first.text)?, 1));
        }
        (1..=words).rev().find_map(|count| {
            let name: Vec<&str> = tokens.iter().take(count).map(|token| token.text.as_str()).collect();
            Some((self.named(&name.join(" "))?, count))
        })
    }
}

/// Returns letters and digits in lower case.
fn normalized(name: &str) -> String {
    let letters: String = name.chars().filter(|character| character.is_alphanumeric()).collect();
    if letters.is_empty() { name.to_owned() } else { letters.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    #[test]
    fn fields_are_found_as_people_name_them() {
        let columns = ["user_id", "amount", "email", "city", "First Name"].map(str::to_owned);
        let fields = Fields::new(&columns);
        for (text, found) in [
            ("user_id", Some((0, 1))),
            ("User ID and", Some((0, 2))),
            ("amounts", Some((1, 1))),
            ("email addresses", Some((2, 1))),
            ("cities", Some((3, 1))),
            ("'First Name'", Some((4, 1))),
            ("first name", Some((4, 2))),
            ("nothing", None),
            ("", None),
        ] {
            assert_eq!(fields.at(&tokens(text)), found, "{text}");
        }
    }
}
