//! Legal and reserved names. Clients and model APIs accept different names; `[A-Za-z][A-Za-z0-9_-]{0,63}` is
//! legal for all of them, and a shorter name leaves room for a client's prefix.

use sha2::{Digest, Sha256};
use vmcp_config::rules::NameLength;

pub use vmcp_workflow::COMPOSITE;

/// Names of vmcp's own tools, without `optim.` or `optim_`: existing and planned ones, so that an upgrade
/// takes no name from a backend.
pub const OPTIM_TOOLS: [&str; 32] = [
    "add_mcp_server",
    "call_hook",
    "call_tool",
    "codex",
    "codex_archive_thread",
    "codex_list_threads",
    "disable_mcp_server",
    "enable_mcp_server",
    "execute_code",
    TOOL_SCRIPT,
    "find_tool",
    "get_tool_alternatives",
    "get_tool_metrics",
    "get_tool_schema",
    "import_mcp_server",
    "init_project",
    "install_server",
    "list_mcp_servers",
    "list_tools",
    "process_large_dataset",
    "read_mcp_resource",
    "read_result",
    "recommend_tools",
    "refresh_tools",
    "regenerate_embeddings",
    "remove_mcp_server",
    "reset_tool_metrics",
    "search_available_tools",
    "search_registry",
    "search_result",
    "search_tools",
    "set_context",
];

/// Name under which vmcp's own tool for scripts of ToolHive is listed, as ToolHive lists it.
const TOOL_SCRIPT: &str = "execute_tool_script";

/// Returns true if no backend may have this resolved name: everything under `optim.` and `composite.`,
/// `optim_` before one of [`OPTIM_TOOLS`], and `execute_tool_script`.
///
/// # Examples
///
/// ```
/// use vmcp_model::names::is_reserved;
///
/// assert!(is_reserved("optim.find_tool") && is_reserved("optim_find_tool"));
/// assert!(!is_reserved("optim_step") && !is_reserved("find_tool"));
/// ```
pub fn is_reserved(name: &str) -> bool {
    name == TOOL_SCRIPT
        || name.starts_with("optim.")
        || name.starts_with("composite.")
        || name.strip_prefix("optim_").is_some_and(|rest| OPTIM_TOOLS.contains(&rest))
}

/// Returns true if `name` fits `[A-Za-z][A-Za-z0-9_-]{0,63}`.
pub fn is_legal(name: &str) -> bool {
    name.len() <= NameLength::MAX
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(is_legal_byte)
}

fn is_legal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Returns the legal name closest to `text`: each other character becomes `_`, a name that does not begin
/// with a letter gets the prefix `t_`, and a name of more than `longest` bytes is cut and ends in a hash of
/// `identity`.
///
/// # Examples
///
/// ```
/// use vmcp_config::rules::NameLength;
/// use vmcp_model::names::{Identity, legal};
///
/// let identity = Identity { backend: "github", original: "repos/list.all" };
/// let longest = NameLength::default();
/// assert_eq!(legal("repos/list.all", &identity, longest), "repos_list_all");
/// assert_eq!(legal("2fa", &identity, longest), "t_2fa");
/// assert_eq!(legal(&"x".repeat(100), &identity, longest).len(), 50);
/// ```
pub fn legal(text: &str, identity: &Identity<'_>, longest: NameLength) -> String {
    if is_legal(text) && text.len() <= longest.bytes() {
        return text.to_owned();
    }
    let clean = clean(text);
    if clean.len() <= longest.bytes() { clean } else { hashed(&clean, identity, longest, 8) }
}

/// Returns a legal name from the beginning of `text` and `digits` hexadecimal digits of the hash of
/// `identity`, or as many as leave room for two characters.
pub(crate) fn hashed(text: &str, identity: &Identity<'_>, longest: NameLength, digits: usize) -> String {
    let clean = clean(text);
    let digits = digits.min(longest.bytes() - 3);
    // All characters are ASCII now, so that every cut is on a boundary.
    let stem = clean.get(..longest.bytes() - 1 - digits).unwrap_or(&clean);
    format!("{stem}_{}", identity.digits(digits))
}

fn clean(text: &str) -> String {
    let prefix = if text.starts_with(|c: char| c.is_ascii_alphabetic()) { "" } else { "t_" };
    let legal = |c: char| if c.is_ascii() && is_legal_byte(c as u8) { c } else { '_' };
    prefix.chars().chain(text.chars().map(legal)).collect()
}

/// Identity of a definition, whatever its name becomes: the source of the hash in its name.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// Backend that offers it.
    pub backend: &'a str,
    /// The backend's name for the definition.
    pub original: &'a str,
}

impl Identity<'_> {
    /// Returns the first `count` of 64 hexadecimal digits.
    fn digits(&self, count: usize) -> String {
        let mut hasher = Sha256::new();
        // Backend names contain no line break, so the two parts cannot be confused.
        hasher.update(self.backend);
        hasher.update("\n");
        hasher.update(self.original);
        hasher.finalize().iter().flat_map(|byte| [byte >> 4, byte & 15]).take(count).map(hex_digit).collect()
    }
}

fn hex_digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or('0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn longest(bytes: usize) -> NameLength {
        NameLength::new(bytes).unwrap()
    }

    fn legalised(text: &str) -> String {
        legal(text, &Identity { backend: "b", original: text }, longest(64))
    }

    #[test]
    fn legal_names_stay() {
        for name in ["a", "get_issue", "A-1_b", &"x".repeat(64)] {
            assert_eq!(legalised(name), name);
        }
    }

    #[test]
    fn others_become_legal() {
        assert_eq!(legalised("repos/list.all"), "repos_list_all");
        assert_eq!(legalised("2fa"), "t_2fa");
        assert_eq!(legalised("_x y"), "t__x_y");
        assert_eq!(legalised("größe"), "gr__e");
        assert_eq!(legalised(""), "t_");
        let (one, two) = (legalised(&"x".repeat(65)), legalised(&"x".repeat(66)));
        assert_eq!((one.len(), two.len()), (64, 64));
        assert_ne!(one, two);
    }

    #[test]
    fn a_name_leaves_room_for_the_prefix_of_a_client() {
        let text = "github_enterprise_list_pull_request_review_comments_of_a_user";
        let identity = Identity { backend: "github", original: text };
        let name = legal(text, &identity, NameLength::default());
        assert!(name.len() == 50 && name.starts_with("github_enterprise_list_pull_request_revie_"), "{name}");
        assert!(is_legal(&format!("mcp__vmcp__{name}")));
        assert_eq!(legal(text, &identity, longest(64)), text);
    }

    #[test]
    fn reserved() {
        for name in
            ["optim.find_tool", "optim.anything", "composite.x", "optim_find_tool", "execute_tool_script"]
        {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["find_tool", "optim_step", "composite_image", "a_optim_find_tool", "optimise.x"] {
            assert!(!is_reserved(name), "{name}");
        }
        assert!(OPTIM_TOOLS.is_sorted());
    }

    proptest! {
        #[test]
        fn always_legal(text in any::<String>(), digits in 0_usize..=32, bytes in 32_usize..=64) {
            let (identity, longest) = (Identity { backend: "", original: &text }, longest(bytes));
            for name in [legal(&text, &identity, longest), hashed(&text, &identity, longest, digits)] {
                prop_assert!(is_legal(&name) && name.len() <= bytes, "{}", name);
            }
        }
    }
}
