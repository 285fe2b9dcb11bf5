//! Volumes: opening, closing, sync, free space.

use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::sync::Arc;

use jext::device::OverlayDevice;
use jext::mount_options::ParsedOptions;
use jext::{BlockDevice, MountOptions};
use rustix::io::Errno;

use crate::call::call;
use crate::device::{self, Device};
use crate::failure::{Failure, Result};
use crate::pointers;
use crate::shared::Shared;
use crate::superblock::{needs_recovery, superblock};
use crate::versioned::{self, Versioned};

/// `flags` of struct jext_open_options: the image is not changed. A journal that has to be replayed
/// is replayed in memory.
pub const JEXT_OPEN_READ_ONLY: u32 = 1;

/// An open file system.
pub struct Volume {
    shared: Arc<Shared>,
}

impl Volume {
    /// Returns the state that open files share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

/// Options of an open. All zeros are the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct OpenOptions {
    /// sizeof(struct jext_open_options).
    pub struct_size: usize,
    /// First byte of the file system in the image or device, such as the start of a partition.
    pub offset: u64,
    /// Length of that part in bytes; 0 for the rest.
    pub length: u64,
    /// Mount options, such as "data=journal,commit=30,noatime"; may be NULL.
    pub mount_options: *const c_char,
    /// Device of the external journal, for a file system that has one; may be NULL.
    pub journal: *mut Device,
    /// JEXT_OPEN_READ_ONLY.
    pub flags: u32,
    /// User that owns new files.
    pub uid: u32,
    /// Group that owns new files.
    pub gid: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: the size comes first, and zeros are null pointers and numbers.
unsafe impl Versioned for OpenOptions {
    const NAME: &'static str = "struct jext_open_options";
    const SIZE_MIN: usize = offset_of!(Self, reserved) + size_of::<u32>();
}

/// State and space of a file system. Set struct_size before the call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Statfs {
    /// sizeof(struct jext_statfs).
    pub struct_size: usize,
    /// Number of blocks that can hold data.
    pub blocks: u64,
    /// Number of free blocks, reserved ones included.
    pub blocks_free: u64,
    /// Number of free blocks that are not reserved.
    pub blocks_available: u64,
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Maximum length of a name in bytes.
    pub name_max: u32,
    /// Number of inodes.
    pub inodes: u32,
    /// Number of free inodes.
    pub inodes_free: u32,
    /// Nonzero if the volume is, or has become, read-only.
    pub is_read_only: u32,
    /// Nonzero if damage is recorded in the superblock: a check is due.
    pub has_errors: u32,
    /// Number of transactions that the open has replayed.
    pub replayed_transactions: u32,
    /// Number of fast commits that the open has replayed.
    pub replayed_fast_commits: u32,
    /// UUID.
    pub uuid: [u8; 16],
    /// Label, which ends with a zero.
    pub label: [c_char; 24],
}

// SAFETY: the size comes first, and zeros are numbers.
unsafe impl Versioned for Statfs {
    const NAME: &'static str = "struct jext_statfs";
    const SIZE_MIN: usize = offset_of!(Self, label) + 24;
}

/// Opens the file system in an image file or on a block device of the host: replays its journal,
/// unless it is clean. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_volume_open(
    path: *const c_char,
    options: *const OpenOptions,
    volume: *mut *mut Volume,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (out, path, options) = unsafe {
            (
                pointers::out(volume, "volume")?.cleared(),
                pointers::host_path(path, "path")?,
                Parsed::read(options)?,
            )
        };
        let device = device::open(path, options.is_read_only(), None)?;
        let name = path.display();
        out.give(open(device, options).map_err(|failure| failure.about(name))?);
        Ok(())
    })
}

/// Opens the file system on a device, which may be closed before the volume. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_volume_open_device(
    device: *mut Device,
    options: *const OpenOptions,
    volume: *mut *mut Volume,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (out, device, options) = unsafe {
            (
                pointers::out(volume, "volume")?.cleared(),
                pointers::handle(device, "device")?.get()?,
                Parsed::read(options)?,
            )
        };
        let name = device.name();
        out.give(open(device, options).map_err(|failure| failure.about(name))?);
        Ok(())
    })
}

/// Writes everything and closes the volume. It waits for calls of other threads. Files and
/// directories that are still open give -EBADF from then on, and have to be closed, too. NULL is
/// allowed.
///
/// The handle is gone in any case, also after an error: do not use it again, and do not close it a
/// second time. The image is unlocked. A result that is not 0 says that something could not be
/// written, and that the volume is as after a power cut: what was synced without an error is there,
/// later changes may be missing. Open the volume again, which replays its journal, and write again
/// what was not synced; after -EUCLEAN or -EBADMSG check it first, with jext_check. In the child of
/// a fork the result is -EPERM, and the volume of the parent stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_volume_close(volume: *mut Volume) -> c_int {
    call(|| {
        if volume.is_null() {
            return Ok(());
        }
        // SAFETY: the contract of pointers.
        let volume = unsafe { pointers::take(volume, "volume") }?;
        let closed = volume.shared.close();
        closed.map_err(|failure| failure.about("close"))
    })
}

/// Makes everything durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_volume_sync(volume: *mut Volume) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let volume = unsafe { pointers::handle(volume, "volume") }?;
        let synced = volume.shared.with(jext::Volume::sync);
        synced.map_err(|failure| failure.about("sync"))
    })
}

