//! Arrays of devices: RAID 0, 1, 5, 6, 10 and 50, composed in software.
//!
//! | level | members | survives | read | write |
//! |---|---|---|---|---|
//! | 0 | 2 or more | nothing | the members that hold it | the same |
//! | 1 | 2 or more | all but one | one member, see `balance`; another if it fails | all members |
//! | 5 | 3 or more | one | the member that holds it; the others if it fails | data and parity |
//! | 6 | 4 or more | two | as RAID 5 | data and two parities |
//! | 10 | an even number, 4 or more | one of each pair | RAID 0 of pairs | RAID 0 of pairs |
//! | 50 | groups of 3 or more | one of each group | RAID 0 of RAID 5 | RAID 0 of RAID 5 |
//!
//! A member that is `Gone`, or fails a write, leaves the array permanently: its contents are stale
//! from then on. A failed read is served from the other members, and the member stays. The last
//! member that the level requires never leaves: its errors are the array's. The members hold no
//! metadata of the array; its text defines it.
//!
//! For each sector an array promises what a device promises, except after a power cut: the members
//! of a mirror may differ then in what was not durable. Nor does it close the write hole:
//! after a power cut the parity of a stripe in flight may be wrong, which matters if a member is
//! then lost.

mod balance;
mod fanout;
mod galois;
mod group;
mod members;
mod mirror;
mod parity;
mod rebuild;
mod stripe_plan;
mod striped;
mod stripes;

use core::fmt;
use core::ops::Range;
use std::io::ErrorKind;
use std::sync::Arc;

use crate::device::{BlockDevice, Geometry};
use crate::error::DeviceError;
pub use mirror::MirrorDevice;
pub use parity::ParityDevice;
pub use striped::StripedDevice;

/// Default chunk size in bytes.
pub const CHUNK_BYTES_DEFAULT: u64 = 64 * 1024;

/// Default number of groups of RAID 50.
pub const GROUPS_DEFAULT: u32 = 2;

/// Unit of chunk sizes in bytes.
pub const CHUNK_BYTES_UNIT: u64 = 4096;

/// Maximum number of members of RAID 6: each data chunk has another factor in the second parity.
const RAID6_MEMBERS_MAX: usize = 257;

/// Maximum chunk size, so that the size of a part of a request fits into 32 bits.
const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// A RAID level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RaidLevel {
    /// Striping.
    Raid0,
    /// Mirroring.
    Raid1,
    /// Striping with rotating parity, left-symmetric.
    Raid5,
    /// Striping with two rotating parities, left-symmetric.
    Raid6,
    /// Striping over mirrored pairs of adjacent members.
    Raid10,
    /// Striping over groups with parity, one stripe of a group at a time.
    Raid50,
}

impl RaidLevel {
    /// All levels.
    pub const ALL: [Self; 6] = [
        Self::Raid0,
        Self::Raid1,
        Self::Raid5,
        Self::Raid6,
        Self::Raid10,
        Self::Raid50,
    ];

    /// Returns the minimum number of members.
    pub const fn members_min(self) -> usize {
        match self {
            Self::Raid0 | Self::Raid1 => 2,
            Self::Raid5 => 3,
            Self::Raid6 | Self::Raid10 => 4,
            Self::Raid50 => 6,
        }
    }

    /// Returns the number of parities of a stripe.
    pub(crate) const fn parities(self) -> usize {
        match self {
            Self::Raid0 | Self::Raid1 | Self::Raid10 => 0,
            Self::Raid5 | Self::Raid50 => 1,
            Self::Raid6 => 2,
        }
    }

