//! Damaged images: one field or bit of one structure is wrong, and files are removed, renamed,
//! truncated and given attributes. Inodes that were not named and do not share the damaged
//! structure must stay as they were, and nothing may panic or hang.
//!
//! Each operation runs on a fresh copy of the image. Then files are written until the volume is
//! full, so that wrongly freed blocks get another owner; the volume is closed, opened (which
//! completes orphans), filled again and closed. Every inode that was reachable before is compared:
//! attributes, contents, extended attributes, entries. So are the new files.
//!
//! The inodes that share the damage are determined from the bytes of the image ([`claims`]), not by
//! the engine: see [`Claims::sharing`].
//!
//! `JEXT_TEST_MUTATED=2000 JEXT_TEST_SEED=0 cargo test --release -p jext-ext --test it untouched --
//! --nocapture` prints the counts; `JEXT_TEST_SHARING=1` also prints changes of inodes that share
//! the damage.

mod base;
mod claims;
mod mutation;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ext::options::DataMode;
use ext::volume::{FileKind, NewInode, RenameMode, SetAttributes, SetMode};
use ext::{Error, Volume};
use layout::InodeNr;
use rt::Mutex;
use testkit::Random;

use crate::hostile::first_seed;
use crate::rig::{Rig, device, quiet};
use base::{Base, INDEXED, MOVED, bases};
use claims::{Claims, INODE_JOURNAL};
use view::{Seen, see, see_all};

/// Number of images in the default tests.
const IMAGES: u64 = 26;
/// Size of a file that fills the volume, in blocks.
const FILL_BLOCKS: usize = 20;
/// Largest number of files that fill a volume.
const FILL_MAX: u32 = 40;
/// Number of findings of one image to print.
const SHOWN_MAX: usize = 3;
/// Virtual time, and number of steps, after which a world hangs.
const TIME_MAX: rt::Nanos = rt::Nanos::from_secs(24 * 3600);
const STEP_COUNT_MAX: u64 = 400_000_000;

/// An operation on a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    /// Open and fill the volume, and nothing else.
    Nothing,
    /// unlink, or rmdir of a directory.
    Remove,
    Rename,
    SetAttribute,
    Truncate,
}

const OPS: [Op; 4] = [Op::Remove, Op::Rename, Op::SetAttribute, Op::Truncate];

/// The target of an operation.
#[derive(Debug, Clone)]
struct Target {
    parent: u32,
    name: Vec<u8>,
    nr: u32,
    kind: Option<FileKind>,
}

/// Counts of a run.
#[derive(Debug, Default, Clone)]
struct Tally {
    images: u64,
    refused: u64,
    operations: u64,
    failed: u64,
    compared: u64,
    sharing: BTreeMap<&'static str, u64>,
    findings: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.images += other.images;
        self.refused += other.refused;
        self.operations += other.operations;
        self.failed += other.failed;
        self.compared += other.compared;
        for (rule, count) in &other.sharing {
            *self.sharing.entry(rule).or_default() += count;
        }
        self.findings.extend(other.findings.iter().cloned());
    }
}

/// One image, its original state, and the claims of its bytes.
struct Trial<'b> {
    base: &'b Base,
    rig: Rig,
    before: BTreeMap<u32, Seen>,
    claims: Claims,
    damaged_block: u64,
    data: DataMode,
    seed: u64,
    shows_sharing: bool,
}

/// Files that were written and synced: contents by path.
type Promised = BTreeMap<String, Vec<u8>>;

