//! The table of all works.

use super::loads::{Directory, Durable, Load, Metadata, Random, Replay};
use super::place::{MemoryForm, Place};
use super::side::Side;
use super::work::{Case, Figure, Peer, Work};
use crate::compare_sync::load::{Directories, Load as Synced};
use crate::compared_type::ComparedType;
use crate::postmark::Test;

use Side::{
    E2fsck, Ext3, Ext4, Ext4Async, Ext4Fc, Fuse2fs, Jext, JextDisk, JextDiskAsync, JextDiskFc,
    JextMem, JextMount, JextTmpfs, Memcpy, Mke2fs, Passthrough, Raw, Tmpfs, Xfs,
};

const SECONDS: Figure = Figure::time("time", "s");
const ORDERED: &str = "data=ordered,commit=5";
const JOURNALED: &str = "data=journal,commit=5";
const GIB: u64 = 1 << 30;
/// Bytes for each inode of volumes with a million files.
const MANY_INODES: u32 = 4096;
/// The case of a directory with which the largest is compared, and that of a single thread.
const TEN_THOUSAND: &str = "10000 entries";
const ONE_THREAD: &str = "1 thread";
/// Number of rounds with a directory of a million entries, each of which takes a minute.
const LARGE_ROUNDS: u32 = 5;
const LARGE_ENTRIES: u32 = 1_000_000;

/// The amounts of work.
#[derive(Clone, Copy)]
struct Amounts {
    is_small: bool,
}

impl Amounts {
    /// Returns a count, or a hundredth of it.
    const fn of(self, count: u32) -> u32 {
        match self.is_small {
            true => count.div_ceil(100),
            false => count,
        }
    }

    const fn bytes(self, bytes: u64) -> u64 {
        match self.is_small {
            true => bytes.div_ceil(100),
            false => bytes,
        }
    }

    /// Returns the size of a file system.
    const fn size(self, bytes: u64) -> u64 {
        match self.is_small {
            true => GIB,
            false => bytes,
        }
    }

    fn test(self, number: u8, files: Option<u32>, transactions: u32) -> Load {
        let published = Test::new(number);
        Load::PostMark(Test {
            files: self.of(files.unwrap_or(published.files)),
            transactions: self.of(transactions),
            ..published
        })
    }

    /// Returns the form of file systems in memory.
    const fn memory(self, size_bytes: u64) -> MemoryForm {
        MemoryForm {
            file_system: ComparedType::Ext4,
            size_bytes: self.size(size_bytes),
            bytes_per_inode: None,
            options: ORDERED,
        }
    }
}

/// Returns all works, with directories of at most so many entries.
pub(super) fn all(is_small: bool, entries_max: u32) -> Vec<Work> {
    let amounts = Amounts { is_small };
    vec![
        postmark(amounts),
        postmark_journal(amounts),
        postmark_mounted(amounts),
        create_fsync(amounts),
        append(amounts),
        overwrite(amounts),
        varmail(amounts),
        sequential(amounts),
        random(amounts),
        metadata(amounts),
        directories(amounts, entries_max),
        build(),
        check(),
        replay(amounts),
    ]
}

fn postmark(amounts: Amounts) -> Work {
    let case = |number| Case::new(format!("test {number}"), amounts.test(number, None, 50_000));
    Work {
        name: "postmark",
        title: "PostMark in process, beside the kernel's file systems in memory",
        sides: vec![JextMem, JextTmpfs, Tmpfs, Ext3, Ext4],
        cases: [1, 2, 3].map(|number| case(number).bar(1.0)).into(),
        figures: vec![SECONDS],
        place: Place::Memory(amounts.memory(4 * GIB)),
        peer: Peer::Best(&[Tmpfs]),
        judged: &[JextMem, JextTmpfs],
    }
}

fn postmark_journal(amounts: Amounts) -> Work {
    let case = |number| Case::new(format!("test {number}"), amounts.test(number, None, 50_000));
    Work {
        name: "postmark-journal",
        title: "PostMark with data=journal on ext3, in process and on the kernel's in memory",
        sides: vec![JextMem, JextTmpfs, Ext3],
        cases: [1, 2, 3].map(|number| case(number).bar(2.5)).into(),
        figures: vec![SECONDS],
        place: Place::Memory(MemoryForm {
            file_system: ComparedType::Ext3,
            options: JOURNALED,
            ..amounts.memory(4 * GIB)
        }),
        peer: Peer::Best(&[Ext3]),
        judged: &[JextMem, JextTmpfs],
    }
}

