//! Values of a device's options in text.

use rt::Nanos;

/// Parses `on` or `off`.
pub(crate) fn parse_switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// Parses a whole number of ns, us or ms, up to 10^9 of them.
pub(crate) fn parse_time(value: &str) -> Option<Nanos> {
    let digits = value
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let number: u64 = number
        .parse()
        .ok()
        .filter(|number| *number <= 1_000_000_000)?;
    match unit {
        "ns" => Some(Nanos::new(number)),
        "us" => Some(Nanos::from_micros(number)),
        "ms" => Some(Nanos::from_millis(number)),
        _ => None,
    }
}