    /// Checks that the number of members suits the number of groups. The error is the expected
    /// text.
    pub(crate) fn check_groups(self, members: usize, groups: Option<u32>) -> Result<(), String> {
        match self {
            Self::Raid6 if members > RAID6_MEMBERS_MAX => {
                Err(format!("at most {RAID6_MEMBERS_MAX} members of {self}"))
            }
            Self::Raid10 if !members.is_multiple_of(2) => {
                Err(format!("an even number of members of {self}"))
            }
            Self::Raid50 => {
                let groups = groups.unwrap_or(GROUPS_DEFAULT) as usize;
                let least = Self::Raid5.members_min();
                match members.is_multiple_of(groups) && members / groups >= least {
                    true => Ok(()),
                    false => Err(format!(
                        "{groups} groups of {least} members of {self} or more, all of one size"
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for RaidLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
            Self::Raid10 => "raid10",
            Self::Raid50 => "raid50",
        })
    }
}

/// Assembles members into an array. The smallest member determines the part of each that is used.
///
/// # Errors
/// - [`DeviceError::Open`] if there are too few members, an odd number for RAID 10, a member
///   smaller than a chunk, or the chunk is not a multiple of [`CHUNK_BYTES_UNIT`].
pub fn assemble(
    level: RaidLevel,
    members: Vec<Arc<dyn BlockDevice>>,
    chunk_bytes: u64,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    assemble_groups(level, members, chunk_bytes, None)
}

/// Assembles members into an array with a number of groups for RAID 50: [`GROUPS_DEFAULT`] if
/// absent.
///
/// # Errors
/// - [`DeviceError::Open`] as for [`assemble`], and if the groups differ in size or have too few
///   members.
pub fn assemble_groups(
    level: RaidLevel,
    members: Vec<Arc<dyn BlockDevice>>,
    chunk_bytes: u64,
    groups: Option<u32>,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    Ok(match level {
        RaidLevel::Raid0 => Arc::new(StripedDevice::new(members, chunk_bytes)?),
        RaidLevel::Raid1 => Arc::new(MirrorDevice::new(members)?),
        RaidLevel::Raid5 => Arc::new(ParityDevice::new(members, chunk_bytes)?),
        RaidLevel::Raid6 => Arc::new(ParityDevice::double(members, chunk_bytes)?),
        RaidLevel::Raid10 => Arc::new(StripedDevice::over_pairs(members, chunk_bytes)?),
        RaidLevel::Raid50 => {
            let groups = groups.unwrap_or(GROUPS_DEFAULT);
            Arc::new(StripedDevice::over_groups(members, chunk_bytes, groups)?)
        }
    })
}

/// Refuses members that cannot form an array.
fn check_array(
    level: RaidLevel,
    name: &str,
    members: &[Arc<dyn BlockDevice>],
    chunk_bytes: u64,
    groups: Option<u32>,
) -> Result<(), DeviceError> {
    let refuse = |cause: String| {
        Err(DeviceError::Open {
            device: name.to_owned(),
            kind: ErrorKind::InvalidInput,
            cause,
        })
    };
    if members.len() < level.members_min() {
        return refuse(format!(
            "{level} needs {} members or more",
            level.members_min()
        ));
    }
    if let Err(expected) = level.check_groups(members.len(), groups) {
        return refuse(format!("expected {expected}"));
    }
    if chunk_bytes == 0
        || !chunk_bytes.is_multiple_of(CHUNK_BYTES_UNIT)
        || chunk_bytes > CHUNK_BYTES_MAX
    {
        return refuse(format!(
            "a chunk of {chunk_bytes} bytes is not a multiple of {CHUNK_BYTES_UNIT} up to {CHUNK_BYTES_MAX}"
        ));
    }
    match members
        .iter()
        .find(|member| member.geometry().size_bytes < chunk_bytes)
    {
        Some(member) => refuse(format!("{} is smaller than a chunk", member.name())),
        None => Ok(()),
    }
}

/// Returns the geometry of an array of these members; `size_bytes` is its size.
fn combined_geometry(members: &[Arc<dyn BlockDevice>], size_bytes: u64) -> Geometry {
    let all: Vec<Geometry> = members.iter().map(|member| member.geometry()).collect();
    let least = |property: fn(&Geometry) -> u32| all.iter().map(property).min().unwrap_or(0);
    Geometry {
        size_bytes,
        sector_bytes: all.iter().map(|one| one.sector_bytes).max().unwrap_or(512),
        has_volatile_cache: all.iter().any(|one| one.has_volatile_cache),
        has_force_unit_access: all.iter().all(|one| one.has_force_unit_access),
        can_flush: all.iter().all(|one| one.can_flush),
        atomic_write_bytes: least(|one| one.atomic_write_bytes),
        queue_depth: least(|one| one.queue_depth),
        is_read_only: all.iter().any(|one| one.is_read_only),
    }
}

/// Returns the ranges of a member that hold the stripes in ranges of the array: each stripe has a
/// chunk on every member.
fn member_ranges(ranges: &[Range<u64>], chunk_bytes: u64, data_chunks: usize) -> Vec<Range<u64>> {
    let stripe_bytes = chunk_bytes * data_chunks as u64;
    let touched = ranges.iter().filter(|range| !range.is_empty());
    let stripes = touched.map(|range| range.start / stripe_bytes..range.end.div_ceil(stripe_bytes));
    stripes
        .map(|stripes| stripes.start * chunk_bytes..stripes.end * chunk_bytes)
        .collect()
}

fn array_name(level: RaidLevel, members: &[Arc<dyn BlockDevice>]) -> String {
    let names: Vec<String> = members.iter().map(|member| member.name()).collect();
    format!("{level}({})", names.join(","))
}
