//! The parts of a file that are data and not holes. There may be millions of them: some are in
//! memory, the others in a temporary file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;

use super::paged::Paged;

/// Memory of the parts of a file, in bytes.
const MEMORY: usize = 1 << 20;

/// Parts as offset and length in bytes, in ascending order. A clone is the same list.
#[derive(Debug, Clone)]
pub struct Parts(Arc<Mutex<Paged<[u64; 2]>>>);

impl Default for Parts {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Paged::new(MEMORY))))
    }
}

impl Parts {
    /// Returns a list of these parts.
    pub(crate) fn of(parts: &[(u64, u64)]) -> Result<Self> {
        let list = Self::default();
        parts.iter().try_for_each(|part| list.push(*part))?;
        Ok(list)
    }

    /// Adds a part.
    pub(crate) fn push(&self, (offset, length): (u64, u64)) -> Result<()> {
        self.lock().push([offset, length])
    }

    /// Returns the number of parts.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Returns the parts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<(u64, u64)>> + '_ {
        (0..self.count()).map(|number| {
            let [offset, length] = self.lock().get(number)?;
            Ok((offset, length))
        })
    }

    /// Returns the end of the last part.
    pub(crate) fn end(&self) -> Result<u64> {
        let last = self.count().checked_sub(1);
        let last = last.map_or(Ok([0, 0]), |last| self.lock().get(last));
        last.map(|[offset, length]| offset + length)
    }

    fn lock(&self) -> MutexGuard<'_, Paged<[u64; 2]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_parts_than_memory_holds_are_kept() {
        let parts = Parts::default();
        assert_eq!(parts.end().expect("none"), 0);
        let all = || (0..300_000).map(|number| (number * 8192, 512));
        all()
            .try_for_each(|part| parts.push(part))
            .expect("there is room");
        let found: Result<Vec<_>> = parts.iter().collect();
        assert!(all().eq(found.expect("they are there")));
        assert_eq!(parts.end().expect("the last"), 299_999 * 8192 + 512);
    }
}
