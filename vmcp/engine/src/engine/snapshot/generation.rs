//! Generations: numbers from which a reader tells which lists changed since it last looked.

/// The state of the lists that clients see. Each kind holds the number of the generation in which it last
/// changed, so that a reader who missed some generations still knows which kinds changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Generation {
    /// Number of changes of any kind so far.
    pub number: u64,
    /// Last change of `tools/list`.
    pub tools: u64,
    /// Last change of `resources/list` or `resources/templates/list`.
    pub resources: u64,
    /// Last change of `prompts/list`.
    pub prompts: u64,
    /// Times of these last changes in this process, in milliseconds since 1970: tools, resources, prompts.
    pub changed_at: [u64; 3],
}

impl Generation {
    /// Records which of tools, resources and prompts changed at `now`, in milliseconds since 1970; returns
    /// true if any did.
    pub(in crate::engine) fn advance(&mut self, [tools, resources, prompts]: [bool; 3], now: u64) -> bool {
        let any = tools || resources || prompts;
        self.number += u64::from(any);
        let [tools_at, resources_at, prompts_at] = &mut self.changed_at;
        for (changed, last, at) in [
            (tools, &mut self.tools, tools_at),
            (resources, &mut self.resources, resources_at),
            (prompts, &mut self.prompts, prompts_at),
        ] {
            if changed {
                (*last, *at) = (self.number, now);
            }
        }
        any
    }

    /// Returns what a client knows that may have listed at any time since `since`, in milliseconds since
    /// 1970: a list that did not change since then as it is, any other one as unknown.
    #[must_use]
    pub fn as_known_since(mut self, since: u64) -> Generation {
        let [tools_at, resources_at, prompts_at] = self.changed_at;
        for (last, at) in [
            (&mut self.tools, tools_at),
            (&mut self.resources, resources_at),
            (&mut self.prompts, prompts_at),
        ] {
            // In doubt a list is announced once more.
            if at >= since {
                *last = u64::MAX;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_changed_after_a_session_began_is_unknown_to_it() {
        let mut now = Generation::default();
        now.advance([true, false, false], 10);
        assert_eq!(now.as_known_since(11), now);
        for since in [9, 10] {
            let known = now.as_known_since(since);
            assert!(known.tools != now.tools && known.prompts == now.prompts, "since {since}");
        }
    }
}
