//! Changing the parameters of a closed volume: label, UUID, reserved blocks, defaults, counts and
//! times of checks, features that need no conversion, the journal and the orphan file.
//!
//! Only a volume that was closed cleanly is changed: its journal is empty, so that no replay can
//! undo the change.
//!
//! | change of the journal | durable first | after a crash in between |
//! |---|---|---|
//! | remove | the superblock without it | blocks that only e2fsck frees |
//! | remove, external | the superblock without it | a journal that this volume can attach again |
//! | create, internal | its blocks, empty | blocks that only e2fsck frees |
//! | attach, external | the device, with its user | a journal that this volume can attach again |
//! | external, new volume UUID | the device, with it | the same UUID given again completes it |
//! | make the orphan file | its blocks, empty | a file without a name, about which e2fsck asks |
//! | remove the orphan file | the superblock without it | blocks that only e2fsck frees |
//! | make the block of `mmp` | the block | a block that only e2fsck frees |
//! | remove the block of `mmp` | the superblock without it | a block that only e2fsck frees |
//! | checksums | the mark that the volume is not valid | wrong ones, which e2fsck corrects |
//! | make quota files | the files, counted | inodes and blocks that only e2fsck frees, or names |
//! | count quota files again | each entry, through the journal | the same command completes it |
//! | remove quota files | the superblock without them | inodes and blocks that only e2fsck frees |
//! | larger inodes | new tables in free blocks, one transaction | the volume before, or after |
//!
//! A volume with multiple mount protection is taken first, as a checker takes it: no node can open
//! it meanwhile. The protection is made before other changes, and removed after them. Inodes become
//! larger by a step of their own before others, and quotas are changed by one after them.

mod checksums;
mod features;
mod inode_size;
mod journal;
mod multi_mount;
mod orphan_file;
mod own_files;
mod quota;

use std::sync::Arc;

use block::BlockDevice;
use layout::checksum;
use layout::feature::{Compatible, Incompatible, ReadOnlyCompatible};
use layout::inode::BASE_SIZE;
use layout::superblock as disk;

use checksums::Conversion;

use crate::core::Core;
use crate::disk::superblock::{Superblock, split_time};
use crate::error::{Error, Result};
use crate::format::mkfs::superblock_block;
use crate::options::MountOptions;
use features::{Removal, clear_indexes};
pub use features::{free_feature, removable_feature};
pub use layout::feature::Word;
pub use layout::hash::HashVersion;
pub use layout::quota::QuotaKind;
pub use layout::superblock::{DefaultMountOptions, ErrorPolicy};
pub use multi_mount::clear_multi_mount;

/// Largest percentage of a volume that can be reserved.
const RESERVED_PERCENT_MAX: f64 = 50.0;

/// The changes to make; fields that are `None` stay as they are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changes {
    /// Label of at most 16 bytes.
    pub label: Option<String>,
    /// The UUID.
    pub uuid: Option<[u8; 16]>,
    /// Percentage of the blocks reserved for privileged callers.
    pub reserved_percent: Option<f64>,
    /// Number of blocks reserved for privileged callers.
    pub reserved_blocks: Option<u64>,
    /// The reaction to errors.
    pub errors: Option<ErrorPolicy>,
    /// Number of mounts after which a check is due; 0xFFFF for never.
    pub max_mount_count: Option<u16>,
    /// Number of mounts since the last check.
    pub mount_count: Option<u16>,
    /// Seconds after which a check is due; 0 for never.
    pub check_interval: Option<u32>,
    /// Time of the last check in seconds since 1970.
    pub check_time: Option<i64>,
    /// User that may use the reserved blocks.
    pub reserved_user: Option<u16>,
    /// Group that may use the reserved blocks.
    pub reserved_group: Option<u16>,
    /// Number of blocks on a disk of an array before the next disk.
    pub raid_stride: Option<u16>,
    /// Number of blocks in a stripe of an array.
    pub raid_stripe_width: Option<u32>,
    /// Seconds between two renewals of multiple mount protection; 0 for the default.
    pub mmp_update_seconds: Option<u16>,
    /// Hash of new indexes of directories.
    pub hash: Option<HashVersion>,
    /// The directory in which the volume was mounted last.
    pub last_mounted: Option<String>,
    /// Mount options in text, of at most 63 bytes.
    pub mount_text: Option<String>,
    /// True to have the next check of the volume look at everything, as after an error.
    pub check_is_due: bool,
    /// Default mount options to set, and to clear.
    pub mount_options: (DefaultMountOptions, DefaultMountOptions),
    /// Features to set that need no conversion; see [`free_feature`].
    pub features: Vec<(Word, u32)>,
    /// Features to clear; see [`removable_feature`].
    pub features_removed: Vec<(Word, u32)>,
    /// Kinds of owners to count (`true`), or not to count any more. Kinds that are counted already
    /// are counted again, and keep their limits.
    pub quotas: Vec<(QuotaKind, bool)>,
    /// Size of inodes in bytes, larger than before.
    pub inode_bytes: Option<u16>,
    /// The change of the journal.
    pub journal: JournalChange,
}

