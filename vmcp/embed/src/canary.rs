//! The canary: a fixed text whose vector tells two models apart that have one name.
//!
//! A service names its model, but other weights, another pooling or another revision may hide behind the
//! name. The vector of one text shows all of them: the same model gives the same vector again, up to
//! rounding.

/// The text. Its vector depends on the weights, the pooling and the width, and on nothing else.
pub const CANARY: &str = "canary: a yellow songbird that miners carried underground to smell bad air";

/// Least cosine of two canary vectors of one model. Batches, threads and number formats move a cosine by less
/// than 1e-3; another pooling of the same weights moves it by far more.
pub const MIN_COSINE: f32 = 0.99;

/// True if both vectors, L2-normalized, are of one model: equal width and a cosine of at least
/// [`MIN_COSINE`].
pub fn same_model(one: &[f32], other: &[f32]) -> bool {
    let cosine: f32 = one.iter().zip(other).map(|(one, other)| one * other).sum();
    one.len() == other.len() && cosine >= MIN_COSINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_width_or_direction_is_another_model_and_rounding_is_not() {
        assert!(same_model(&[0.6, 0.8], &[0.6, 0.8]));
        assert!(same_model(&[0.6, 0.8], &[0.601, 0.799_25]));
        assert!(!same_model(&[0.6, 0.8], &[0.8, 0.6]));
        assert!(!same_model(&[0.6, 0.8], &[0.6, 0.8, 0.0]), "zeros behind are another width too");
        assert!(!same_model(&[f32::NAN, 0.8], &[0.6, 0.8]));
    }
}
