//! Conversion of options to a controller: [`open_controller`].

use std::sync::Arc;

use block::BlockDevice;
use block::text::Size;

use super::{Controller, ControllerModel, DestageOrder, ReadAhead};
use crate::SimulatedDevice;
use crate::error::OpenError;
use crate::values::{parse_switch, parse_time};

impl ControllerModel {
    /// The options of a controller, separated by commas.
    pub const OPTIONS: &str = "cache, latency, bandwidth, high, low, idle, destage, \
                                write, rcache, ahead";
}

/// Creates a controller in front of a device. `stripe_bytes` is the data in a stripe of the device,
/// if it has parity.
///
/// # Errors
/// - [`OpenError::UnknownOption`], [`OpenError::BadValue`] or [`OpenError::NotSimulated`].
pub fn open_controller(
    array: Arc<dyn BlockDevice>,
    stripe_bytes: Option<u64>,
    options: &[(&str, &str)],
) -> Result<Arc<dyn SimulatedDevice>, OpenError> {
    let device = format!("bbu({})", array.name());
    if !rt::is_simulated() {
        return Err(OpenError::NotSimulated { device });
    }
    let mut model = ControllerModel::default();
    let mut low_water = None;
    for (key, value) in options {
        match *key {
            "low" => low_water = Some(percent(key, value)?),
            _ => set(&mut model, &device, key, value)?,
        }
    }
    // Without a mark of its own destaging ends where it started.
    model.low_water_percent = low_water.unwrap_or(model.high_water_percent);
    if model.low_water_percent > model.high_water_percent {
        return Err(OpenError::BadValue {
            key: "low".to_owned(),
            value: model.low_water_percent.to_string(),
            expected: format!(
                "at most the high-water mark of {}",
                model.high_water_percent
            ),
        });
    }
    let controller = Controller::new(model, array, stripe_bytes, device);
    Ok(Arc::new(controller))
}

fn set(model: &mut ControllerModel, device: &str, key: &str, value: &str) -> Result<(), OpenError> {
    let bad = |expected: &str| OpenError::BadValue {
        key: key.to_owned(),
        value: value.to_owned(),
        expected: expected.to_owned(),
    };
    let size = || match Size::parse(value).map_err(bad)?.bytes() {
        0 => Err(bad("at least 4096 bytes")),
        bytes => Ok(bytes),
    };
    let time = || parse_time(value).ok_or_else(|| bad("a time such as 10us"));
    match key {
        "cache" => model.cache_bytes = size()?,
        "bandwidth" => model.bus_bytes_per_second = size()?,
        "latency" => model.command = time()?,
        "idle" => model.idle = time()?,
        "high" => model.high_water_percent = percent(key, value)?,
        "destage" => {
            let order = DestageOrder::from_name(value);
            model.destage = order.ok_or_else(|| bad(DestageOrder::NAMES))?;
        }
        "write" => match value {
            "back" => model.is_write_back = true,
            "through" => model.is_write_back = false,
            _ => return Err(bad("back or through")),
        },
        "rcache" => model.keeps_reads = parse_switch(value).ok_or_else(|| bad("on or off"))?,
        "ahead" => {
            let policy = ReadAhead::from_name(value);
            model.read_ahead = policy.ok_or_else(|| bad(ReadAhead::NAMES))?;
        }
        _ => {
            return Err(OpenError::UnknownOption {
                device: device.to_owned(),
                key: key.to_owned(),
                known: ControllerModel::OPTIONS,
            });
        }
    }
    Ok(())
}

/// Parses a mark of the cache.
fn percent(key: &str, value: &str) -> Result<u32, OpenError> {
    let parsed = value.parse().ok();
    let percent = parsed.filter(|percent| (1..=100).contains(percent));
    percent.ok_or_else(|| OpenError::BadValue {
        key: key.to_owned(),
        value: value.to_owned(),
        expected: "1 to 100".to_owned(),
    })
}
