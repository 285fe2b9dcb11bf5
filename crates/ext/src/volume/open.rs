//! Opening and closing.
//!
//! The order matters: decode the superblock, decide if the volume will be changed at all, take it
//! if other nodes may use it (`mmp`), find the log, replay it, read the superblock again (recovery
//! may have changed it), give the log the features that Linux gives it (64-bit numbers with
//! `64bit`, checksums v3 with `metadata_csum`), mark the volume as in use on the device
//! (`needs_recovery`, durable, before the first commit can be acknowledged), open the journal, load
//! the quota files, and complete the operations on the orphan list. The orphan file is read and
//! checked before the mark is set.
//!
//! Without a journal, the state "clean" is cleared until the close. The table in `replay` has the
//! treatment of a log.

use std::sync::Arc;

use block::BlockDevice;
use jbd2::policy::Committer;
use jbd2::{Config, Journal, Location, LogExtent};
use layout::superblock::State;
use layout::{BlockNr, SectorNr};
use rt::atomic::Ordering;

use super::OpenReport;
use super::client::Client;
use super::guard::Guard;
use super::own_files::{OrphanFile, log_of_inode, probe};
use super::replay::replay;
use crate::cache::space::zones::Holder;
use crate::core::Core;
use crate::core::handle::{CREDITS_MAX, CREDITS_MAX_EXTENTS};
use crate::core::quota::CREDITS_QUOTA;
use crate::disk::metadata::Checks;
use crate::disk::multi_mount::Place;
use crate::disk::superblock::{self, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Superblock};
use crate::disk::tables::Tables;
use crate::error::{Error, Result};
use crate::options::{AsyncCommit, DataMode, MountOptions};

/// The core of an open volume, the events of the open, and the protection against other nodes.
pub(crate) type Opened = (Arc<Core>, OpenReport, Option<Guard>);

/// Opens the core of a volume.
pub(crate) fn open(
    device: Arc<dyn BlockDevice>,
    journal_device: Option<Arc<dyn BlockDevice>>,
    options: MountOptions,
) -> Result<Opened> {
    let superblock = superblock::read_before_replay(&device)?;
    if !options.read_only {
        check_async_commit(&superblock, &options)?;
    }
    let Some(guard) = take(&device, &superblock, &options)? else {
        let (core, report) = open_taken(device, journal_device, options, superblock)?;
        return Ok((core, report, None));
    };
    if let Some(journal_device) = &journal_device {
        journal_device.drop_cached();
    }
    let (inner, journal_device) = (
        guard.fenced(Arc::clone(&device)),
        journal_device.map(|device| guard.fenced(device)),
    );
    // Another node may have changed it until now.
    let opened = superblock::read_before_replay(&device)
        .and_then(|superblock| open_taken(inner, journal_device, options, superblock));
    match opened {
        Ok((core, report)) if !core.is_opened_read_only => {
            guard.attach(&core);
            Ok((core, report, Some(guard)))
        }
        // It was taken to replay the journal.
        Ok((core, report)) => {
            guard.release()?;
            Ok((core, report, None))
        }
        Err(error) => {
            if let Err(error) = guard.release() {
                tracing::warn!(%error, "the volume stays marked as in use");
            }
            Err(error)
        }
    }
}

/// Takes a volume with multiple mount protection, if the open will change it. The maker of a volume
/// has taken it already.
fn take(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    options: &MountOptions,
) -> Result<Option<Guard>> {
    let is_replayed = superblock.needs_recovery && !options.no_recovery;
    let is_fixed = device.geometry().is_read_only || superblock.has_large_blocks();
    let is_read_only = options.read_only || superblock.unknown_read_only_features.is_some();
    let is_unseen = options.is_being_made || options.is_private;
    if is_fixed || is_unseen || is_read_only && !is_replayed {
        return Ok(None);
    }
    Guard::take(device, superblock)
}

