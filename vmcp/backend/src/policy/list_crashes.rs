//! [`ListCrashes`]: lists over which a server ends. A program that dies over one list would else be started
//! and asked again for ever.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use vmcp_wire::lists::pages::List;

/// Time for which a list is left out over which the server ended twice; then it is asked for again.
const LEFT_OUT_FOR: Duration = Duration::from_hours(1);

/// Decision about one list of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListCaution {
    /// Asked for beside others.
    None,
    /// The server ended while this list and perhaps others were awaited: asked for alone.
    Suspect,
    /// The server ended over this list twice: left out.
    Deadly,
}

/// Ends of a server by the lists that were awaited then.
#[derive(Debug, Default)]
pub(crate) struct ListCrashes(Mutex<HashMap<List, Crash>>);

#[derive(Clone, Copy, Debug)]
enum Crash {
    /// One end, over this list or another.
    Once,
    /// An end over this list alone, at this time.
    Alone(Instant),
}

impl ListCrashes {
    pub(crate) fn caution(&self, list: List, now: Instant) -> ListCaution {
        match self.0.lock().get(&list) {
            None => ListCaution::None,
            Some(Crash::Alone(since)) if now.saturating_duration_since(*since) < LEFT_OUT_FOR => {
                ListCaution::Deadly
            }
            Some(_) => ListCaution::Suspect,
        }
    }

    /// Records that the server ended while `list` was awaited.
    pub(crate) fn ended_over(&self, list: List, now: Instant) {
        let crash = match self.caution(list, now) {
            ListCaution::None => Crash::Once,
            ListCaution::Suspect | ListCaution::Deadly => Crash::Alone(now),
        };
        self.0.lock().insert(list, crash);
    }

    /// Records that the server answered for `list`.
    pub(crate) fn outlived(&self, list: List) {
        self.0.lock().remove(&list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_over_which_the_server_ends_twice_is_left_out_for_a_while() {
        let (crashes, now) = (ListCrashes::default(), Instant::now());
        let of = |list, at| crashes.caution(list, at);
        crashes.ended_over(List::Prompts, now);
        crashes.ended_over(List::Resources, now);
        assert_eq!(of(List::Prompts, now), ListCaution::Suspect);
        crashes.outlived(List::Prompts);
        crashes.ended_over(List::Resources, now);
        assert_eq!(of(List::Prompts, now), ListCaution::None);
        assert_eq!(of(List::Resources, now), ListCaution::Deadly);
        let later = now + LEFT_OUT_FOR;
        assert_eq!(of(List::Resources, later), ListCaution::Suspect, "it may be mended");
        crashes.ended_over(List::Resources, later);
        assert_eq!(of(List::Resources, later), ListCaution::Deadly);
    }
}
