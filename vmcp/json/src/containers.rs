//! [`OpenContainers`]: the arrays and objects that are open at a place of a JSON text.

use smallvec::SmallVec;

/// A stack of one bit for each open array or object. Nesting is not limited: an eighth of a byte a level.
#[derive(Debug, Clone, Default)]
pub struct OpenContainers {
    /// Set for objects. 128 levels need no allocation.
    objects: SmallVec<[u64; 2]>,
    depth: usize,
}

impl OpenContainers {
    /// Returns the number of open containers.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Enters an array or object.
    pub fn push(&mut self, is_object: bool) {
        let bit = 1 << (self.depth % 64);
        match self.objects.get_mut(self.depth / 64) {
            Some(word) => *word = if is_object { *word | bit } else { *word & !bit },
            None => self.objects.push(u64::from(is_object)),
        }
        self.depth += 1;
    }

    /// Leaves the innermost container.
    pub fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// True if the innermost container is an object.
    #[must_use]
    pub fn in_object(&self) -> bool {
        let Some(level) = self.depth.checked_sub(1) else { return false };
        self.objects.get(level / 64).is_some_and(|word| word & (1 << (level % 64)) != 0)
    }
}