/// Opens the core of a volume that no other node uses.
fn open_taken(
    device: Arc<dyn BlockDevice>,
    journal_device: Option<Arc<dyn BlockDevice>>,
    options: MountOptions,
    mut superblock: Superblock,
) -> Result<(Arc<Core>, OpenReport)> {
    let mut report = OpenReport::default();
    let is_read_only = decide_read_only(&device, &superblock, &options, &mut report)?;
    let log = locate_log(&device, &superblock, &options, journal_device)?;
    let has_changed = match &log {
        Some(log) => replay(
            &device,
            log,
            &superblock,
            is_read_only,
            &options,
            &mut report,
        )?,
        None => false,
    };
    let is_unsettled = superblock.needs_recovery && !options.no_recovery;
    if has_changed || is_unsettled {
        superblock = superblock::read(&device)?;
    }
    report.has_errors = superblock.raw.state().contains(State::ERROR);
    if report.has_errors {
        tracing::warn!("errors are noted in the superblock: run fsck");
    }
    if is_read_only {
        let core = Core::assemble(device, superblock, options, None, true)?;
        return Ok((Arc::new(core), report));
    }
    // The blocks of an external log are not of this volume. A read-only open does without them: if
    // the block map of the journal's inode is damaged, the files that it points into are intact.
    let inside = log.as_ref().filter(|_| superblock.journal_inode.is_some());
    let log_extents = inside.map_or_else(Vec::new, |log| log.extents.clone());
    check_descriptors(&device, &superblock)?;
    if let Some(log) = &log {
        let has_checksums = superblock.checksums.has_tails();
        jbd2::format::add_features(log, superblock.is_64bit(), has_checksums)?;
        let is_deep = superblock.has_extents() || superblock.has_large_dir();
        let largest = match is_deep || superblock.has_ea_inode() {
            true => CREDITS_MAX_EXTENTS,
            false => CREDITS_MAX,
        };
        let has_quota = superblock.quota_inodes().next().is_some();
        jbd2::format::check_room(log, largest + u32::from(has_quota) * CREDITS_QUOTA)?;
    }
    let orphan_file = OrphanFile::find(&device, &superblock, &options)?;
    super::host_space::reserve_log(log.as_ref(), &options)?;
    let was_clean = report.replayed_transactions == 0
        && report.replayed_fast_commits == 0
        && superblock.is_clean();
    mark_in_use(&device, &mut superblock, log.is_some())?;
    let checks = Checks::new(
        &superblock.geometry,
        superblock.checksums,
        device.geometry().size_bytes,
    );
    let client = Arc::new(Client::new(checks));
    let journal = match log {
        Some(log) => Some(open_journal(log, &device, &options, &superblock, &client)?),
        None => None,
    };
    let mut core = Core::assemble(device, superblock, options, journal, false)?;
    super::host_space::reserve_metadata(&core, &orphan_file.extents)?;
    protect(&mut core, &log_extents, &orphan_file.extents)?;
    core.quotas = crate::quota::load(&core)?;
    let core = Arc::new(core);
    client.attach(&core);
    if core.superblock.is_marked_alone() {
        *core.uncounted_mount.lock() = Some(rt::wall().seconds);
    }
    if !was_clean {
        core.store_counts()?;
    }
    (report.orphans_deleted, report.orphans_truncated) =
        crate::file::clean_up(&core, &orphan_file.blocks)?;
    if core.damage.is_owed() {
        report.has_errors = true;
        core.store_damage()?;
    }
    if core.check_writable().is_err() {
        report.read_only_because = Some("an orphan is damaged".to_owned());
    }
    Ok((core, report))
}

/// Checks that the volume can have asynchronous commits, if they are wanted.
fn check_async_commit(superblock: &Superblock, options: &MountOptions) -> Result<()> {
    match options.async_commit_on(&superblock.features) {
        AsyncCommit::Refused(misfit) => Err(Error::Invalid(misfit.error)),
        AsyncCommit::Off | AsyncCommit::On | AsyncCommit::NoEffect => Ok(()),
    }
}

/// Returns true if commits are to be asynchronous.
fn is_async(superblock: &Superblock, options: &MountOptions) -> bool {
    let effect = options.async_commit_on(&superblock.features);
    if effect == AsyncCommit::NoEffect {
        tracing::warn!("journal_async_commit has no effect on a volume with metadata_csum");
    }
    effect == AsyncCommit::On
}

/// Marks the blocks that no file may have besides the metadata of groups.
fn protect(core: &mut Core, log: &[LogExtent], orphan_file: &[LogExtent]) -> Result<()> {
    let multi_mount = Place::of(&core.superblock)?;
    let multi_mount = multi_mount.map(|place| LogExtent {
        first: place.block,
        count: 1,
    });
    core.space.protect(Holder::Log, log)?;
    core.space.protect(Holder::OrphanFile, orphan_file)?;
    core.space
        .protect(Holder::MultiMount, multi_mount.as_slice())
}

/// Writes everything and marks the volume clean.
pub(crate) fn close(core: &Arc<Core>) -> Result<()> {
    if let Some(intruder) = core.device.intruder() {
        tracing::error!("{intruder}: run fsck");
    }
    if core.journal.is_none() && core.is_read_only.load(Ordering::Acquire) {
        // Earlier changes are written. The volume stays marked as in use, so that it is checked.
        return crate::file::sync_all(core);
    }
    if rt::mutant!("close/marked-clean-first") {
        mark_clean(core)?;
    }
    let has_aborted = |journal: &Arc<Journal>| journal.error().is_some();
    if !core.is_opened_read_only && !core.journal.as_ref().is_some_and(has_aborted) {
        crate::file::finish_left(core);
        if core.check_writable().is_ok()
            && let Err(error) = crate::quota::remove_unused(core)
        {
            tracing::error!(%error, "entries of former owners stay in a quota file");
        }
    }
    let synced = crate::file::sync_all(core);
    if let Some(journal) = &core.journal
        && let Err(error) = Arc::clone(journal).close()
    {
        // A log that is kept for lack of space would be replayed over it.
        if journal.error().is_some()
            && let Err(error) = core.store_damage_directly()
        {
            tracing::error!(%error, "damage could not be noted in the superblock");
        }
        return Err(error.into());
    }
    synced?;
    mark_clean(core)
}

