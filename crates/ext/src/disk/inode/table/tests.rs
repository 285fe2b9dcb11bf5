//! Inodes of 128 and 256 bytes: decoding returns what was encoded, and unknown fields are kept.

use layout::inode::{BASE_SIZE, EXTRA_SIZE};
use layout::inode_flags::InodeFlags;
use layout::time::{InodeTime, SECONDS_MAX, SECONDS_MAX_EXTRA, SECONDS_MIN};
use layout::{BlockNr, InodeNr};

use super::{Claims, decode, encode, fits};
use crate::disk::file_size::size_max;
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::disk::words::Words;
use testkit::Random;

use crate::file::testing::{Bench, image};
use crate::options::MountOptions;

/// Number of states for each inode size.
const STATES: u64 = 4000;
/// Byte that fills an inode before it is overwritten.
const OLD: u8 = 0x5A;

const KINDS: [FileKind; 7] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::CharacterDevice,
    FileKind::BlockDevice,
    FileKind::Fifo,
    FileKind::Socket,
];

/// Returns a number of any magnitude: small ones are as frequent as large ones.
fn number(random: &mut Random, bits: u64) -> u64 {
    random.next() >> (64 - bits) >> random.below(bits)
}

fn time(random: &mut Random, has_extra: bool) -> InodeTime {
    let most = if has_extra {
        SECONDS_MAX_EXTRA
    } else {
        SECONDS_MAX
    };
    let span = (most - SECONDS_MIN) as u64 + 1;
    let seconds = match random.below(6) {
        0 => SECONDS_MIN,
        1 => most,
        2 => -1,
        _ => SECONDS_MIN + random.below(span) as i64,
    };
    let nanos = if has_extra {
        random.below(1_000_000_000) as u32
    } else {
        0
    };
    InodeTime::new(seconds, nanos)
}

fn state(random: &mut Random, bench: &Bench, has_extra: bool) -> InodeState {
    let core = &bench.core;
    let kind = KINDS[random.below(KINDS.len() as u64) as usize];
    let size = match kind {
        FileKind::Regular => number(random, 42).min(size_max(core.geometry().block_bytes)),
        FileKind::Directory => number(random, 23),
        _ => number(random, 32),
    };
    let unknown = InodeFlags::EXTENTS | InodeFlags::INLINE_DATA;
    let mut time = || time(random, has_extra);
    let (atime, mtime, ctime, crtime) = (time(), time(), time(), time());
    InodeState {
        size,
        claims: Claims {
            sectors: number(random, 32),
            words: Words::from_raw(core::array::from_fn(|_| number(random, 32) as u32)),
            attribute_block: BlockNr::new(
                [0, core.geometry().block_count - 1][random.below(2) as usize],
            ),
            ..Claims::new(number(random, 16) as u16)
        },
        flags: InodeFlags::from_bits_retain(number(random, 32) as u32).difference(unknown),
        atime,
        mtime,
        ctime,
        crtime: has_extra.then_some(crtime),
        dtime: number(random, 32) as u32,
        is_fresh: random.below(2) == 0,
        ..InodeState::fresh(
            kind,
            random.below(0o10000) as u16,
            number(random, 32) as u32,
            number(random, 32) as u32,
            number(random, 32) as u32,
        )
    }
}

/// Returns all fields encoded in an inode's bytes.
fn fields(state: &InodeState) -> impl PartialEq + core::fmt::Debug + use<> {
    (
        (state.kind, state.permissions, state.uid, state.gid),
        (state.size, state.links, state.sectors, state.flags),
        (state.generation, state.dtime, state.words),
        (state.atime, state.mtime, state.ctime, state.crtime),
        state.attribute_block,
    )
}

fn round_trips(inode_bytes: usize) {
    let size = inode_bytes.to_string();
    let device = image(8 << 20, &["-t", "ext3", "-b", "1024", "-I", &size]);
    let bench = Bench::open(device, MountOptions::default());
    let has_extra = inode_bytes > BASE_SIZE;
    let mut random = Random::new(inode_bytes as u64);
    let nr = InodeNr::new(12);
    for number in 0..STATES {
        let state = state(&mut random, &bench, has_extra);
        assert!(fits(&bench.core.superblock, &state));
        let mut bytes = vec![OLD; inode_bytes];
        if has_extra {
            bytes[BASE_SIZE..BASE_SIZE + 2].copy_from_slice(&(EXTRA_SIZE as u16).to_le_bytes());
        }
        encode(&bench.core.superblock, &state, &mut bytes);
        let decoded =
            decode(&bench.core.superblock, bench.core.geometry(), nr, &bytes).expect("it is sound");
        assert_eq!(fields(&decoded), fields(&state), "state {number}");
        let known = if has_extra {
            BASE_SIZE + EXTRA_SIZE
        } else {
            BASE_SIZE
        };
        let rest = if state.is_fresh { 0 } else { OLD };
        let is_kept = bytes[known..].iter().all(|byte| *byte == rest);
        assert!(is_kept, "state {number}: what is behind the known fields");
        let mut again = bytes.clone();
        encode(&bench.core.superblock, &decoded, &mut again);
        assert!(again == bytes, "state {number}: encoding is stable");
    }
    bench.close();
}

#[test]
fn inodes_of_128_bytes() {
    round_trips(128);
}

#[test]
fn inodes_of_256_bytes() {
    round_trips(256);
}

/// Fields that do not fit are refused before anything changes.
#[test]
fn what_does_not_fit() {
    let device = image(8 << 20, &["-t", "ext3", "-b", "1024"]);
    let bench = Bench::open(device, MountOptions::default());
    let fresh = |kind| InodeState::fresh(kind, 0, 0, 0, 0);
    let mut file = fresh(FileKind::Regular);
    file.size = 1 << 33;
    assert!(fits(&bench.core.superblock, &file));
    file.claims.sectors = 1 << 32;
    assert!(!fits(&bench.core.superblock, &file), "without huge_file");
    let mut directory = fresh(FileKind::Directory);
    directory.size = 1 << 32;
    assert!(!fits(&bench.core.superblock, &directory));
    bench.close();
}

/// A directory of 4 GiB and more has an upper half of its size with `large_dir` only.
#[test]
fn sizes_of_large_directories() {
    let device = image(8 << 20, &["-t", "ext4", "-b", "1024", "-O", "large_dir"]);
    let bench = Bench::open(device, MountOptions::default());
    let mut superblock = bench.core.superblock.clone();
    let mut geometry = bench.core.geometry().clone();
    geometry.block_count = 1 << 32;
    let nr = InodeNr::new(12);
    for size in [
        (1 << 31) + 1024,
        (1 << 32) - 1024,
        1 << 32,
        (1 << 33) + 1024,
    ] {
        let mut directory = InodeState::fresh(FileKind::Directory, 0, 0, 0, 0);
        directory.size = size;
        assert!(fits(&superblock, &directory));
        let mut bytes = vec![0; 256];
        encode(&superblock, &directory, &mut bytes);
        superblock.checksums.seal_inode(nr, &mut bytes);
        let decoded = decode(&superblock, &geometry, nr, &bytes).expect("it is sound");
        assert_eq!(decoded.size, size);
        superblock.features.incompatible -= layout::feature::Incompatible::LARGE_DIR;
        let decoded = decode(&superblock, &geometry, nr, &bytes).expect("it is sound");
        assert_eq!(decoded.size, size % (1 << 32));
        assert_eq!(fits(&superblock, &directory), size < 1 << 32);
        superblock.features.incompatible |= layout::feature::Incompatible::LARGE_DIR;
    }
    bench.close();
}
