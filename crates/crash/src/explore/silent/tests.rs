//! Tests that the known uses of a volume's blocks are complete, and that the judge detects a
//! forbidden difference.

use std::collections::BTreeSet;

use ext::volume::{NewInode, SetMode};

use super::harm::Harm;
use super::judge::compare;
use super::look::{Contents, Object};
use super::territory::Claim;
use super::*;
use crate::disks::SUPERBLOCK;
use layout::Block;
use layout::group::GroupDescriptor;
use layout::superblock::Superblock;
use zerocopy::FromBytes;

use crate::image::BLOCK_BYTES;
use crate::setting::CELLS;
use crate::timetable::MADE_AT;

/// Number of times that damage is drawn.
const DRAWN: u64 = 400;

/// Returns a closed volume with inodes of all kinds.
fn filled(disks: &Disks) -> Disks {
    let devices = disks.devices();
    let volume = Volume::open(devices.home_device(), None, quiet(DataMode::Ordered)).expect("open");
    for name in ["one", "two"] {
        let directory = volume.create_directory(name).expect("mkdir");
        let path = format!("{name}/file");
        volume.write_file(&path, &[7; 20_000]).expect("write");
        let file = volume.resolve(&path, false).expect("resolve");
        volume
            .set_attribute(file, b"user.name", name.as_bytes(), SetMode::Any)
            .expect("set an attribute");
        let target = [b'x'; 100];
        volume
            .symlink(directory, b"link", &target, &NewInode::default())
            .expect("symlink");
    }
    volume.close().expect("close");
    devices.disks(disks)
}

fn inside(test: impl FnOnce(Disks, Sight, Territory) + 'static) {
    let disks = Disks::make(&Setting::new(CELLS[0])).expect("a volume is made");
    let run = sim::run(world(Schedule::Fair, MADE_AT, None), move || {
        let good = filled(&disks);
        let (sight, territory) = survey(&good, DataMode::Ordered).expect("it can be read");
        test(good, sight, territory);
    });
    run.expect("the world ends well");
}

/// Every block that is in use by the block bitmap is claimed, or belongs to the log, or to the
/// reserved GDT blocks and their block map, which are never read.
#[test]
fn every_block_in_use_is_known() {
    inside(|good, _, territory| {
        let log: BTreeSet<u64> = good.journal_blocks.iter().copied().collect();
        let mut parts = territory.claims.iter();
        let is_bitmap = |(_, claim): &(&u64, &Claim)| claim.part == Part::BlockBitmap;
        let (bitmap, _) = parts.find(is_bitmap).expect("a bitmap of blocks");
        let bits = good.home.block(*bitmap);
        let blocks = SUPERBLOCK..good.home.size_bytes() / BLOCK_BYTES as u64;
        let (used, free): (Vec<u64>, Vec<u64>) = blocks.partition(|block| {
            let bit = (block - SUPERBLOCK) as usize;
            bits[bit / 8] & 1 << (bit % 8) != 0
        });
        let is_known = |block: &&u64| territory.claims.contains_key(block) || log.contains(block);
        assert_eq!(free.iter().find(is_known), None);
        let unknown = used.iter().filter(|block| !is_known(block));
        let (superblock, _) = Superblock::ref_from_prefix(good.home.block(SUPERBLOCK))
            .expect("a block holds the superblock");
        let room = u64::from(superblock.reserved_descriptor_blocks.get());
        let last = SUPERBLOCK + 1 + room;
        let beyond: Vec<&u64> = unknown.filter(|block| **block > last).collect();
        assert_eq!(beyond.len(), 1, "{beyond:?}");
    });
}

/// Returns which of attributes, contents and extended attributes of an inode may differ.
fn free(part: Part, is_owner: bool, is_link: bool) -> [bool; 3] {
    match part {
        Part::InodeTable => [is_owner; 3],
        Part::Directory | Part::Map => [false, is_owner, false],
        Part::Data => [false, is_owner && is_link, false],
        Part::Attributes => [false, false, is_owner],
        _ => [false; 3],
    }
}

/// Every part of every inode is made an error, under all kinds of damage.
#[test]
fn an_error_elsewhere_is_noticed() {
    inside(|good, sight, territory| {
        for seed in 0..DRAWN {
            let mut random = SplitMix::new(seed);
            let harm = Harm::draw(&territory, &good.home, &good.home, &mut random);
            if harm.moves_things() || harm.moves_bitmaps() {
                continue;
            }
            let good = seen_with(&harm, &sight);
            assert_eq!(compare(&harm, &sight, &good), Ok(()), "{harm}");
            for (nr, object) in &good.objects {
                let is_link = matches!(object.contents, Ok(Contents::Symlink(_)));
                let free = free(harm.claim.part, harm.claim.owners.contains(nr), is_link);
                for (spoilt, is_free) in spoilt(object).into_iter().zip(free) {
                    let mut bad = good.clone();
                    bad.objects.insert(*nr, spoilt);
                    let compared = compare(&harm, &sight, &bad);
                    assert_eq!(compared.is_ok(), is_free, "{harm}: {compared:?}");
                }
            }
        }
    });
}

/// Returns the visible state with the least effect of the damage.
fn seen_with(harm: &Harm, sight: &Sight) -> Sight {
    let mut seen = sight.clone();
    let mut owners = harm.claim.owners.iter();
    if harm.claim.part == Part::Data
        && let Some(object) = owners.next().and_then(|nr| seen.objects.get_mut(nr))
        && let Ok(Contents::File(bytes)) = &mut object.contents
    {
        let start = harm.claim.file_block as usize * BLOCK_BYTES;
        let end = bytes.len().min(start + BLOCK_BYTES);
        bytes[start..end].copy_from_slice(&harm.bad[..end - start]);
    }
    seen
}

fn spoilt(object: &Object) -> [Object; 3] {
    let mut spoilt = [object.clone(), object.clone(), object.clone()];
    spoilt[0].attributes = Err(Error::NotFound);
    spoilt[1].contents = Err(Error::NotFound);
    spoilt[2].marks = Err(Error::NotFound);
    spoilt
}

/// A descriptor that places the bitmap in an inode's block of attributes excuses that the inode is
/// refused, and no other inode.
#[test]
fn an_inode_that_is_robbed_of_its_attributes_may_be_refused() {
    inside(|good, sight, territory| {
        let mut attributes = territory.claims.iter();
        let (taken, claim) = attributes
            .find(|(_, claim)| claim.part == Part::Attributes)
            .expect("a block of attributes");
        let block = SUPERBLOCK + 1;
        let mut bad = Block::clone(good.home.block(block));
        let (group, _) = GroupDescriptor::mut_from_prefix(&mut bad).expect("a descriptor");
        group.block_bitmap_low = (*taken as u32).into();
        let harm = Harm::misdirected(&territory, &good.home, block, bad.into_arc());
        assert!(harm.moves_bitmaps());
        for nr in sight.objects.keys() {
            let mut seen = sight.clone();
            let object = seen.objects.get_mut(nr).expect("it is there");
            object.attributes = Err(Error::NotFound);
            let compared = compare(&harm, &sight, &seen);
            let is_robbed = claim.owners.contains(nr);
            assert_eq!(compared.is_ok(), is_robbed, "{nr}: {compared:?}");
        }
    });
}
