//! [`FileShares`]: the part of a file that events of one principal may take. Events beyond it go to a second
//! series of files, so that no principal makes the events of others be rotated away.

use std::collections::HashMap;

use super::event::queued_event::ShareKey;

/// Part of a file for one principal's events.
const SHARE_OF_EVENTS: u64 = 10;
/// Part of a file for one principal's denials, beside its other events: its calls leave room for its denials.
const SHARE_OF_DENIALS: u64 = 20;
/// Principals that are counted by themselves in one file, about 1 MiB; further ones share one count.
const MAX_COUNTED: usize = 16_384;

/// A principal, and true for its denials.
type Counted = (ShareKey, bool);

/// Bytes of events in the present file, by principal.
#[derive(Debug)]
pub(super) struct FileShares {
    max_file_bytes: u64,
    /// Bytes by principal, except those of `latest`.
    used: HashMap<Counted, u64>,
    /// The principal of the latest event, and its bytes: further events of it need no look-up.
    latest: Option<(Counted, u64)>,
    /// The only principal that has written so far, in files that were empty at the start.
    only: Option<ShareKey>,
    /// True once files hold events of several principals, or of an earlier process.
    has_others: bool,
}

impl FileShares {
    /// Counts for files of this size; `has_earlier`: files hold events already.
    pub(super) fn new(max_file_bytes: u64, has_earlier: bool) -> FileShares {
        FileShares { max_file_bytes, used: HashMap::new(), latest: None, only: None, has_others: has_earlier }
    }

    /// Counts an event of `bytes`; returns false if it is beyond its principal's share.
    pub(super) fn admit(&mut self, share: ShareKey, is_denial: bool, bytes: u64) -> bool {
        if share == ShareKey::Process {
            return true;
        }
        let only = *self.only.get_or_insert(share);
        self.has_others |= only != share;
        let part = if is_denial { SHARE_OF_DENIALS } else { SHARE_OF_EVENTS };
        let (max, has_others) = (self.max_file_bytes / part, self.has_others);
        let used = self.used_by((share, is_denial));
        if has_others && *used + bytes > max {
            return false;
        }
        *used += bytes;
        true
    }

    /// Returns the bytes of a principal, or of all those that are not counted by themselves.
    fn used_by(&mut self, wanted: Counted) -> &mut u64 {
        let latest = match self.latest.take() {
            Some(latest) if latest.0 == wanted => latest,
            before => {
                self.used.extend(before);
                let is_counted = self.used.len() < MAX_COUNTED || self.used.contains_key(&wanted);
                let key = if is_counted { wanted } else { (ShareKey::Strangers, wanted.1) };
                (key, self.used.remove(&key).unwrap_or(0))
            }
        };
        &mut self.latest.insert(latest).1
    }

    /// Begins to count for another file.
    pub(super) fn begin_file(&mut self) {
        self.used.clear();
        self.latest = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::Principal;

    fn of(address: &str) -> ShareKey {
        ShareKey::Principal(Principal::at(address).key())
    }

    #[test]
    fn a_principal_fills_a_tenth_of_a_file_and_its_denials_have_room_of_their_own() {
        let mut shares = FileShares::new(10_000, false);
        assert!(shares.admit(of("10.0.0.2"), false, 100));
        let taken = (0..100).filter(|_| shares.admit(of("10.0.0.1"), false, 100)).count();
        assert_eq!(taken, 10);
        let denials = (0..100).filter(|_| shares.admit(of("10.0.0.1"), true, 100)).count();
        assert_eq!(denials, 5);
        assert!(shares.admit(of("10.0.0.2"), false, 100), "others are not concerned");
        assert!(shares.admit(ShareKey::Process, false, 100_000));
        shares.begin_file();
        assert!(shares.admit(of("10.0.0.1"), false, 100));
    }

    #[test]
    fn principals_in_turns_have_their_own_counts() {
        let mut shares = FileShares::new(10_000, false);
        let mut taken = [0; 4];
        for _ in 0..20 {
            for (client, count) in taken.iter_mut().enumerate() {
                let is_denial = client % 2 == 1;
                *count += u32::from(shares.admit(of(&format!("10.0.0.{}", client / 2)), is_denial, 100));
            }
        }
        assert_eq!(taken, [10, 5, 10, 5]);
    }

    #[test]
    fn the_only_client_of_a_process_has_the_files_to_itself() {
        let mut alone = FileShares::new(10_000, false);
        assert!((0..1000).all(|_| alone.admit(of("10.0.0.1"), false, 100)));
        let mut after_others = FileShares::new(10_000, true);
        assert!(!(0..1000).all(|_| after_others.admit(of("10.0.0.1"), false, 100)));
    }
}