impl Changes {
    /// Returns true if more than fields of the superblock may change. Larger inodes ask for the
    /// journal themselves.
    fn concern_structures(&self) -> bool {
        let features = self.features.iter().chain(&self.features_removed);
        features.count() > 0 || !self.quotas.is_empty()
    }
}

/// A change of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalChange {
    /// No change.
    #[default]
    Keep,
    /// Removes the journal. An external one needs its device, which drops the volume from its
    /// users.
    Remove,
    /// Removes the journal but leaves the device of an external one unchanged: it keeps listing the
    /// volume as a user.
    Abandon,
    /// Creates an internal journal with this number of blocks, or with the default length.
    Internal(Option<u32>),
    /// Attaches the given journal device.
    External,
}

/// Changes a volume. `journal` is the device for [`JournalChange::External`], or that of the
/// volume's external journal if that is removed, or if more than fields of the superblock changes.
///
/// # Errors
/// - [`Error::NotClean`] if it was not closed cleanly; [`Error::Unsupported`] if it has features
///   that allow only reading.
/// - [`Error::InUse`] if another node uses it.
/// - [`Error::Invalid`] for an invalid change; nothing has changed then.
pub fn apply(
    device: &Arc<dyn BlockDevice>,
    journal: Option<&Arc<dyn BlockDevice>>,
    changes: &Changes,
) -> Result<()> {
    let superblock = read(device)?;
    let mut steps = Vec::new();
    // A volume that needs a check is not changed: this one comes last.
    let last = Changes {
        check_is_due: changes.check_is_due,
        ..Changes::default()
    };
    let changes = &Changes {
        check_is_due: false,
        ..changes.clone()
    };
    let halves = multi_mount::steps(&superblock, changes);
    for half in halves.map_or_else(
        || vec![changes.clone()],
        |(first, second)| vec![first, second],
    ) {
        let sized = inode_size::steps(&half);
        for part in sized.iter().flat_map(quota::steps) {
            match checksums::steps(&part) {
                Some((rest, own)) => steps.extend([rest, own]),
                None => steps.push(part),
            }
        }
    }
    if last.check_is_due {
        steps.retain(|step| *step != Changes::default());
        steps.push(last);
    }
    if steps.len() > 1 {
        // Nothing changes if one of the steps is refused. Each has room if it comes alone.
        prepare(device, journal, changes)?;
    }
    for step in &steps {
        let needs_journal =
            step.journal != JournalChange::Keep || read(device)?.journal_uuid.is_some();
        let journal = journal.filter(|_| needs_journal || steps.len() == 1);
        apply_step(device, journal, step)?;
    }
    Ok(())
}

/// Applies changes; the protection is there for all of them, or for none.
fn apply_step(
    device: &Arc<dyn BlockDevice>,
    journal: Option<&Arc<dyn BlockDevice>>,
    changes: &Changes,
) -> Result<()> {
    let Some(held) = multi_mount::hold(device, &read(device)?)? else {
        return apply_held(device, journal, changes);
    };
    // Every write reads the block of the protection first.
    let fenced = held.fenced(Arc::clone(device));
    let applied = apply_held(&fenced, journal, changes);
    applied.and(multi_mount::release(device, &held))
}

/// The superblock with the changes of its fields, and what else there is to do.
struct Prepared {
    superblock: Superblock,
    /// Offsets of the inodes whose mark of an index goes.
    indexed: Vec<u64>,
    old_uuid: [u8; 16],
    orphan_file: orphan_file::Change,
    multi_mount: multi_mount::Change,
    conversion: Option<Conversion>,
    quotas: quota::Plan,
    larger: Option<inode_size::Plan>,
}

