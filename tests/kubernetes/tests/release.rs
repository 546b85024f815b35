//! Scenario of the life of a release of the chart. It is a binary of its own: it removes the operator that
//! other scenarios need.

#[cfg(test)]
mod scenario {
    mod release;
}
