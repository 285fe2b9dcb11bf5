//! Sizes as users write them: `4096`, `128MiB`, `2.65GiB`, `64k`, `9.1GB`.

use core::fmt;

/// Unit of sizes in bytes; sizes are rounded down to it.
const UNIT_BYTES: u64 = 4096;

/// A size, as written and in bytes.
#[derive(Debug, Clone)]
pub struct Size {
    written: String,
    exact: u64,
}

impl Size {
    /// Parses a size.
    ///
    /// # Errors
    /// Returns the expected text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let digits_end = text
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits_end);
        let unit = unit_bytes(unit.trim_start()).ok_or(UNITS)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || (fraction.is_empty() && number.contains('.')) {
            return Err("a number such as 128MiB or 2.65GiB");
        }
        if fraction.contains('.') || fraction.len() > 12 {
            return Err("a number with one point and up to 12 digits after it");
        }
        let digits: u128 = format!("{whole}{fraction}")
            .parse()
            .map_err(|_| TOO_LARGE)?;
        let scale = 10_u128.pow(fraction.len() as u32);
        let exact = digits.checked_mul(u128::from(unit)).ok_or(TOO_LARGE)? / scale;
        let exact = u64::try_from(exact).map_err(|_| TOO_LARGE)?;
        Ok(Self {
            written: text.to_owned(),
            exact,
        })
    }

    /// Returns the size in bytes, rounded down to a multiple of 4096.
    pub fn bytes(&self) -> u64 {
        self.exact - self.exact % UNIT_BYTES
    }

    /// Returns a note about rounding, if the size was rounded.
    pub fn note(&self) -> Option<String> {
        let (exact, bytes) = (self.exact, self.bytes());
        let written = &self.written;
        (exact != bytes).then(|| {
            format!(
                "{written} is {exact} bytes, rounded down to {bytes} ({} x 4096)",
                bytes / 4096
            )
        })
    }
}

const UNITS: &str = "a unit: KiB, MiB, GiB, TiB, K, M, G, T, kB, MB, GB, TB or none for bytes";
const TOO_LARGE: &str = "a size below 16 EiB";

fn unit_bytes(unit: &str) -> Option<u64> {
    Some(match unit {
        "" | "B" => 1,
        "KiB" | "k" | "K" => 1 << 10,
        "MiB" | "m" | "M" => 1 << 20,
        "GiB" | "g" | "G" => 1 << 30,
        "TiB" | "t" | "T" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    })
}

impl From<u64> for Size {
    /// Converts a size in bytes, written in the largest unit that gives a whole number.
    fn from(bytes: u64) -> Self {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let fits = |shift: u32| bytes > 0 && bytes.is_multiple_of(1 << shift);
        let written = units.iter().find(|(shift, _)| fits(*shift)).map_or_else(
            || bytes.to_string(),
            |(shift, name)| format!("{}{name}", bytes >> shift),
        );
        Self {
            written,
            exact: bytes,
        }
    }
}

impl PartialEq for Size {
    fn eq(&self, other: &Self) -> bool {
        self.exact == other.exact
    }
}

impl Eq for Size {}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_exactly_and_rounded_down() {
        let cases = [
            ("0", 0, 0),
            ("4096", 4096, 4096),
            ("5000", 5000, 4096),
            ("64k", 65_536, 65_536),
            ("64K", 65_536, 65_536),
            ("1MiB", 1 << 20, 1 << 20),
            ("1.5 GiB", 3 << 29, 3 << 29),
            ("2.65GiB", 2_845_415_833, 2_845_413_376),
            ("9.1GB", 9_100_000_000, 9_099_997_184),
            ("2T", 2 << 40, 2 << 40),
        ];
        for (text, exact, bytes) in cases {
            let size = Size::parse(text).unwrap_or_else(|cause| panic!("{text}: {cause}"));
            assert_eq!((size.exact, size.bytes()), (exact, bytes), "{text}");
            assert_eq!(size.note().is_some(), exact != bytes, "{text}");
            assert_eq!(size.to_string(), text);
        }
    }

    #[test]
    fn bad_sizes_are_refused() {
        for text in [
            "",
            "MiB",
            ".5G",
            "5.G",
            "1.2.3G",
            "1XB",
            "-1",
            "1e3",
            "99999999999TiB",
        ] {
            assert!(Size::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_are_written_in_whole_units() {
        for (bytes, text) in [(0, "0"), (4096, "4KiB"), (3 << 30, "3GiB"), (5000, "5000")] {
            assert_eq!(Size::from(bytes).to_string(), text);
            assert_eq!(Size::parse(text), Ok(Size::from(bytes)));
        }
    }
}
