//! Unrecovered images: recovered by jext, by e2fsck and by the kernel.

use ext::volume::OpenReport;
use ext::{MountOptions, Volume};
use testkit::Mount;
use testkit::same::{Allowed, Bytes, differences};
use testkit::tree::{self, Node, Tree};

use super::sample::Sample;
use super::{Counts, Difference};
use crate::disks::{Disks, quiet};
use crate::e2fsck::Files;
use crate::image::{BLOCK_BYTES, Image};
use crate::mode::Structures;
use crate::observe::{Contents, LOST_AND_FOUND, Observation, observe};
use crate::op::Special;
use crate::rule::{Broken, Rule};
use crate::setting::Schedule;
use crate::timetable::RECOVERED_AT;
use crate::world::world;

/// Maximum number of differing byte ranges that are reported.
const TOLD: usize = 4;
/// Mount options with the least effect: the kernel replays the log and completes orphans.
const KERNEL_OPTIONS: &str = "ro,barrier=0";

/// An image that another program has recovered.
struct Recovered {
    report: OpenReport,
    tree: Tree,
    disks: Disks,
}

/// Recovers a sample in three ways and compares.
pub(super) fn check(sample: &Sample) -> Result<Counts, Box<Difference>> {
    let structures = sample.recording.workload.setting.cell.structures;
    compare(&sample.disks, structures).map_err(|broken| sample.difference(broken))
}

fn compare(disks: &Disks, structures: Structures) -> Result<Counts, Broken> {
    let replayed = open(disks, true)?;
    let ours = open(disks, false)?;
    let (deleted, truncated) = (ours.report.orphans_deleted, ours.report.orphans_truncated);
    let mut tree = ours.tree;
    if truncated > 0 {
        // They show when the truncation was completed.
        let files = tree.values_mut().filter(|node| node.kind == '-');
        files.for_each(|node| node.mtime = None);
    }
    let is_finished = deleted + truncated > 0;
    let same = |who: &str, theirs: &Disks, seen: &Tree, allowed: &Allowed| {
        if let Some(difference) = tree::difference(&tree, seen) {
            let what = format!("{who} recovers another tree than we do: {difference}");
            return Err(Broken::new(Rule::U2, what));
        }
        let told = if is_finished {
            Vec::new()
        } else {
            // Of a volume that is read only, each treats the mark differently.
            let [ours, theirs] = [&replayed.disks, theirs].map(Disks::without_orphan_mark);
            differences(bytes(&ours), bytes(&theirs), allowed)
        };
        if told.is_empty() {
            return Ok(());
        }
        let (count, first) = (told.len(), told[..told.len().min(TOLD)].join("; "));
        let what = format!("{who} replays to other bytes than we do, in {count} places: {first}");
        Err(Broken::new(Rule::U2, what))
    };
    let files = Files::write(disks)?;
    files.repair()?;
    let theirs = files.read(disks)?;
    let checked = Allowed {
        errors: true,
        ..Allowed::default()
    };
    same("e2fsck", &theirs, &open(&theirs, true)?.tree, &checked)?;
    let files = Files::write(disks)?;
    let seen = kernel_tree(&files, structures)?;
    same(
        "the kernel",
        &files.read(disks)?,
        &seen,
        &Allowed::default(),
    )?;
    Ok(Counts {
        same_trees: 1,
        same_bytes: u64::from(!is_finished),
        replayed: u64::from(replayed.report.replayed_transactions > 0),
        ..Counts::default()
    })
}

/// Opens an image with the engine, reads it, and closes it.
fn open(disks: &Disks, read_only: bool) -> Result<Recovered, Broken> {
    let disks = disks.clone();
    let failed = |error: &dyn core::fmt::Display| {
        Broken::new(Rule::U1, format!("recovery did not end well: {error}"))
    };
    let run = sim::run(world(Schedule::Fair, RECOVERED_AT, None), move || {
        let devices = disks.devices();
        let options = MountOptions {
            read_only,
            ..quiet(crate::mode::DataMode::Ordered)
        };
        let (home, log) = (devices.home_device(), devices.log_device());
        let (volume, report) = Volume::open_with_report(home, log, options)?;
        let observation = observe(&volume, false);
        volume.close()?;
        Ok(Recovered {
            report,
            tree: tree_of(&observation?),
            disks: devices.disks(&disks),
        })
    });
    run.map_err(|error| failed(&error))?
        .value
        .map_err(|error: ext::Error| failed(&error))
}

/// Returns the tree of an observation, path by path.
fn tree_of(observation: &Observation) -> Tree {
    let mut tree = Tree::new();
    let mut waiting = vec![(Vec::new(), 0)];
    while let Some((path, place)) = waiting.pop() {
        let seen = &observation.nodes[place];
        let mut device = None;
        let (kind, contents) = match &seen.contents {
            Contents::File(bytes) => ('-', bytes.clone()),
            Contents::Symlink(target) => ('l', target.clone()),
            Contents::Directory(names) => {
                for (name, child) in names {
                    waiting.push(([path.as_slice(), b"/", name].concat(), *child));
                }
                ('d', Vec::new())
            }
            Contents::Special(special) => {
                let (letter, number) = match special {
                    Special::Fifo => ('p', None),
                    Special::Socket => ('s', None),
                    Special::Character(number) => ('c', Some(*number)),
                    Special::Block(number) => ('b', Some(*number)),
                };
                device = number.map(|number| (number.major, number.minor));
                (letter, Vec::new())
            }
        };
        let node = Node {
            kind,
            permissions: seen.permissions,
            uid: seen.owner.0,
            gid: seen.owner.1,
            links: Some(seen.links),
            mtime: Some(seen.modified),
            contents: Some(contents),
            device,
        };
        tree.insert(path, node);
    }
    tree
}

fn kernel_tree(files: &Files, structures: Structures) -> Result<Tree, Broken> {
    let mount = Mount::new(
        &files.image,
        files.journal.as_deref(),
        match structures {
            Structures::Ext3 => "ext3",
            Structures::Ext4 | Structures::Inline | Structures::Clustered => "ext4",
        },
        KERNEL_OPTIONS,
    );
    let mount = mount
        .map_err(|said| Broken::new(Rule::U2, format!("the kernel does not mount it: {said}")))?;
    let mut tree = tree::of_folder(mount.path());
    // An observation leaves out `lost+found`, which may contain the filler.
    let lost = [b"/", LOST_AND_FOUND].concat();
    tree.retain(|path, _| !path.starts_with(&lost));
    Ok(tree)
}

fn bytes(disks: &Disks) -> Bytes {
    let log = if disks.log.is_some() {
        let first = disks.journal_block as usize;
        core::iter::once(first..first + 1).collect()
    } else {
        let blocks = disks.journal_blocks.iter();
        blocks
            .map(|block| *block as usize..*block as usize + 1)
            .collect()
    };
    Bytes {
        home: disks.home.to_bytes(),
        journal: disks.log.as_ref().map(Image::to_bytes),
        block_bytes: BLOCK_BYTES,
        log,
    }
}
