//! The gate that every vector passes before it leaves this crate: count, width and direction are checked,
//! then it is normalized.

pub(crate) mod answered_vector;

/// Checks that `vectors` answers `expected` texts with vectors of one width (`width` if it is known), and
/// normalizes them. The error describes the defect, for the caller's own error.
pub(crate) fn checked(
    mut vectors: Vec<Vec<f32>>,
    expected: usize,
    width: Option<usize>,
) -> Result<Vec<Vec<f32>>, String> {
    if vectors.len() != expected {
        return Err(format!("{} vectors for {expected} texts", vectors.len()));
    }
    let Some(width) = width.or_else(|| vectors.first().map(Vec::len)) else { return Ok(vectors) };
    for (at, vector) in vectors.iter_mut().enumerate() {
        if vector.len() != width || width == 0 {
            return Err(format!("vector {at} has {} dimensions instead of {width}", vector.len()));
        }
        if !normalize(vector) {
            return Err(format!("vector {at} has no direction: all zero, infinite or not a number"));
        }
    }
    Ok(vectors)
}

/// True if a vector can be scaled to length 1: it is neither zero nor infinite, and has no NaN.
pub(crate) fn has_direction(vector: &[f32]) -> bool {
    length(vector).is_some()
}

/// Returns the length of a vector that has a direction.
fn length(vector: &[f32]) -> Option<f64> {
    // In f64: the squares of large components overflow f32.
    let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    Some(norm).filter(|norm| norm.is_finite() && *norm > 0.0)
}

/// Scales a vector to length 1. Returns false, and leaves it unchanged, if that is impossible.
fn normalize(vector: &mut [f32]) -> bool {
    let Some(norm) = length(vector) else { return false };
    for x in vector {
        *x = (f64::from(*x) / norm) as f32;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::checked;

    #[test]
    fn vectors_are_normalized() {
        assert_eq!(checked(vec![vec![3.0, 4.0]], 1, None), Ok(vec![vec![0.6, 0.8]]));
    }

    #[test]
    fn huge_components_do_not_overflow() {
        let vectors = checked(vec![vec![3e30, 4e30]], 1, None).unwrap();
        assert!((vectors[0][0] - 0.6).abs() < 1e-6 && (vectors[0][1] - 0.8).abs() < 1e-6, "{vectors:?}");
    }

    #[test]
    fn a_missing_vector_a_wrong_width_and_no_direction_are_refused() {
        assert!(checked(vec![vec![1.0]], 2, None).unwrap_err().contains("1 vectors for 2 texts"));
        assert!(checked(vec![vec![1.0, 0.0], vec![1.0]], 2, None).unwrap_err().contains("1 dimensions"));
        assert!(checked(vec![vec![1.0, 0.0]], 1, Some(3)).unwrap_err().contains("instead of 3"));
        assert!(checked(vec![vec![]], 1, None).is_err());
        assert!(checked(vec![vec![0.0, 0.0]], 1, None).is_err());
        assert!(checked(vec![vec![f32::NAN, 0.0]], 1, None).is_err());
    }

    #[test]
    fn no_texts_no_vectors() {
        assert_eq!(checked(vec![], 0, Some(3)), Ok(vec![]));
    }
}
