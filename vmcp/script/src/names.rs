//! Python names of servers and tools: `create-issue` is called as `create_issue`.

/// Keywords of Python, which cannot be names.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// True if `name` can be written as it is: letters, digits and `_` in ASCII, and no keyword.
pub fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    let begins = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    begins && characters.all(|next| next.is_ascii_alphanumeric() || next == '_') && !KEYWORDS.contains(&name)
}

/// Returns the Python name of a server or tool: every other character becomes `_`, a leading digit gets one
/// before it, a keyword one behind it. Two names may have the same Python name.
///
/// ```
/// use vmcp_script::names::python_name;
///
/// assert_eq!(python_name("create-issue"), "create_issue");
/// assert_eq!(python_name("7zip.list"), "_7zip_list");
/// assert_eq!(python_name("import"), "import_");
/// ```
pub fn python_name(name: &str) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    let mut python: String = name.chars().map(plain).collect();
    if python.starts_with(|first: char| first.is_ascii_digit()) || python.is_empty() {
        python.insert(0, '_');
    }
    if KEYWORDS.contains(&python.as_str()) {
        python.push('_');
    }
    python
}
