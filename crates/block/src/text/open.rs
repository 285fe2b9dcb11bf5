//! Opening of devices by text.

use std::io::ErrorKind;
use std::sync::Arc;

use super::settings::{Setting, add_fault};
use super::shared::SharedDisks;
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
/// simulated devices. Texts that are opened one by one share no disks: [`SharedDisks::open`].
///
/// # Errors
/// [`DeviceError::Open`] and [`DeviceError::InUse`], those of an array of its devices, and those of
/// `factory`.
pub fn open(
    text: &DeviceText,
    options: &OpenOptions,
    factory: &Factory<'_>,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    SharedDisks::default().open(text, options, factory)
}

impl SharedDisks {
    /// Opens the device of a text as [`open`] does. Shared disks in it are opened if they are not
    /// open yet.
    ///
    /// # Errors
    /// Those of [`open`], and [`DeviceError::Open`] if a part of a shared disk is in use already.
    pub fn open(
        &mut self,
        text: &DeviceText,
        options: &OpenOptions,
        factory: &Factory<'_>,
    ) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        self.take_parts(text)?;
        let disks = self;
        Opener {
            options,
            factory,
            disks,
        }
        .device(text)
    }

    /// Opens the shared disk `disk(text)` if it is not open yet, and uses no part of it.
    ///
    /// # Errors
    /// Those of [`SharedDisks::open`].
    pub fn open_disk(
        &mut self,
        text: &DeviceText,
        options: &OpenOptions,
        factory: &Factory<'_>,
    ) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        let disks = self;
        Opener {
            options,
            factory,
            disks,
        }
        .shared(text)
    }
}

/// The means of opening one text.
struct Opener<'a> {
    options: &'a OpenOptions,
    factory: &'a Factory<'a>,
    disks: &'a mut SharedDisks,
}

impl Opener<'_> {
    fn device(&mut self, text: &DeviceText) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        Ok(match text {
            DeviceText::File { path, settings } => {
                let is_direct = settings.is_direct.unwrap_or(self.options.is_direct);
                Arc::new(FileDevice::open(
                    path,
                    &OpenOptions {
                        is_direct,
                        ..self.options.clone()
                    },
                )?)
            }
            DeviceText::Memory { size } => Arc::new(MemoryDevice::new(size.bytes())),
            DeviceText::Simulated { model, settings } => {
                (self.factory)(Simulated::Model { model, settings })?
            }
            DeviceText::Nvram { size, settings } => (self.factory)(Simulated::Nvram {
                size_bytes: size.bytes(),
                settings,
            })?,
            DeviceText::Slice { device, from, to } => {
                let whole = self.device(device)?;
                let size = whole.geometry().size_bytes;
                let to = to.as_ref().map_or(size - size % 4096, |to| to.bytes());
                Arc::new(SliceDevice::new(whole, from.bytes(), to)?)
            }
            DeviceText::Shared { device } => self.shared(device)?,
            DeviceText::Raid {
                level,
                members,
                chunk,
                groups,
            } => {
                let opened = self.members(members)?;
                let chunk_bytes = chunk_bytes(chunk.as_ref());
                raid::assemble_groups(*level, opened, chunk_bytes, *groups)?
            }
            DeviceText::Controller { device, settings } => {
                let stripe_bytes = stripe_bytes(device);
                let device = &self.device(device)?;
                (self.factory)(Simulated::Controller {
                    device,
                    stripe_bytes,
                    settings,
                })?
            }
            DeviceText::Fault { device, settings } => {
                let plan = fault_plan(&text.to_string(), settings)?;
                Arc::new(FaultDevice::new(self.device(device)?, plan))
            }
            DeviceText::Cached { device, size } => {
                Arc::new(CacheDevice::new(self.device(device)?, size.bytes()))
            }
        })
    }

    /// Returns the device of `disk(text)`.
    fn shared(&mut self, text: &DeviceText) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        if let Some(open) = self.disks.find(text) {
            return Ok(open);
        }
        self.disks.take_parts(text)?;
        let device = self.device(text)?;
        self.disks.add(text, &device);
        Ok(device)
    }

    fn members(
        &mut self,
        members: &[MemberText],
    ) -> Result<Vec<Arc<dyn BlockDevice>>, DeviceError> {
        let mut opened = Vec::new();
        for member in members {
            for _ in 0..member.count {
                opened.push(self.device(&member.device)?);
            }
        }
        Ok(opened)
    }
}

fn chunk_bytes(chunk: Option<&Size>) -> u64 {
    chunk.map_or(CHUNK_BYTES_DEFAULT, Size::bytes)
}

/// Returns the number of data bytes in a stripe, if the device is an array with parity.
fn stripe_bytes(device: &DeviceText) -> Option<u64> {
    let (level, members, chunk, groups) = match device {
        DeviceText::Shared { device } => return stripe_bytes(device),
        DeviceText::Raid {
            level,
            members,
            chunk,
            groups,
        } => (level, members, chunk, groups),
        _ => return None,
    };
    let count: u32 = members.iter().map(|member| member.count).sum();
    let members = match level {
        RaidLevel::Raid5 | RaidLevel::Raid6 => count,
        RaidLevel::Raid50 => count / groups.unwrap_or(GROUPS_DEFAULT),
        RaidLevel::Raid0 | RaidLevel::Raid1 | RaidLevel::Raid10 => return None,
    };
    let data_chunks = u64::from(members) - level.parities() as u64;
    Some(chunk_bytes(chunk.as_ref()) * data_chunks)
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
