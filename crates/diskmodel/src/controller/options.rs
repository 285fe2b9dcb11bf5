//! Conversion of options to a controller: [`open_controller`].

use std::sync::Arc;

use block::BlockDevice;
use block::text::Size;

use super::{Controller, ControllerModel};
use crate::SimulatedDevice;
use crate::error::OpenError;
use crate::values::parse_time;

impl ControllerModel {
    /// The options of a controller, separated by commas.
    pub const OPTIONS: &str = "cache, latency, bandwidth, high, idle";
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
    for (key, value) in options {
        set(&mut model, &device, key, value)?;
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
        "high" => {
            let percent = value.parse().ok().filter(|high| (1..=100).contains(high));
            model.high_water_percent = percent.ok_or_else(|| bad("1 to 100"))?;
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
