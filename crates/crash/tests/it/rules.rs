//! Rules that few bugs break: for each, a device that does something else than it is asked to
//! stands for an engine with that bug, and the rule is the one that is named. Without the bug, the
//! same workload keeps it.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use block::{BlockDevice, Geometry, Outcome, Request, Ticket};
use crash::disks::Disks;
use crash::explore::{Limits, explore};
use crash::findings::Tally;
use crash::image::SECTOR_BYTES;
use crash::mode::OrderedScope;
use crash::op::Op;
use crash::recording::Recording;
use crash::rule::Rule;
use crash::run::{prepare, record_on};
use crash::tag::Tag;
use crash::workload::Workload;
use layout::Block;
use rt::Mutex;

/// The treatment of blocks of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// The second half of a block stays in its version before.
    Mixed,
    /// The first block of a file stays in its version before.
    FirstIsOld,
    /// They are not written.
    NotWritten,
}

/// A block of a file, by what stands in its second half: the first may be escaped.
type Key = (u32, u32);

struct Planted {
    inner: Arc<dyn BlockDevice>,
    bug: Bug,
    /// The newest version of a block, and the one before.
    seen: Mutex<BTreeMap<Key, (Block, Option<Block>)>>,
}

fn tag_of(block: &Block) -> Option<Tag> {
    (block.len() == 2 * SECTOR_BYTES)
        .then(|| Tag::read(&block[SECTOR_BYTES..]))
        .flatten()
        .filter(|tag| tag.file != crash::tag::NOBODY && tag.sector % 2 == 1)
}

impl Planted {
    fn change(&self, block: &mut Arc<Block>) {
        let Some(tag) = tag_of(block) else { return };
        let mut seen = self.seen.lock();
        let versions = seen
            .entry((tag.file, tag.sector))
            .or_insert_with(|| (Block::clone(block), None));
        if tag_of(&versions.0) != Some(tag) {
            versions.1 = Some(std::mem::replace(&mut versions.0, Block::clone(block)));
        }
        let Some(old) = &versions.1 else { return };
        match self.bug {
            Bug::Mixed => {
                let mut mixed = Block::clone(block);
                mixed[SECTOR_BYTES..].copy_from_slice(&old[SECTOR_BYTES..]);
                *block = mixed.into_arc();
            }
            Bug::FirstIsOld if tag.sector == 1 => *block = Block::clone(old).into_arc(),
            _ => {}
        }
    }
}

impl BlockDevice for Planted {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, mut batch: Vec<Request>) -> Ticket {
        let is_data = |request: &Request| match request {
            Request::Write { payload, .. } => payload.iter().all(|block| tag_of(block).is_some()),
            _ => false,
        };
        if self.bug == Bug::NotWritten && batch.iter().all(is_data) {
            return Ticket::ready(batch.iter().map(|_| Ok(Outcome::Done)).collect());
        }
        for request in &mut batch {
            if let Request::Write { payload, .. } = request {
                payload.iter_mut().for_each(|block| self.change(block));
            }
        }
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

fn recorded(setting: &str, ops: &str, bug: Bug) -> Recording {
    let setting = setting.parse().unwrap();
    let ops: Vec<Op> = ops
        .split(';')
        .map(|op| op.trim().parse().unwrap())
        .collect();
    let workload = Workload {
        setting,
        prepared: vec![0],
        lanes: vec![ops],
    };
    let prepared = prepare(&workload, &Disks::make(&setting).unwrap()).unwrap();
    let plant = move |inner| -> Arc<dyn BlockDevice> {
        let seen = Mutex::default();
        Arc::new(Planted { inner, bug, seen })
    };
    record_on(&workload, &prepared, plant).unwrap()
}

/// The rule that a recording breaks, if any, by what it leaves.
fn explored(recording: Recording) -> (Tally, Option<Rule>) {
    let limits = Limits {
        watches: false,
        ..Limits::new(3)
    };
    let (tally, found) = explore(Rc::new(recording), limits);
    if let Some(found) = &found {
        println!("{}", found.broken);
    }
    (tally, found.map(|found| found.broken.rule))
}

fn check(setting: &str, ops: &str, bug: Bug, rule: Rule) {
    let (tally, found) = explored(recorded(setting, ops, Bug::None));
    assert_eq!(found, None, "{setting}");
    assert!(
        tally.rules.get(rule) > 0,
        "{setting}: {rule} is not exercised"
    );
    let (_, found) = explored(recorded(setting, ops, bug));
    assert_eq!(found, Some(rule), "{setting}: {bug:?}");
}

/// J2: a block is one version of itself, and a write is cut in the order of its blocks.
#[test]
fn blocks_of_two_versions_are_found() {
    for place in ["internal", "external"] {
        let setting = format!("journal,{place}");
        let ops = "create(f); append(f,4); sync; write(f,0,4); sync";
        check(&setting, ops, Bug::Mixed, Rule::J2);
        check(&setting, ops, Bug::FirstIsOld, Rule::J2);
    }
}

/// F5: data is written when it is old.
#[test]
fn data_that_stays_in_memory_is_found() {
    for place in ["internal", "external"] {
        let setting = format!("writeback,{place},writer=500");
        let ops = "create(f); append(f,4); create(g); create(h); create(i); create(j)";
        check(&setting, ops, Bug::NotWritten, Rule::F5);
    }
}

/// `ordered=allocated` orders new blocks, and leaves overwritten ones to their writer: ordering all
/// of them is detected.
#[test]
fn only_new_blocks_are_ordered() {
    for place in ["internal", "external"] {
        let setting = format!("ordered,{place},allocated=1");
        let ops = "create(f); append(f,4); sync; append(f,4); syncdir()";
        check(&setting, ops, Bug::NotWritten, Rule::O1);
        let ops = "create(f); append(f,4); sync; write(f,0,2); create(g); syncdir()";
        let mut recording = recorded(&setting, ops, Bug::None);
        assert_eq!(explored(recording.clone()).1, None);
        recording.workload.setting.ordered = OrderedScope::All;
        assert_eq!(explored(recording).1, Some(Rule::O2));
    }
}
