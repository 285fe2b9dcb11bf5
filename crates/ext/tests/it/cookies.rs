//! Listings during changes: a name that exists throughout is read exactly once, whatever happens to
//! the directory meanwhile.
//!
//! Several listings of one directory are open at once, each with a buffer for a few names, as
//! programs and the kernel read them. Between two reads the directory changes: names are added,
//! removed, renamed, replaced and exchanged; blocks fill, are converted to an htree and split.
//! POSIX does not specify if a name that is added or removed meanwhile is read, and neither does
//! the model: at most once for each time it existed.
//!
//! `JEXT_TEST_LISTINGS=200` runs that many seeds for each kind of directory instead of two.

use std::collections::{BTreeMap, BTreeSet};

use ext::Volume;
use ext::options::DataMode;
use ext::volume::{InodeFlags, NewInode, RenameMode};
use layout::InodeNr;
use layout::hash::{HashVersion, dx_hash};
use testkit::Random;

use crate::damage::assert_notices;
use crate::hostile::first_seed;
use crate::rig::{Place, Rig, device, quiet};

/// Number of seeds for each kind of directory in the default tests.
const SEEDS: u64 = 2;
/// Least number of steps of one seed.
const STEPS_MIN: usize = 1200;
/// Size of a volume in bytes.
const VOLUME_BYTES: u64 = 24 << 20;
/// Largest number of open listings.
const LISTINGS_MAX: usize = 5;
/// Largest number of names in one read.
const BUFFER_MAX: u64 = 24;
/// Offsets of fields of the superblock, within the device.
const FEATURES: u64 = 1024 + 0x5C;
const DEFAULT_HASH: u64 = 1024 + 0xFC;
const FLAGS: u64 = 1024 + 0x160;
/// `dir_index` among the compatible features.
const DIR_INDEX: u32 = 0x20;
/// The seed of hashes in volumes of [`Rig`].
const HASH_SEED: [u32; 4] = [0x2222_2222; 4];

/// Names of 255 bytes whose major hashes are equal, four or five at a time: the numbers at their
/// ends, in hexadecimal. Three such names fill a leaf of 1 KiB, so that a hash extends over two.
const COLLISIONS: [(HashVersion, &[&[u32]]); 3] = [
    (
        HashVersion::Legacy,
        &[
            &[0x82_1e99, 0x90_791a, 0xa2_ca85, 0xbd_f762],
            &[0x64_2711, 0x64_2733, 0x64_2788, 0x64_27bb, 0x64_27dd],
            &[0x65_1bbd, 0x65_1bdb, 0x65_1dbd, 0x65_1ddb],
        ],
    ),
    (
        HashVersion::HalfMd4,
        &[
            &[0xbd_1ed2, 0xf7_5d4d, 0x121_581d, 0x16e_be06],
            &[0x8_ffd3, 0xd_4c66, 0x59_dc52, 0xf5_06e1],
            &[0x30_158b, 0x7e_fc6b, 0x1b2_550e, 0x1b2_98b6],
        ],
    ),
    (
        HashVersion::Tea,
        &[
            &[0x1d_83ce, 0x13d_05b9, 0x141_ebe8, 0x1eb_1b9f],
            &[0x6b_5ed1, 0xae_291d, 0xfb_5b10, 0x140_60bc],
            &[0x34_d9ea, 0xd8_ff22, 0x11c_f895, 0x1fd_822d],
        ],
    ),
];

fn colliding(number: u32) -> Vec<u8> {
    format!("{}{number:08x}", "n".repeat(247)).into_bytes()
}

/// A kind of directory.
#[derive(Debug, Clone, Copy)]
struct Kind {
    block_bytes: u32,
    /// The hash; `None` for a volume without `dir_index`.
    hash: Option<HashVersion>,
    /// Range of the length of a name in bytes.
    name_bytes: (u64, u64),
    /// Number of names towards which the directory grows.
    names: usize,
}

const fn kind(block_bytes: u32, hash: HashVersion, name_bytes: (u64, u64), names: usize) -> Kind {
    let hash = Some(hash);
    Kind {
        block_bytes,
        hash,
        name_bytes,
        names,
    }
}

const fn linear(block_bytes: u32, names: usize) -> Kind {
    Kind {
        block_bytes,
        hash: None,
        name_bytes: (1, 60),
        names,
    }
}

