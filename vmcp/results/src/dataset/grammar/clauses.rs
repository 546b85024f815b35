//! Clauses of an operation: a recursive-descent parser that reads them in any order.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::tokens::{Token, TokenKind, tokens};
use super::{Aggregate, Condition, Function, Limit, Operation, Order, OrderKey, words};

/// Words of an operation.
const MAX_TOKENS: usize = 400;

/// The parser. Errors are a problem in words, for [`Misunderstood`](super::Misunderstood).
pub(super) struct Parser<'a> {
    pub(super) tokens: Vec<Token>,
    pub(super) at: usize,
    pub(super) fields: Fields,
    pub(super) columns: usize,
    pub(super) parameters: &'a Map<String, Value>,
    pub(super) used_parameters: Vec<String>,
    /// Levels of parentheses that are open.
    pub(super) depth: usize,
    operation: Operation,
    /// Functions that wait for their field.
    pending: Vec<Function>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &str, columns: &[String], parameters: &'a Map<String, Value>) -> Parser<'a> {
        Parser {
            tokens: tokens(text),
            at: 0,
            fields: Fields::new(columns),
            columns: columns.len(),
            parameters,
            used_parameters: Vec::new(),
            depth: 0,
            operation: Operation::default(),
            pending: Vec::new(),
        }
    }

    /// Reads all clauses.
    pub(super) fn run(&mut self) -> Result<Operation, String> {
        if self.tokens.len() > MAX_TOKENS {
            return Err(format!("it has more than {MAX_TOKENS} words"));
        }
        while self.at < self.tokens.len() {
            let at = self.at;
            self.clause()?;
            if self.at == at {
                return Err(format!("`{}` has no meaning there", self.spelling()));
            }
        }
        self.finish_pending(None)?;
        Ok(std::mem::take(&mut self.operation))
    }

    fn clause(&mut self) -> Result<(), String> {
        if let Some(condition) = self.conditions()? {
            self.operation.filter = Some(match self.operation.filter.take() {
                Some(first) => Condition::And(Box::new(first), Box::new(condition)),
                None => condition,
            });
            return Ok(());
        }
        let word = self.word().to_owned();
        match word.as_str() {
            "sort" | "sorted" | "sorting" | "order" | "ordered" | "rank" | "ranked" => return self.sort(),
            "group" | "grouped" | "grouping" | "aggregate" | "bucket" => return self.group(),
            "per" => return self.group_fields(),
            "by" if !self.operation.aggregates.is_empty() || !self.pending.is_empty() => {
                return self.group_fields();
            }
            "for" | "each" if self.word_at(1) == "each" || word == "each" => {
                let words = if word == "each" { 1 } else { 2 };
                if self.field_at(words).is_some() {
                    self.at += words;
                    return self.group_list();
                }
            }
            "unique" | "distinct" | "different" | "deduplicate" => return self.unique(),
            "standard" if self.word_at(1) == "deviation" => {
                self.at += 1;
                return Ok(());
            }
            "how" if self.word_at(1) == "many" => {
                self.at += 2;
                self.pending.push(Function::Count);
                return Ok(());
            }
            _ => {}
        }
        if self.limit()? {
            return Ok(());
        }
        if let Some(descends) = words::direction(&word)
            && let Some(order) = self.operation.order.last_mut()
        {
            order.descends = descends;
            self.at += 1;
            self.skip(&["order", "first"]);
            return Ok(());
        }
        let functions = words::functions(&word);
        if !functions.is_empty() {
            return self.aggregate(functions);
        }
        if words::selects(&word) {
            self.select();
            return Ok(());
        }
        if words::is_filler(&word) {
            self.at += 1;
            return Ok(());
        }
        Err(format!("`{}` is neither a field nor a word that is known here", self.spelling()))
    }

    fn sort(&mut self) -> Result<(), String> {
        self.at += 1;
        self.skip(&[
            "the", "rows", "row", "results", "items", "records", "data", "entries", "them", "values", "by",
            "in", "on",
        ]);
        loop {
            let leading = words::direction(self.word()).filter(|_| self.field_at(1).is_some());
            self.at += usize::from(leading.is_some());
            self.skip(&["the"]);
            let by = match self.take_field() {
                Some(field) => OrderKey::Field(field),
                None => match words::functions(self.word()).first().copied() {
                    Some(function) if !self.word().is_empty() => {
                        self.at += 1;
                        OrderKey::Aggregate(function)
                    }
                    // The only column needs no name.
                    _ if self.columns == 1 => OrderKey::Field(0),
                    _ => return Err(format!("`{}` is no field to sort by", self.spelling())),
                },
            };
            let descends = self.trailing_direction().or(leading).unwrap_or(false);
            self.operation.order.push(Order { by, descends });
            let at = self.at;
            self.skip(&[",", "and", "then", "by"]);
            if self.at == at || self.field_at(0).is_none() || self.is_condition_at(self.at) {
                self.at = at;
                return Ok(());
            }
        }
    }

    /// Reads the direction behind a field of an order.
    fn trailing_direction(&mut self) -> Option<bool> {
        let at = self.at;
        self.skip(&["in", "from", "with", "the"]);
        let direction = match (self.word(), self.word_at(1), self.word_at(2)) {
            ("high" | "highest", "to", "low" | "lowest") => Some((true, 3)),
            ("low" | "lowest", "to", "high" | "highest") => Some((false, 3)),
            (word, _, _) => words::direction(word).map(|descends| (descends, 1)),
        };
        let Some((descends, words)) = direction else {
            self.at = at;
            return None;
        };
        self.at += words;
        self.skip(&["order", "first"]);
        Some(descends)
    }

    fn group(&mut self) -> Result<(), String> {
        self.at += 1;
        self.skip(&["the", "rows", "results", "items", "records", "data", "entries", "them", "by", "on"]);
        self.group_list()
    }

    fn group_fields(&mut self) -> Result<(), String> {
        self.at += 1;
        self.skip(&["the", "each"]);
        self.group_list()
    }

    fn group_list(&mut self) -> Result<(), String> {
        let fields = self.field_list();
        if fields.is_empty() {
            return Err(format!("`{}` is no field to group by", self.spelling()));
        }
        self.operation.group.extend(fields);
        Ok(())
    }

    fn unique(&mut self) -> Result<(), String> {
        self.at += 1;
        self.skip(&["values", "value", "set", "of", "for", "from", "in", "the", "all", "list", "by"]);
        let only = (self.columns == 1).then_some(0);
        let field = self.take_field().or(only);
        let field =
            field.ok_or_else(|| format!("`{}` is no field whose values can be listed", self.spelling()))?;
        self.skip_field_nouns();
        if self.pending.last() == Some(&Function::Count) {
            self.pending.pop();
            self.operation.aggregates.push(Aggregate { function: Function::CountUnique, field: Some(field) });
            return Ok(());
        }
        if self.operation.unique.replace(field).is_some_and(|first| first != field) {
            return Err("unique values of two fields are two operations".to_owned());
        }
        Ok(())
    }

    /// Reads functions up to the field they are about.
    fn aggregate(&mut self, functions: &[Function]) -> Result<(), String> {
        self.at += 1;
        self.pending.extend(functions);
        let at = self.at;
        self.skip(&[
            "up", "of", "the", "for", "all", "value", "values", "in", "on", "each", "field", "column",
            "about", "rows", "row", "items", "records", "entries", "results",
        ]);
        if let Some((field, count)) = self.field_at(0).filter(|_| !self.is_condition_at(self.at)) {
            let before = self.at.checked_sub(1).and_then(|before| self.tokens.get(before));
            // `count for each status` groups.
            if before.is_some_and(|token| token.lower == "each") {
                self.at = at;
                return Ok(());
            }
            self.at += count;
            self.skip_field_nouns();
            return self.finish_pending(Some(field));
        }
        self.at = at;
        Ok(())
    }

    /// Gives the waiting functions their field; without one, only rows can be counted.
    fn finish_pending(&mut self, field: Option<usize>) -> Result<(), String> {
        let only = (self.columns == 1).then_some(0);
        for function in std::mem::take(&mut self.pending) {
            let field = match (field, function) {
                (None, Function::Count) => None,
                (None, _) => {
                    let already = self.operation.aggregates.iter().find_map(|aggregate| aggregate.field);
                    let known = already.or(only);
                    Some(known.ok_or_else(|| "a function such as sum or average needs a field".to_owned())?)
                }
                (Some(field), _) => Some(field),
            };
            self.operation.aggregates.push(Aggregate { function, field });
        }
        Ok(())
    }

    /// Reads `top 10`, `first 10 rows`, `limit 10`, `10 rows`; true if one was there.
    fn limit(&mut self) -> Result<bool, String> {
        let word = self.word().to_owned();
        let leads = matches!(
            word.as_str(),
            "top"
                | "first"
                | "last"
                | "bottom"
                | "limit"
                | "limited"
                | "take"
                | "at"
                | "max"
                | "maximum"
                | "highest"
                | "largest"
                | "lowest"
                | "smallest"
        );
        let skipped = match (word.as_str(), self.word_at(1)) {
            ("limit" | "limited", "to") | ("at", "most") => 2,
            ("limit", "results") if self.word_at(2) == "to" => 3,
            _ => usize::from(leads),
        };
        let number = self.number_at(skipped);
        let count = match number {
            Some(count) if leads || words::is_row_noun(self.word_at(1)) => count,
            None if matches!(word.as_str(), "top" | "limit" | "limited") => {
                let given = ["limit", "n", "top"]
                    .into_iter()
                    .find_map(|name| Some((name, self.parameters.get(name)?.as_u64()?)));
                let (name, count) = given.ok_or_else(|| format!("`{word}` needs a number"))?;
                self.used_parameters.push(name.to_owned());
                self.at += skipped;
                return self.limited(count, &word);
            }
            _ => return Ok(false),
        };
        self.at += skipped + 1;
        self.limited(count, &word)
    }

    fn limited(&mut self, count: u64, word: &str) -> Result<bool, String> {
        if count == 0 {
            return Err("a limit of 0 leaves nothing".to_owned());
        }
        while words::is_row_noun(self.word()) && self.field_at(0).is_none() {
            self.at += 1;
        }
        let is_top = matches!(word, "top" | "highest" | "largest" | "maximum" | "max");
        let is_bottom = matches!(word, "bottom" | "lowest" | "smallest");
        let first = self.operation.limit;
        let limit = Limit {
            count,
            from_end: word == "last",
            is_top: is_top || first.is_some_and(|first| first.is_top),
        };
        if first.is_some_and(|first| (first.count, first.from_end) != (limit.count, limit.from_end)) {
            return Err("it has two limits".to_owned());
        }
        self.operation.limit = Some(limit);
        let at = self.at;
        let by = matches!(self.word(), "by" | "with");
        self.skip(&["by", "with", "the"]);
        let direction = words::direction(self.word()).filter(|_| self.field_at(1).is_some());
        self.at += usize::from(direction.is_some());
        match self.take_field().filter(|_| by && (is_top || is_bottom)) {
            Some(field) => {
                let descends = direction.unwrap_or(!is_bottom);
                self.operation.order.push(Order { by: OrderKey::Field(field), descends });
            }
            None if is_bottom => return Err(format!("`{word}` needs `by` and a field")),
            None => self.at = at,
        }
        Ok(true)
    }

    fn select(&mut self) {
        self.at += 1;
        let at = self.at;
        self.skip(&[
            "only", "the", "all", "just", "fields", "field", "columns", "column", "me", "their", "its",
            "each", "of",
        ]);
        let fields = self.field_list();
        if fields.is_empty() {
            self.at = at;
        }
        self.operation.select.extend(fields);
    }

    /// Reads fields with commas and `and` between them.
    fn field_list(&mut self) -> Vec<usize> {
        let mut fields = Vec::new();
        let mut at = self.at;
        while !self.is_condition_at(self.at)
            && let Some(field) = self.take_field()
        {
            self.skip_field_nouns();
            fields.push(field);
            at = self.at;
            self.skip(&[",", "and"]);
            if self.at == at {
                break;
            }
        }
        self.at = at;
        fields
    }

    pub(super) fn take_field(&mut self) -> Option<usize> {
        let (field, count) = self.field_at(0)?;
        self.at += count;
        Some(field)
    }

    fn skip_field_nouns(&mut self) {
        while words::is_field_noun(self.word()) && !self.is_condition_at(self.at) {
            self.at += 1;
        }
    }

    fn skip(&mut self, skipped: &[&str]) {
        while skipped.contains(&self.word()) && !(self.field_at(0).is_some() && self.word().len() > 3) {
            self.at += 1;
        }
    }

    /// The field that the tokens from an offset on name.
    pub(super) fn field_at(&self, offset: usize) -> Option<(usize, usize)> {
        self.fields.at(self.tokens.get(self.at + offset..)?)
    }

    fn number_at(&self, offset: usize) -> Option<u64> {
        match self.tokens.get(self.at + offset)?.kind {
            TokenKind::Number(number) if number >= 0.0 && number.fract() == 0.0 => Some(number as u64),
            _ => None,
        }
    }

    /// The present word or symbol in lower case; empty for other tokens and at the end.
    pub(super) fn word(&self) -> &str {
        self.word_at(0)
    }

    pub(super) fn word_at(&self, offset: usize) -> &str {
        match self.tokens.get(self.at + offset) {
            Some(token) if matches!(token.kind, TokenKind::Word | TokenKind::Symbol) => &token.lower,
            _ => "",
        }
    }

    pub(super) fn spelling(&self) -> String {
        self.tokens
            .get(self.at)
            .map_or_else(|| "the end".to_owned(), |token| token.text.chars().take(60).collect())
    }
}
