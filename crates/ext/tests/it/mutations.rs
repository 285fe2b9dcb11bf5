//! Damaged images: a few bytes of metadata, of directories, of block maps or of the log are changed
//! at random, mostly to meaningful values, and every operation is tried. There may be errors, but
//! no panic, no hang and no unbounded memory.
//!
//! The number of an image identifies its volume and its changes. To run many under a limit of
//! memory: `ulimit -v 4000000; JEXT_TEST_DAMAGED=20000 cargo test -p jext-ext --test it mutations`.

use std::sync::Arc;

use block::BlockDevice;
use ext::options::DataMode;
use ext::volume::{FileKind, InodeFlags, NewInode, OpenFlags, RenameMode, SetAttributes, SetMode};
use ext::{MountOptions, Volume};
use layout::{Block, InodeNr};

use crate::history::{History, SCRIPT};
use crate::hostile::first_seed;
use crate::rig::{Place, Rig, device, quiet};
use testkit::Random;

/// Number of randomly damaged images in the default tests. `JEXT_TEST_DAMAGED` overrides it.
const DAMAGED: u64 = 200;
/// Largest number of damaged words in one image.
const WORDS_MAX: u64 = 8;
/// Number of entries visited in a damaged tree, which may have cycles.
const ENTRIES_MAX: usize = 300;
/// Number of names in the large directory, which is indexed.
const NAMES: u32 = 150;
/// Number of images between two progress messages, if `JEXT_TEST_DAMAGED` is set.
const PROGRESS_EVERY: u64 = 1000;
/// Virtual time after which a world hangs.
const TIME_MAX: rt::Nanos = rt::Nanos::from_secs(24 * 3600);
/// Number of steps after which a world hangs.
const STEP_COUNT_MAX: u64 = 20_000_000;

/// An undamaged volume, and the blocks whose damage matters.
struct Base {
    rig: Rig,
    data: DataMode,
    /// Blocks of directories, block maps and symbolic links, and of some files.
    used: Vec<u64>,
    /// Blocks of the log, starting with its superblock.
    log: Vec<u64>,
}

/// Returns the volumes: 1 and 4 KiB blocks; internal, external and no journal; closed, and with a
/// log to be replayed.
fn bases() -> Vec<Base> {
    let mut bases = Vec::new();
    for block_bytes in [1024, 4096] {
        for (place, data) in [
            (Place::Internal, DataMode::Ordered),
            (Place::Internal, DataMode::Journal),
            (Place::External, DataMode::Ordered),
            (Place::None, DataMode::Ordered),
        ] {
            for is_closed in [true, false] {
                bases.push(base(block_bytes, place, data, is_closed));
            }
        }
    }
    bases
}

fn base(block_bytes: u32, place: Place, data: DataMode, is_closed: bool) -> Base {
    let rig = Rig::new(place, block_bytes, u64::from(block_bytes) * 8192);
    let volume = rig.open(quiet(data));
    let history = History::new(SCRIPT);
    for (number, op) in history.ops.iter().enumerate() {
        op.run(&volume, number).expect("the script works");
    }
    volume.create_directory("/left").expect("mkdir");
    let large = vec![1; 400 * block_bytes as usize];
    volume.write_file("/left/large", &large).expect("write");
    let new = NewInode::default();
    let indexed = volume.create_directory("/indexed").expect("mkdir");
    for number in 0..NAMES {
        let name = format!("{number:0100}");
        volume
            .create(indexed, name.as_bytes(), &new)
            .expect("create");
    }
    for (name, length) in [(&b"fast"[..], 20), (b"slow", 500)] {
        let target = vec![b'x'; length];
        volume
            .symlink(InodeNr::ROOT, name, &target, &new)
            .expect("symlink");
    }
    let open = volume
        .open_file("/left/large", OpenFlags::READ)
        .expect("open");
    let paths = ["/", "/left", "/left/large", "/indexed", "/slow", "/e", "/g"];
    let mut used = Vec::new();
    for path in paths {
        let nr = volume.resolve(path, false).expect("it is there");
        let blocks = volume.blocks_of(nr).expect("blocks");
        // The block map of a file matters more than its data.
        let is_file = volume.attributes(nr).expect("attributes").kind == FileKind::Regular;
        let matters = blocks
            .iter()
            .filter(|extent| !is_file || extent.file_block.is_none_or(|at| at.get() < 2));
        used.extend(matters.map(|extent| extent.first.get()));
    }
    let log = match place {
        Place::Internal => {
            let blocks = volume.blocks_of(InodeNr::JOURNAL).expect("blocks");
            let maps = blocks.iter().filter(|extent| extent.file_block.is_none());
            used.extend(maps.map(|extent| extent.first.get()));
            let of_log = blocks.iter().filter(|extent| extent.file_block.is_some());
            of_log.flat_map(|extent| extent.blocks()).collect()
        }
        Place::External => (1..80).collect(),
        Place::None => Vec::new(),
    };
    volume.sync().expect("sync");
    if is_closed {
        open.close().expect("close");
        volume.close().expect("close");
    } else {
        // An orphan, and a log with the transactions that lead to it.
        volume.remove_file("/left/large").expect("unlink");
        volume.sync().expect("sync");
        drop(volume);
    }
    Base {
        rig,
        data,
        used,
        log,
    }
}

