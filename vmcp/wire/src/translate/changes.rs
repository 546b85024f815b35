//! [`ResultRules`]: the changes that a result needs on its way to a client, as cuts and insertions in the
//! received bytes.

use smallvec::SmallVec;

use super::{ResultPlan, ResultType};
use crate::message::era::Era;
use crate::message::methods;
use crate::message::{keys::CACHE_SCOPE, keys::RESULT_TYPE, keys::TTL_MS};
use crate::message::{meta::META, meta::SERVER_INFO};
use crate::payload::{Change, Key, ScannedKeys};

const COMPLETE: &str = r#""complete""#;

/// The rules of one pairing of eras for the results of one method.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResultRules<'a> {
    plan: ResultPlan<'a>,
    is_cacheable: bool,
    is_tool_call: bool,
}

impl<'a> ResultRules<'a> {
    pub(super) fn new(method: &str, plan: &ResultPlan<'a>) -> Self {
        Self {
            plan: *plan,
            is_cacheable: methods::is_cacheable(method),
            is_tool_call: method == methods::TOOLS_CALL,
        }
    }

    /// True if no result is changed.
    pub(super) fn change_nothing(&self) -> bool {
        (self.plan.from, self.plan.to) == (Era::Legacy, Era::Legacy)
    }

    /// True if a result of the type can be forwarded. A legacy result has no type.
    pub(super) fn allow(&self, result_type: &ResultType<'_>) -> bool {
        self.plan.from == Era::Legacy || *result_type == ResultType::Complete
    }

    /// True if the key's entry, which the result has, is cut out.
    pub(super) fn removes(&self, found: &ScannedKeys, key: Key) -> bool {
        if (self.plan.from, self.plan.to) != (Era::Modern, Era::Legacy) {
            return false;
        }
        match key {
            Key::ResultType | Key::ServerInfo | Key::SubscriptionId => true,
            Key::TtlMs | Key::CacheScope => self.is_cacheable,
            // Earlier revisions know objects only, and their clients refuse the whole result for any other
            // value. Servers repeat the data as text content.
            Key::StructuredContent => self.is_tool_call && !found.is_object(key),
            // Metadata that become empty go as a whole.
            Key::Meta => {
                let loses = found.has(Key::ServerInfo) || found.has(Key::SubscriptionId);
                loses && !found.has_others(Key::Meta)
            }
            _ => false,
        }
    }

    /// True if the metadata, as far as they were read, may become empty.
    pub(super) fn may_empty_meta(&self, found: &ScannedKeys) -> bool {
        (self.plan.from, self.plan.to) == (Era::Modern, Era::Legacy) && !found.has_others(Key::Meta)
    }

    /// Returns the text that replaces the value of a key which the result has.
    pub(super) fn replaces(&self, found: &ScannedKeys, key: Key) -> Option<String> {
        match (self.plan.from, self.plan.to, key) {
            // A legacy result has no type; a key of that name would be data of the backend.
            (Era::Legacy, Era::Modern, Key::ResultType) => Some(COMPLETE.to_owned()),
            (_, Era::Modern, Key::Meta) if !found.is_object(key) => {
                self.plan.server_info.map(|info| format!("{{\"{SERVER_INFO}\":{info}}}"))
            }
            _ => None,
        }
    }

    /// Returns the changes of a result that has been read as far as `found` says, in the order of their
    /// places. What is missing is added at the closing brace, once that is known: `is_closed` tells for the
    /// result and its metadata.
    pub(super) fn changes(&self, found: &ScannedKeys, is_closed: impl Fn(Key) -> bool) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.change_nothing() {
            return changes;
        }
        let whole_meta = is_closed(Key::Meta) && found.has(Key::Meta) && self.removes(found, Key::Meta);
        let outer = [Key::ResultType, Key::TtlMs, Key::CacheScope, Key::StructuredContent];
        let outer = outer.into_iter().filter(|key| found.has(*key) && self.removes(found, *key));
        Self::cut(found, outer.chain(whole_meta.then_some(Key::Meta)), &mut changes);
        if !whole_meta {
            let inner = [Key::ServerInfo, Key::SubscriptionId];
            let inner = inner.into_iter().filter(|key| found.has(*key) && self.removes(found, *key));
            Self::cut(found, inner, &mut changes);
        }
        for key in [Key::ResultType, Key::Meta] {
            if let Some(range) = found.range(key).filter(|_| is_closed(key))
                && let Some(text) = self.replaces(found, key)
            {
                changes.push(Change { range, text });
            }
        }
        if self.plan.to == Era::Modern {
            self.add(found, is_closed, &mut changes);
        }
        changes.sort_by_key(|change| change.range.start);
        changes
    }

    /// Cuts out entries of one object, each with the comma that becomes superfluous.
    fn cut(found: &ScannedKeys, keys: impl Iterator<Item = Key>, changes: &mut Vec<Change>) {
        let mut places: SmallVec<[_; 5]> = keys.filter_map(|key| found.place(key)).collect();
        places.sort_by_key(|place| place.key);
        let mut next_first = None;
        for place in places {
            // The comma goes with the entry behind it; entries at the begin go up to the next key, so that
            // the object does not begin with a comma.
            let is_first = place.separator == place.key || next_first == Some(place.key);
            let range = if is_first {
                next_first = place.next;
                place.key..place.next.unwrap_or(place.value.end)
            } else {
                place.separator..place.value.end
            };
            changes.push(Change { range, text: String::new() });
        }
    }

    /// Adds what a modern client wants and the result does not have.
    fn add(&self, found: &ScannedKeys, is_closed: impl Fn(Key) -> bool, changes: &mut Vec<Change>) {
        let mut missing = Vec::new();
        let mut want = |key, name: &str, value: &dyn std::fmt::Display| {
            if !found.has(key) {
                missing.push(format!("\"{name}\":{value}"));
            }
        };
        want(Key::ResultType, RESULT_TYPE, &COMPLETE);
        if self.is_cacheable {
            let hints = self.plan.hints;
            want(Key::TtlMs, TTL_MS, &hints.ttl_ms);
            want(Key::CacheScope, CACHE_SCOPE, &format_args!("\"{}\"", hints.scope.as_str()));
        }
        let mut at_end = |key, entries: String| {
            if let Some(range) = found.range(key).filter(|range| is_closed(key) && !range.is_empty()) {
                let text = if found.has_entries(key) { format!(",{entries}") } else { entries };
                changes.push(Change { range: range.end - 1..range.end - 1, text });
            }
        };
        if let Some(info) = self.plan.server_info.filter(|_| !found.has(Key::ServerInfo)) {
            let info = format!("\"{SERVER_INFO}\":{info}");
            if !found.has(Key::Meta) {
                missing.push(format!("\"{META}\":{{{info}}}"));
            } else if found.is_object(Key::Meta) {
                at_end(Key::Meta, info);
            }
        }
        if !missing.is_empty() {
            at_end(Key::Result, missing.join(","));
        }
    }
}
