//! State of calls that modern clients carry sealed from one request to the next, and the calls and consents
//! that it names.

pub(super) mod consents;
pub(super) mod parked;
pub(super) mod relayed_state;
