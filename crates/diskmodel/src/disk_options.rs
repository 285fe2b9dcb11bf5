//! Options of a hard disk's model in text: [`set`].

use block::text::Size;

use crate::firmware::Order;
use crate::model::{DiskModel, SeekSource};
use crate::seek::rises;
use crate::values::{parse_switch, parse_time};

/// Maximum depth of the command queue: SCSI tags are a byte.
pub(crate) const QUEUE_DEPTH_MAX: u32 = 256;

/// Largest buffer in bytes.
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// Largest seek in milliseconds.
const SEEK_MS_MAX: f64 = 100.0;

/// The options of a disk, those of the host's queue and the capacity included.
pub(crate) const NAMES: &str = "wcache, wsegments, buffer, tcq, reorder, window, destage, age, \
                                seek, track, stroke, fua, elevator, requests, bomb, capacity";

/// Sets an option of a model. Returns `None` if there is no such option; an error is the expected
/// value as text.
pub(crate) fn set(model: &mut DiskModel, key: &str, value: &str) -> Option<Result<(), String>> {
    let done = match key {
        "wcache" => switch(value).map(|is_on| model.has_write_cache = is_on),
        "fua" => switch(value).map(|is_on| model.has_force_unit_access = is_on),
        "tcq" => depth(value).map(|depth| model.queue_depth = depth),
        "reorder" => order(value).map(|order| model.firmware.reorder = order),
        "destage" => order(value).map(|order| model.firmware.destage = Some(order)),
        "window" => depth(value).map(|depth| model.firmware.window = Some(depth)),
        "age" => parse_time(value)
            .ok_or_else(|| "a time such as 800ms".to_owned())
            .map(|age| model.firmware.age = Some(age)),
        "buffer" => set_buffer(model, value),
        "wsegments" => set_write_segments(model, value),
        "seek" | "track" | "stroke" => set_seek(model, key, value),
        _ => return None,
    };
    Some(done)
}

fn switch(value: &str) -> Result<bool, String> {
    parse_switch(value).ok_or_else(|| "on or off".to_owned())
}

fn depth(value: &str) -> Result<u32, String> {
    let parsed = value.parse().ok();
    let depth = parsed.filter(|depth| (1..=QUEUE_DEPTH_MAX).contains(depth));
    depth.ok_or_else(|| format!("1 to {QUEUE_DEPTH_MAX}"))
}

fn order(value: &str) -> Result<Order, String> {
    Order::from_name(value).ok_or_else(|| Order::NAMES.to_owned())
}

/// Sets the size of the buffer; its segments keep theirs.
fn set_buffer(model: &mut DiskModel, value: &str) -> Result<(), String> {
    let buffer = &mut model.buffer;
    let bytes = Size::parse(value)?.bytes();
    let segment = u64::from(buffer.segment_sectors) * 512;
    let smallest = segment * u64::from(buffer.write_segments.unwrap_or(1).max(1));
    if bytes < smallest || bytes > BUFFER_BYTES_MAX {
        return Err(format!("{smallest} to {BUFFER_BYTES_MAX} bytes"));
    }
    buffer.segments = u32::try_from(bytes / segment).unwrap_or(u32::MAX);
    Ok(())
}

/// Sets the number of segments for dirty sectors, and with it the size of the write cache; `any`
/// shares the whole buffer among any number of extents.
fn set_write_segments(model: &mut DiskModel, value: &str) -> Result<(), String> {
    let buffer = &mut model.buffer;
    let number = if value == "any" {
        None
    } else {
        let parsed = value.parse().ok();
        let number = parsed.filter(|number| (1..=buffer.segments).contains(number));
        Some(number.ok_or_else(|| format!("1 to {}, or any", buffer.segments))?)
    };
    buffer.write_segments = number;
    buffer.cache_sectors = number
        .unwrap_or(buffer.segments)
        .saturating_mul(buffer.segment_sectors);
    Ok(())
}

/// Sets one of the three numbers of a seek curve.
fn set_seek(model: &mut DiskModel, key: &str, value: &str) -> Result<(), String> {
    let wanted: f64 = value
        .parse()
        .map_err(|_| "milliseconds such as 6.9".to_owned())?;
    let mut source = model.seek;
    let (single_ms, mean_ms, full_ms) = match &mut source {
        SeekSource::Measured { .. } => {
            return Err("nothing: the seek curve of this drive was measured".to_owned());
        }
        SeekSource::ThreePoint {
            single_ms,
            mean_ms,
            full_ms,
        }
        | SeekSource::Rescaled {
            single_ms,
            mean_ms,
            full_ms,
            ..
        } => (single_ms, mean_ms, full_ms),
    };
    match key {
        "seek" => *mean_ms = wanted,
        "track" => *single_ms = wanted,
        _ => *full_ms = wanted,
    }
    let numbers = (*single_ms, *mean_ms, *full_ms);
    let is_within = wanted > 0.0 && wanted <= SEEK_MS_MAX;
    if !is_within || !rises(source, model.cylinders) {
        let (single_ms, mean_ms, full_ms) = numbers;
        return Err(format!(
            "a curve that rises, up to {SEEK_MS_MAX} ms; not {single_ms} ms to the next track, \
             {mean_ms} ms in the mean and {full_ms} ms over the full stroke"
        ));
    }
    model.seek = source;
    widen_skews(model, numbers.0);
    Ok(())
}

/// Leaves time for the seek between the last track of a cylinder and the first of the next one.
fn widen_skews(model: &mut DiskModel, single_ms: f64) {
    let turn_ms = 60e3 / f64::from(model.rpm);
    for zone in &mut model.zones {
        let needed = (single_ms / turn_ms * f64::from(zone.track_sectors)).ceil();
        zone.cylinder_skew = zone.cylinder_skew.max(needed as u32);
    }
}
