//! Making a file system.

use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::sync::Arc;

use jext::BlockDevice;
use jext::device::Geometry;
use jext::mkfs::{FileSystemType, JournalOption, Options, UsageType};
use layout::feature::target::{TARGETS, Target};
use rustix::io::Errno;

use crate::call::call;
use crate::device::{self, Device};
use crate::failure::{Failure, Result};
use crate::pointers;
use crate::superblock::superblock;
use crate::versioned::{self, Versioned};

/// `flags` of struct jext_mkfs_options: what the image holds is replaced.
pub const JEXT_MKFS_FORCE: u32 = 1;
/// `flags` of struct jext_mkfs_options: no blocks are reserved for root.
pub const JEXT_MKFS_NO_RESERVE: u32 = 2;
/// `flags` of struct jext_mkfs_options: `created` is the time of the file system. Together with
/// `uuid` and `hash_seed` the same options give the same bytes.
pub const JEXT_MKFS_CREATED: u32 = 4;

/// All flags.
const FLAGS: u32 = JEXT_MKFS_FORCE | JEXT_MKFS_NO_RESERVE | JEXT_MKFS_CREATED;
/// Bytes at the start of an image that have to be zero unless it may be replaced: most file systems
/// and tables of partitions have something there.
const LOOKED_AT_BYTES: u64 = 128 << 10;

/// Options of a new file system, with the defaults of mke2fs(8). All zeros are the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MkfsOptions {
    /// sizeof(struct jext_mkfs_options).
    pub struct_size: usize,
    /// Size in bytes of the image file to be created, if there is none or it is empty.
    pub image_size: u64,
    /// First byte of the file system in the image or device.
    pub offset: u64,
    /// Length of the file system in bytes; 0 for the rest.
    pub length: u64,
    /// "ext2", "ext3" or "ext4"; NULL for ext4.
    pub r#type: *const c_char,
    /// Label of at most 16 bytes; may be NULL.
    pub label: *const c_char,
    /// Features to add, or to remove with ^, separated by commas: "^metadata_csum,quota"; may be
    /// NULL.
    pub features: *const c_char,
    /// The program that has to read an ext4, such as "grub" or "linux-4.19", which chooses the
    /// features; may be NULL.
    pub target: *const c_char,
    /// Usage type of mke2fs.conf(5), such as "news" or "largefile"; may be NULL.
    pub usage: *const c_char,
    /// UUID of 16 bytes; NULL for a random one.
    pub uuid: *const u8,
    /// Seed of 16 bytes for the hashes of directories; NULL for a random one.
    pub hash_seed: *const u8,
    /// Time of the file system in seconds since 1970, with JEXT_MKFS_CREATED.
    pub created: i64,
    /// Percentage of reserved blocks; 0 for 5 percent. JEXT_MKFS_NO_RESERVE reserves none.
    pub reserved_percent: f64,
    /// Size of a block in bytes: 1024, 2048 or 4096.
    pub block_size: u32,
    /// Size of an inode in bytes.
    pub inode_size: u32,
    /// Number of inodes.
    pub inode_count: u32,
    /// Number of bytes for each inode.
    pub bytes_per_inode: u32,
    /// Size of the journal in MiB.
    pub journal_mib: u32,
    /// User of the root directory.
    pub root_uid: u32,
    /// Group of the root directory.
    pub root_gid: u32,
    /// JEXT_MKFS_FORCE, JEXT_MKFS_NO_RESERVE, JEXT_MKFS_CREATED.
    pub flags: u32,
}

// SAFETY: the size comes first, and zeros are null pointers and numbers.
unsafe impl Versioned for MkfsOptions {
    const NAME: &'static str = "struct jext_mkfs_options";
    const SIZE_MIN: usize = offset_of!(Self, flags) + size_of::<u32>();
}

/// Makes a file system in an image file or on a block device of the host. What it holds is not
/// replaced without JEXT_MKFS_FORCE: -EEXIST. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_mkfs(path: *const c_char, options: *const MkfsOptions) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (path, given) = unsafe {
            (
                pointers::host_path(path, "path")?,
                versioned::read(options)?,
            )
        };
        let name = path.display();
        // SAFETY: the contract of pointers.
        let options =
            unsafe { parsed(&given) }.map_err(|failure| failure.about(name.to_string()))?;
        let create_bytes = (given.image_size > 0).then_some(given.image_size);
        if let Some(bytes) = create_bytes.filter(|_| !path.exists()) {
            // Wrong options leave no file behind.
            let length = match given.length {
                0 => bytes.saturating_sub(given.offset),
                length => length,
            };
            let preview = jext::mkfs::preview(&Geometry::new(length), &options);
            preview.map_err(|error| Failure::from(error).about(name.to_string()))?;
        }
        let device = device::open(path, false, create_bytes)?;
        let made = make(device, &given, &options);
        made.map_err(|failure| failure.about(name))
    })
}