impl Kind {
    /// Returns a volume whose directories are of this kind.
    fn volume(self) -> (Rig, Volume) {
        let rig = Rig::new(Place::Internal, self.block_bytes, VOLUME_BYTES);
        let home = device(&rig.home);
        let mut first = home.read_block(0, 2048).expect("memory does not fail");
        let bytes = std::sync::Arc::make_mut(&mut first);
        let mut edit = |at: u64, value: &dyn Fn(u32) -> u32| {
            let field = &mut bytes[at as usize..at as usize + 4];
            let old = u32::from_le_bytes(field.try_into().expect("4 bytes"));
            field.copy_from_slice(&value(old).to_le_bytes());
        };
        match self.hash {
            Some(hash) => {
                let number = u32::from(hash.raw_on_disk());
                edit(DEFAULT_HASH, &|old| old & !0xFF | number);
                let is_unsigned = hash as u8 >= 3;
                edit(FLAGS, &|old| old & !3 | if is_unsigned { 2 } else { 1 });
            }
            None => edit(FEATURES, &|old| old & !DIR_INDEX),
        }
        home.write_blocks(0, vec![first])
            .expect("memory does not fail");
        let volume = rig.open(quiet(DataMode::Writeback));
        (rig, volume)
    }

    fn name(self, random: &mut Random) -> Vec<u8> {
        let (least, most) = self.name_bytes;
        if let Some(hash) = self.hash
            && most == 255
            && random.below(2) == 0
        {
            let plain = |version: HashVersion| version.raw_on_disk();
            let table = COLLISIONS.iter().find(|(of, _)| plain(*of) == plain(hash));
            let groups = table.expect("each hash has its collisions").1;
            let group: &&[u32] = random.pick(groups);
            return colliding(*random.pick(group));
        }
        let length = least + random.below(most - least + 1);
        // Signed and unsigned hashes differ for bytes above 127.
        let byte =
            |random: &mut Random| *random.pick(b"abcdefghijklmnopqrstuvwxyz0123\x80\xC3\xFF\xA9");
        (0..length).map(|_| byte(random)).collect()
    }
}

/// A listing in progress.
struct Listing {
    /// The cookie at which it continues.
    cookie: u64,
    /// The names read so far, each with the cookie after it.
    read: Vec<(Vec<u8>, u64)>,
    /// Names that have existed since it started.
    throughout: BTreeSet<Vec<u8>>,
    /// Number of times that each name has existed since then.
    times: BTreeMap<Vec<u8>, u32>,
}

/// A directory with its model.
struct Watched<'v> {
    volume: &'v Volume,
    directory: InodeNr,
    other: InodeNr,
    names: BTreeSet<Vec<u8>>,
    listings: Vec<Listing>,
    fresh: u64,
    finished: u32,
}

