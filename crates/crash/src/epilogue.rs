//! The epilogue: a recovered volume is used. Files are created in every directory, everything is
//! deleted, and then no inode may be left, and all blocks that were held must be free.

use std::collections::BTreeSet;

use ext::volume::{FileKind, NewInode};
use ext::{Error, Volume};
use layout::InodeNr;

use crate::observe::LOST_AND_FOUND;
use crate::rule::{Broken, Rule};

/// Size of the new files in bytes: more than a block.
const FILE_BYTES: usize = 1500;
/// The unit of [`ext::volume::Attributes::sectors`], in bytes.
const SECTOR_BYTES: u64 = 512;
/// A directory that is left untouched.
const LOST_AND_FOUND_PATH: &str = "lost+found";
/// The name of the new files.
const NAME: &[u8] = b"afterwards";

/// Uses a volume.
///
/// # Errors
/// - U7 if that fails or leaves something.
pub fn run(volume: &Volume) -> Result<(), Broken> {
    let failed = |error: Error| Broken::new(Rule::U7, format!("it cannot be used: {error}"));
    // Blocks that recovery has freed are free only when that is durable.
    volume.sync().map_err(failed)?;
    let blocks_before = blocks(volume).map_err(failed)?;
    let directories = directories(volume).map_err(failed)?;
    for directory in &directories {
        fill(volume, *directory).map_err(failed)?;
    }
    volume.sync().map_err(failed)?;
    for directory in directories.iter().rev() {
        empty(volume, *directory).map_err(failed)?;
    }
    volume.sync().map_err(failed)?;
    let usage = volume.usage();
    let superblock = volume.superblock();
    let raw = &superblock.raw;
    let own = [raw.orphan_file_inode, raw.project_quota_inode];
    let own = own.into_iter().filter(|nr| nr.get() != 0).count() as u32;
    let reserved = superblock.geometry.first_inode.get() - 1 + own;
    let kept = kept(volume).map_err(failed)?;
    // Only the reserved inodes, the volume's own files, and `lost+found` with its contents are
    // left.
    if usage.inodes - usage.inodes_free != reserved + kept {
        let left = usage.inodes - usage.inodes_free - reserved - kept;
        let what = format!("{left} inodes are in use after everything was deleted");
        return Err(Broken::new(Rule::U7, what));
    }
    let blocks_after = blocks(volume).map_err(failed)?;
    if blocks_before != blocks_after {
        let what = format!(
            "{blocks_before} blocks were free or held by a file, and when everything was deleted {blocks_after}"
        );
        return Err(Broken::new(Rule::U7, what));
    }
    Ok(())
}

/// Returns the number of inodes of `lost+found`, itself included.
fn kept(volume: &Volume) -> Result<u32, Error> {
    let directory = volume.resolve(LOST_AND_FOUND_PATH, false)?;
    Ok(1 + names(volume, directory)?.len() as u32)
}

/// Returns the number of blocks that are free, or held by a file with a name. An attribute block
/// counts among the sectors of each inode that shares it.
fn blocks(volume: &Volume) -> Result<u64, Error> {
    let usage = volume.usage();
    let mut inodes = BTreeSet::from([InodeNr::ROOT]);
    for directory in directories(volume)? {
        inodes.extend(
            names(volume, directory)?
                .into_iter()
                .map(|(_, inode)| inode),
        );
    }
    // An attribute block takes a whole cluster.
    let cluster_blocks = 1 << volume.superblock().geometry.cluster_log;
    let (mut held, mut shared) = (0, BTreeSet::new());
    for inode in inodes {
        held += volume.attributes(inode)?.sectors * SECTOR_BYTES / u64::from(usage.block_bytes);
        let attributes = volume.attribute_block(inode)?;
        if attributes.is_some_and(|block| !shared.insert(block)) {
            held -= cluster_blocks;
        }
    }
    Ok(usage.blocks_free + held)
}

/// Returns all directories, parents first.
fn directories(volume: &Volume) -> Result<Vec<InodeNr>, Error> {
    let mut found = vec![InodeNr::ROOT];
    let mut next = 0;
    while next < found.len() {
        for (name, inode) in names(volume, found[next])? {
            let is_kept = found[next] == InodeNr::ROOT && name == LOST_AND_FOUND;
            if !is_kept && volume.attributes(inode)?.kind == FileKind::Directory {
                found.push(inode);
            }
        }
        next += 1;
    }
    Ok(found)
}

fn names(volume: &Volume, directory: InodeNr) -> Result<Vec<(Vec<u8>, InodeNr)>, Error> {
    let mut names = Vec::new();
    volume.read_directory(directory, 0, &mut |_, entry| {
        if entry.name != b"." && entry.name != b".." {
            names.push((entry.name, entry.inode));
        }
        true
    })?;
    Ok(names)
}

/// Creates a file with contents; a full volume may refuse.
fn fill(volume: &Volume, directory: InodeNr) -> Result<(), Error> {
    let made = volume
        .create(directory, NAME, &NewInode::default())
        .and_then(|nr| {
            let file = volume.open_inode(nr, ext::volume::OpenFlags::READ_WRITE)?;
            let written = volume.write_all(file, 0, &[0xAF; FILE_BYTES]);
            volume.release(file)?;
            written
        });
    match made {
        Err(Error::NoSpace | Error::NoInodes) => Ok(()),
        other => other,
    }
}

fn empty(volume: &Volume, directory: InodeNr) -> Result<(), Error> {
    for (name, inode) in names(volume, directory)? {
        if directory == InodeNr::ROOT && name == LOST_AND_FOUND {
            continue;
        }
        if volume.attributes(inode)?.kind == FileKind::Directory {
            volume.remove_directory(directory, &name)?;
        } else {
            volume.unlink(directory, &name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use block::MemoryDevice;
    use ext::mkfs;
    use ext::volume::SetMode;

    use super::*;
    use crate::mode::DataMode;
    use crate::tested::quiet;

    /// Checks that an attribute block that files share is counted once, on volumes with these
    /// clusters.
    fn shared_attributes_are_counted_once(cluster_bytes: Option<u32>) {
        let device = Arc::new(MemoryDevice::new(8 << 20));
        let mut options = mkfs::Options {
            file_system: mkfs::FileSystemType::Ext4,
            block_bytes: Some(1024),
            cluster_bytes,
            ..mkfs::Options::default()
        };
        if cluster_bytes.is_some() {
            options
                .features
                .add("^resize_inode,bigalloc")
                .expect("known");
        }
        let device: Arc<dyn block::BlockDevice> = device;
        mkfs::format(&device, &options).expect("mkfs");
        let volume = Volume::open(device, None, quiet(DataMode::Ordered)).expect("it opens");
        let made = ["one", "two", "three"].map(|name| {
            let nr = volume.create(InodeNr::ROOT, name.as_bytes(), &NewInode::default());
            let nr = nr.expect("create");
            let set = volume.set_attribute(nr, b"user.large", &[7; 700], SetMode::Any);
            set.expect("set");
            volume.attribute_block(nr).expect("read")
        });
        assert!(made[0].is_some() && made[0] == made[1] && made[0] == made[2]);
        run(&volume).unwrap_or_else(|broken| panic!("{broken}"));
    }

    #[test]
    fn a_shared_attribute_block_is_counted_once() {
        shared_attributes_are_counted_once(None);
    }

    #[test]
    fn a_cluster_with_a_shared_attribute_block_is_counted_once() {
        shared_attributes_are_counted_once(Some(4096));
    }
}
