//! Creation of devices from names and options: [`Builder`], [`open`] and [`factory`].
//!
//! | option | of | meaning |
//! |---|---|---|
//! | `wcache=on` or `off` | disks | the volatile write cache; default: the model's |
//! | `elevator=linux24`, `cscan`, `deadline` or `noop` | disks | host queue; default `linux24` |
//! | `requests=64` | disks | its requests of each direction, 32 to 65536; default 64 or 128 |
//! | `requests=512MiB` | disks | the number that Linux 2.4.18-14 derives from that memory |
//! | `bomb=6` | disks | weight of the writes that a read waits for in `linux24`; default 0: any |
//! | `tcq=32` | disks | the depth of the drive's queue, 1 to 256 |
//! | `reorder=sptf`, `sstf`, `clook` or `fifo` | disks | the order of its commands; default sptf |
//! | `window=4` | disks | the oldest commands among which it chooses, 1 to 256; default all |
//! | `destage=sptf`, ... | disks | the order of its cached writes; default that of the commands |
//! | `age=800ms` | disks | the age from which a command goes first |
//! | `seek=6.9` | disks | the mean seek in milliseconds, where the curve was not measured |
//! | `track=1.0`, `stroke=11.9` | disks | the seek to the next track and over all of them |
//! | `buffer=2MiB` | disks | the drive's memory |
//! | `wsegments=8` or `any` | disks | its segments that hold cached writes, one extent each |
//! | `fua=on` or `off` | disks | true if the drive reports FUA; default on |
//! | `plp=on` or `off` | ssd | true if the cache survives a power cut; default off |
//! | `capacity=9GB` | all | the size: of a disk, its outer part |
//! | `latency=10us` | nvram, bbu | the latency of each request, in ns, us or ms |
//! | `bandwidth=256MiB` | nvram, bbu | bytes per second |
//! | `cache=64MiB` | bbu | the size of the controller's cache |
//! | `high=80`, `low=50` | bbu | the marks of dirty sectors in percent, 1 to 100 |
//! | `destage=clook` or `fifo` | bbu | the order in which it destages |
//! | `write=back` or `through` | bbu | acknowledges writes itself, or when the array does |
//! | `rcache=on` or `off` | bbu | true if it keeps what was read |
//! | `ahead=off`, `adaptive` or `on` | bbu | when it reads ahead |
//! | `idle=20ms` | bbu | the time without requests before it destages |

use std::sync::Arc;

use block::text::{Setting, Simulated, Size};
use block::{BlockDevice, DeviceError};
use sim::Parameter;

use crate::SimulatedDevice;
use crate::catalogue::{self, Memory, catalogue};
use crate::contents::Contents;
use crate::controller::open_controller;
use crate::disk_options::{self, QUEUE_DEPTH_MAX};
use crate::elevator::{Elevator, Queueing};
use crate::error::OpenError;
use crate::hard_disk::HardDisk;
use crate::model::DiskModel;
use crate::nvram::{Nvram, RamDisk};
use crate::ssd::Ssd;
use crate::values::{parse_switch, parse_time};

#[derive(Debug, Clone)]
enum Kind {
    HardDisk {
        model: Box<DiskModel>,
        elevator: Elevator,
        /// Length of the queue; the elevator's own if absent.
        requests_max: Option<u32>,
        /// Weight of the writes that a read waits for.
        bomb_max: u32,
    },
    Memory(Memory),
}

/// A builder of a device.
#[derive(Clone)]
pub struct Builder {
    kind: Kind,
    name: String,
    capacity_bytes: Option<u64>,
    store: Option<Arc<dyn BlockDevice>>,
    keeps_overwritten: bool,
}

const NVRAM_OPTIONS: &str = "capacity, latency, bandwidth";
const RAMDISK_OPTIONS: &str = "capacity";
const SSD_OPTIONS: &str = "capacity, plp";