fn decide_read_only(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    options: &MountOptions,
    report: &mut OpenReport,
) -> Result<bool> {
    let geometry = device.geometry();
    if options.read_only {
        return Ok(true);
    }
    if geometry.is_read_only {
        report.read_only_because = Some(format!("{} is read-only", device.name()));
        return Ok(true);
    }
    if let Some(why) = superblock.only_read_because() {
        report.read_only_because = Some(why);
        return Ok(true);
    }
    if !geometry.can_flush && !options.force {
        return Err(Error::CannotFlush {
            device: device.name(),
        });
    }
    Ok(false)
}

/// Checks the checksums of all group descriptors. A volume is not changed while the places of a
/// group's metadata are not known.
fn check_descriptors(device: &Arc<dyn BlockDevice>, superblock: &Superblock) -> Result<()> {
    if superblock.checksums.has_group_flags() {
        Tables::open(device, superblock)?;
    }
    Ok(())
}

/// Finds the log: the blocks of the journal inode, or the external device.
fn locate_log(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    options: &MountOptions,
    journal_device: Option<Arc<dyn BlockDevice>>,
) -> Result<Option<Location>> {
    if options.read_only && options.no_recovery {
        return Ok(None);
    }
    if options.is_being_made {
        return if superblock.needs_recovery {
            Err(Error::Unsupported(
                "the journal has to be replayed: this is no volume that is just being made"
                    .to_owned(),
            ))
        } else {
            Ok(None)
        };
    }
    if let Some(uuid) = superblock.journal_uuid {
        let Some(journal_device) = journal_device else {
            return Err(Error::NoJournalDevice);
        };
        let block_bytes = superblock.geometry.block_bytes;
        return Ok(Some(jbd2::format::open_external(
            journal_device,
            block_bytes,
            uuid,
        )?));
    }
    let Some(nr) = superblock.journal_inode else {
        return Ok(None);
    };
    let probe = probe(device, superblock, options)?;
    match log_of_inode(&probe, nr) {
        Ok(log) => Ok(Some(log)),
        Err(Error::NotFound) => Err(Error::Unsupported(format!(
            "the journal's inode {nr} is not in use; e2fsck -f can bring it back from the copy of its block map in the superblock"
        ))),
        Err(error) => Err(error),
    }
}

/// Marks the volume as in use, durably.
fn mark_in_use(
    device: &Arc<dyn BlockDevice>,
    superblock: &mut Superblock,
    has_journal: bool,
) -> Result<()> {
    let was_replayed = superblock.needs_recovery;
    superblock.note_mount(rt::wall().seconds, has_journal);
    if rt::mutant!("needs-recovery/not-set")
        || was_replayed && rt::mutant!("needs-recovery/not-set-after-replay")
    {
        superblock.set_needs_recovery(false);
    }
    superblock::write(device, superblock)
}

fn open_journal(
    log: Location,
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    superblock: &Superblock,
    client: &Arc<Client>,
) -> Result<Arc<Journal>> {
    let config = Config {
        commit_interval: options.commit_interval,
        barrier: options.barrier,
        policy: options.tuning.log_policy,
        is_external: superblock.journal_uuid.is_some(),
        fast_commits: superblock.has_fast_commit()
            && options.fast_commits
            && options.data != DataMode::Journal
            && options.tuning.log_policy.committer == Committer::Caller,
        async_commit: is_async(superblock, options),
        ..Config::default()
    };
    let client: Arc<dyn jbd2::Client> = Arc::<Client>::clone(client);
    Ok(Journal::open(log, Arc::clone(device), config, client)?)
}

/// Marks the volume clean, without recovery: the last write of a clean close.
fn mark_clean(core: &Core) -> Result<()> {
    let bytes = core
        .device
        .read_block(SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES)?;
    let mut superblock = Superblock::decode(&bytes, core.device.geometry().size_bytes)?;
    let has_orphans = crate::orphan::has_slots(core);
    superblock.note_unmount(rt::wall().seconds, core.superblock.was_valid, has_orphans);
    let sector = SectorNr::from_byte_offset(SUPERBLOCK_OFFSET);
    debug_assert!(
        core.geometry()
            .contains(BlockNr::new(core.geometry().first_data_block.get()))
    );
    let image = superblock.encode().into_arc();
    core.device
        .write_blocks(sector.byte_offset(), vec![image])?;
    core.device.flush()?;
    Ok(())
}