/// Returns the new value of a damaged word: mostly a possible block, inode or length.
fn word(random: &mut Random, block: u64, base: &Base) -> u32 {
    match random.below(10) {
        0 => 0,
        1 => u32::MAX,
        2 => 1 << random.below(32),
        3 => block as u32,
        4..=5 => *random.pick(&base.used) as u32,
        6 => random.below(9000) as u32,
        7 => random.below(64) as u32,
        8 => random.next() as u32 & 0xFFFF,
        _ => random.next() as u32,
    }
}

/// Changes some words, each in a random kind of place.
fn damage(rig: &Rig, random: &mut Random, base: &Base) {
    for _ in 0..=random.below(WORDS_MAX) {
        let block_bytes = u64::from(rig.block_bytes);
        let (target, block) = match random.below(7) {
            0 if !base.log.is_empty() => {
                // The start of the log, with its superblock and the newest transactions.
                let at = random.below(base.log.len().min(60) as u64) as usize;
                let log = rig.log.as_ref().unwrap_or(&rig.home);
                (log, base.log[at])
            }
            1..=3 => (&rig.home, *random.pick(&base.used)),
            // The superblock, the descriptors, bitmaps and the first inodes.
            4..=5 => (&rig.home, random.below(14)),
            _ => (&rig.home, random.below(60)),
        };
        let target = device(target);
        let mut bytes = target
            .read_block(block * block_bytes, rig.block_bytes)
            .expect("memory does not fail");
        let contents = Arc::make_mut(&mut bytes);
        let width = *random.pick(&[1, 2, 4, 4]);
        let at = (random.below(block_bytes) as usize) / width * width;
        let value = word(random, block, base).to_le_bytes();
        contents[at..at + width].copy_from_slice(&value[..width]);
        target
            .write_blocks(block * block_bytes, vec![bytes])
            .expect("memory does not fail");
    }
}

/// Walks the tree and reads the starts of files and their block maps. Returns the inodes found.
fn look_around(volume: &Volume) -> Vec<(InodeNr, FileKind)> {
    let mut open = vec![InodeNr::ROOT];
    let mut seen = Vec::new();
    while let Some(nr) = open.pop()
        && seen.len() < ENTRIES_MAX
    {
        let Ok(attributes) = volume.attributes(nr) else {
            continue;
        };
        seen.push((nr, attributes.kind));
        drop(volume.blocks_of(nr));
        match attributes.kind {
            FileKind::Directory => {
                let room = ENTRIES_MAX.saturating_sub(seen.len() + open.len());
                let mut count = 0;
                drop(volume.read_directory(nr, 0, &mut |_, entry| {
                    count += 1;
                    if entry.name != b"." && entry.name != b".." {
                        open.push(entry.inode);
                    }
                    count < room
                }));
            }
            FileKind::Regular => {
                if let Ok(file) = volume.open_inode(nr, OpenFlags::READ) {
                    let mut bytes = vec![0; 40_000];
                    for offset in [0, 380_000, attributes.size.saturating_sub(40_000)] {
                        drop(volume.read(file, offset, &mut bytes));
                    }
                    drop(volume.release(file));
                }
            }
            FileKind::Symlink => drop(volume.read_link(nr)),
            _ => {}
        }
    }
    seen
}

