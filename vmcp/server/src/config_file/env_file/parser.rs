//! Parser of `.env` text. Values are literal: `$` stands for itself. An unreadable line costs that line
//! alone.

/// Variables of a `.env` file, and the lines that could not be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EnvFile {
    /// Names and values in the order of the file; of equal names the last one counts.
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) unreadable: Vec<UnreadableLine>,
}

/// A line that sets nothing. It is named by its number, never by its content, which may be a secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnreadableLine {
    /// Number of the line, from 1.
    pub(crate) line: usize,
    pub(crate) reason: &'static str,
}

const NO_ENTRY: &str = "not readable as NAME=value";
const OPEN_QUOTE: &str =
    "the quote at the beginning of the value is not closed, or text follows the closing one";
const NO_UTF8: &str = "not text in UTF-8";
const NUL: &str = "has a NUL character";

/// Parses the text of a `.env` file.
pub(crate) fn parse(text: &str) -> EnvFile {
    let mut file = EnvFile::default();
    // Windows editors begin a file with a byte order mark.
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut line = 1;
    while !rest.is_empty() {
        let (first, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let mut lines = 1;
        let mut next = after;
        match entry(first.trim(), rest) {
            Ok(None) => {}
            Ok(Some(Entry { name, value, remainder })) => {
                if let Some(remainder) = remainder {
                    let taken = rest.len() - remainder.len();
                    lines = rest.get(..taken).map_or(1, |taken| taken.matches('\n').count()).max(1);
                    next = remainder;
                }
                file.variables.push((name.to_owned(), value));
            }
            Err(reason) => file.unreadable.push(UnreadableLine { line, reason }),
        }
        line += lines;
        rest = next;
    }
    file
}

struct Entry<'a> {
    name: &'a str,
    value: String,
    /// The lines after the entry, if it took more than one.
    remainder: Option<&'a str>,
}

/// Reads the entry that begins with the trimmed line `first` of `text`; `None` for a line that sets nothing.
fn entry<'a>(first: &'a str, text: &'a str) -> Result<Option<Entry<'a>>, &'static str> {
    if first.is_empty() || first.starts_with('#') {
        return Ok(None);
    }
    let (exported, assignment) = match first.strip_prefix("export") {
        Some(rest) if rest.starts_with([' ', '\t']) => (true, rest.trim_start()),
        _ => (false, first),
    };
    let Some((name, value)) = assignment.split_once('=') else {
        // `export NAME` of a shell passes a variable on; it sets none.
        return if exported && is_name(assignment) { Ok(None) } else { Err(NO_ENTRY) };
    };
    let name = name.trim_end();
    if !is_name(name) {
        return Err(NO_ENTRY);
    }
    if value.contains('\0') {
        return Err(NUL);
    }
    let trimmed = value.trim_start();
    let (value, remainder) = match trimmed.chars().next().filter(|first| matches!(first, '"' | '\'')) {
        Some(quote) => quoted(quote, trimmed, text)?,
        None => (unquoted(value).to_owned(), None),
    };
    // Bytes that are not UTF-8 were read as replacement characters.
    if value.contains(char::REPLACEMENT_CHARACTER) {
        return Err(NO_UTF8);
    }
    Ok(Some(Entry { name, value, remainder }))
}

/// True for the name of a variable; dashes and dots are taken because files of other tools have them.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// Returns a value without quotes: it ends before a comment, which begins with white space and `#`.
fn unquoted(value: &str) -> &str {
    let comment = value
        .match_indices('#')
        .map(|(at, _)| at)
        .find(|at| value.get(..*at).is_some_and(|before| before.ends_with(char::is_whitespace)));
    value.get(..comment.unwrap_or(value.len())).unwrap_or(value).trim()
}

/// Reads a value in quotes, which may go on over lines. `line` is its first line from the quote on, `text`
/// everything from the beginning of that line.
fn quoted<'a>(quote: char, line: &str, text: &'a str) -> Result<(String, Option<&'a str>), &'static str> {
    if let Some((value, after)) = closed(quote, line)
        && is_end(after)
    {
        return Ok((value, None));
    }
    // JSON in double quotes and shell concatenation: the outer quotes enclose the whole value.
    let whole = unquoted(line);
    if let Some(inner) = whole.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
        return Ok((inner.replace(r"'\''", "'"), None));
    }
    let from = text.find(['"', '\'']).and_then(|at| text.get(at..)).unwrap_or_default();
    let (value, after) = closed(quote, from).ok_or(OPEN_QUOTE)?;
    let (end, remainder) = after.split_once('\n').unwrap_or((after, ""));
    if is_end(end) { Ok((value, Some(remainder))) } else { Err(OPEN_QUOTE) }
}