impl Builder {
    /// Creates a builder for the catalogue entry with that name.
    ///
    /// # Errors
    /// - [`OpenError::UnknownDevice`] if there is no such entry.
    pub fn new(name: &str) -> Result<Self, OpenError> {
        let kind = match (catalogue::hard_disk(name), catalogue::memory(name)) {
            (Some(model), _) => Kind::HardDisk {
                model: Box::new(model),
                elevator: Elevator::default(),
                requests_max: None,
                bomb_max: 0,
            },
            (None, Some(memory)) => Kind::Memory(memory),
            (None, None) => return Err(unknown_device(name)),
        };
        Ok(Self {
            kind,
            name: name.to_owned(),
            capacity_bytes: None,
            store: None,
            keeps_overwritten: false,
        })
    }

    /// Creates a builder for a hard disk that is not in the catalogue.
    pub fn from_model(model: DiskModel) -> Self {
        let name = model.name.to_owned();
        let kind = Kind::HardDisk {
            model: Box::new(model),
            elevator: Elevator::default(),
            requests_max: None,
            bomb_max: 0,
        };
        Self {
            kind,
            name,
            capacity_bytes: None,
            store: None,
            keeps_overwritten: false,
        }
    }

    /// Returns the model, if it is a hard disk.
    pub fn model(&self) -> Option<&DiskModel> {
        match &self.kind {
            Kind::HardDisk { model, .. } => Some(model),
            Kind::Memory(_) => None,
        }
    }

    /// Sets an option from its text.
    ///
    /// # Errors
    /// - [`OpenError::UnknownOption`] if the device does not have it.
    /// - [`OpenError::BadValue`] if the value is invalid.
    pub fn option(mut self, key: &str, value: &str) -> Result<Self, OpenError> {
        let bad = |expected: String| OpenError::BadValue {
            key: key.to_owned(),
            value: value.to_owned(),
            expected,
        };
        let bad_str = |expected: &str| bad(expected.to_owned());
        if key == "capacity" {
            let size = Size::parse(value).map_err(bad_str)?.bytes();
            return self.capacity(size).map_err(bad);
        }
        match (&mut self.kind, key) {
            (Kind::Memory(Memory::Ssd(model)), "plp") => {
                model.has_power_loss_protection =
                    parse_switch(value).ok_or_else(|| bad_str("on or off"))?;
            }
            (Kind::HardDisk { elevator, .. }, "elevator") => {
                *elevator = Elevator::from_name(value)
                    .ok_or_else(|| bad_str("linux24, cscan, deadline or noop"))?;
            }
            (Kind::HardDisk { requests_max, .. }, "requests") => {
                *requests_max = Some(parse_requests(value).map_err(bad)?);
            }
            (Kind::HardDisk { bomb_max, .. }, "bomb") => {
                *bomb_max = value
                    .parse()
                    .map_err(|_| bad_str("a number of segments such as 6, or 0"))?;
            }
            (Kind::HardDisk { model, .. }, _) => match disk_options::set(model, key, value) {
                Some(done) => done.map_err(bad)?,
                None => return Err(self.unknown_option(key)),
            },
            (Kind::Memory(Memory::Nvram(model)), "latency") => {
                model.latency = parse_time(value).ok_or_else(|| bad_str("a time such as 10us"))?;
            }
            (Kind::Memory(Memory::Nvram(model)), "bandwidth") => {
                let size = Size::parse(value).map_err(bad_str)?.bytes();
                if size == 0 {
                    return Err(bad_str("at least 4096 bytes per second"));
                }
                model.bytes_per_second = size;
            }
            _ => return Err(self.unknown_option(key)),
        }
        Ok(self)
    }

    /// Sets the volatile write cache of a hard disk. Other devices have none.
    #[must_use]
    pub fn write_cache(mut self, is_on: bool) -> Self {
        if let Kind::HardDisk { model, .. } = &mut self.kind {
            model.has_write_cache = is_on;
        }
        self
    }

    /// Sets the host's elevator in front of a hard disk. Other devices have none.
    #[must_use]
    pub fn elevator(mut self, wanted: Elevator) -> Self {
        if let Kind::HardDisk { elevator, .. } = &mut self.kind {
            *elevator = wanted;
        }
        self
    }

