//! Cross-replay of journals: a log left dirty by one implementation is replayed by all others to
//! the same image.
//!
//! | writer of the dirty log | readers that replay it |
//! |---|---|
//! | the engine: power lost after a sync | the engine, `e2fsck -fy`, the kernel |
//! | the kernel: `EXT4_IOC_SHUTDOWN`, with the log flushed and not | the same three |
//! | debugfs: its journal writer | the same three |
//!
//! The matrix covers internal and external logs, all formats of a log ([`log_format::ALL`]) and all
//! contents of a log ([`content::ALL`]). "The same" means byte for byte except for the fields named
//! in [`compare`]. Impossible cells are rows in [`refusals`]; logs that end at a block without its
//! header are rows in [`lost_headers`].

mod compare;
mod content;
mod fast_commits;
mod fast_writes;
mod log_format;
mod lost_headers;
mod lost_images;
mod orphans;
mod readers;
mod refusals;
mod tags;
mod writers;

use ext::Volume;
use ext::options::DataMode;
use jbd2::format::Checksums;
use layout::InodeNr;
use testkit::{Random, Shutdown, privilege, share};

use self::compare::Allowed;
use self::content::Content;
use self::log_format::LogFormat;
use crate::image::Image;
use crate::model::Model;
use crate::script::Script;

/// The implementation that leaves a log dirty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Engine,
    Kernel(Shutdown),
    Debugfs,
}

impl Writer {
    /// Returns true if the cell is possible. An impossible cell is a row in [`refusals`].
    fn can_write(self, format: LogFormat, is_external: bool, content: Content) -> bool {
        let is_old = format.version == 1;
        let can_write = match self {
            Self::Engine => true,
            Self::Kernel(_) => {
                format.checksums != Checksums::V2 && !(is_old && content == Content::Revokes)
            }
            Self::Debugfs => {
                let is_v1 = format.checksums == Checksums::V1;
                content != Content::Wrapped && !(is_v1 && content == Content::Revokes)
            }
        };
        can_write && !(is_old && is_external)
    }

    /// Returns a copy of an image after work on it, with a log of this content and nothing else to
    /// complete. On a busy machine the kernel may have a list of orphans in the log, if another
    /// program synced while a file lost its contents, or may have emptied the log before it
    /// wrapped: then the work is repeated.
    fn dirty(self, blank: &Image, format: LogFormat, content: Content) -> Image {
        let mut tries = 1..=KERNEL_TRIES;
        loop {
            let image = blank.copy();
            self.leave_dirty(&image, format, content);
            let is_last = tries.next() == Some(KERNEL_TRIES);
            let is_good = || {
                let is_wrapped = || content::is_wrapped(&log_format::inspect(&image));
                !readers::leaves_orphans(&image) && (content != Content::Wrapped || is_wrapped())
            };
            if is_last || !matches!(self, Self::Kernel(_)) || is_good() {
                return image;
            }
        }
    }

    /// Works on an image, and leaves the log with this content.
    fn leave_dirty(self, image: &Image, format: LogFormat, content: Content) {
        match self {
            Self::Engine => writers::by_engine(image, content.data_mode(), move |volume| {
                content.make(volume, format.block_bytes);
            }),
            Self::Kernel(how) => writers::by_kernel(image, format, content, how),
            Self::Debugfs => {
                writers::by_debugfs(image, format, content);
            }
        }
    }
}

/// Largest number of attempts until the kernel's log is as required.
const KERNEL_TRIES: u32 = 10;

