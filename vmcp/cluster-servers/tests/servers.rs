//! Changes of servers by clients, against an API server of the test that keeps objects and a record of
//! requests.

#[cfg(test)]
mod it {
    mod changes;
    mod fake_api;
    mod refusals;
}
