//! Estimate of the tokens that a tool definition costs a model: a quarter of its characters.
//!
//! It is the one estimator of vmcp: savings, budgets and metrics all use it, so that their numbers can be
//! compared.

/// Returns the characters that count: those of the name, of the description and of the schema as JSON without
/// spaces.
pub fn size(name: &str, description: &str, schema_characters: u32) -> u32 {
    let characters = name.chars().count() + description.chars().count();
    u32::try_from(characters).unwrap_or(u32::MAX).saturating_add(schema_characters)
}

/// Returns the tokens of a whole list, given the [`size`] of each of its tools. The sum is rounded up once,
/// not tool by tool.
///
/// # Examples
///
/// ```
/// use vmcp_model::tokens::{estimate, size};
///
/// let tool = size("fetch", "Get a page.", 26);
/// assert_eq!(tool, 42);
/// assert_eq!(estimate([tool]), 11);
/// assert_eq!(estimate([tool, tool]), 21);
/// ```
pub fn estimate(sizes: impl IntoIterator<Item = u32>) -> u64 {
    sizes.into_iter().map(u64::from).sum::<u64>().div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formula() {
        let one = size(&"n".repeat(12), &"d".repeat(40), 2);
        assert_eq!(estimate([one]), 14, "13.5 rounded up");
        assert_eq!(estimate([one, one]), 27, "27.0: the sum is rounded, not its parts");
        assert_eq!(estimate([]), 0);
        assert_eq!(size("é", "日本", 0), 3, "characters, not bytes");
    }
}