impl Trial<'_> {
    fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        for (parent, seen) in &self.before {
            let names = seen.entries.iter();
            for (name, nr) in names.filter(|(name, _)| *name != b"." && *name != b"..") {
                let of = self.before.get(nr);
                let attributes = of.and_then(|seen| seen.attributes.as_ref().ok());
                targets.push(Target {
                    parent: *parent,
                    name: name.clone(),
                    nr: *nr,
                    kind: attributes.map(|attributes| attributes.kind),
                });
            }
        }
        targets
    }

    /// Returns the new place of a file: in a small directory, or with a long name in one that may
    /// be an htree.
    fn renamed(&self) -> (&'static str, Vec<u8>) {
        if self.seed.is_multiple_of(2) {
            (MOVED, b"renamed".to_vec())
        } else {
            (INDEXED, vec![b'r'; 250])
        }
    }

    /// Runs the operation, which may fail.
    fn operate(&self, volume: &Volume, op: Op, target: &Target) -> Result<(), Error> {
        let (parent, nr) = (InodeNr::new(target.parent), InodeNr::new(target.nr));
        match op {
            Op::Nothing => Ok(()),
            Op::Remove if target.kind == Some(FileKind::Directory) => {
                volume.remove_directory(parent, &target.name)
            }
            Op::Remove => volume.unlink(parent, &target.name),
            Op::Rename => {
                let (to, name) = self.renamed();
                let to = volume.resolve(to, true).unwrap_or(InodeNr::ROOT);
                volume.rename(parent, &target.name, to, &name, RenameMode::Replace)
            }
            Op::SetAttribute => {
                let value = vec![9; if self.seed.is_multiple_of(2) { 20 } else { 600 }];
                volume.set_attribute(nr, b"user.new", &value, SetMode::Any)
            }
            Op::Truncate => {
                let attributes = volume.attributes(nr)?;
                let size = (self.seed % 3) * attributes.size / 4;
                let change = SetAttributes {
                    size: Some(size),
                    ..Default::default()
                };
                volume.set_attributes(nr, &change)
            }
        }
    }

    /// Creates directories, and writes files until there is no room. Notes the files that a sync
    /// covers.
    fn fill(&self, volume: &Volume, mark: char, promised: &mut Promised) {
        for path in [format!("/fill-{mark}"), format!("/fill-{mark}/inner")] {
            drop(volume.create_directory(&path));
        }
        let mut written = Promised::new();
        // Single blocks take the space that is too small for another large file.
        for (size, blocks) in [("large", FILL_BLOCKS), ("small", 1)] {
            for number in 0..FILL_MAX {
                let path = format!("/fill-{mark}-{size}-{number}");
                let contents = vec![b'0' + number as u8; blocks * self.rig.block_bytes as usize];
                match volume.write_file(&path, &contents) {
                    Ok(()) => drop(written.insert(path, contents)),
                    Err(_) => break,
                }
            }
        }
        if volume.sync().is_ok() {
            promised.extend(written);
        }
    }

    /// Runs one operation on a fresh copy of the image.
    fn try_one(&self, op: Op, target: &Target, tally: &mut Tally) {
        let rig = self.rig.copy();
        let open = || Volume::open(device(&rig.home), rig.log_device(), quiet(self.data));
        let Ok(volume) = open() else {
            tally.refused += 1;
            return;
        };
        tally.operations += 1;
        let mut promised = Promised::new();
        tally.failed += u64::from(self.operate(&volume, op, target).is_err());
        self.fill(&volume, 'a', &mut promised);
        drop(volume.close());
        let volume = match open() {
            Ok(volume) => volume,
            Err(error) => {
                let what = format!("it does not open: {error}");
                return self.judge(INODE_JOURNAL, &self.named(op, target), what, tally);
            }
        };
        self.fill(&volume, 'b', &mut promised);
        drop(volume.close());
        let read_only = ext::MountOptions {
            read_only: true,
            ..quiet(self.data)
        };
        match Volume::open(device(&rig.home), rig.log_device(), read_only) {
            Ok(volume) => {
                self.compare(&volume, op, target, &promised, tally);
                drop(volume.close());
            }
            Err(error) => {
                let what = format!("it cannot be read: {error}");
                self.judge(INODE_JOURNAL, &self.named(op, target), what, tally);
            }
        }
    }

    /// Returns the inodes that an operation changes, and the root, in which files are created.
    fn named(&self, op: Op, target: &Target) -> BTreeSet<u32> {
        let mut named = BTreeSet::from([InodeNr::ROOT.get()]);
        if op != Op::Nothing {
            named.extend([target.parent, target.nr]);
        }
        if op == Op::Rename {
            named.extend(
                self.before[&InodeNr::ROOT.get()]
                    .entries
                    .get(&self.renamed().0.as_bytes()[1..]),
            );
        }
        named
    }

    fn compare(
        &self,
        volume: &Volume,
        op: Op,
        target: &Target,
        promised: &Promised,
        tally: &mut Tally,
    ) {
        let named = self.named(op, target);
        for (nr, seen) in &self.before {
            if op != Op::Nothing && *nr == target.nr {
                continue;
            }
            tally.compared += 1;
            let after = see(volume, InodeNr::new(*nr));
            let is_parent = named.contains(nr);
            let lost = || self.lost_entry(seen, &after, op, target, *nr);
            let Some(what) = seen.difference(&after, is_parent).or_else(lost) else {
                continue;
            };
            self.judge(*nr, &named, format!("inode {nr}: {what}"), tally);
        }
        for (path, contents) in promised {
            tally.compared += 1;
            let read = volume.read_file(path);
            if read.as_ref().is_ok_and(|read| read == contents) {
                continue;
            }
            let what = format!("{path}: {:?}", read.map(|bytes| bytes.len()));
            match self.claims.free_claim() {
                Some(rule) => *tally.sharing.entry(rule).or_default() += 1,
                None => tally.findings.push(what),
            }
        }
    }

    /// Returns a name that a directory has lost or gained besides the intended change.
    fn lost_entry(
        &self,
        before: &Seen,
        after: &Seen,
        op: Op,
        target: &Target,
        nr: u32,
    ) -> Option<String> {
        let is_meant = |name: &[u8]| {
            matches!(op, Op::Remove | Op::Rename) && target.parent == nr && name == target.name
                || name == self.renamed().1
                || name.starts_with(b"fill-")
        };
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let lost = before
            .entries
            .iter()
            .find(|(name, nr)| !is_meant(name) && after.entries.get(*name) != Some(nr));
        let gained = after
            .entries
            .keys()
            .find(|name| !is_meant(name) && !before.entries.contains_key(*name));
        lost.map(|(name, _)| format!("entry {:?} is lost", shown(name)))
            .or_else(|| gained.map(|name| format!("entry {:?} has come", shown(name))))
    }

    fn judge(&self, nr: u32, named: &BTreeSet<u32>, what: String, tally: &mut Tally) {
        let pristine = &self.base.claims;
        match self.claims.sharing(nr, named, pristine, self.damaged_block) {
            Some(rule) => {
                if self.shows_sharing {
                    println!("    shares ({rule}): {what}");
                }
                *tally.sharing.entry(rule).or_default() += 1;
            }
            None => tally.findings.push(what),
        }
    }
}