impl Watched<'_> {
    fn open(&mut self) {
        let dots = [b".".to_vec(), b"..".to_vec()];
        let throughout: BTreeSet<_> = self.names.iter().cloned().chain(dots).collect();
        let times = throughout.iter().map(|name| (name.clone(), 1)).collect();
        self.listings.push(Listing {
            cookie: 0,
            read: Vec::new(),
            throughout,
            times,
        });
    }

    fn came(&mut self, name: Vec<u8>) {
        for listing in &mut self.listings {
            *listing.times.entry(name.clone()).or_default() += 1;
        }
        self.names.insert(name);
    }

    fn went(&mut self, name: &[u8]) {
        for listing in &mut self.listings {
            listing.throughout.remove(name);
        }
        assert!(self.names.remove(name));
    }

    fn some(&self, random: &mut Random) -> Option<Vec<u8>> {
        let count = self.names.len() as u64;
        let at = random.below(count.max(1)) as usize;
        self.names.iter().nth(at).cloned()
    }

    fn create(&mut self, name: Vec<u8>) {
        if self.names.contains(&name) {
            return;
        }
        let new = NewInode::default();
        self.volume
            .create(self.directory, &name, &new)
            .expect("create");
        self.came(name);
    }

    fn unlink(&mut self, name: &[u8]) {
        self.volume.unlink(self.directory, name).expect("unlink");
        self.went(name);
    }

    /// Renames within the directory, into it or out of it.
    fn rename(&mut self, old: &[u8], new: Vec<u8>, random: &mut Random) {
        let (here, there) = (self.directory, self.other);
        let replaces = self.names.contains(&new);
        match random.below(4) {
            0 if replaces && old != new => {
                let mode = RenameMode::Exchange;
                self.volume
                    .rename(here, old, here, &new, mode)
                    .expect("exchange");
            }
            0 | 1 => {
                self.fresh += 1;
                let outside = format!("{:020}", self.fresh).into_bytes();
                let mode = RenameMode::Replace;
                self.volume
                    .rename(here, old, there, &outside, mode)
                    .expect("out");
                self.went(old);
                if random.below(2) == 0 {
                    let is_there = self.names.contains(&new);
                    self.volume
                        .rename(there, &outside, here, &new, mode)
                        .expect("in");
                    if !is_there {
                        self.came(new);
                    }
                }
            }
            _ => {
                let mode = RenameMode::Replace;
                self.volume
                    .rename(here, old, here, &new, mode)
                    .expect("rename");
                if old != new {
                    self.went(old);
                    if !replaces {
                        self.came(new);
                    }
                }
            }
        }
    }

    /// Reads a few more names of one listing, and compares the listing at its end.
    fn read(&mut self, at: usize, random: &mut Random) {
        let room = 1 + random.below(BUFFER_MAX) as usize;
        // A caller whose buffer is full finds out by the name that does not fit, or by the last
        // that does.
        let takes_last = random.below(2) == 0;
        let listing = &mut self.listings[at];
        let mut taken = 0;
        let mut is_stopped = false;
        let start = listing.cookie;
        let visit = &mut |next: u64, entry: ext::volume::Entry| {
            assert!(next > 0 && next <= i64::MAX as u64, "off_t holds a cookie");
            if taken == room {
                is_stopped = true;
                return false;
            }
            taken += 1;
            listing.read.push((entry.name, next));
            listing.cookie = next;
            is_stopped = takes_last && taken == room;
            !is_stopped
        };
        self.volume
            .read_directory(self.directory, start, visit)
            .expect("readdir");
        if !is_stopped {
            let listing = self.listings.swap_remove(at);
            self.finished += 1;
            listing.check();
        }
    }
}

impl Listing {
    /// Goes back to an earlier place, as `seekdir` does.
    fn seek(&mut self, random: &mut Random) {
        let at = random.below(self.read.len() as u64 + 1) as usize;
        self.read.truncate(at);
        self.cookie = self.read.last().map_or(0, |(_, cookie)| *cookie);
    }

    fn check(&self) {
        let mut counts = BTreeMap::<&[u8], u32>::new();
        for (name, _) in &self.read {
            *counts.entry(name).or_default() += 1;
        }
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        for name in &self.throughout {
            let count = counts.get(name.as_slice()).copied().unwrap_or(0);
            assert_eq!(count, 1, "{:?} was there throughout", shown(name));
        }
        for (name, count) in counts {
            let times = self.times.get(name).copied().unwrap_or(0);
            assert!(count <= times, "{:?} was there {times} times", shown(name));
        }
    }
}

/// Runs one seed: names are added up to the number of the kind, and removed again, while listings
/// continue.
fn watch(kind: Kind, seed: u64) {
    let mut random = Random::new(seed);
    let (rig, volume) = kind.volume();
    let new = NewInode::default();
    let make = |name: &[u8]| {
        volume
            .make_directory(InodeNr::ROOT, name, &new)
            .expect("mkdir")
    };
    let (directory, other) = (make(b"watched"), make(b"other"));
    let mut watched = Watched {
        volume: &volume,
        directory,
        other,
        names: BTreeSet::new(),
        listings: Vec::new(),
        fresh: 0,
        finished: 0,
    };
    let mut is_growing = true;
    for _ in 0..(kind.names * 4).max(STEPS_MIN) {
        match random.below(12) {
            0 if watched.listings.len() < LISTINGS_MAX => watched.open(),
            0..=3 if !watched.listings.is_empty() => {
                let at = random.below(watched.listings.len() as u64) as usize;
                if random.below(12) == 0 {
                    watched.listings[at].seek(&mut random);
                }
                watched.read(at, &mut random);
            }
            4 => {
                if let Some(old) = watched.some(&mut random) {
                    let beside = watched.some(&mut random).filter(|_| random.below(2) == 0);
                    let name = beside.unwrap_or_else(|| kind.name(&mut random));
                    watched.rename(&old, name, &mut random);
                }
            }
            chance if (chance < 10) == is_growing => {
                // Several at once, so that blocks fill between two reads.
                for _ in 0..=random.below(if is_growing { 8 } else { 1 }) {
                    watched.create(kind.name(&mut random));
                }
            }
            _ => {
                if let Some(name) = watched.some(&mut random) {
                    watched.unlink(&name);
                }
            }
        }
        is_growing = match watched.names.len() {
            0 => true,
            count if count > kind.names => false,
            _ => is_growing,
        };
    }
    while !watched.listings.is_empty() {
        watched.read(0, &mut random);
    }
    assert!(watched.finished >= 3, "{} listings", watched.finished);
    let flags = volume.attributes(directory).expect("attributes").flags;
    let is_indexed = kind.hash.is_some() && kind.names > 30;
    assert_eq!(flags.contains(InodeFlags::INDEX), is_indexed, "{kind:?}");
    volume.close().expect("close");
    rig.assert_fsck_clean("after changes beside listings");
}

