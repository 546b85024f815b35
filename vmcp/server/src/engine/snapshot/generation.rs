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
}

impl Generation {
    /// Records which of tools, resources and prompts changed; returns true if any did.
    pub(in crate::engine) fn advance(&mut self, [tools, resources, prompts]: [bool; 3]) -> bool {
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
