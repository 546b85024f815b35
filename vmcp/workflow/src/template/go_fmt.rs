//! Texts of values as Go's `fmt` writes them: `Sprint`, `Sprintln`, and `Sprintf` with its verbs, flags and
//! argument indexes. The engine's own functions write floats and lists in another way.
//!
//! Go reads each number of JSON as `float64`; here 3 is a whole number and 3.5 is a float. So `%e`, `%f` and
//! `%g` take whole numbers, too, and `%d` takes a float without a fraction.

mod number;
mod quote;

use std::iter::repeat_n;

use gotmpl::Value;

use super::MAX_TEXT;

/// Largest width and precision, as in Go; a longer number ends the format.
const MAX_LENGTH: usize = 1_000_000;

/// Writes values as `fmt.Sprint` does: a space stands between two neighbors unless one of them is a text.
pub(super) fn sprint(values: &[Value]) -> String {
    let mut printer = Printer::default();
    let mut after_text = true;
    for value in values {
        let is_text = matches!(value, Value::String(_));
        if !after_text && !is_text {
            printer.push(" ");
        }
        printer.value(value, 'v', false);
        after_text = is_text;
    }
    printer.out
}

/// Writes values as `fmt.Sprintln` does.
pub(super) fn sprintln(values: &[Value]) -> String {
    let mut printer = Printer::default();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            printer.push(" ");
        }
        printer.value(value, 'v', false);
    }
    printer.push("\n");
    printer.out
}

/// Writes values as `fmt.Sprintf` does. The text ends soon after [`MAX_TEXT`].
pub(super) fn sprintf(format: &str, values: &[Value]) -> String {
    let mut printer = Printer::default();
    let behind_indexes = format.rfind(']').map_or(format.len(), |last| format.len() - last - 1);
    let mut operands = Operands { all: values, at: 0, is_reordered: false, is_good: true, behind_indexes };
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        printer.push(before);
        rest = printer.directive(after, &mut operands);
    }
    printer.push(rest);
    printer.extra(&operands);
    printer.out
}

/// Flags, width and precision of a directive.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of a format")]
struct Flags {
    sharp: bool,
    zero: bool,
    plus: bool,
    minus: bool,
    space: bool,
    /// `%#v`: the syntax of Go.
    go_syntax: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// Values that directives take one after another, or by index.
struct Operands<'a> {
    all: &'a [Value],
    at: usize,
    is_reordered: bool,
    /// False after an index that leads nowhere.
    is_good: bool,
    /// Bytes of the format behind its last `]`, where no index is closed: a search for it from each `[` would
    /// take quadratic time.
    behind_indexes: usize,
}

impl<'a> Operands<'a> {
    fn take(&mut self) -> Option<&'a Value> {
        let value = self.all.get(self.at)?;
        self.at += 1;
        Some(value)
    }

    /// Takes the whole number of a `*`.
    fn take_length(&mut self) -> Option<i64> {
        let number = match self.take()? {
            Value::Int(whole) => *whole,
            Value::Uint(whole) => i64::try_from(*whole).ok()?,
            _ => return None,
        };
        let most = i64::try_from(MAX_LENGTH).ok()?;
        (-most..=most).contains(&number).then_some(number)
    }

    /// Reads an index such as `[2]`. Returns the text behind it, and true if there was one.
    fn index<'f>(&mut self, text: &'f str) -> (&'f str, bool) {
        let Some(inner) = text.strip_prefix('[') else { return (text, false) };
        self.is_reordered = true;
        let is_closed = text.len() > 2 && inner.len() > self.behind_indexes;
        let closed = if is_closed { inner.split_once(']') } else { None };
        let Some((digits, after)) = closed else {
            self.is_good = false;
            return (inner, false);
        };
        let (Some(number), "") = length(digits) else {
            self.is_good = false;
            return (after, false);
        };
        match number.checked_sub(1).filter(|at| *at < self.all.len()) {
            Some(at) => self.at = at,
            None => self.is_good = false,
        }
        (after, true)
    }
}

/// Reads a width or a precision. Returns it with the text behind it; after a number that is too long, none.
fn length(text: &str) -> (Option<usize>, &str) {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(digits).unwrap_or((text, ""));
    let mut number = None;
    for digit in digits.chars().filter_map(|digit| digit.to_digit(10)) {
        let before = number.unwrap_or(0);
        if before > MAX_LENGTH {
            return (None, "");
        }
        number = Some(before * 10 + digit as usize);
    }
    (number, rest)
}

#[derive(Default)]
struct Printer {
    out: String,
    flags: Flags,
}

impl Printer {
    fn push(&mut self, text: &str) {
        if !self.is_full() {
            self.out.push_str(text);
        }
    }

    fn is_full(&self) -> bool {
        self.out.len() > MAX_TEXT
    }

    fn fill(&mut self, count: usize) {
        let filler = if self.flags.zero && !self.flags.minus { '0' } else { ' ' };
        if !self.is_full() {
            self.out.extend(repeat_n(filler, count));
        }
    }

