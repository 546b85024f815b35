//! Conditions: `FIELD comparison VALUE`, joined by `and` and `or`, with parentheses and `not`.

use serde_json::Value;

use super::clauses::Parser;
use super::tokens::TokenKind;
use super::{Comparison, Condition, words};

/// Levels of parentheses.
const MAX_DEPTH: usize = 16;

impl Parser<'_> {
    /// Reads conditions from here on: `or` of `and`. `None` without one.
    pub(super) fn conditions(&mut self) -> Result<Option<Condition>, String> {
        let Some(mut all) = self.conjunction()? else { return Ok(None) };
        while self.word() == "or" {
            let at = self.at;
            self.at += 1;
            self.skip_lead();
            let Some(other) = self.next_conjunction(&all)? else {
                self.at = at;
                return Err(format!("`or {}` is no condition; repeat the field", self.spelling_at(1)));
            };
            all = Condition::Or(Box::new(all), Box::new(other));
        }
        Ok(Some(all))
    }

    fn conjunction(&mut self) -> Result<Option<Condition>, String> {
        let at = self.at;
        self.skip_lead();
        let Some(mut all) = self.condition()? else {
            self.at = at;
            return Ok(None);
        };
        loop {
            let at = self.at;
            if !matches!(self.word(), "and" | "," | "but") {
                return Ok(Some(all));
            }
            self.at += 1;
            self.skip_lead();
            let Some(other) = self.next_condition(&all)? else {
                self.at = at;
                return Ok(Some(all));
            };
            all = Condition::And(Box::new(all), Box::new(other));
        }
    }

    /// As [`Parser::conjunction`], of which the first condition may leave out the field of the one before.
    fn next_conjunction(&mut self, before: &Condition) -> Result<Option<Condition>, String> {
        match self.conjunction()? {
            Some(condition) => Ok(Some(condition)),
            None => self.continued(before),
        }
    }

    fn next_condition(&mut self, before: &Condition) -> Result<Option<Condition>, String> {
        match self.condition()? {
            Some(condition) => Ok(Some(condition)),
            None => self.continued(before),
        }
    }

    /// Reads `< 10` behind `x > 5 and`.
    fn continued(&mut self, before: &Condition) -> Result<Option<Condition>, String> {
        match last_field(before) {
            Some(field) if self.comparison_at(self.at).is_some() => self.comparison(field).map(Some),
            _ => Ok(None),
        }
    }

    fn skip_lead(&mut self) {
        while matches!(
            self.word(),
            "where"
                | "whose"
                | "with"
                | "when"
                | "having"
                | "if"
                | "filter"
                | "the"
                | "rows"
                | "keep"
                | "only"
                | "that"
                | "have"
                | "which"
                | "find"
        ) && self.comparison_behind_field(self.at).is_none()
        {
            self.at += 1;
        }
    }

    fn condition(&mut self) -> Result<Option<Condition>, String> {
        let at = self.at;
        let negated = self.word() == "not";
        self.at += usize::from(negated);
        if self.word() == "(" {
            self.at += 1;
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(format!("it has more than {MAX_DEPTH} levels of parentheses"));
            }
            let inner = self.conditions()?;
            self.depth -= 1;
            if let Some(inner) = inner.filter(|_| self.word() == ")") {
                self.at += 1;
                return Ok(Some(if negated { opposite(inner) } else { inner }));
            }
            self.at = at;
            return Ok(None);
        }
        if self.comparison_behind_field(self.at).is_none() {
            self.at = at;
            return Ok(None);
        }
        let Some(field) = self.take_field() else { return Ok(None) };
        while self.comparison_at(self.at).is_none() {
            self.at += 1;
        }
        let condition = self.comparison(field)?;
        Ok(Some(if negated { opposite(condition) } else { condition }))
    }

    /// True if a condition begins at a token.
    pub(super) fn is_condition_at(&self, at: usize) -> bool {
        self.comparison_behind_field(at).is_some()
    }

    /// Returns the place of the comparison, if a field and one follow each other; a noun such as `field` may
    /// stand between.
    fn comparison_behind_field(&self, at: usize) -> Option<usize> {
        let (_, count) = self.fields.at(self.tokens.get(at..)?)?;
        let mut at = at + count;
        while self.comparison_at(at).is_none() {
            let token = self.tokens.get(at)?;
            if !words::is_field_noun(&token.lower) && !matches!(token.lower.as_str(), "that" | "which") {
                return None;
            }
            at += 1;
        }
        Some(at)
    }

    /// Returns the comparison at a token, and its number of words.
    fn comparison_at(&self, at: usize) -> Option<(Comparison, bool, usize)> {
        let is = |at: usize, word: &str| {
            let token = self.tokens.get(at);
            token.is_some_and(|token| {
                matches!(token.kind, TokenKind::Word | TokenKind::Symbol) && token.lower == word
            })
        };
        if is(at, "between")
            || is(at, "in") && self.tokens.get(at + 1).is_some_and(|token| token.lower == "(")
        {
            return Some((Comparison::Equal, false, 0));
        }
        words::comparisons().find_map(|(phrase, comparison, negated)| {
            let count = phrase.split(' ').count();
            phrase
                .split(' ')
                .enumerate()
                .all(|(word, text)| is(at + word, text))
                .then_some((comparison, negated, count))
        })
    }

    /// Reads a comparison and its value.
    fn comparison(&mut self, field: usize) -> Result<Condition, String> {
        let compare = |comparison, value, negated| Condition::Compare { field, comparison, value, negated };
        if self.word() == "between" {
            self.at += 1;
            let least = self.value()?;
            if self.word() != "and" {
                return Err("`between` needs two values with `and` between them".to_owned());
            }
            self.at += 1;
            let most = self.value()?;
            return Ok(Condition::And(
                Box::new(compare(Comparison::AtLeast, least, false)),
                Box::new(compare(Comparison::AtMost, most, false)),
            ));
        }
        if self.word() == "in" {
            self.at += 2;
            let mut any = compare(Comparison::Equal, self.value()?, false);
            while self.word() == "," {
                self.at += 1;
                let next = compare(Comparison::Equal, self.value()?, false);
                any = Condition::Or(Box::new(any), Box::new(next));
            }
            if self.word() != ")" {
                return Err("`in (` needs a closing parenthesis".to_owned());
            }
            self.at += 1;
            return Ok(any);
        }
        let (comparison, negated, words) =
            self.comparison_at(self.at).ok_or_else(|| format!("`{}` is no comparison", self.spelling()))?;
        self.at += words;
        if comparison == Comparison::Missing {
            return Ok(compare(comparison, Value::Null, negated));
        }
        Ok(compare(comparison, self.value()?, negated))
    }

    /// Reads a value: a number, a quoted text, true, false, null, the name of a parameter, or a word.
    fn value(&mut self) -> Result<Value, String> {
        let token = self.tokens.get(self.at).cloned().ok_or("a comparison needs a value")?;
        if token.kind == TokenKind::Symbol {
            return Err(format!("a comparison needs a value, not `{}`", token.text));
        }
        self.at += 1;
        Ok(match token.kind {
            TokenKind::Number(number) => {
                let whole = token.text.parse::<i64>().map(Value::from);
                whole.unwrap_or_else(|_| Value::from(number))
            }
            TokenKind::Word => match token.lower.as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                "null" | "none" => Value::Null,
                _ => match self.parameters.get(&token.text) {
                    Some(value) => {
                        self.used_parameters.push(token.text);
                        value.clone()
                    }
                    None => Value::String(token.text),
                },
            },
            TokenKind::Quoted | TokenKind::Symbol => Value::String(token.text),
        })
    }

    fn spelling_at(&self, offset: usize) -> String {
        self.tokens.get(self.at + offset).map_or_else(String::new, |token| token.text.clone())
    }
}

fn last_field(condition: &Condition) -> Option<usize> {
    match condition {
        Condition::And(_, last) | Condition::Or(_, last) => last_field(last),
        Condition::Compare { field, .. } => Some(*field),
    }
}

/// Returns the opposite (De Morgan).
fn opposite(condition: Condition) -> Condition {
    match condition {
        Condition::And(one, other) => Condition::Or(Box::new(opposite(*one)), Box::new(opposite(*other))),
        Condition::Or(one, other) => Condition::And(Box::new(opposite(*one)), Box::new(opposite(*other))),
        Condition::Compare { field, comparison, value, negated } => {
            Condition::Compare { field, comparison, value, negated: !negated }
        }
    }
}
