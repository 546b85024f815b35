//! How many tokens a tool definition costs a model, roughly: a quarter of its characters (DTD-21).
//!
//! The one estimator of the system: savings, budgets and metrics all use it, so that their numbers can be compared.

/// Characters that count: those of the name, of the description and of the schema as JSON without spaces.
pub fn size(name: &str, description: &str, schema_characters: u32) -> u32 {
    let characters = name.chars().count() + description.chars().count();
    u32::try_from(characters).unwrap_or(u32::MAX).saturating_add(schema_characters)
}

/// Tokens of a whole list, given the [`size`] of each of its tools. The sum is rounded up once, not tool by tool.
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
