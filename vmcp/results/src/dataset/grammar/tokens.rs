//! Tokens of an operation: words, numbers, quoted texts, symbols.

/// A token with its spelling.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    /// As it was written, without quotes.
    pub(super) text: String,
    /// In lower case.
    pub(super) lower: String,
    pub(super) kind: TokenKind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TokenKind {
    Word,
    Number(f64),
    Quoted,
    Symbol,
}

/// Symbols, longer ones first.
const SYMBOLS: [&str; 14] = [">=", "<=", "!=", "<>", "==", "≥", "≤", "≠", ">", "<", "=", ",", "(", ")"];
/// Pairs of quotes.
const QUOTES: [(char, char); 5] = [('\'', '\''), ('"', '"'), ('`', '`'), ('“', '”'), ('‘', '’')];

/// Splits an operation. Other punctuation only separates.
pub(super) fn tokens(operation: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = operation;
    while let Some(first) = rest.chars().next() {
        if let Some((text, after)) = quoted(rest) {
            tokens.push(token(text, TokenKind::Quoted));
            rest = after;
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            tokens.push(token(symbol, TokenKind::Symbol));
            rest = rest.get(symbol.len()..).unwrap_or_default();
        } else if is_word(first) || is_signed_number(rest) {
            let end = rest.char_indices().skip(1).find(|(_, character)| !is_within_word(*character));
            let end = end.map_or(rest.len(), |(end, _)| end);
            let text = rest.get(..end).unwrap_or_default().trim_end_matches(['.', ':', '-', '\'', '/']);
            tokens.push(token(text, number(text).map_or(TokenKind::Word, TokenKind::Number)));
            rest = rest.get(text.len().max(1)..).unwrap_or_default();
        } else {
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        }
    }
    tokens
}

fn token(text: &str, kind: TokenKind) -> Token {
    Token { text: text.to_owned(), lower: text.to_lowercase().replace('’', "'"), kind }
}

/// Returns a quoted text and the rest. A quote without its partner is punctuation.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let first = text.chars().next()?;
    let (open, close) = QUOTES.into_iter().find(|(open, _)| *open == first)?;
    let inner = text.get(open.len_utf8()..)?;
    let (inner, after) = inner.split_once(close)?;
    (!inner.is_empty()).then_some((inner, after))
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$' | '@' | '#' | '/')
}

fn is_within_word(character: char) -> bool {
    is_word(character) || matches!(character, '.' | '-' | ':' | '\'' | '’' | '+')
}

fn is_signed_number(text: &str) -> bool {
    let mut characters = text.chars();
    matches!(characters.next(), Some('-' | '+'))
        && characters.next().is_some_and(|next| next.is_ascii_digit())
}

fn number(text: &str) -> Option<f64> {
    let plain = text.trim_start_matches('$');
    let is_numeric = plain.chars().next().is_some_and(|first| first.is_ascii_digit() || "+-".contains(first));
    plain.parse().ok().filter(|number: &f64| is_numeric && number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_split_into_words_numbers_quotes_and_symbols() {
        let split: Vec<_> =
            tokens("Filter 'first name' >=-1.5, e-mail contains \"@x.org\"; don't stop. 2024-01-02")
                .into_iter()
                .map(|token| (token.text, token.kind))
                .collect();
        let word = |text: &str| (text.to_owned(), TokenKind::Word);
        let symbol = |text: &str| (text.to_owned(), TokenKind::Symbol);
        assert_eq!(
            split,
            [
                word("Filter"),
                ("first name".to_owned(), TokenKind::Quoted),
                symbol(">="),
                ("-1.5".to_owned(), TokenKind::Number(-1.5)),
                symbol(","),
                word("e-mail"),
                word("contains"),
                ("@x.org".to_owned(), TokenKind::Quoted),
                word("don't"),
                word("stop"),
                word("2024-01-02"),
            ]
        );
    }

    #[test]
    fn any_text_is_split_to_its_end() {
        let mut random = fastrand::Rng::with_seed(3);
        let alphabet: Vec<char> = "a1 .-'\"`“’<>=!≥,()é😀:/$\u{0}".chars().collect();
        for _ in 0..50_000 {
            let length = random.usize(..16);
            let text: String = (0..length).filter_map(|_| random.choice(&alphabet)).collect();
            assert!(tokens(&text).len() <= length);
        }
    }
}
