//! The life of a release of the chart. A binary of its own: it takes away the operator that other scenarios need.

#[cfg(test)]
mod scenario {
    mod release;
}
