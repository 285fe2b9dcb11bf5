//! Aligned memory for direct I/O, for which the kernel requires addresses that are multiples of the
//! sector size.

/// Alignment in bytes that satisfies every device and file system.
const ALIGNMENT: usize = 4096;

/// An aligned buffer that grows on demand.
#[derive(Debug, Default)]
pub(crate) struct AlignedBuffer(Vec<u8>);

impl AlignedBuffer {
    /// Returns `length` bytes; their contents are arbitrary.
    pub(crate) fn get(&mut self, length: usize) -> &mut [u8] {
        if self.0.len() < length + ALIGNMENT {
            self.0.resize(length + ALIGNMENT, 0);
        }
        let start = self.0.as_ptr().align_offset(ALIGNMENT);
        &mut self.0[start..start + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_at_every_size() {
        let mut buffer = AlignedBuffer::default();
        for length in [0, 1, 512, 100_000, 7, 1 << 20] {
            let piece = buffer.get(length);
            assert_eq!(piece.len(), length);
            assert_eq!(piece.as_ptr().align_offset(ALIGNMENT), 0, "{length}");
        }
    }
}