    /// Writes a text in the width of the directive.
    fn pad(&mut self, text: &str) {
        let missing = self.flags.width.unwrap_or(0).saturating_sub(text.chars().count());
        if self.flags.minus {
            self.push(text);
            self.fill(missing);
        } else {
            self.fill(missing);
            self.push(text);
        }
    }

    /// Writes a text in the width of the directive, filled with spaces in any case.
    fn pad_with_spaces(&mut self, text: &str) {
        let zero = std::mem::take(&mut self.flags.zero);
        self.pad(text);
        self.flags.zero = zero;
    }

    /// Writes one directive; `text` begins behind its `%`. Returns the text behind the directive.
    fn directive<'f>(&mut self, text: &'f str, operands: &mut Operands<'_>) -> &'f str {
        self.flags = Flags::default();
        operands.is_good = true;
        let text = self.read_flags(text);
        let (mut text, mut is_indexed) = operands.index(text);
        if let Some(after) = text.strip_prefix('*') {
            text = after;
            is_indexed = false;
            match operands.take_length() {
                Some(width) => {
                    self.flags.width = usize::try_from(width.unsigned_abs()).ok();
                    self.flags.minus |= width < 0;
                }
                None => self.push("%!(BADWIDTH)"),
            }
        } else {
            (self.flags.width, text) = length(text);
            operands.is_good &= !(is_indexed && self.flags.width.is_some());
        }
        if text.len() > 1
            && let Some(after) = text.strip_prefix('.')
        {
            operands.is_good &= !is_indexed;
            (text, is_indexed) = operands.index(after);
            if let Some(after) = text.strip_prefix('*') {
                text = after;
                is_indexed = false;
                self.flags.precision = operands.take_length().and_then(|it| usize::try_from(it).ok());
                if self.flags.precision.is_none() {
                    self.push("%!(BADPREC)");
                }
            } else {
                let (precision, after) = length(text);
                self.flags.precision = Some(precision.unwrap_or(0));
                text = after;
            }
        }
        if !is_indexed {
            (text, _) = operands.index(text);
        }
        let Some(verb) = text.chars().next() else {
            self.push("%!(NOVERB)");
            return "";
        };
        match verb {
            '%' => self.push("%"),
            _ if !operands.is_good => self.push(&format!("%!{verb}(BADINDEX)")),
            _ => match operands.take() {
                Some(value) => {
                    if verb == 'v' {
                        self.flags.go_syntax = std::mem::take(&mut self.flags.sharp);
                        self.flags.plus = false;
                    }
                    self.value(value, verb, false);
                }
                None => self.push(&format!("%!{verb}(MISSING)")),
            },
        }
        text.get(verb.len_utf8()..).unwrap_or_default()
    }

