//! Allocation of all blocks of a new file at once, while a volume is being created.
//!
//! A program that creates a volume knows the length of each file before its data. So the file gets
//! its size and its blocks in one step, and its data never goes through the page cache: the caller
//! writes it to the device, in any order and from any thread. On a volume in use this would violate
//! the order of data and metadata; here a crash leaves a volume that is created again.

use std::sync::Arc;

use jbd2::Credits;
use layout::FileBlock;

use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::file::large_file::{hold_for_large_file, note_large_file};
use crate::file::live::check_changeable;
use crate::file::{Restored, inline};
use crate::map::FileMap;
use crate::xattr::CountedValues;

/// Sets the size of an empty file, allocates all of its blocks and restores its other fields.
/// Returns the blocks in file order.
///
/// # Errors
/// - [`Error::NoSpace`] and [`Error::FileTooLarge`]; the file stays empty.
/// - [`Error::Invalid`] if the file is not empty, or the volume is not being created.
pub(crate) fn lay_out(
    core: &Core,
    inode: &Arc<Inode>,
    size: u64,
    restored: &Restored,
) -> Result<Vec<Run>> {
    core.check_writable()?;
    if !core.options.is_being_made || core.journal.is_some() {
        return Err(Error::Invalid("the volume is not just being made"));
    }
    let mut state = inode.state.write();
    check_changeable(&state)?;
    if size > FileMap::of(&state).size_max(core) {
        return Err(Error::FileTooLarge);
    }
    if state.size > 0 {
        return Err(Error::Invalid("the file is not empty"));
    }
    let _claims = crate::quota::prepare(core, [restored.uid, restored.gid, state.project])?;
    let values = CountedValues::of(core, inode.nr, &state)?;
    let _table = core.hold_table(inode.nr)?;
    let _superblock = hold_for_large_file(core, size)?;
    let mut handle = core.begin(Credits::default())?;
    if state.is_inline() && size > 0 {
        inline::leave_empty(core, &mut handle, inode, &mut state)?;
    }
    let laid_out = allocate(core, &mut handle, inode, &mut state, size);
    core.discard_window(&inode.window);
    if laid_out.is_ok() {
        state.size = size;
        state.restore(restored);
        note_large_file(core, &mut handle, size)?;
    } else {
        FileMap::of(&state).free_from(core, &mut handle, inode, &mut state, FileBlock::new(0))?;
    }
    state.store(core, &mut handle, inode.nr, true)?;
    values.follow(core, &mut handle, &state)?;
    handle.finish()?;
    laid_out
}

fn allocate(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    size: u64,
) -> Result<Vec<Run>> {
    let count = size.div_ceil(u64::from(core.geometry().block_bytes));
    let mut runs = Vec::<Run>::new();
    let mut reached = 0;
    while reached < count {
        let wanted = u32::try_from(count - reached).unwrap_or(u32::MAX);
        let from = FileBlock::new(reached);
        let (run, _) =
            FileMap::of(state).find_or_allocate(core, handle, inode, state, from, wanted)?;
        reached += u64::from(run.count);
        match runs.last_mut() {
            Some(last) if last.end() == run.first => last.count += run.count,
            _ => runs.push(run),
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use layout::Block;
    use layout::time::InodeTime;

    use super::*;
    use testkit::Random;

    use crate::file::testing::{Bench, check, image};
    use crate::options::MountOptions;

    const RESTORED: Restored = Restored {
        permissions: 0o4751,
        uid: 1000,
        gid: 70_000,
        mtime: InodeTime::new(1_500_000_000, 5),
        other_times: InodeTime::new(1_700_000_000, 0),
    };

    fn being_made() -> MountOptions {
        MountOptions {
            is_being_made: true,
            ..MountOptions::default()
        }
    }

    #[test]
    fn data_that_goes_past_the_cache_is_the_files() {
        for (kind, features) in [
            ("ext2", "filetype"),
            ("ext3", "filetype"),
            ("ext4", "inline_data"),
        ] {
            let device = image(32 << 20, &["-t", kind, "-b", "1024", "-O", features]);
            let bench = Bench::open(device.clone(), being_made());
            // Sizes on both sides of each boundary of the block map.
            for (number, blocks) in [0, 1, 11, 12, 13, 268, 269, 3000].into_iter().enumerate() {
                let size = blocks * 1024 + number as u64 * 100;
                let inode = bench.create(&format!("file-{number}"));
                let bytes = Random::new(number as u64).bytes(size as usize);
                let runs = lay_out(&bench.core, &inode, size, &RESTORED).expect("there is room");
                let mut rest = bytes.chunks(1024);
                for run in runs {
                    let pieces = rest.by_ref().take(run.count as usize).map(|piece| {
                        let mut block = Block::zeroed(1024);
                        block[..piece.len()].copy_from_slice(piece);
                        block.into_arc()
                    });
                    let at = run.first.get() * 1024;
                    bench
                        .core
                        .device
                        .write_blocks(at, pieces.collect())
                        .expect("it is memory");
                }
                assert!(rest.next().is_none());
                assert!(bench.read(&inode, 0, size as usize + 1) == bytes, "{size}");
                let state = inode.state.read();
                assert_eq!((state.permissions, state.mtime), (0o4751, RESTORED.mtime));
            }
            bench.close();
            check(&device);
        }
    }

    #[test]
    fn a_file_that_does_not_fit_stays_empty() {
        let device = image(8 << 20, &["-t", "ext2", "-b", "1024"]);
        let bench = Bench::open(device.clone(), being_made());
        let inode = bench.create("file");
        let before = bench.core.usage();
        let laid_out = lay_out(&bench.core, &inode, 9 << 20, &RESTORED);
        assert!(matches!(laid_out, Err(Error::NoSpace)));
        assert_eq!(bench.core.usage(), before);
        assert_eq!(inode.state.read().size, 0);
        bench.close();
        check(&device);
    }

    #[test]
    fn only_a_new_file_of_a_new_volume_is_laid_out() {
        let device = image(8 << 20, &["-t", "ext2", "-b", "1024"]);
        let bench = Bench::open(device.clone(), MountOptions::default());
        let inode = bench.create("file");
        let refused = |result| matches!(result, Err(Error::Invalid(_)));
        assert!(refused(lay_out(&bench.core, &inode, 10, &RESTORED)));
        bench.write(&inode, 0, b"x");
        bench.close();
        let bench = Bench::open(device, being_made());
        let inode = bench.create("other");
        bench.write(&inode, 0, b"x");
        assert!(refused(lay_out(&bench.core, &inode, 10, &RESTORED)));
        bench.close();
    }
}
