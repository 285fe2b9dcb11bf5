//! Bytes that are written once and read later: the first of them in memory, the rest in a file.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};

use crate::scratch;

/// Maximum number of bytes in memory.
const MEMORY_BYTES: usize = 16 << 20;

/// A list of byte strings that grows at its end.
#[derive(Debug, Default)]
pub(super) struct Store {
    memory: Vec<u8>,
    /// Contents after those in memory.
    file: Option<File>,
    length: u64,
}

impl Store {
    /// Adds bytes and returns their offset.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        let at = self.length;
        if self.file.is_none() && self.memory.len() + bytes.len() <= MEMORY_BYTES {
            self.memory.extend_from_slice(bytes);
        } else {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(scratch::file()?),
            };
            let in_file = at - self.memory.len() as u64;
            file.write_all_at(bytes, in_file)
                .with_context(scratch::folder)?;
        }
        self.length += bytes.len() as u64;
        Ok(at)
    }

    /// Reads bytes that one call of [`Self::append`] has added, or a part of them.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        match at.checked_sub(self.memory.len() as u64) {
            Some(in_file) => {
                let file = self.file.as_ref().with_context(scratch::folder)?;
                file.read_exact_at(into, in_file)
                    .with_context(scratch::folder)
            }
            None => {
                let found = self.memory.get(at as usize..at as usize + into.len());
                into.copy_from_slice(found.with_context(scratch::folder)?);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_memory_and_from_the_file() {
        let mut store = Store::default();
        let piece = |number: u8| vec![number; 1 << 20];
        let offsets: Vec<u64> = (0..20)
            .map(|number| store.append(&piece(number)).expect("there is room"))
            .collect();
        assert_eq!(store.memory.len(), MEMORY_BYTES);
        for (number, at) in (0..20).zip(offsets) {
            let mut found = vec![0; 1 << 20];
            store.read(at, &mut found).expect("it is there");
            assert!(found == piece(number), "{number}");
        }
        store.read(20 << 20, &mut [0]).expect_err("the end");
    }
}
