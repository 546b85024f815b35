//! Reports to people: conditions in statuses, and one event for each transition of a condition.

mod conditions;
mod events;
mod failure_status;
mod pending_fields;
mod report;
mod validity;

pub use self::conditions::{Conditions, is_true};
pub(crate) use self::failure_status::{is_paused, report_failure, report_malformed, report_paused};
pub(crate) use self::pending_fields::{lacks_a_guard, set_pending, unfollowed};
pub(crate) use self::report::report;
pub(crate) use self::validity::set_valid;
