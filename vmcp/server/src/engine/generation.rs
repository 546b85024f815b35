//! Numbers that say which lists changed since when.

/// What clients may list, as of some moment. Each kind holds the number of the generation in which it last changed, so
/// that a reader who missed some generations still knows which kinds changed since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Generation {
    /// Counts changes of any kind.
    pub number: u64,
    /// Last change of `tools/list`.
    pub tools: u64,
    /// Last change of `resources/list` or `resources/templates/list`.
    pub resources: u64,
    /// Last change of `prompts/list`.
    pub prompts: u64,
}

impl Generation {
    /// Notes which of tools, resources and prompts changed; returns whether any did.
    pub(super) fn advance(&mut self, [tools, resources, prompts]: [bool; 3]) -> bool {
        let any = tools || resources || prompts;
        self.number += u64::from(any);
        for (changed, last) in
            [(tools, &mut self.tools), (resources, &mut self.resources), (prompts, &mut self.prompts)]
        {
            if changed {
                *last = self.number;
            }
        }
        any
    }
}
