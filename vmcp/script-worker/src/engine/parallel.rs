//! `parallel([...])`: calls of tools that are collected first, then made at the same time.
//!
//! A part of it is Python, which runs before the script: it calls the functions of the list. Meanwhile each
//! call of a tool is collected and returns a placeholder, whose value is there when `parallel` returns.

use monty_types::{DictPairs, MontyClassInstance, MontyClassType, MontyObject, MontyUuid};

use vmcp_script::protocol::HostCall;

/// Begins to collect.
pub(super) const BEGIN: &str = "__parallel_begin";
/// Ends collecting without a call, after an exception.
pub(super) const CANCEL: &str = "__parallel_cancel";
/// Makes the collected calls; takes the list of placeholders.
pub(super) const END: &str = "__parallel_end";

/// Defines `parallel`. Its items: `lambda: github.get_issue(number=1)`, or `(github.get_issue, {"number": 1})`.
pub(super) const PRELUDE: &str = r"
def parallel(calls):
    __parallel_begin()
    pending = []
    try:
        for call in list(calls):
            if isinstance(call, tuple):
                pending.append(call[0](**(call[1] if len(call) > 1 else {})))
            else:
                pending.append(call())
    except BaseException:
        __parallel_cancel()
        raise
    return __parallel_end(pending)
";

/// High half of a placeholder's id.
const MARK: u128 = 0x5061_7261_6c6c_656c << 64;

/// Returns the placeholder of the collected call at this place.
pub(super) fn placeholder(place: usize) -> MontyObject {
    instance("PendingResult", MARK | place as u128)
}

/// Returns the place of a placeholder.
pub(super) fn place(value: &MontyObject) -> Option<usize> {
    let MontyObject::ClassInstance(instance) = value else { return None };
    let id = u128::from_be_bytes(*instance.instance_id.as_bytes());
    (id >> 64 == MARK >> 64).then(|| usize::try_from(id ^ MARK).ok()).flatten()
}

/// Returns an object of the host with this number.
pub(super) fn instance(class: &str, id: u128) -> MontyObject {
    let class_type = MontyClassType {
        name: class.to_owned(),
        id: MontyUuid::from_u128(id | 1 << 127),
        host_defined: true,
        is_dataclass: false,
        attrs: DictPairs::from(Vec::new()),
    };
    let attrs = DictPairs::from(Vec::new());
    MontyObject::ClassInstance(Box::new(MontyClassInstance {
        class_type,
        instance_id: MontyUuid::from_u128(id),
        attrs,
    }))
}

/// The state of `parallel`.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// `Some` while calls are collected.
    pub(super) calls: Option<Vec<HostCall>>,
}
