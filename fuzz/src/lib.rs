//! Oracles of the fuzz targets: slower code that is simpler than the code it checks.

pub mod strict {
    //! A scanner of answers that looks at every byte.

    // The state machines of the scanner itself: they look at every byte, too.
    #[path = "../../../vmcp/wire/src/payload/grammar.rs"]
    mod grammar;
    mod scanner;

    pub use scanner::{Refused, scan};
}