fn postmark_mounted(amounts: Amounts) -> Work {
    let case =
        |number, files, name: &str| Case::new(name, amounts.test(number, files, 10_000)).bar(1.5);
    Work {
        name: "postmark-mounted",
        title: "PostMark with 10,000 transactions on FUSE mounts, images in memory",
        sides: vec![JextMount, Passthrough, Fuse2fs],
        cases: vec![
            case(1, None, "test 1"),
            // Passthrough_ll keeps every file open that the kernel knows.
            case(2, Some(15_000), "test 2, 15000 files"),
            case(3, None, "test 3"),
        ],
        figures: vec![SECONDS],
        place: Place::Memory(amounts.memory(4 * GIB)),
        peer: Peer::Best(&[Passthrough]),
        judged: &[JextMount],
    }
}

fn create_fsync(amounts: Amounts) -> Work {
    let case = |threads: u32, bar| {
        let load = Synced {
            directories: Directories::Own,
            threads,
            files: amounts.of(2000),
            bytes: 4096,
        };
        Case::new(thread_name(threads), Load::Synced(load)).bar(bar)
    };
    Work {
        name: "create-fsync",
        title: "files of 4 KiB created and synced, on disk",
        sides: vec![
            JextDisk,
            JextDiskFc,
            JextDiskAsync,
            Ext3,
            Ext4,
            Ext4Fc,
            Ext4Async,
            Xfs,
        ],
        cases: vec![case(1, 1.8), case(10, 2.0), case(100, 2.0)],
        figures: vec![Figure::rate("rate", "files/s")],
        place: Place::Disk,
        peer: Peer::Best(&[Ext3, Ext4, Ext4Fc, Ext4Async, Xfs]),
        judged: &[JextDisk, JextDiskFc, JextDiskAsync],
    }
}

fn append(amounts: Amounts) -> Work {
    let load = Load::Durable(Durable {
        appends: true,
        count: amounts.of(2000),
    });
    Work {
        name: "append-fdatasync",
        title: "4 KiB appended and made durable by one thread, on disk, beside a raw file",
        sides: vec![
            JextDisk,
            JextDiskFc,
            JextDiskAsync,
            Raw,
            Ext4,
            Ext4Fc,
            Ext4Async,
            Xfs,
        ],
        cases: vec![Case::new(ONE_THREAD, load).bar(0.75)],
        figures: vec![Figure::rate("rate", "writes/s")],
        place: Place::Disk,
        peer: Peer::Best(&[Raw]),
        judged: &[JextDisk, JextDiskFc, JextDiskAsync],
    }
}

fn overwrite(amounts: Amounts) -> Work {
    let load = Load::Durable(Durable {
        appends: false,
        count: amounts.of(2000),
    });
    Work {
        name: "overwrite-fdatasync",
        title: "4 KiB overwritten and made durable by one thread, on disk, beside a raw file",
        cases: vec![Case::new(ONE_THREAD, load)],
        ..append(amounts)
    }
}

fn varmail(amounts: Amounts) -> Work {
    let case = |threads| {
        let load = Load::Varmail {
            threads,
            seconds: if amounts.is_small { 1 } else { 3 },
        };
        Case::new(thread_name(threads), load)
    };
    Work {
        name: "varmail",
        title: "filebench's mail server, on disk",
        sides: vec![JextDisk, JextDiskFc, JextDiskAsync, Ext4, Ext4Fc, Ext4Async],
        cases: vec![case(1), case(16).bar(1.5)],
        figures: vec![Figure::rate("rate", "operations/s")],
        place: Place::Disk,
        peer: Peer::Best(&[Ext4Fc]),
        judged: &[JextDisk, JextDiskFc, JextDiskAsync],
    }
}

fn sequential(amounts: Amounts) -> Work {
    let load = Load::Sequential(amounts.bytes(4 * GIB));
    Work {
        name: "sequential",
        title: "4 GiB written in order with a sync, and read from the cache, beside copied memory",
        sides: vec![JextMem, Memcpy, Tmpfs, Ext4],
        cases: vec![Case::new("4 GiB", load).bar(0.4)],
        figures: vec![
            Figure::rate("write", "MiB/s"),
            Figure::rate("read", "MiB/s"),
        ],
        place: Place::Memory(amounts.memory(5 * GIB)),
        peer: Peer::Best(&[Memcpy]),
        judged: &[JextMem],
    }
}

fn random(amounts: Amounts) -> Work {
    let load = Load::Random(Random {
        bytes: amounts.bytes(GIB),
        count: amounts.of(200_000),
    });
    Work {
        name: "random",
        title: "4 KiB written and read at random places of 1 GiB in memory",
        sides: vec![JextMem, JextTmpfs, Tmpfs, Ext4, Xfs],
        cases: vec![Case::new("1 GiB", load)],
        figures: vec![
            Figure::rate("write", "writes/s"),
            Figure::rate("read", "reads/s"),
        ],
        place: Place::Memory(amounts.memory(2 * GIB)),
        peer: Peer::Best(&[Ext4, Xfs]),
        judged: &[],
    }
}

