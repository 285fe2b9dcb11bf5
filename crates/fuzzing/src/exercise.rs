//! Use of a corrupted image: every operation is tried, and every error is accepted.

use std::sync::Arc;

use block::BlockDevice;
use ext::volume::{FileKind, NewInode, OpenFlags, RangeChange, RenameMode, SetAttributes, SetMode};
use ext::{MountOptions, Volume};
use layout::InodeNr;
use rt::Nanos;

/// Number of scheduling steps after which an input counts as a hang. A valid image takes some
/// thousands.
const STEPS_MAX: u64 = 2_000_000;
/// Virtual time after which an input counts as a hang.
const TIME_MAX: Nanos = Nanos::from_secs(3600);
/// Maximum number of entries visited by a walk; the directory tree may contain cycles.
const ENTRIES_MAX: usize = 300;
/// Number of bytes read from a file, at its start and at its end.
const READ_BYTES: usize = 8 << 10;

/// Runs `work` in a world with limits.
///
/// # Panics
/// Panics if the work panics, hangs, or leaves a daemon behind.
pub(crate) fn in_world(work: impl FnOnce() + 'static) {
    let config = sim::Config {
        step_count_max: STEPS_MAX,
        time_max: TIME_MAX,
        ..sim::Config::fair(7)
    };
    if let Err(error) = sim::run(config, work) {
        panic!("{error}");
    }
}

/// Opens an image, walks it, changes it, and closes it.
pub(crate) fn volume(device: Arc<dyn BlockDevice>, options: MountOptions) {
    let Ok(volume) = Volume::open(device, None, options) else {
        return;
    };
    let mut walk = Walk {
        volume: &volume,
        files: Vec::new(),
        left: ENTRIES_MAX,
    };
    walk.directory(InodeNr::ROOT, 0);
    let files = walk.files;
    change_tree(&volume);
    for (parent, name, nr) in files {
        change_file(&volume, parent, &name, nr);
    }
    drop(volume.sync());
    drop(volume.close());
}

struct Walk<'v> {
    volume: &'v Volume,
    /// Parent, name and inode of each non-directory.
    files: Vec<(InodeNr, Vec<u8>, InodeNr)>,
    left: usize,
}

impl Walk<'_> {
    fn directory(&mut self, nr: InodeNr, depth: usize) {
        let mut entries = Vec::new();
        let listed = self.volume.read_directory(nr, 0, &mut |_, entry| {
            entries.push(entry);
            entries.len() < ENTRIES_MAX
        });
        drop(listed);
        for entry in entries {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            drop(self.volume.lookup(nr, &entry.name));
            let Ok(attributes) = self.volume.attributes(entry.inode) else {
                continue;
            };
            drop(self.volume.blocks_of(entry.inode));
            for name in self.volume.list_attributes(entry.inode).unwrap_or_default() {
                drop(self.volume.get_attribute(entry.inode, &name));
            }
            match attributes.kind {
                FileKind::Directory if entry.name == b"." || entry.name == b".." => {}
                FileKind::Directory if depth < 16 => self.directory(entry.inode, depth + 1),
                FileKind::Symlink => drop(self.volume.read_link(entry.inode)),
                _ => {
                    self.read(entry.inode, attributes.size);
                    self.files.push((nr, entry.name, entry.inode));
                }
            }
        }
    }

    fn read(&self, nr: InodeNr, size: u64) {
        let Ok(file) = self.volume.open_inode(nr, OpenFlags::READ) else {
            return;
        };
        let mut bytes = vec![0; READ_BYTES];
        for offset in [0, size.saturating_sub(READ_BYTES as u64)] {
            drop(self.volume.read(file, offset, &mut bytes));
        }
        drop(self.volume.release(file));
    }
}

/// Adds, moves and removes directory entries.
fn change_tree(volume: &Volume) {
    drop(volume.write_file("/written", &[b'w'; 6000]));
    drop(volume.create_directory_all("/made/deep"));
    drop(volume.rename_path("/written", "/made/deep/moved"));
    for number in 0..20 {
        drop(volume.write_file(&format!("/indexed/another name {number}"), b"x"));
        drop(volume.write_file(&format!("/d/another name {number}"), b"x"));
    }
    let find = |path| volume.resolve(path, false);
    if let (Ok(d), Ok(indexed)) = (find("/d"), find("/indexed")) {
        drop(volume.rename(d, b"e", indexed, b"e", RenameMode::NoReplace));
        let (one, other) = (b"another name 1", b"another name 2");
        drop(volume.rename(d, one, indexed, other, RenameMode::Exchange));
    }
    drop(volume.remove_directory_at("/made/deep"));
    drop(volume.sync());
}

/// Changes a file in every way, and removes its directory entry.
fn change_file(volume: &Volume, parent: InodeNr, name: &[u8], nr: InodeNr) {
    let truncated = |size| SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    if let Ok(file) = volume.open_inode(nr, OpenFlags::READ_WRITE) {
        for offset in [10, 13 << 10, 300 << 10] {
            drop(volume.write(file, offset, &[b'z'; 2000]));
        }
        drop(volume.sync_file(file, true));
        drop(volume.set_attributes(nr, &truncated(5000)));
        drop(volume.release(file));
    }
    for what in [
        RangeChange::PunchHole,
        RangeChange::Zero,
        RangeChange::Allocate,
    ] {
        let keeps_size = what == RangeChange::PunchHole;
        drop(volume.change_range(nr, 700, 20 << 10, what, keeps_size));
    }
    for (what, offset) in [(RangeChange::Insert, 0), (RangeChange::Collapse, 4 << 10)] {
        drop(volume.change_range(nr, offset, 8 << 10, what, false));
    }
    drop(volume.set_attribute(nr, b"user.colour", &[b'v'; 60], SetMode::Any));
    drop(volume.set_attribute(nr, b"user.shape", &[b'v'; 60], SetMode::Create));
    drop(volume.remove_attribute(nr, b"user.colour"));
    drop(volume.link(nr, InodeNr::ROOT, b"one more"));
    drop(volume.unlink(InodeNr::ROOT, b"one more"));
    drop(volume.create(parent, b"beside", &NewInode::default()));
    drop(volume.unlink(parent, name));
}