/// Changes the inodes found, in all possible ways.
fn change(volume: &Volume, seen: &[(InodeNr, FileKind)], random: &mut Random) {
    for (nr, kind) in seen {
        match (kind, random.below(4)) {
            (FileKind::Regular, 0) => {
                let change = SetAttributes {
                    size: Some(random.below(300_000)),
                    ..Default::default()
                };
                drop(volume.set_attributes(*nr, &change));
            }
            (FileKind::Regular, 1) => {
                let flags = *random.pick(&[InodeFlags::JOURNAL_DATA, InodeFlags::empty()]);
                let change = SetAttributes {
                    flags: Some(flags),
                    ..Default::default()
                };
                drop(volume.set_attributes(*nr, &change));
            }
            (FileKind::Regular, _) => {
                if let Ok(file) = volume.open_inode(*nr, OpenFlags::READ_WRITE) {
                    drop(volume.write(file, random.below(450_000), &[2; 5000]));
                    drop(volume.sync_file(file, false));
                    drop(volume.release(file));
                }
            }
            (FileKind::Directory, 0) => {
                drop(volume.make_directory(*nr, b"made", &NewInode::default()));
            }
            (FileKind::Directory, 1) => {
                let (from, to) = (InodeNr::ROOT, *nr);
                drop(volume.rename(from, b"g", to, b"moved", RenameMode::Replace));
            }
            (FileKind::Directory, _) => {
                for number in 0..20 {
                    let name = format!("{:0100}", 1000 + number);
                    drop(volume.create(*nr, name.as_bytes(), &NewInode::default()));
                    let old = format!("{number:0100}");
                    drop(volume.unlink(*nr, old.as_bytes()));
                }
            }
            _ => {}
        }
    }
    drop(volume.write_file("/new", &[1; 20_000]));
    drop(volume.remove_file("/left/large"));
    drop(volume.remove_file("/e"));
    drop(volume.symlink(InodeNr::ROOT, b"s", &[b'x'; 300], &NewInode::default()));
}

fn use_damaged(rig: &Rig, data: DataMode, random: &mut Random) {
    let as_it_lies = MountOptions {
        read_only: true,
        no_recovery: true,
        ..quiet(data)
    };
    let open = |options| Volume::open(device(&rig.home), rig.log_device(), options);
    if let Ok(volume) = open(as_it_lies) {
        look_around(&volume);
        drop(volume.close());
    }
    if let Ok(volume) = open(quiet(data)) {
        let seen = look_around(&volume);
        change(&volume, &seen, random);
        drop(volume.sync());
        look_around(&volume);
        drop(volume.close());
    }
    // Once more, on the result.
    if let Ok(volume) = open(quiet(data)) {
        look_around(&volume);
        drop(volume.close());
    }
}

/// Number of block bitmaps damaged on each volume.
const BITMAPS: u64 = 40;

/// Marks blocks of directories, block maps and files as free, and some others as taken.
fn damage_bitmap(rig: &Rig, random: &mut Random, base: &Base) {
    let first = u64::from(rig.block_bytes == 1024);
    change_bitmap(rig, |bytes| {
        for block in &base.used {
            if random.below(3) > 0 {
                let bit = (block - first) as usize;
                bytes[bit / 8] &= !(1 << (bit % 8));
            }
        }
        for _ in 0..random.below(20) {
            let at = random.below(1024) as usize;
            let other = random.next() as u8;
            bytes[at] = *random.pick(&[0, 0, 0xFF, other]);
        }
    });
}

/// Changes the block bitmap of a volume with one group, and its count of free blocks: a bitmap with
/// another count would be refused.
fn change_bitmap(rig: &Rig, change: impl FnOnce(&mut [u8])) {
    let block_bytes = u64::from(rig.block_bytes);
    let home = device(&rig.home);
    let read = |block: u64| {
        let read = home.read_block(block * block_bytes, rig.block_bytes);
        read.expect("memory does not fail")
    };
    let write = |block: u64, image| {
        let written = home.write_blocks(block * block_bytes, vec![image]);
        written.expect("memory does not fail");
    };
    // The group's descriptor starts with the block of the bitmap; bytes 12 and 13 are the count.
    let first = usize::from(block_bytes == 1024);
    let place = first as u64 + 1;
    let mut descriptors = read(place);
    let bitmap = descriptors[..4].try_into().expect("4 bytes");
    let bitmap = u64::from(u32::from_le_bytes(bitmap));
    let mut image = read(bitmap);
    let bytes: &mut Block = Arc::make_mut(&mut image);
    change(bytes);
    let bits = (rig.home.geometry().size_bytes / block_bytes) as usize - first;
    let is_free = |bit: &usize| bytes[bit / 8] & 1 << (bit % 8) == 0;
    let free = (0..bits).filter(is_free).count() as u16;
    write(bitmap, image);
    let bytes: &mut Block = Arc::make_mut(&mut descriptors);
    bytes[12..14].copy_from_slice(&free.to_le_bytes());
    write(place, descriptors);
}