fn metadata(amounts: Amounts) -> Work {
    let case = |threads| {
        let load = Metadata {
            threads,
            files: amounts.of(50_000),
        };
        Case::new(thread_name(threads), Load::Metadata(load))
    };
    Work {
        name: "metadata",
        title: "threads with 50,000 files each in directories of their own, in memory",
        sides: vec![JextMem, JextTmpfs, Tmpfs, Ext4, Xfs],
        cases: vec![case(1), case(2).bar(1.6)],
        figures: vec![
            Figure::rate("create", "files/s"),
            Figure::rate("lookup", "files/s").without_bar(),
            Figure::rate("rename", "files/s"),
            Figure::rate("unlink", "files/s"),
        ],
        place: Place::Memory(amounts.memory(4 * GIB)),
        peer: Peer::Case(ONE_THREAD),
        judged: &[JextMem],
    }
}

fn directories(amounts: Amounts, entries_max: u32) -> Work {
    let sizes = [1000, 10_000, 100_000, LARGE_ENTRIES];
    let sizes = sizes.into_iter().filter(|entries| *entries <= entries_max);
    let case = |entries: u32| {
        let load = Directory {
            entries: amounts.of(entries),
            sample: amounts.of(50_000),
        };
        let case = Case::new(format!("{entries} entries"), Load::Directory(load));
        match entries {
            LARGE_ENTRIES => Case {
                rounds_max: LARGE_ROUNDS,
                ..case.bar(1.0 / 1.5)
            },
            _ => case,
        }
    };
    Work {
        name: "directories",
        title: "one directory of many entries, in memory",
        sides: vec![JextMem, JextMount, Tmpfs, Ext4],
        cases: sizes.map(case).collect(),
        figures: vec![
            Figure::time("create", "us"),
            Figure::time("lookup", "us").without_bar(),
            Figure::time("rename", "us"),
            Figure::time("unlink", "us"),
        ],
        place: Place::Memory(MemoryForm {
            bytes_per_inode: Some(MANY_INODES),
            ..amounts.memory(5 * GIB)
        }),
        peer: Peer::Case(TEN_THOUSAND),
        judged: &[JextMount],
    }
}

fn build() -> Work {
    let case = |kind: ComparedType| Case::new(kind.name(), Load::Build(kind)).bar(3.0);
    Work {
        name: "build",
        title: "an image of 65,000 files, beside mke2fs -d: three times as fast is a third of the time",
        sides: vec![Jext, Mke2fs],
        cases: vec![case(ComparedType::Ext4), case(ComparedType::Ext3)],
        figures: vec![SECONDS],
        place: Place::None,
        peer: Peer::Best(&[Mke2fs]),
        judged: &[Jext],
    }
}

fn check() -> Work {
    let case = |kind: ComparedType| Case::new(kind.name(), Load::Check(kind));
    Work {
        name: "check",
        title: "a check of that image, beside e2fsck -fn",
        sides: vec![Jext, E2fsck],
        cases: vec![case(ComparedType::Ext4), case(ComparedType::Ext3)],
        peer: Peer::Best(&[E2fsck]),
        ..build()
    }
}

fn replay(amounts: Amounts) -> Work {
    let load = Load::Replay(Replay {
        files: amounts.of(60_000),
    });
    Work {
        name: "replay",
        title: "a log with 60,000 new files, replayed, beside e2fsck -E journal_only and a mount",
        sides: vec![Jext, E2fsck, Ext4],
        cases: vec![Case::new("ext4", load)],
        peer: Peer::Best(&[E2fsck]),
        ..build()
    }
}

fn thread_name(threads: u32) -> String {
    match threads {
        1 => ONE_THREAD.to_owned(),
        many => format!("{many} threads"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_peers_are_sides_or_cases() {
        let works = all(false, u32::MAX);
        for (index, work) in works.iter().enumerate() {
            let name = work.name;
            assert!(works[..index].iter().all(|other| other.name != name));
            let found = match work.peer {
                Peer::Best(sides) => sides.iter().all(|side| work.sides.contains(side)),
                Peer::Case(name) => work.cases.iter().any(|case| case.name == name),
            };
            assert!(found, "the peer of {name}");
            let judged = work.judged.iter();
            assert!(
                judged.into_iter().all(|side| work.sides.contains(side)),
                "{name}"
            );
        }
    }

    #[test]
    fn large_directories_can_be_left_out() {
        let work = directories(Amounts { is_small: false }, 100_000);
        let names: Vec<&str> = work.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["1000 entries", "10000 entries", "100000 entries"]);
    }
}