    /// Sets the queue depth of a hard disk. Other devices have no queue.
    #[must_use]
    pub fn queue_depth(mut self, depth: u32) -> Self {
        if let Kind::HardDisk { model, .. } = &mut self.kind {
            model.queue_depth = depth.clamp(1, QUEUE_DEPTH_MAX);
        }
        self
    }

    /// Sets the store of the contents: a device that answers at once, at least as large. The
    /// default is new memory, which shares equal
    /// pages with that of other devices.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn BlockDevice>) -> Self {
        self.store = Some(store);
        self
    }

    /// Keeps what [`SimulatedDevice::lost_by_power_cut`] needs to know.
    #[must_use]
    pub fn keeps_overwritten(mut self) -> Self {
        self.keeps_overwritten = true;
        self
    }

    /// Returns the size in bytes, if it is known before a store is set.
    pub fn size_bytes(&self) -> Option<u64> {
        let of_model = self.model().map(|model| model.capacity_sectors * 512);
        of_model.or(self.capacity_bytes)
    }

    /// Sets the name for messages.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets the size, rounded down to 4096 bytes.
    ///
    /// # Errors
    /// Fails with the expected size as text.
    pub fn capacity(mut self, bytes: u64) -> Result<Self, String> {
        let bytes = bytes - bytes % 4096;
        let largest = self
            .model()
            .map_or(u64::MAX, |model| model.capacity_sectors * 512);
        if bytes == 0 || bytes > largest {
            return Err(format!("4096 to {largest} bytes"));
        }
        if let Kind::HardDisk { model, .. } = &mut self.kind {
            model.capacity_sectors = bytes / 512;
        }
        self.capacity_bytes = Some(bytes);
        Ok(self)
    }

    /// Creates the device, in the simulated world of the calling task.
    ///
    /// # Errors
    /// - [`OpenError::NotSimulated`] in the real world.
    /// - [`OpenError::NoCapacity`] for memory without a size.
    /// - [`OpenError::StoreTooSmall`] if the store is smaller than the device.
    pub fn open(self) -> Result<Arc<dyn SimulatedDevice>, OpenError> {
        let device = self.name.clone();
        if !rt::is_simulated() {
            return Err(OpenError::NotSimulated { device });
        }
        let of_store = self.store.as_ref().map(|store| store.geometry().size_bytes);
        let wanted = self.size_bytes().or(of_store);
        let Some(wanted) = wanted else {
            return Err(OpenError::NoCapacity { device });
        };
        let store = self
            .store
            .unwrap_or_else(|| Arc::new(Contents::new(wanted)));
        let found = store.geometry().size_bytes;
        if found < wanted {
            return Err(OpenError::StoreTooSmall {
                device,
                wanted,
                found,
            });
        }
        Ok(match self.kind {
            Kind::HardDisk {
                model,
                elevator,
                requests_max,
                bomb_max,
            } => {
                let usual = Queueing::from(elevator);
                let queueing = Queueing {
                    requests_max: requests_max.unwrap_or(usual.requests_max),
                    bomb_max,
                    ..usual
                };
                let name = self.name;
                let keeps = self.keeps_overwritten;
                Arc::new(HardDisk::new(&model, queueing, store, name, keeps))
            }
            Kind::Memory(Memory::Nvram(model)) => Arc::new(Nvram::new(
                store,
                model.latency,
                model.bytes_per_second,
                self.name,
            )),
            Kind::Memory(Memory::RamDisk) => Arc::new(RamDisk::new(store, self.name)),
            Kind::Memory(Memory::Ssd(model)) => Arc::new(Ssd::new(&model, store, self.name)),
        })
    }

    /// Returns the supported options, separated by commas.
    pub fn options(&self) -> &'static str {
        match &self.kind {
            Kind::HardDisk { .. } => disk_options::NAMES,
            Kind::Memory(Memory::Nvram(_)) => NVRAM_OPTIONS,
            Kind::Memory(Memory::RamDisk) => RAMDISK_OPTIONS,
            Kind::Memory(Memory::Ssd(_)) => SSD_OPTIONS,
        }
    }

    /// Returns the parameters of the model.
    pub fn parameters(&self) -> Vec<Parameter> {
        match &self.kind {
            Kind::HardDisk { model, .. } => model.parameters(),
            Kind::Memory(memory) => memory.parameters(),
        }
    }

    fn unknown_option(&self, key: &str) -> OpenError {
        OpenError::UnknownOption {
            device: self.name.clone(),
            key: key.to_owned(),
            known: self.options(),
        }
    }
}

