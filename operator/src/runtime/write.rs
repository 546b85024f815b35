//! Calls of the API server: server-side apply of children, patches of statuses, reads of Secret values.
//!
//! Every call goes through [`Context::call`](super::Context::call): it has a timeout, is refused once the
//! lease is lost, and is counted if it writes. [`mod@rights`] is the table of all that is called.

mod admission_remedies;
mod api_calls;
mod apply;
mod child;
mod generated_secret;
mod rights;

mod status_patch;
mod values;

pub(crate) use self::admission_remedies::admission_remedy;
pub(crate) use self::api_calls::CALL_TIMEOUT;
pub use self::api_calls::CallError;
pub use self::apply::{Applied, ApplyError, Desired};
pub use self::child::Child;
pub(crate) use self::generated_secret::GeneratedSecret;
pub use self::rights::{Rights, Verb, rights};
