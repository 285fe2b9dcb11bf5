//! Settings within device texts: `key=value`.

use core::fmt;

use layout::SectorNr;

use crate::fault::{Effect, FaultPlan, FaultRule, Operations, Rate, When};

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name of the setting.
    pub key: String,
    /// Value.
    pub value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// Options of opening a file; an absent one is the caller's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileSettings {
    /// True if I/O bypasses the page cache.
    pub is_direct: Option<bool>,
}

impl FileSettings {
    /// True if no option is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Applies a setting. The error is the expected text.
    pub(super) fn set(&mut self, setting: &Setting) -> Result<(), &'static str> {
        match setting.key.as_str() {
            "direct" => self.is_direct = Some(parse_switch(&setting.value)?),
            _ => return Err("direct=on or direct=off"),
        }
        Ok(())
    }
}

impl fmt::Display for FileSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_direct {
            None => Ok(()),
            Some(true) => f.write_str(",direct=on"),
            Some(false) => f.write_str(",direct=off"),
        }
    }
}

fn parse_switch(value: &str) -> Result<bool, &'static str> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("on or off"),
    }
}

const FAULT_KEYS: &str =
    "a fault setting: seed, eio, torn, lost, rot, misdirect, read, write, flush, gone or bad";

/// Adds a setting of `fault(...)` to a plan. The error is the expected text.
///
/// | setting | meaning |
/// |---|---|
/// | `seed=7` | the seed of all random choices |
/// | `eio=1e-6` | reads, writes and flushes fail at this rate |
/// | `torn=`, `lost=`, `rot=`, `misdirect=` RATE | writes fail in this way at this rate |
/// | `read=5`, `write=5`, `flush=5` | the fifth such request fails; with `5+`, all later ones too |
/// | `gone=5` | the device is gone from the fifth request on |
/// | `bad=100..108` | these sectors of 512 bytes cannot be read until they are written |
pub(super) fn add_fault(plan: &mut FaultPlan, setting: &Setting) -> Result<(), &'static str> {
    let value = setting.value.as_str();
    let not_discards = Operations {
        has_discards: false,
        ..Operations::ALL
    };
    let (operations, when, effect) = match setting.key.as_str() {
        "seed" => {
            plan.seed = value.parse().map_err(|_| "a seed, a number below 2^64")?;
            return Ok(());
        }
        "bad" => {
            let sectors = value.split_once("..").and_then(|(from, to)| {
                Some(SectorNr::new(from.parse().ok()?)..SectorNr::new(to.parse().ok()?))
            });
            plan.bad_sectors
                .push(sectors.ok_or("sectors such as 100..108")?);
            return Ok(());
        }
        "eio" => (not_discards, parse_rate(value)?, Effect::Fail),
        "torn" => (Operations::WRITES, parse_rate(value)?, Effect::Torn),
        "lost" => (Operations::WRITES, parse_rate(value)?, Effect::Lost),
        "rot" => (Operations::WRITES, parse_rate(value)?, Effect::Rotten),
        "misdirect" => (Operations::WRITES, parse_rate(value)?, Effect::Misdirected),
        "read" => (Operations::READS, parse_count(value)?, Effect::Fail),
        "write" => (Operations::WRITES, parse_count(value)?, Effect::Fail),
        "flush" => (Operations::FLUSHES, parse_count(value)?, Effect::Fail),
        "gone" => (Operations::ALL, parse_count(value)?, Effect::Gone),
        _ => return Err(FAULT_KEYS),
    };
    plan.rules.push(FaultRule {
        operations,
        when,
        effect,
    });
    Ok(())
}

fn parse_rate(value: &str) -> Result<When, &'static str> {
    Rate::parse(value)
        .map(When::Rate)
        .ok_or("a rate from 0 to 1 such as 1e-6")
}

fn parse_count(value: &str) -> Result<When, &'static str> {
    let (number, is_for_good) = match value.strip_suffix('+') {
        Some(number) => (number, true),
        None => (value, false),
    };
    match number.parse() {
        Ok(number) if number > 0 && is_for_good => Ok(When::From(number)),
        Ok(number) if number > 0 => Ok(When::Nth(number)),
        _ => Err("a count from 1 such as 5, or 5+ for all later ones too"),
    }
}