/// Blocks that are in use and marked free are allocated a second time: as data, in block maps and
/// in directories, on volumes with and without a journal.
#[test]
fn damaged_block_bitmaps_are_survived() {
    let bases = Arc::new(bases());
    for seed in 0..BITMAPS * bases.len() as u64 {
        let base = &bases[(seed % bases.len() as u64) as usize];
        let (rig, data) = (base.rig.copy(), base.data);
        let mut random = Random::new(seed);
        damage_bitmap(&rig, &mut random, base);
        let config = sim::Config {
            time_max: TIME_MAX,
            step_count_max: STEP_COUNT_MAX,
            ..sim::Config::fair(seed)
        };
        let run = sim::run(config, move || use_damaged(&rig, data, &mut random));
        run.unwrap_or_else(|error| panic!("bitmap {seed}: {error}"));
    }
}

/// Number of schedules in which a block changes its kind.
const WORLDS: u64 = 100;

/// On a volume without a journal a changed block of a directory, which is marked free, becomes one
/// of attributes while another thread writes all metadata, and the directory is changed again.
#[test]
fn a_block_with_two_uses_changes_its_kind_beside_a_sync() {
    let rig = Rig::new(Place::None, 1024, 1 << 20);
    let volume = rig.open(quiet(DataMode::Ordered));
    volume.create_directory("/d").expect("mkdir");
    volume.write_file("/f", b"").expect("create");
    let nr = volume.resolve("/d", true).expect("it is there");
    let block = volume.blocks_of(nr).expect("blocks")[0].first.get();
    volume.close().expect("close");
    // No other block is free.
    change_bitmap(&rig, |bytes| {
        bytes.fill(0xFF);
        let bit = (block - 1) as usize;
        bytes[bit / 8] &= !(1 << (bit % 8));
    });
    for seed in 0..WORLDS {
        let rig = rig.copy();
        let run = move || share_a_block(&rig, block);
        let run = sim::run(sim::Config::random(seed), run);
        run.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

fn share_a_block(rig: &Rig, block: u64) {
    let volume = Arc::new(rig.open(quiet(DataMode::Ordered)));
    let [directory, file] = ["/d", "/f"].map(|path| {
        let nr = volume.resolve(path, true);
        nr.expect("it is there")
    });
    volume.link(file, directory, b"first").expect("link");
    let others = [0, 1].map(|other| {
        let volume = Arc::clone(&volume);
        rt::spawn("other", move || match other {
            0 => drop(volume.sync()),
            _ => drop(volume.link(file, directory, b"second")),
        })
    });
    let set = volume.set_attribute(file, b"user.long", &[b'x'; 400], SetMode::Any);
    set.expect("one block is free");
    let taken = volume.attribute_block(file).expect("it has attributes");
    assert_eq!(taken, Some(block), "the block has two uses");
    for other in others {
        other.join().expect("no panic");
    }
    drop(volume.sync());
    let volume = Arc::into_inner(volume).expect("no other thread has it");
    drop(volume.close());
}

#[test]
fn random_damage_is_survived() {
    let bases = Arc::new(bases());
    let wanted = std::env::var("JEXT_TEST_DAMAGED").ok();
    let count = wanted.as_ref().map_or(DAMAGED, |count| {
        count.parse().expect("JEXT_TEST_DAMAGED is a number")
    });
    let first = first_seed();
    for seed in first..first + count {
        if wanted.is_some() && seed.is_multiple_of(PROGRESS_EVERY) {
            println!("image {seed}");
        }
        let base = &bases[(seed % bases.len() as u64) as usize];
        let (rig, data) = (base.rig.copy(), base.data);
        let mut random = Random::new(seed);
        damage(&rig, &mut random, base);
        let config = sim::Config {
            time_max: TIME_MAX,
            step_count_max: STEP_COUNT_MAX,
            ..sim::Config::fair(seed)
        };
        let rig = rig.copy();
        let run = sim::run(config, move || use_damaged(&rig, data, &mut random));
        run.unwrap_or_else(|error| panic!("image {seed}: {error}"));
    }
}
