//! The latest calls. Results are not kept; of arguments the beginning, where audit events include them.

use std::sync::Arc;
use std::time::SystemTime;

use super::RecentEntries;
use super::call_entry::{CallEntry, RecentCall};
use super::traced::{TracedCall, WantedCall};
use crate::telemetry::calls::{CallObserver, CallRecord};

/// Most bytes of a call's arguments that are kept: 4 MB of all calls.
const MAX_ARGUMENT_BYTES: usize = 4 << 10;

/// Observer that keeps the latest calls.
#[derive(Debug, Default)]
pub struct RecentCalls(RecentEntries<Entry>);

/// A call of this process, or a kept one of a process before.
#[derive(Debug, Clone)]
enum Entry {
    Own(Arc<CallEntry>),
    Kept(Arc<RecentCall>),
}

impl RecentCalls {
    /// Returns the number to go on behind, and the calls from number `after` on.
    pub fn since(&self, after: u64, backend: Option<&str>) -> super::Batch<RecentCall> {
        let wanted = |entry: &Entry| backend.is_none_or(|name| entry.backend() == Some(name));
        let batch = self.0.since(after, wanted);
        super::Batch { next: batch.next, entries: batch.entries.iter().map(Entry::shown).collect() }
    }

    /// Adds calls of a process before this one, oldest first. They lose their numbers, because no facts but
    /// these are left of them.
    pub fn restore(&self, calls: Vec<RecentCall>) {
        for call in calls {
            self.0.push(Entry::Kept(Arc::new(RecentCall { id: None, ..call })));
        }
    }

    /// Returns the calls of this process from number `after` on, each with its number, the oldest first.
    pub fn entries(&self, after: u64) -> super::Batch<(u64, Arc<CallEntry>)> {
        let super::Batch { next, entries } = self.0.since(after, |entry| entry.own().is_some());
        let own = entries.iter().filter_map(Entry::own);
        super::Batch { next, entries: own.map(|entry| (entry.number, Arc::clone(entry))).collect() }
    }

    /// Returns the calls that `wanted` names, each with the calls within it; the oldest first.
    pub fn traced(&self, wanted: &WantedCall) -> Vec<TracedCall> {
        let all = self.entries(0).entries;
        let all = || all.iter().map(|(_, entry)| entry);
        let chosen: Vec<_> = all().filter(|entry| wanted.is(entry)).collect();
        let is_chosen = |entry: &Arc<CallEntry>| chosen.iter().any(|one| one.number == entry.number);
        let within = |entry: &Arc<CallEntry>| chosen.iter().any(|outer| entry.is_within(outer));
        let shown = all().filter_map(|entry| match (is_chosen(entry), within(entry)) {
            (true, _) => Some(entry.traced(false)),
            (false, true) => Some(entry.traced(true)),
            (false, false) => None,
        });
        shown.collect()
    }
}

impl Entry {
    /// Returns a call of this process.
    fn own(&self) -> Option<&Arc<CallEntry>> {
        match self {
            Entry::Own(entry) => Some(entry),
            Entry::Kept(_) => None,
        }
    }

    fn backend(&self) -> Option<&str> {
        match self {
            Entry::Own(entry) => entry.record.backend.as_deref(),
            Entry::Kept(call) => call.backend.as_deref(),
        }
    }

    fn shown(&self) -> RecentCall {
        match self {
            Entry::Own(entry) => entry.shown(),
            Entry::Kept(call) => RecentCall::clone(call),
        }
    }
}

impl CallObserver for RecentCalls {
    fn observe(&self, _: &CallRecord) {}

    fn keeps_records(&self) -> bool {
        true
    }

    fn keep(&self, record: &mut CallRecord) {
        let mut record = record.take();
        if let Some(arguments) = &mut record.arguments
            && arguments.text.len() > MAX_ARGUMENT_BYTES
        {
            *arguments = arguments.cut(MAX_ARGUMENT_BYTES);
        }
        let at = record.ended.unwrap_or_else(SystemTime::now);
        let mut entry = Arc::new(CallEntry { number: 0, at, record });
        self.0.push_numbered(move |number| {
            // The only reference.
            if let Some(entry) = Arc::get_mut(&mut entry) {
                entry.number = number;
            }
            Entry::Own(entry)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::Principal;
    use crate::telemetry::calls::Origin;

    #[test]
    fn texts_of_clients_are_kept_by_their_beginning() {
        let calls = RecentCalls::default();
        let record = CallRecord::begin(Principal::default(), None, Origin::Client);
        let uri = format!("file:///{}", "ä".repeat(1 << 20));
        let subject = Some(uri.into_boxed_str());
        calls.keep(&mut CallRecord { subject, method: "x/".repeat(1 << 20).into(), ..record });
        let kept = calls.entries(0).entries;
        let record = &kept[0].1.record;
        let subject = record.subject.as_deref().unwrap();
        assert!(subject.starts_with("file:///ää") && subject.ends_with('…'), "{subject}");
        assert!(subject.len() < 1_000 && record.method.len() < 1_000, "{}", subject.len());
    }
}
