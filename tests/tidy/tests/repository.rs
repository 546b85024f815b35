//! The checkout keeps the repository's rules.

use std::path::Path;

use vmcp_tidy::{CHECKS, Repository};

#[test]
fn the_checkout_keeps_every_rule() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let repository = Repository::open(&root).unwrap();
    assert!(repository.rust().count() > 300, "the checkout was not read");
    let mut broken = Vec::new();
    for (rule, check) in CHECKS {
        broken.extend(check(&repository).into_iter().map(|finding| format!("{rule}: {finding}")));
    }
    assert!(broken.is_empty(), "{} findings:\n{}", broken.len(), broken.join("\n"));
}