/// Reads up to the closing quote: text in double quotes has escapes, text in single quotes has none. Returns
/// the value, and the text after it.
fn closed(quote: char, text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text.strip_prefix(quote)?;
    loop {
        let at = rest.find([quote, '\\', '\r'])?;
        value.push_str(rest.get(..at)?);
        let mut after = rest.get(at..)?.chars();
        match after.next()? {
            found if found == quote => return Some((value, after.as_str())),
            '\\' if quote == '"' => match after.next()? {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                escaped @ ('"' | '\\' | '$' | '\'' | '`') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            // A line of a file of Windows ends as any other does.
            '\r' if after.as_str().starts_with('\n') => {}
            other => value.push(other),
        }
        rest = after.as_str();
    }
}

/// True if nothing but a comment follows a closing quote.
fn is_end(after: &str) -> bool {
    unquoted(after).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(line: &str) -> String {
        let file = parse(line);
        assert_eq!(file.unreadable, [], "{line:?}");
        let [(_, value)] = file.variables.as_slice() else { panic!("{line:?}: {file:?}") };
        value.clone()
    }

    #[test]
    fn values_are_what_people_mean() {
        for (line, expected) in [
            ("A=plain", "plain"),
            ("export A=exported", "exported"),
            ("export\tA=tab", "tab"),
            ("  A = spaced  ", "spaced"),
            ("A=", ""),
            ("A=   ", ""),
            ("A=two words", "two words"),
            ("A=trailing   ", "trailing"),
            ("A=a=b=c", "a=b=c"),
            (r#"A={"k": "v w", "n": [1]}"#, r#"{"k": "v w", "n": [1]}"#),
            (r"A=C:\new\table", r"C:\new\table"),
            ("A=it's", "it's"),
            (r#"A=say "x""#, r#"say "x""#),
            ("A=pa$$word", "pa$$word"),
            ("A=${HOME}/$HOME", "${HOME}/$HOME"),
            ("A=a#b", "a#b"),
            ("A=#b", "#b"),
            ("A=with # comment", "with"),
            ("A=with\t# comment", "with"),
            ("A= # comment", ""),
            ("A='single $HOME #x'", "single $HOME #x"),
            (r"A='C:\new'", r"C:\new"),
            ("A='x' # comment", "x"),
            ("A=\"x # y\"  # comment", "x # y"),
            (r#"A="double \"q\" \n line""#, "double \"q\" \n line"),
            (r#"A="p\$w $x \d""#, r"p$w $x \d"),
            (r#"A="{"k":"v"}""#, r#"{"k":"v"}"#),
            (r"A='it'\''s'", "it's"),
            ("A=\"it's\"", "it's"),
            ("A=''", ""),
            ("A=ünï🚀", "ünï🚀"),
            ("MY-KEY=1", "1"),
            ("my.key=1", "1"),
        ] {
            assert_eq!(value(line), expected, "{line:?}");
            assert_eq!(value(&format!("{line}\r\n")), expected, "{line:?} with CRLF");
            assert_eq!(value(&format!("\u{feff}{line}\n")), expected, "{line:?} behind a byte order mark");
        }
    }

    #[test]
    fn a_quoted_value_goes_on_over_lines() {
        for text in ["A=\"one\ntwo\"\nB=b\n", "A='one\r\ntwo'\r\nB=b\r\n", "# x\n\nA = \"one\ntwo\" # c\nB=b"]
        {
            let file = parse(text);
            let expected = [("A", "one\ntwo"), ("B", "b")].map(|(n, v)| (n.to_owned(), v.to_owned()));
            assert_eq!(file.variables, expected, "{text:?}");
            assert_eq!(file.unreadable, [], "{text:?}");
        }
        assert_eq!(parse("A=\"1\n2\n3\"\nwrong\n").unreadable[0].line, 4);
    }

    #[test]
    fn an_unreadable_line_costs_itself_and_is_named_by_its_number() {
        for line in [
            "hunter2 is no entry",
            "hello",
            "=x",
            "1A=x",
            "MY KEY=x",
            "A=\"abc",
            "A='tis",
            "A=\"x\" y",
            "KEY: value",
            "A=caf\u{fffd}",
            "A=nul\0",
        ] {
            let text = format!("FIRST=a\n{line}\nLAST=\"last\"\n");
            let file = parse(&text);
            let expected = [("FIRST", "a"), ("LAST", "last")].map(|(n, v)| (n.to_owned(), v.to_owned()));
            assert_eq!(file.variables, expected, "{line:?}");
            assert_eq!(file.unreadable.len(), 1, "{line:?}");
            assert_eq!(file.unreadable[0].line, 2, "{line:?}");
        }
        assert_eq!(parse("# comment\n\n   # another\nexport A\n"), EnvFile::default());
    }
}