    fn read_flags<'f>(&mut self, text: &'f str) -> &'f str {
        let mut rest = text;
        loop {
            let flag = match rest.as_bytes().first() {
                Some(b'#') => &mut self.flags.sharp,
                Some(b'0') => &mut self.flags.zero,
                Some(b'+') => &mut self.flags.plus,
                Some(b'-') => &mut self.flags.minus,
                Some(b' ') => &mut self.flags.space,
                _ => return rest,
            };
            *flag = true;
            rest = rest.get(1..).unwrap_or_default();
        }
    }

    /// Names the operands that no directive took.
    fn extra(&mut self, operands: &Operands<'_>) {
        let extra = operands.all.get(operands.at..).unwrap_or_default();
        if operands.is_reordered || extra.is_empty() {
            return;
        }
        self.flags = Flags::default();
        self.push("%!(EXTRA ");
        for (index, value) in extra.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            self.with_type(value);
        }
        self.push(")");
    }

    /// Writes a value by a verb; `is_item` is true for an item of a list or an entry of a map.
    fn value(&mut self, value: &Value, verb: char, is_item: bool) {
        if self.is_full() {
            return;
        }
        match (value, verb) {
            (Value::Nil, _) if is_item => {
                self.push(if self.flags.go_syntax { "interface {}(nil)" } else { "<nil>" });
            }
            (Value::Nil, 'v' | 'T') => self.pad("<nil>"),
            (Value::Nil, _) | (_, 'p') => self.bad_verb(value, verb),
            (_, 'T') => self.text(type_name(value), value, 's'),
            (Value::Bool(is), _) => match verb {
                't' | 'v' => self.pad(if *is { "true" } else { "false" }),
                _ => self.bad_verb(value, verb),
            },
            (Value::Int(whole), _) => self.integer(whole.unsigned_abs(), *whole < 0, value, verb),
            (Value::Uint(whole), _) => self.integer(*whole, false, value, verb),
            (Value::Float(number), _) => self.float(*number, value, verb),
            (Value::String(text), _) => self.text(text, value, verb),
            (Value::List(items), _) => self.list(items, verb),
            (Value::Map(entries), _) => {
                self.push(if self.flags.go_syntax { "map[string]interface {}{" } else { "map[" });
                for (index, (key, entry)) in entries.iter().enumerate() {
                    if index > 0 {
                        self.push(if self.flags.go_syntax { ", " } else { " " });
                    }
                    self.text(key, &Value::String(key.clone()), verb);
                    self.push(":");
                    self.value(entry, verb, true);
                }
                self.push(if self.flags.go_syntax { "}" } else { "]" });
            }
            (Value::Function(_), _) => self.push("<func>"),
        }
    }

    fn list(&mut self, items: &[Value], verb: char) {
        self.push(if self.flags.go_syntax { "[]interface {}{" } else { "[" });
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.push(if self.flags.go_syntax { ", " } else { " " });
            }
            self.value(item, verb, true);
        }
        self.push(if self.flags.go_syntax { "}" } else { "]" });
    }

    fn text(&mut self, text: &str, value: &Value, verb: char) {
        let most = self.flags.precision.unwrap_or(usize::MAX);
        let cut: String = text.chars().take(most).collect();
        match verb {
            'v' if self.flags.go_syntax => self.pad(&quote::quoted(&cut, '"', false)),
            's' | 'v' => self.pad(&cut),
            'q' if self.flags.sharp && quote::can_be_raw(&cut) => self.pad(&format!("`{cut}`")),
            'q' => self.pad(&quote::quoted(&cut, '"', self.flags.plus)),
            'x' | 'X' => {
                let bytes = text.as_bytes();
                let bytes = bytes.get(..most.min(bytes.len())).unwrap_or_default();
                self.pad(&number::hex(bytes, verb, self.flags.sharp, self.flags.space));
            }
            _ => self.bad_verb(value, verb),
        }
    }

    fn integer(&mut self, size: u64, is_negative: bool, value: &Value, verb: char) {
        let rune = || {
            let code = u32::try_from(size).ok().filter(|_| !is_negative).and_then(char::from_u32);
            code.unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        match verb {
            'b' | 'd' | 'o' | 'O' | 'v' | 'x' | 'X' => {
                let text = number::integer(size, is_negative, verb, &self.flags);
                self.pad_with_spaces(&text.unwrap_or_default());
            }
            'c' => self.pad(rune().encode_utf8(&mut [0; 4])),
            'q' => {
                let text = rune().to_string();
                self.pad(&quote::quoted(&text, '\'', self.flags.plus));
            }
            'U' => {
                let code = if is_negative { size.wrapping_neg() } else { size };
                let digits = self.flags.precision.unwrap_or(4).max(4);
                let shown = u32::try_from(code).ok().and_then(char::from_u32);
                let shown = shown.filter(|c| self.flags.sharp && quote::is_printed(*c));
                let shown = shown.map_or_else(String::new, |c| format!(" '{c}'"));
                self.pad_with_spaces(&format!(
                    "U+{}{shown}",
                    number::with_zeros(format!("{code:X}"), digits)
                ));
            }
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                let number = size as f64;
                self.float(if is_negative { -number } else { number }, value, verb);
            }
            _ => self.bad_verb(value, verb),
        }
    }

    fn float(&mut self, number: f64, value: &Value, verb: char) {
        let (form, precision) = match verb {
            'v' => ('g', None),
            'b' | 'g' | 'G' | 'x' | 'X' => (verb, None),
            'e' | 'E' | 'f' => (verb, Some(6)),
            'F' => ('f', Some(6)),
            'd' if number.fract() == 0.0 && number.abs() < 9e15 => {
                return self.integer(number.abs() as u64, number < 0.0, value, verb);
            }
            _ => return self.bad_verb(value, verb),
        };
        let sign = match (number.is_sign_negative(), self.flags.plus, self.flags.space) {
            (true, _, _) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        };
        if number.is_nan() {
            return self.pad_with_spaces(&format!("{}NaN", sign.trim_start_matches('-')));
        }
        if number.is_infinite() {
            return self.pad_with_spaces(&format!("{}Inf", if sign.is_empty() { "+" } else { sign }));
        }
        let precision = self.flags.precision.or(precision);
        let mut text = number::float(number.abs(), form, precision);
        if self.flags.sharp && form != 'b' {
            text = number::with_point(&text, form, precision);
        }
        // Zeros stand between the sign and the digits.
        let missing = self.flags.width.unwrap_or(0).saturating_sub(text.len() + sign.len());
        if !sign.is_empty() && self.flags.zero && !self.flags.minus {
            self.push(sign);
            self.fill(missing);
            self.push(&text);
        } else {
            self.pad(&format!("{sign}{text}"));
        }
    }

    /// Writes the mark of a value that its verb does not take.
    fn bad_verb(&mut self, value: &Value, verb: char) {
        self.push(&format!("%!{verb}("));
        self.with_type(value);
        self.push(")");
    }

    fn with_type(&mut self, value: &Value) {
        if matches!(value, Value::Nil) {
            return self.push("<nil>");
        }
        self.push(type_name(value));
        self.push("=");
        self.value(value, 'v', false);
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Uint(_) => "uint64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) => "map[string]interface {}",
        Value::Function(_) => "func",
    }
}

#[cfg(test)]
mod tests;