/// Runs all operations on one image.
fn try_image(base: &Base, seed: u64, step: &Mutex<String>) -> Tally {
    let mut tally = Tally {
        images: 1,
        ..Tally::default()
    };
    let mut random = Random::new(seed);
    let rig = base.rig.copy();
    let mutation = mutation::apply(base, &rig, &mut random);
    *step.lock() = format!("{mutation}, before any operation");
    let read_only = ext::MountOptions {
        read_only: true,
        ..quiet(base.data)
    };
    let Ok(volume) = Volume::open(device(&rig.home), rig.log_device(), read_only) else {
        tally.refused += 1;
        return tally;
    };
    let before = see_all(&volume);
    drop(volume.close());
    let trial = Trial {
        base,
        claims: Claims::of(&rig.home),
        before,
        damaged_block: mutation.at / u64::from(rig.block_bytes),
        data: base.data,
        rig,
        seed,
        shows_sharing: std::env::var_os("JEXT_TEST_SHARING").is_some(),
    };
    let targets = trial.targets();
    let nothing = Target {
        parent: 0,
        name: Vec::new(),
        nr: 0,
        kind: None,
    };
    let all = targets.iter().flat_map(|target| OPS.map(|op| (op, target)));
    let all =
        all.filter(|(op, target)| *op != Op::Truncate || target.kind == Some(FileKind::Regular));
    for (op, target) in [(Op::Nothing, &nothing)].into_iter().chain(all) {
        let name = String::from_utf8_lossy(&target.name).into_owned();
        let name: String = name.chars().take(12).collect();
        let doing = format!(
            "{mutation}, {op:?} of {name:?} ({} in {})",
            target.nr, target.parent
        );
        step.lock().clone_from(&doing);
        let found = tally.findings.len();
        trial.try_one(op, target, &mut tally);
        for finding in &mut tally.findings[found..] {
            *finding = format!("{doing}: {finding}");
        }
        if tally.refused > 0 {
            break;
        }
    }
    tally
}

/// Runs images from the first seed on.
fn run(count: u64) -> Tally {
    let bases = Arc::new(bases());
    let mut all = Tally::default();
    let first = first_seed();
    for seed in first..first + count {
        let config = sim::Config {
            time_max: TIME_MAX,
            step_count_max: STEP_COUNT_MAX,
            ..sim::Config::fair(seed)
        };
        let step = Arc::new(Mutex::new(String::new()));
        let (bases, steps) = (Arc::clone(&bases), Arc::clone(&step));
        let world = sim::run(config, move || {
            let base = &bases[(seed % bases.len() as u64) as usize];
            try_image(base, seed, &steps)
        });
        let found = all.findings.len();
        match world {
            Ok(report) => all.add(&report.value),
            Err(error) => {
                all.images += 1;
                all.findings.push(format!("{}: {error}", step.lock()));
            }
        }
        let new = &all.findings[found..];
        for finding in new.iter().take(SHOWN_MAX) {
            println!("image {seed}: {finding}");
        }
        if new.len() > SHOWN_MAX {
            println!("image {seed}: {} more", new.len() - SHOWN_MAX);
        }
    }
    all
}

#[test]
fn what_was_not_named_stays_as_it_was() {
    let wanted = std::env::var("JEXT_TEST_MUTATED").ok();
    let count = wanted.map_or(IMAGES, |count| {
        count.parse().expect("JEXT_TEST_MUTATED is a number")
    });
    let tally = run(count);
    println!(
        "{} images, {} refused; {} operations, {} failed; {} inodes and new files compared; {} findings",
        tally.images,
        tally.refused,
        tally.operations,
        tally.failed,
        tally.compared,
        tally.findings.len()
    );
    for (rule, count) in &tally.sharing {
        println!("  {count} differences where {rule}");
    }
    assert!(
        tally.findings.is_empty(),
        "{} findings",
        tally.findings.len()
    );
    assert!(
        tally.operations > 20 * count,
        "{} operations",
        tally.operations
    );
}

/// Returns the attributes of a new inode.
fn made() -> NewInode {
    NewInode::default()
}
