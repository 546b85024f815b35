//! Randomness.

/// Returns random bytes from the operating system's generator.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[expect(
        clippy::expect_used,
        reason = "without randomness no token can be made safely; the system is broken"
    )]
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}
