//! Opening of devices by text.

use std::io::ErrorKind;
use std::sync::Arc;

use super::settings::{Setting, add_fault};
use super::size::Size;
use super::{DeviceText, MemberText};
use crate::cache::CacheDevice;
use crate::device::BlockDevice;
use crate::error::DeviceError;
use crate::fault::{FaultDevice, FaultPlan};
use crate::file::{FileDevice, OpenOptions};
use crate::memory::MemoryDevice;
use crate::raid::{self, CHUNK_BYTES_DEFAULT, GROUPS_DEFAULT, RaidLevel};
use crate::slice::SliceDevice;

/// A request for a simulated device.
#[derive(Clone, Copy)]
pub enum Simulated<'a> {
    /// A model of the catalogue.
    Model {
        /// Name of the model.
        model: &'a str,
        /// Options.
        settings: &'a [Setting],
    },
    /// NVRAM.
    Nvram {
        /// Size in bytes.
        size_bytes: u64,
        /// Options.
        settings: &'a [Setting],
    },
    /// A controller with a battery-backed cache.
    Controller {
        /// Device below.
        device: &'a Arc<dyn BlockDevice>,
        /// Data bytes in a stripe of that device, if it is an array with parity.
        stripe_bytes: Option<u64>,
        /// Options.
        settings: &'a [Setting],
    },
}

impl Simulated<'_> {
    /// Returns the name for messages.
    pub fn name(&self) -> String {
        match self {
            Self::Model { model, .. } => format!("sim:{model}"),
            Self::Nvram { size_bytes, .. } => format!("nvram:{size_bytes}"),
            Self::Controller { device, .. } => format!("bbu({})", device.name()),
        }
    }
}

/// A function that creates simulated devices, which this crate does not implement.
pub type Factory<'a> = dyn Fn(Simulated<'_>) -> Result<Arc<dyn BlockDevice>, DeviceError> + 'a;

/// The cause of the error for a simulated device in the real world.
pub const ONLY_SIMULATED: &str = "simulated devices exist only in simulated time";

/// Refuses simulated devices: the factory for commands that run in the real world.
///
/// # Errors
/// - [`DeviceError::Open`] always.
pub fn no_simulation(wanted: Simulated<'_>) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let cause = ONLY_SIMULATED.to_owned();
    Err(DeviceError::Open {
        device: wanted.name(),
        kind: ErrorKind::Unsupported,
        cause,
    })
}

/// Opens the device of a text. `options` apply to files and block devices; `factory` creates
/// simulated devices.
///
/// # Errors
/// [`DeviceError::Open`] and [`DeviceError::InUse`], those of an array of its devices, and those of
/// `factory`.
pub fn open(
    text: &DeviceText,
    options: &OpenOptions,
    factory: &Factory<'_>,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    Ok(match text {
        DeviceText::File { path, settings } => {
            let is_direct = settings.is_direct.unwrap_or(options.is_direct);
            Arc::new(FileDevice::open(
                path,
                &OpenOptions {
                    is_direct,
                    ..options.clone()
                },
            )?)
        }
        DeviceText::Memory { size } => Arc::new(MemoryDevice::new(size.bytes())),
        DeviceText::Simulated { model, settings } => factory(Simulated::Model { model, settings })?,
        DeviceText::Nvram { size, settings } => factory(Simulated::Nvram {
            size_bytes: size.bytes(),
            settings,
        })?,
        DeviceText::Slice { device, from, to } => {
            let whole = open(device, options, factory)?;
            let size = whole.geometry().size_bytes;
            let to = to.as_ref().map_or(size - size % 4096, |to| to.bytes());
            Arc::new(SliceDevice::new(whole, from.bytes(), to)?)
        }
        DeviceText::Raid {
            level,
            members,
            chunk,
            groups,
        } => {
            let opened = open_members(members, options, factory)?;
            let chunk_bytes = chunk_bytes(chunk.as_ref());
            raid::assemble_groups(*level, opened, chunk_bytes, *groups)?
        }
        DeviceText::Controller { device, settings } => {
            let stripe_bytes = stripe_bytes(device);
            let device = &open(device, options, factory)?;
            factory(Simulated::Controller {
                device,
                stripe_bytes,
                settings,
            })?
        }
        DeviceText::Fault { device, settings } => {
            let plan = fault_plan(&text.to_string(), settings)?;
            Arc::new(FaultDevice::new(open(device, options, factory)?, plan))
        }
        DeviceText::Cached { device, size } => Arc::new(CacheDevice::new(
            open(device, options, factory)?,
            size.bytes(),
        )),
    })
}

fn chunk_bytes(chunk: Option<&Size>) -> u64 {
    chunk.map_or(CHUNK_BYTES_DEFAULT, Size::bytes)
}

/// Returns the number of data bytes in a stripe, if the device is an array with parity.
fn stripe_bytes(device: &DeviceText) -> Option<u64> {
    let DeviceText::Raid {
        level,
        members,
        chunk,
        groups,
    } = device
    else {
        return None;
    };
    let count: u32 = members.iter().map(|member| member.count).sum();
    let members = match level {
        RaidLevel::Raid5 => count,
        RaidLevel::Raid50 => count / groups.unwrap_or(GROUPS_DEFAULT),
        RaidLevel::Raid0 | RaidLevel::Raid1 | RaidLevel::Raid10 => return None,
    };
    Some(chunk_bytes(chunk.as_ref()) * u64::from(members - 1))
}

fn open_members(
    members: &[MemberText],
    options: &OpenOptions,
    factory: &Factory<'_>,
) -> Result<Vec<Arc<dyn BlockDevice>>, DeviceError> {
    members
        .iter()
        .flat_map(|member| (0..member.count).map(|_| open(&member.device, options, factory)))
        .collect()
}

fn fault_plan(name: &str, settings: &[Setting]) -> Result<FaultPlan, DeviceError> {
    let mut plan = FaultPlan::default();
    for setting in settings {
        add_fault(&mut plan, setting).map_err(|expected| DeviceError::Open {
            device: name.to_owned(),
            kind: ErrorKind::InvalidInput,
            cause: format!("{setting}: expected {expected}"),
        })?;
    }
    Ok(plan)
}
