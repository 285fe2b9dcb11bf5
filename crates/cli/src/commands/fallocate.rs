//! `jext fallocate`: allocates, frees, removes and inserts ranges of files, with the options of
//! fallocate of util-linux.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use ext::volume::RangeChange;

use crate::image::{Access, ImagePath, MountArguments, with_volume};

/// Allocate, free, remove or insert a range of files of an image.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change")))]
pub(crate) struct Arguments {
    /// IMAGE:/path.
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Start of the range (without a letter: -o is for mount options).
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = parse_size)]
    offset: u64,
    /// Length of the range.
    #[arg(short, long, value_name = "BYTES", value_parser = parse_size)]
    length: u64,
    /// Leave the size of the file as it is.
    #[arg(short = 'n', long)]
    keep_size: bool,
    /// Free the blocks of the range, which then reads as zeroes.
    #[arg(short, long, group = "change")]
    punch_hole: bool,
    /// Make the range read as zeroes, without writing them where the file has extents.
    #[arg(short, long, group = "change")]
    zero_range: bool,
    /// Remove the range, of whole blocks, from a file with extents: what follows moves to its
    /// start.
    #[arg(short, long, group = "change")]
    collapse_range: bool,
    /// Insert a hole of whole blocks into a file with extents: what follows the start moves to the
    /// end of the range.
    #[arg(short, long, group = "change")]
    insert_range: bool,
    #[command(flatten)]
    mount: MountArguments,
}

/// Parses a number of bytes, with or without a unit: 4096, 4K, 4KiB, 1MB.
fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let shift = |letter: char| "KMGT".find(letter.to_ascii_uppercase());
    let factor = match (unit.chars().next(), unit.get(1..)) {
        (None, _) => Some(1),
        (Some(letter), Some("" | "iB")) => shift(letter).map(|place| 1 << (10 * (place + 1))),
        (Some(letter), Some("B")) => shift(letter).map(|place| 1000_u64.pow(place as u32 + 1)),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok();
    let bytes = number
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor));
    bytes.ok_or_else(|| "expected a number of bytes, such as 4096, 4KiB or 1M".to_owned())
}

impl Arguments {
    /// Returns the change, and true if the size stays.
    fn change(&self) -> Result<(RangeChange, bool)> {
        let change = match self {
            Self {
                punch_hole: true, ..
            } => return Ok((RangeChange::PunchHole, true)),
            Self {
                zero_range: true, ..
            } => RangeChange::Zero,
            Self {
                collapse_range: true,
                ..
            } => RangeChange::Collapse,
            Self {
                insert_range: true, ..
            } => RangeChange::Insert,
            _ => RangeChange::Allocate,
        };
        if self.keep_size && change.moves_blocks() {
            bail!("--keep-size: a range that is removed or inserted changes the size");
        }
        Ok((change, self.keep_size))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (change, keeps_size) = arguments.change()?;
    for given in &arguments.paths {
        let path = ImagePath::parse(given)?;
        with_volume(&path.image, Access::Write, &arguments.mount, |volume| {
            let (offset, length) = (arguments.offset, arguments.length);
            volume
                .with_inode_at(&path.path, true, |nr| {
                    volume.change_range(nr, offset, length, change, keeps_size)
                })
                .with_context(|| path.text())
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
