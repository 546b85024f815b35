//! Oracles of the fuzz targets: slower code that is simpler than what it checks.

pub mod strict {
    //! A scanner of answers that looks at every byte.

    mod grammar;
    mod scanner;

    pub use scanner::{Refused, scan};
}
