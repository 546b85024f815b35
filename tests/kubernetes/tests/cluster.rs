//! What needs pods that run, one module a theme. `make e2e` brings the cluster.

#[cfg(test)]
mod scenario {
    mod node;
}