fn watch_all(kinds: &[Kind]) {
    let wanted = std::env::var("JEXT_TEST_LISTINGS").ok();
    let count = wanted.map_or(SEEDS, |count| {
        count.parse().expect("JEXT_TEST_LISTINGS is a number")
    });
    for kind in kinds {
        let first = first_seed();
        for seed in first..first + count {
            let kind = *kind;
            let run = sim::run(sim::Config::fair(seed), move || watch(kind, seed));
            run.unwrap_or_else(|error| panic!("{kind:?}, seed {seed}: {error}"));
        }
    }
}

#[test]
fn directories_without_an_index() {
    watch_all(&[linear(1024, 20), linear(1024, 300), linear(4096, 400)]);
}

#[test]
fn one_block_that_stays_one() {
    watch_all(&[
        kind(1024, HashVersion::HalfMd4, (1, 8), 12),
        kind(4096, HashVersion::LegacyUnsigned, (1, 60), 25),
    ]);
}

#[test]
fn one_block_that_becomes_an_htree() {
    watch_all(&[
        kind(1024, HashVersion::HalfMd4, (1, 40), 60),
        kind(2048, HashVersion::TeaUnsigned, (1, 40), 200),
        kind(4096, HashVersion::HalfMd4Unsigned, (20, 30), 250),
        kind(4096, HashVersion::Tea, (100, 200), 120),
    ]);
}

#[test]
fn htrees_of_two_levels() {
    watch_all(&[kind(1024, HashVersion::HalfMd4, (200, 254), 900)]);
}

#[test]
fn names_that_share_hashes() {
    for (version, groups) in COLLISIONS {
        for group in groups {
            let hash = |number: &u32| dx_hash(version, HASH_SEED, &colliding(*number)).major;
            assert!(group.iter().all(|number| hash(number) == hash(&group[0])));
        }
    }
    watch_all(&[
        kind(1024, HashVersion::Legacy, (255, 255), 60),
        kind(1024, HashVersion::LegacyUnsigned, (1, 255), 60),
        kind(1024, HashVersion::HalfMd4, (1, 255), 60),
        kind(1024, HashVersion::Tea, (1, 255), 60),
        kind(4096, HashVersion::Legacy, (1, 255), 100),
    ]);
}

/// A listing that stops in the middle of a block that becomes an htree, as a minimal test.
#[test]
fn a_listing_survives_the_conversion_to_an_htree() {
    assert_notices("directory/one-block-by-offset", list_beside_conversion);
}

fn list_beside_conversion() {
    let (_rig, volume) = kind(4096, HashVersion::HalfMd4, (24, 24), 130).volume();
    let new = NewInode::default();
    let directory = volume.create_directory("/d").expect("mkdir");
    let create = |number: u32| {
        let name = format!("name-of-24-bytes-len-{number:03}");
        volume
            .create(directory, name.as_bytes(), &new)
            .expect("create");
    };
    (0..100).for_each(create);
    let mut seen = BTreeMap::<Vec<u8>, u32>::new();
    let mut cookie = 0;
    volume
        .read_directory(directory, 0, &mut |next, entry| {
            *seen.entry(entry.name).or_default() += 1;
            cookie = next;
            seen.len() < 60
        })
        .expect("readdir");
    (100..130).for_each(create);
    volume
        .read_directory(directory, cookie, &mut |_, entry| {
            *seen.entry(entry.name).or_default() += 1;
            true
        })
        .expect("readdir");
    let twice = seen.values().filter(|count| **count > 1).count();
    assert_eq!(twice, 0, "names are read twice");
    let old = (0..100).map(|number| format!("name-of-24-bytes-len-{number:03}"));
    let missing = old.filter(|name| !seen.contains_key(name.as_bytes()));
    assert_eq!(missing.count(), 0, "names are left out");
}
