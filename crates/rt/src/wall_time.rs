//! [`WallTime`]: a time of day.

/// Seconds in a day.
const SECONDS_PER_DAY: i64 = 86_400;

/// A time of day, since 1970-01-01 00:00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallTime {
    /// Whole seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

impl WallTime {
    /// Returns year, month and day in UTC: H. Hinnant, chrono-Compatible Low-Level Date Algorithms,
    /// `civil_from_days`.
    pub fn date(self) -> (i64, i64, i64) {
        let shifted = self.seconds.div_euclid(SECONDS_PER_DAY) + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        (year_of_era + era * 400 + i64::from(month <= 2), month, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_dates() {
        let date = |seconds| WallTime { seconds, nanos: 0 }.date();
        assert_eq!(date(-1), (1969, 12, 31));
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(951_782_400), (2000, 2, 29));
        assert_eq!(date(4_107_542_400), (2100, 3, 1));
    }
}