/// Makes a file system on a device. What it holds is not replaced without JEXT_MKFS_FORCE: -EEXIST.
/// `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_mkfs_device(
    device: *mut Device,
    options: *const MkfsOptions,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (device, given) = unsafe {
            (
                pointers::handle(device, "device")?.get()?,
                versioned::read(options)?,
            )
        };
        let name = device.name();
        // SAFETY: the contract of pointers.
        let made = unsafe { parsed(&given) }.and_then(|options| make(device, &given, &options));
        made.map_err(|failure| failure.about(name))
    })
}

fn make(device: Arc<dyn BlockDevice>, given: &MkfsOptions, options: &Options) -> Result<()> {
    let device = device::slice(device, given.offset, given.length)?;
    if given.flags & JEXT_MKFS_FORCE == 0
        && let Some(found) = contents(&*device)?
    {
        let text = format!("the image holds {found}: JEXT_MKFS_FORCE replaces it");
        return Err(Failure::new(Errno::EXIST, text));
    }
    jext::mkfs::format(&device, options)?;
    Ok(())
}

/// Returns the options of the engine.
///
/// # Safety
/// The contract of pointers.
unsafe fn parsed(given: &MkfsOptions) -> Result<Options> {
    // SAFETY: the caller vouches for them.
    let text = |pointer, name| unsafe { pointers::option(pointer, name) };
    // SAFETY: the caller vouches for them.
    let identifier = |pointer: *const u8| unsafe { pointer.cast::<[u8; 16]>().as_ref() }.copied();
    let number = |number: u32| (number > 0).then_some(number);
    let has = |flag: u32| given.flags & flag != 0;
    if has(!FLAGS) {
        return Err(wrong(
            "flags",
            &format!("{:#x}", given.flags),
            "those of jext.h",
        ));
    }
    let defaults = Options::default();
    let inode_bytes = u16::try_from(given.inode_size);
    let mut options = Options {
        file_system: match text(given.r#type, "type")?.unwrap_or("ext4") {
            "ext2" => FileSystemType::Ext2,
            "ext3" => FileSystemType::Ext3,
            "ext4" => FileSystemType::Ext4,
            other => return Err(wrong("type", other, "ext2, ext3 or ext4")),
        },
        label: text(given.label, "label")?.unwrap_or_default().to_owned(),
        uuid: identifier(given.uuid),
        hash_seed: identifier(given.hash_seed),
        seconds: has(JEXT_MKFS_CREATED).then_some(given.created),
        reserved_percent: match (has(JEXT_MKFS_NO_RESERVE), given.reserved_percent) {
            (true, _) => 0.0,
            (false, 0.0) => defaults.reserved_percent,
            (false, percent) => percent,
        },
        block_bytes: number(given.block_size),
        inode_bytes: match inode_bytes {
            Ok(bytes) => (bytes > 0).then_some(bytes),
            Err(_) => {
                let size = given.inode_size.to_string();
                return Err(wrong("inode_size", &size, "a power of 2 from 128 on"));
            }
        },
        inode_count: number(given.inode_count),
        bytes_per_inode: number(given.bytes_per_inode),
        journal: number(given.journal_mib).map_or(defaults.journal, JournalOption::Megabytes),
        root_owner: (given.root_uid, given.root_gid),
        ..defaults
    };
    if let Some(name) = text(given.usage, "usage")? {
        let known = "floppy, small, default, big, huge, news, largefile or largefile4";
        let found = UsageType::from_name(name);
        options.usage = Some(found.ok_or_else(|| wrong("usage", name, known))?);
    }
    if let Some(name) = text(given.target, "target")? {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        let found = Target::named(name);
        let found = found.ok_or_else(|| wrong("target", name, &names.join(", ")))?;
        if options.file_system != FileSystemType::Ext4 {
            return Err(wrong("target", name, "none for ext2 and ext3"));
        }
        options.features.add(found.edits)?;
    }
    if let Some(list) = text(given.features, "features")? {
        let added = options.features.add(list);
        added.map_err(|error| Failure::from(error).about(format!("features {list:?}")))?;
    }
    Ok(options)
}

fn wrong(option: &str, value: &str, expected: &str) -> Failure {
    Failure::invalid(format!("{option} is {value:?}: expected {expected}"))
}

/// Returns the name of what a device holds, if it holds something.
fn contents(device: &dyn BlockDevice) -> Result<Option<&'static str>> {
    if superblock(device).is_some() {
        return Ok(Some("an ext file system or its journal"));
    }
    let size = device.geometry().size_bytes.min(LOOKED_AT_BYTES);
    let blocks = u32::try_from(size / 512).unwrap_or(u32::MAX);
    let found = device.read_blocks(0, blocks, 512)?;
    let is_empty = found
        .iter()
        .all(|block| block.iter().all(|byte| *byte == 0));
    Ok((!is_empty).then_some("data"))
}