/// Checks the cells of a writer, with an internal or external log: by default half of them, the
/// others with the other place.
fn check_all(writer: Writer, is_external: bool) {
    // mke2fs, too, accepts only a block device for an external log.
    if (is_external || matches!(writer, Writer::Kernel(_))) && !privilege::is_granted() {
        return;
    }
    let column =
        usize::from(is_external) + usize::from(writer == Writer::Kernel(Shutdown::CutsLog));
    for (row, format) in log_format::ALL.iter().enumerate() {
        let cells = content::ALL.iter().enumerate();
        let mut cells = cells
            .filter(|(index, _)| share::takes(row + index + column, 2))
            .map(|(_, content)| content)
            .filter(|it| writer.can_write(*format, is_external, **it))
            .peekable();
        if cells.peek().is_none() {
            continue;
        }
        let has_metadata_checksums = writer != Writer::Engine && format.wants_metadata_checksums();
        let blank = writers::blank(*format, is_external, has_metadata_checksums);
        for content in cells {
            let what = format!("{writer:?}, external: {is_external}, {format:?}, {content:?}");
            let image = without_orphans(|| writer.dirty(&blank, *format, *content));
            assert_eq!(log_format::features(&image), format.features(), "{what}");
            content.assert_in(&log_format::inspect(&image), &what);
            check(&image, &what);
        }
    }
}

/// Returns the first of some images whose log leaves no orphans, which a read-only open does not
/// finish. The kernel has some for a moment if another process's sync(2) holds an inode while its
/// file is deleted.
pub(crate) fn without_orphans(make: impl FnMut() -> Image) -> Image {
    const ATTEMPTS: usize = 5;
    let mut images = std::iter::repeat_with(make).take(ATTEMPTS);
    let image = images.find(|image| !readers::leaves_orphans(image));
    image.expect("a log without orphans")
}

/// Number of random operations before a log is left dirty.
const OPERATIONS: u32 = 50;

fn random_operations(volume: &Volume, block_bytes: u32, seed: u64) {
    let lost_found = volume
        .lookup(InodeNr::ROOT, b"lost+found")
        .expect("lost+found");
    let mut model = Model::new(lost_found);
    let mut random = Random::new(seed);
    for _ in 0..OPERATIONS {
        Script {
            volume,
            model: &mut model,
            random: &mut random,
            block_bytes,
            has_values: false,
            is_small: false,
        }
        .step();
    }
    volume.sync().expect("sync");
}

#[test]
fn random_operations_of_the_engine() {
    let modes = [DataMode::Ordered, DataMode::Writeback, DataMode::Journal];
    for format in [log_format::PLAIN, log_format::LARGE] {
        for (seed, mode) in (0..).zip(modes) {
            for is_external in [false, true] {
                if is_external && !privilege::is_granted() {
                    continue;
                }
                let image = writers::blank(format, is_external, false);
                let block_bytes = format.block_bytes;
                writers::by_engine(&image, mode, move |volume| {
                    random_operations(volume, block_bytes, seed);
                });
                let what = format!("{mode:?}, external: {is_external}, {format:?}, seed {seed}");
                check(&image, &what);
            }
        }
    }
}

/// Asserts that three implementations replay a dirty log to the same image.
fn check(dirty: &Image, what: &str) {
    let allowed = Allowed::default();
    let ours = dirty.copy();
    let replayed = readers::by_engine(&ours);
    assert!(replayed > 0, "{what}: there was nothing to replay");
    readers::assert_recovered(&ours, what);
    let theirs = dirty.copy();
    readers::by_e2fsck(&theirs);
    compare::assert_same(
        &ours,
        &theirs,
        &allowed,
        &format!("{what}: the engine and e2fsck"),
    );
    if privilege::is_granted() {
        let theirs = dirty.copy();
        readers::by_kernel(&theirs);
        let who = format!("{what}: the engine and the kernel");
        compare::assert_same(&ours, &theirs, &allowed, &who);
    }
}

/// One test for each writer and place, so that they run in parallel.
macro_rules! cells {
    ($($name:ident: $writer:expr, $is_external:expr;)*) => {
        $(
            #[test]
            fn $name() {
                check_all($writer, $is_external);
            }
        )*
    };
}

cells! {
    engine_inside: Writer::Engine, false;
    engine_outside: Writer::Engine, true;
    debugfs_inside: Writer::Debugfs, false;
    debugfs_outside: Writer::Debugfs, true;
    kernel_flushed_inside: Writer::Kernel(Shutdown::FlushesLog), false;
    kernel_flushed_outside: Writer::Kernel(Shutdown::FlushesLog), true;
    kernel_cut_inside: Writer::Kernel(Shutdown::CutsLog), false;
    kernel_cut_outside: Writer::Kernel(Shutdown::CutsLog), true;
}
