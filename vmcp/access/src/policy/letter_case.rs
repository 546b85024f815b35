//! Letter case of arguments. Go's `encoding/json` and the web defaults of .NET take `Amount` for `amount`,
//! and of both the last one counts. A call is denied where a policy reads one spelling and the arguments hold
//! another.

use std::collections::HashSet;

use vmcp_wire::letter_case::folded;

use super::reads::Reads;
use super::values::Unreadable;
use crate::exact_json::{Entries, Json};

/// Reason of a denial.
const REASON: &str = "differs in letter case only from an argument that policies read, or from another one";

/// Checks that no argument differs in letter case only from an argument that policies read. In arguments that
/// are read, at any depth, also no two keys of an object may differ so.
pub(super) fn check(arguments: &Entries, reads: &Reads) -> Result<(), Unreadable> {
    if !reads.reads_arguments() {
        return Ok(());
    }
    let (read, nested) = (reads.folded_arguments(), reads.folded_nested());
    let mut seen = HashSet::new();
    for (key, value) in arguments {
        let folded = folded(key);
        let is_similar = read.contains(&*folded);
        // Most of many arguments are read by no policy, and cost a look-up.
        let is_read = reads.reads_key(key) || is_similar && reads.reads_argument(key);
        if !is_read && !is_similar {
            continue;
        }
        if !is_read || !seen.insert(folded) {
            return Err(unreadable(key));
        }
        check_value(value, reads, &nested)?;
    }
    Ok(())
}

fn check_value(value: &Json, reads: &Reads, nested: &HashSet<String>) -> Result<(), Unreadable> {
    match value {
        Json::List(items) => items.iter().try_for_each(|item| check_value(item, reads, nested)),
        Json::Object(entries) => {
            let mut seen = HashSet::new();
            for (key, entry) in entries {
                let folded = folded(key);
                let is_other = nested.contains(&*folded) && !reads.reads_nested(key);
                if is_other || !seen.insert(folded) {
                    return Err(unreadable(key));
                }
                check_value(entry, reads, nested)?;
            }
            Ok(())
        }
        Json::Null | Json::Flag(_) | Json::Number(_) | Json::Text(_) => Ok(()),
    }
}

fn unreadable(key: &str) -> Unreadable {
    Unreadable { name: key.to_owned(), reason: REASON }
}