/// Checks changes, and writes nothing.
fn prepare(
    device: &Arc<dyn BlockDevice>,
    journal: Option<&Arc<dyn BlockDevice>>,
    changes: &Changes,
) -> Result<Prepared> {
    let mut superblock = read(device)?;
    check(&superblock, journal, changes)?;
    journal::check_empty(device, &superblock, journal)?;
    if let JournalChange::Internal(blocks) = changes.journal {
        journal::check_room(device, &superblock, blocks)?;
    }
    let removal = Removal::of(&superblock.raw, &changes.features_removed);
    let indexed = match removal {
        Some(removal) => removal.check(device, &superblock)?,
        None => Vec::new(),
    };
    let before = superblock.clone();
    let orphan_file = orphan_file::Change::of(&superblock, changes)?;
    let multi_mount = multi_mount::change_fields(&mut superblock, changes)?;
    let quotas = quota::Plan::new(device, &superblock, changes)?;
    change_fields(&mut superblock, changes);
    let conversion = Conversion::of(device, &before, &superblock.raw)?;
    quotas.change_features(&mut superblock);
    let larger = inode_size::Plan::new(device, journal, &before, changes)?;
    Ok(Prepared {
        superblock,
        indexed,
        old_uuid: before.raw.uuid,
        orphan_file,
        multi_mount,
        conversion,
        quotas,
        larger,
    })
}

/// Changes a volume that no other node can open.
fn apply_held(
    device: &Arc<dyn BlockDevice>,
    journal: Option<&Arc<dyn BlockDevice>>,
    changes: &Changes,
) -> Result<()> {
    let Prepared {
        mut superblock,
        indexed,
        old_uuid,
        orphan_file,
        multi_mount,
        conversion,
        quotas,
        larger,
    } = prepare(device, journal, changes)?;
    if let Some(plan) = larger {
        return plan.apply(device);
    }
    if let Some(conversion) = &conversion {
        conversion.make_room(device, journal, &mut superblock)?;
    }
    // Another device is the first to change, and refuses what it has to.
    match (changes.journal, journal) {
        (JournalChange::Keep, Some(journal)) => {
            journal::rename_user(journal, &superblock, old_uuid)?;
        }
        (JournalChange::External, Some(journal)) => journal::attach(journal, &mut superblock)?,
        _ => {}
    }
    clear_indexes(device, &superblock, &indexed)?;
    if let Some(conversion) = &conversion {
        conversion.run(device, &mut superblock)?;
    }
    match multi_mount {
        multi_mount::Change::Keep => {}
        multi_mount::Change::Make(seconds) => {
            multi_mount::make(device, &mut superblock, seconds)?;
        }
        multi_mount::Change::Free(block) => multi_mount::free(device, &mut superblock, block)?,
    }
    orphan_file.apply(device, &mut superblock)?;
    if quotas.is_change() {
        return quotas.apply(device, journal, &mut superblock);
    }
    match changes.journal {
        JournalChange::Keep | JournalChange::External => write(device, &mut superblock),
        JournalChange::Remove => {
            let external = journal::External::of(&superblock, journal, old_uuid);
            journal::remove(device, &mut superblock)?;
            external.map_or(Ok(()), journal::External::forget_user)
        }
        JournalChange::Abandon => journal::remove(device, &mut superblock),
        JournalChange::Internal(blocks) => journal::make(device, &mut superblock, blocks),
    }
}

/// Opens a volume for reading only.
fn look(device: &Arc<dyn BlockDevice>, superblock: &Superblock) -> Result<Core> {
    let options = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    Core::assemble(Arc::clone(device), superblock.clone(), options, None, true)
}

fn read(device: &Arc<dyn BlockDevice>) -> Result<Superblock> {
    let bytes = device.read_block(disk::OFFSET, disk::SIZE as u32)?;
    Superblock::decode(&bytes, device.geometry().size_bytes)
}

