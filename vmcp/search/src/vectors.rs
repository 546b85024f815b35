//! The tools' embeddings: one flat table of unit vectors, scanned linearly.
//!
//! A linear scan in `f32` is cheaper than embedding the query up to some 50,000 tools, so a graph index would
//! not pay.

/// Partial sums kept apart in a dot product. Float addition is not associative, so a plain sum cannot be
/// vectorized; sixteen independent sums can, and fill the registers of SSE2 as of AVX-512.
pub(crate) const LANES: usize = 16;

/// A table of unit vectors, one row per document; rows may be missing.
///
/// ```
/// use vmcp_search::Vectors;
///
/// let vectors = Vectors::from_rows(2, [Some(vec![3.0, 4.0]), None, Some(vec![1.0])]);
/// assert_eq!((vectors.count(), vectors.has(0), vectors.has(2)), (1, true, false));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    dims: usize,
    rows: Vec<f32>,
    present: Vec<bool>,
}

impl Vectors {
    /// Builds the table. Rows are normalized to unit length (L2), so that a dot product is a cosine. A row of
    /// another width, of length zero or with a value that is not finite counts as missing.
    pub fn from_rows(dims: usize, rows: impl IntoIterator<Item = Option<Vec<f32>>>) -> Vectors {
        let mut table = Vectors { dims, ..Vectors::default() };
        for row in rows {
            let unit = row.and_then(|row| normalized(&row, dims));
            table.present.push(unit.is_some());
            match unit {
                Some(unit) => table.rows.extend(unit),
                None => table.rows.resize(table.rows.len() + dims, 0.0),
            }
        }
        table
    }

    /// Width of a vector.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// Number of documents that have a vector.
    pub fn count(&self) -> usize {
        self.present.iter().filter(|present| **present).count()
    }

    /// True if a document has a vector.
    pub fn has(&self, document: usize) -> bool {
        self.present.get(document).copied().unwrap_or(false)
    }

    /// Returns the vector of a document, at unit length.
    pub fn row(&self, document: usize) -> Option<&[f32]> {
        let start = document.checked_mul(self.dims)?;
        self.rows.get(start..start.checked_add(self.dims)?).filter(|_| self.has(document))
    }

    /// Normalizes a query's vector for [`scan`](Vectors::scan); `None` when its width is not the table's.
    pub(crate) fn query(&self, vector: &[f32]) -> Option<Vec<f32>> {
        normalized(vector, self.dims)
    }

    /// Returns the cosine of every query with every listed document; `None` where either has no vector. Each
    /// row is read once for all queries: from some thousand tools on, the scan costs memory bandwidth.
    pub(crate) fn scan(&self, queries: &[Option<Vec<f32>>], documents: &[usize]) -> Vec<Vec<Option<f32>>> {
        let mut cosines: Vec<_> = queries.iter().map(|_| Vec::with_capacity(documents.len())).collect();
        for document in documents {
            let row = self.row(*document);
            for (query, cosines) in queries.iter().zip(&mut cosines) {
                cosines.push(query.as_ref().zip(row).map(|(query, row)| dot(query, row)));
            }
        }
        cosines
    }
}

/// Returns the vector at unit length, if it has the width `dims` and a direction.
pub(crate) fn normalized(vector: &[f32], dims: usize) -> Option<Vec<f32>> {
    let norm = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    let fit = vector.len() == dims && norm.is_finite() && norm > 0.0;
    fit.then(|| vector.iter().map(|value| (f64::from(*value) / norm) as f32).collect())
}

/// Returns the dot product, which of unit vectors is their cosine.
pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left, left_rest) = left.as_chunks::<LANES>();
    let (right, right_rest) = right.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (left, right) in left.iter().zip(right) {
        for ((sum, left), right) in sums.iter_mut().zip(left).zip(right) {
            *sum += left * right;
        }
    }
    let rest: f32 = left_rest.iter().zip(right_rest).map(|(left, right)| left * right).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_normalized_on_entry() {
        let vectors = Vectors::from_rows(2, [Some(vec![3.0, 4.0])]);
        assert_eq!(vectors.row(0), Some([0.6, 0.8].as_slice()));
    }

    #[test]
    fn unfit_rows_are_missing_and_shift_nobody() {
        let rows = [
            None,
            Some(vec![1.0]),
            Some(vec![0.0, 0.0]),
            Some(vec![f32::NAN, 1.0]),
            Some(vec![f32::INFINITY, 1.0]),
            Some(vec![0.0, 2.0]),
        ];
        let vectors = Vectors::from_rows(2, rows);
        assert_eq!(vectors.count(), 1);
        assert_eq!(vectors.row(4), None);
        assert_eq!(vectors.row(5), Some([0.0, 1.0].as_slice()));
        assert_eq!(vectors.row(6), None);
        assert_eq!(vectors.query(&[1.0, 0.0, 0.0]), None);
    }

    #[test]
    fn the_lanes_give_the_plain_dot_product() {
        for length in [0, 1, 15, 16, 17, 384, 391] {
            let left: Vec<f32> = (0..length).map(|i| (i as f32 * 0.37).sin()).collect();
            let right: Vec<f32> = (0..length).map(|i| (i as f32 * 0.91).cos()).collect();
            let plain: f64 = left.iter().zip(&right).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!((f64::from(dot(&left, &right)) - plain).abs() < 1e-4, "length {length}");
        }
    }

    #[test]
    fn only_listed_documents_are_scanned() {
        let vectors = Vectors::from_rows(2, [Some(vec![1.0, 0.0]), None, Some(vec![0.0, 1.0])]);
        let queries = [vectors.query(&[0.0, 5.0]), None];
        assert_eq!(vectors.scan(&queries, &[1, 2, 9]), [[None, Some(1.0), None], [None; 3]]);
    }
}
