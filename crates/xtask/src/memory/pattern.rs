//! A large file of known contents, in which every block is different.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rt::split_mix::GAMMA;

const CHUNK_BYTES: usize = 1 << 20;
const WORD_BYTES: usize = size_of::<u64>();

/// Writes the file.
pub(super) fn write(path: &Path, size: u64) -> Result<()> {
    let name = || path.display().to_string();
    let mut file = File::create(path).with_context(name)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < size {
        let count = fill(&mut buffer, at, size);
        file.write_all(&buffer[..count]).with_context(name)?;
        at += count as u64;
    }
    file.sync_all().with_context(name)
}

/// Checks that a file has the written contents.
pub(super) fn check(path: &Path, size: u64) -> Result<()> {
    let name = || path.display().to_string();
    let mut file = File::open(path).with_context(name)?;
    let has = file.metadata().with_context(name)?.len();
    ensure!(
        has == size,
        "{}: came out with {has} bytes instead of {size}",
        name()
    );
    let (mut expected, mut found) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let mut at = 0;
    while at < size {
        let count = fill(&mut expected, at, size);
        file.read_exact(&mut found[..count]).with_context(name)?;
        ensure!(
            expected[..count] == found[..count],
            "{}: differs within 1 MiB of byte {at}",
            name()
        );
        at += count as u64;
    }
    Ok(())
}

/// Fills the buffer with the contents at offset `at`. Returns the number of bytes within the file.
fn fill(buffer: &mut [u8], at: u64, size: u64) -> usize {
    for (word, index) in buffer
        .chunks_exact_mut(WORD_BYTES)
        .zip(at / WORD_BYTES as u64..)
    {
        word.copy_from_slice(&index.wrapping_mul(GAMMA).to_le_bytes());
    }
    usize::try_from(size - at).map_or(buffer.len(), |left| left.min(buffer.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found_and_damage_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let size = CHUNK_BYTES as u64 + 12_345;
        write(&path, size).expect("written");
        check(&path, size).expect("the same");
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[CHUNK_BYTES + 5] ^= 1;
        std::fs::write(&path, bytes).expect("damaged");
        assert!(check(&path, size).is_err());
        assert!(check(&path, size - 1).is_err());
    }
}