fn check(
    superblock: &Superblock,
    journal: Option<&Arc<dyn BlockDevice>>,
    changes: &Changes,
) -> Result<()> {
    if let Some(why) = superblock.only_read_because() {
        let text = format!("{why}; tune2fs tunes such a volume");
        return Err(Error::Unsupported(text));
    }
    let marks = superblock.features.read_only_compatible;
    let has_orphans = superblock.raw.first_orphan.get() != 0
        || marks.contains(ReadOnlyCompatible::ORPHAN_PRESENT);
    if superblock.needs_recovery || !superblock.is_clean() || has_orphans {
        return Err(Error::NotClean);
    }
    let has_journal = superblock.journal_inode.is_some() || superblock.journal_uuid.is_some();
    let adds = matches!(
        changes.journal,
        JournalChange::Internal(_) | JournalChange::External
    );
    let (is_external, has_device) = (superblock.journal_uuid.is_some(), journal.is_some());
    let is_removed = matches!(
        changes.journal,
        JournalChange::Remove | JournalChange::Abandon
    );
    let blocks = superblock.geometry.block_count;
    let is_in_both = |feature| changes.features_removed.contains(feature);
    let is_given = |word: Word, bits: u32| superblock.raw.features().word(word) & bits != 0;
    let stable = Compatible::STABLE_INODES.bits();
    let extents = (Word::Incompatible, Incompatible::EXTENTS.bits());
    let inline_data = (Word::Incompatible, Incompatible::INLINE_DATA.bits());
    let inode_bytes = changes
        .inode_bytes
        .max(Some(superblock.geometry.inode_bytes));
    let inode_bytes = usize::from(inode_bytes.unwrap_or_default());
    let rules = [
        (
            inode_bytes > BASE_SIZE || !changes.features.contains(&inline_data),
            "inline_data needs inodes of more than 128 bytes",
        ),
        (
            !changes.features.iter().any(is_in_both),
            "a feature cannot be set and cleared at once",
        ),
        (
            changes.uuid.is_none() || !is_given(Word::Compatible, stable),
            "stable_inodes: encryption uses the UUID, which has to stay",
        ),
        (
            !(matches!(changes.journal, JournalChange::Internal(_))
                && changes.features_removed.contains(&extents)),
            "a new journal has extents: create it with a second command",
        ),
        (
            changes
                .label
                .as_ref()
                .is_none_or(|label| label.len() <= superblock.raw.label.len()),
            "a label has at most 16 bytes",
        ),
        (
            changes
                .mount_text
                .as_ref()
                .is_none_or(|text| text.len() < superblock.raw.mount_options.len()),
            "the mount options take more than 63 bytes",
        ),
        (
            changes
                .last_mounted
                .as_ref()
                .is_none_or(|path| path.len() < superblock.raw.last_mounted_on.len()),
            "the directory of the last mount has at most 63 bytes",
        ),
        (
            changes.uuid.is_none() || !is_external || has_device || is_removed,
            "the external journal knows the volume by its UUID: name the journal's device, too",
        ),
        (
            !changes.concern_structures() || !is_external || has_device || is_removed,
            "the journal on another device may hold transactions, whose replay would undo the change: name the journal's device, too",
        ),
        (
            changes
                .reserved_percent
                .is_none_or(|share| (0.0..=RESERVED_PERCENT_MAX).contains(&share)),
            "from 0 to 50 percent of the blocks can be reserved",
        ),
        (
            changes
                .reserved_blocks
                .is_none_or(|count| count <= blocks / 2),
            "at most half of the blocks can be reserved",
        ),
        (
            !(adds && has_journal),
            "the volume has a journal already: take it away first",
        ),
        (!is_removed || has_journal, "the volume has no journal"),
        (
            changes.journal != JournalChange::External || has_device,
            "an external journal needs its device",
        ),
        (
            changes.journal != JournalChange::Remove || !is_external || has_device,
            "the journal is on another device, which has to forget the volume: name it",
        ),
        (
            !has_device || is_external || changes.journal == JournalChange::External,
            "the volume has no journal on another device",
        ),
        (
            superblock.raw.revision.get() != disk::GOOD_OLD_REVISION,
            "a volume of the original revision has none of this; e2fsck gives it the new one",
        ),
    ];
    if let Some((_, rule)) = rules.into_iter().find(|(holds, _)| !holds) {
        return Err(Error::Invalid(rule));
    }
    check_seed(superblock, changes)?;
    journal::check_device(superblock, journal, changes.journal)
}

/// Checks that the UUID may change, and that a seed of the checksums has some.
fn check_seed(superblock: &Superblock, changes: &Changes) -> Result<()> {
    let raw = &superblock.raw;
    let is_renamed = changes.uuid.is_some_and(|uuid| uuid != raw.uuid);
    let is_stable = superblock
        .features
        .compatible
        .contains(Compatible::STABLE_INODES);
    if is_renamed && is_stable {
        return Err(Error::Unsupported(
            "the UUID has to stay: the volume has the feature stable_inodes".to_owned(),
        ));
    }
    let is_asked = changes.features.contains(&features::CHECKSUM_SEED);
    let is_kept = superblock.checksums.has_tails()
        && !changes.features_removed.contains(&checksums::METADATA);
    if is_asked && !is_kept && !changes.features.contains(&checksums::METADATA) {
        return Err(Error::Invalid(
            "metadata_csum_seed is of use with metadata_csum only",
        ));
    }
    checksums::check_features(superblock, changes)
}