/// Discards free blocks, in extents of at least `least` bytes. `discarded`, which may be NULL,
/// becomes the number of bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_volume_trim(
    volume: *mut Volume,
    least: u64,
    discarded: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let volume = unsafe { pointers::handle(volume, "volume") }?;
        let trimmed = volume.shared.with(|volume| volume.trim(least));
        let bytes = trimmed.map_err(|failure| failure.about("trim"))?;
        if !discarded.is_null() {
            // SAFETY: the contract of pointers.
            unsafe { pointers::out(discarded, "discarded") }?.set(bytes);
        }
        Ok(())
    })
}

/// Returns the state and the space of a file system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_statfs(volume: *mut Volume, statfs: *mut Statfs) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let volume = unsafe {
            versioned::check(statfs, "statfs")?;
            pointers::handle(volume, "volume")?
        };
        let found = volume
            .shared
            .with(|volume| Ok::<_, Failure>(described(volume)))?;
        let report = &volume.shared.report;
        let found = Statfs {
            has_errors: report.has_errors.into(),
            replayed_transactions: report.replayed_transactions,
            replayed_fast_commits: report.replayed_fast_commits,
            ..found
        };
        // SAFETY: the contract of pointers.
        unsafe { versioned::fill(statfs, "statfs", &found) }
    })
}

fn described(volume: &jext::Volume) -> Statfs {
    /// Maximum length of a name in bytes.
    const NAME_MAX: u32 = 255;
    let usage = volume.usage();
    let raw = &volume.superblock().raw;
    let mut label = [0; 24];
    for (to, from) in label.iter_mut().zip(raw.label) {
        *to = from as c_char;
    }
    Statfs {
        struct_size: size_of::<Statfs>(),
        blocks: usage.blocks,
        blocks_free: usage.blocks_free,
        blocks_available: usage.blocks_available,
        block_size: usage.block_bytes,
        name_max: NAME_MAX,
        inodes: usage.inodes,
        inodes_free: usage.inodes_free,
        is_read_only: volume.is_read_only().into(),
        has_errors: 0,
        replayed_transactions: 0,
        replayed_fast_commits: 0,
        uuid: raw.uuid,
        label,
    }
}

/// Calls `work` with a volume and the bytes of a path.
///
/// # Safety
/// The contract of pointers for both.
pub(crate) unsafe fn at<T>(
    volume: *mut Volume,
    path: *const c_char,
    work: impl FnOnce(&jext::Volume, &[u8]) -> jext::Result<T>,
) -> Result<T> {
    // SAFETY: the caller vouches for them.
    let (volume, path) = unsafe {
        (
            pointers::handle(volume, "volume")?,
            pointers::text(path, "path")?,
        )
    };
    volume.shared.at(path, |volume| work(volume, path))
}

/// The options of an open, without pointers.
struct Parsed {
    offset: u64,
    length: u64,
    mount: ParsedOptions,
    journal: Option<Arc<dyn BlockDevice>>,
    owner: (u32, u32),
}

impl Parsed {
    /// Copies and checks options.
    ///
    /// # Safety
    /// The contract of pointers for `options`.
    unsafe fn read(options: *const OpenOptions) -> Result<Self> {
        // SAFETY: the caller vouches for it.
        let given = unsafe { versioned::read(options) }?;
        if given.flags & !JEXT_OPEN_READ_ONLY != 0 || given.reserved != 0 {
            let text = format!("flags of struct jext_open_options are {:#x}", given.flags);
            return Err(Failure::invalid(text));
        }
        let mut mount = ParsedOptions::default();
        // SAFETY: the caller vouches for it.
        if let Some(list) = unsafe { pointers::option(given.mount_options, "mount_options") }? {
            let added = mount.add(list);
            added.map_err(|error| Failure::invalid(error.to_string()))?;
        }
        if mount.journal_path.is_some() {
            let text = "journal_path: set journal in struct jext_open_options";
            return Err(Failure::invalid(text));
        }
        mount.options.read_only |= given.flags & JEXT_OPEN_READ_ONLY != 0;
        let journal = match given.journal.is_null() {
            true => None,
            // SAFETY: the caller vouches for it.
            false => Some(unsafe { pointers::handle(given.journal, "journal") }?.get()?),
        };
        Ok(Self {
            offset: given.offset,
            length: given.length,
            mount,
            journal,
            owner: (given.uid, given.gid),
        })
    }

    fn is_read_only(&self) -> bool {
        self.mount.options.read_only
    }
}

fn open(whole: Arc<dyn BlockDevice>, parsed: Parsed) -> Result<Volume> {
    let (is_read_only, owner) = (parsed.is_read_only(), parsed.owner);
    let mut mount = parsed.mount;
    let device = device::slice(whole, parsed.offset, parsed.length)?;
    // The defaults that a superblock sets; those that are not supported have no effect.
    if let Some(superblock) = superblock(&*device) {
        let _ = mount.for_volume(&superblock);
    }
    let mut options = MountOptions {
        read_only: is_read_only,
        // The program acts for itself.
        privileged: true,
        ..mount.options
    };
    let replays = !options.no_recovery && needs_recovery(&*device);
    let (device, journal) = match is_read_only && replays {
        true => {
            options.is_private = true;
            (overlay(device), parsed.journal.map(overlay))
        }
        false => (device, parsed.journal),
    };
    let (volume, report) = jext::Volume::open_with_report(device, journal, options)?;
    if let (false, Some(why)) = (is_read_only, &report.read_only_because) {
        let text = format!("it can only be read: {why}; open it with JEXT_OPEN_READ_ONLY");
        // Nothing was changed.
        drop(volume.close());
        return Err(Failure::new(Errno::ROFS, text));
    }
    Ok(Volume {
        shared: Shared::new(volume, report, owner),
    })
}

/// Returns a device whose changes stay in memory.
pub(crate) fn overlay(below: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    Arc::new(OverlayDevice::new(below))
}