/// Creates the catalogue device with that name and these options.
///
/// # Errors
/// Fails as [`Builder::new`], [`Builder::option`] and [`Builder::open`].
pub fn open(name: &str, options: &[(&str, &str)]) -> Result<Arc<dyn SimulatedDevice>, OpenError> {
    builder(name, options)?.open()
}

/// Returns the builder of the catalogue device with that name and these options.
fn builder(name: &str, options: &[(&str, &str)]) -> Result<Builder, OpenError> {
    let builder = options
        .iter()
        .try_fold(Builder::new(name)?, |builder, (key, value)| {
            builder.option(key, value)
        })?;
    let text: String = options
        .iter()
        .map(|(key, value)| format!(",{key}={value}"))
        .collect();
    let name = if text.is_empty() {
        format!("sim:{name}")
    } else {
        format!("sim({name}{text})")
    };
    Ok(builder.name(&name))
}

/// Creates the device that a device text describes.
///
/// # Errors
/// - [`DeviceError::Open`] with the reason.
pub fn make(wanted: Simulated<'_>) -> Result<Arc<dyn SimulatedDevice>, DeviceError> {
    make_with(wanted, |builder| builder)
}

/// Creates the device that a device text describes, after `change` of its builder. A controller has
/// none.
///
/// # Errors
/// - [`DeviceError::Open`] with the reason.
pub fn make_with(
    wanted: Simulated<'_>,
    change: impl FnOnce(Builder) -> Builder,
) -> Result<Arc<dyn SimulatedDevice>, DeviceError> {
    fn pairs(settings: &[Setting]) -> impl Iterator<Item = (&str, &str)> {
        settings
            .iter()
            .map(|set| (set.key.as_str(), set.value.as_str()))
    }
    let made = match wanted {
        Simulated::Model { model, settings } => {
            let options: Vec<_> = pairs(settings).collect();
            builder(model, &options).and_then(|builder| change(builder).open())
        }
        Simulated::Nvram {
            size_bytes,
            settings,
        } => {
            let capacity = size_bytes.to_string();
            let capacity = [("capacity", capacity.as_str())];
            let options: Vec<_> = capacity.into_iter().chain(pairs(settings)).collect();
            builder("nvram", &options).and_then(|builder| change(builder).open())
        }
        Simulated::Controller {
            device,
            stripe_bytes,
            settings,
        } => {
            let options: Vec<_> = pairs(settings).collect();
            open_controller(Arc::clone(device), stripe_bytes, &options)
        }
    };
    made.map_err(|error| DeviceError::Open {
        device: wanted.name(),
        kind: std::io::ErrorKind::InvalidInput,
        cause: error.to_string(),
    })
}

/// Creates the device that a device text describes: the factory for `block::text::open`.
///
/// # Errors
/// - [`DeviceError::Open`] with the reason.
pub fn factory(wanted: Simulated<'_>) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    make(wanted).map(|device| device as _)
}

fn unknown_device(name: &str) -> OpenError {
    let known: Vec<_> = catalogue().into_iter().map(|entry| entry.name).collect();
    OpenError::UnknownDevice {
        name: name.to_owned(),
        known: known.join(", "),
    }
}

/// Parses a number of requests, or the memory of a host. Fails with the expected value as text.
fn parse_requests(value: &str) -> Result<u32, String> {
    let Ok(number) = value.parse::<u32>() else {
        let memory = Size::parse(value).map_err(|_| expected_requests())?;
        return Ok(Queueing::requests_of_memory(memory.bytes()));
    };
    Some(number)
        .filter(|length| Queueing::LENGTHS.contains(length))
        .ok_or_else(expected_requests)
}

fn expected_requests() -> String {
    let (from, to) = Queueing::LENGTHS.into_inner();
    format!("{from} to {to}, or the memory of a host such as 512MiB")
}

#[cfg(test)]
mod tests;