fn change_fields(superblock: &mut Superblock, changes: &Changes) {
    let raw = &mut superblock.raw;
    if changes.features.contains(&features::CHECKSUM_SEED)
        && !raw
            .features()
            .incompatible
            .contains(Incompatible::METADATA_CSUM_SEED)
    {
        raw.checksum_seed
            .set(checksum::crc32c(checksum::START, &raw.uuid));
    }
    if let Some(label) = &changes.label {
        raw.label = Default::default();
        raw.label[..label.len()].copy_from_slice(label.as_bytes());
    }
    if let Some(uuid) = changes.uuid {
        raw.uuid = uuid;
    }
    if let Some(share) = changes.reserved_percent {
        raw.set_reserved_blocks_count((share * raw.blocks_count() as f64 / 100.0) as u64);
    }
    if let Some(count) = changes.reserved_blocks {
        raw.set_reserved_blocks_count(count);
    }
    if let Some(errors) = changes.errors {
        raw.error_policy.set(errors as u16);
    }
    if let Some(count) = changes.max_mount_count {
        raw.max_mount_count.set(count);
    }
    if let Some(count) = changes.mount_count {
        raw.mount_count.set(count);
    }
    if let Some(seconds) = changes.check_interval {
        raw.check_interval.set(seconds);
    }
    if let Some(seconds) = changes.check_time {
        (raw.check_time, raw.check_time_high) = split_time(seconds);
    }
    if let Some(user) = changes.reserved_user {
        raw.reserved_uid.set(user);
    }
    if let Some(group) = changes.reserved_group {
        raw.reserved_gid.set(group);
    }
    if let Some(blocks) = changes.raid_stride {
        raw.raid_stride.set(blocks);
    }
    if let Some(blocks) = changes.raid_stripe_width {
        raw.raid_stripe_width.set(blocks);
    }
    if let Some(hash) = changes.hash {
        raw.default_hash_version = hash as u8;
    }
    if let Some(path) = &changes.last_mounted {
        raw.last_mounted_on = [0; 64];
        raw.last_mounted_on[..path.len()].copy_from_slice(path.as_bytes());
    }
    if let Some(text) = &changes.mount_text {
        raw.mount_options = [0; 64];
        raw.mount_options[..text.len()].copy_from_slice(text.as_bytes());
    }
    if changes.check_is_due {
        raw.state_bits
            .set((raw.state() | disk::State::ERROR).bits());
    }
    let (set, clear) = changes.mount_options;
    let options = raw.default_mount_options().difference(clear) | set;
    raw.default_mount_option_bits.set(options.bits());
    let mut features = raw.features();
    let had_index = features.compatible.contains(Compatible::DIR_INDEX);
    for (word, bits) in &changes.features {
        features.set(*word, *bits, true);
    }
    if !had_index && features.compatible.contains(Compatible::DIR_INDEX) {
        features::choose_hash(raw, changes.hash);
    }
    for (word, bits) in &changes.features_removed {
        features.set(*word, *bits, false);
    }
    if checksums::concerns(changes) {
        checksums::settle_features(&raw.features(), &mut features, changes);
    }
    let before = raw.features();
    raw.set_features(features);
    features::settle_fields(raw, before);
    checksums::settle_fields(raw);
}

/// Writes the superblock and its backups; the first one last.
fn write(device: &Arc<dyn BlockDevice>, superblock: &mut Superblock) -> Result<()> {
    let geometry = superblock.geometry.clone();
    superblock.note_write(rt::wall().seconds);
    let raw = &superblock.raw;
    for group in geometry
        .groups()
        .filter(|group| group.get() > 0 && geometry.has_super(*group))
    {
        let first = geometry.first_block_of(group);
        let image = superblock_block(&geometry, raw, group);
        device.write_blocks(geometry.byte_offset(first), vec![image])?;
    }
    device.flush()?;
    let image = superblock.encode().into_arc();
    device.write_blocks(disk::OFFSET, vec![image])?;
    device.flush()?;
    Ok(())
}

/// Copies the times and counts that opening and closing a volume has changed on the device.
fn take_over(device: &Arc<dyn BlockDevice>, superblock: &mut Superblock) -> Result<()> {
    let now = read(device)?;
    let raw = &mut superblock.raw;
    raw.set_free_blocks_count(now.raw.free_blocks_count());
    raw.free_inodes_count = now.raw.free_inodes_count;
    let damage = now.raw.state() & disk::State::ERROR;
    raw.state_bits.set((raw.state() | damage).bits());
    (raw.write_time, raw.write_time_high) = split_time(rt::wall().seconds);
    Ok(())
}
