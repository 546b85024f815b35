//! Scripts as Jobs, with an API server of the test that starts the program of each Job's pod in a process of
//! this machine: CPython from the search path.

#[cfg(test)]
mod it {
    mod cluster;
    mod failures;
    mod scripts;
}
