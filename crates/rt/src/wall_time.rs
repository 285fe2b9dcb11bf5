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

    /// Returns the start of a day in UTC; none if there is no such day. Source as of
    /// [`date`](Self::date), `days_from_civil`.
    #[must_use]
    pub fn of_date(year: i64, month: i64, day: i64) -> Option<Self> {
        let shifted_month = (month + 9).rem_euclid(12);
        let shifted_year = year - i64::from(month <= 2);
        let era = shifted_year.div_euclid(400);
        let year_of_era = shifted_year.rem_euclid(400);
        let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        let start = Self {
            seconds: days * SECONDS_PER_DAY,
            nanos: 0,
        };
        (start.date() == (year, month, day)).then_some(start)
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

    #[test]
    fn dates_have_times() {
        for days in (-1000..80_000).step_by(13) {
            let seconds = days * SECONDS_PER_DAY;
            let time = WallTime { seconds, nanos: 0 };
            let (year, month, day) = time.date();
            assert_eq!(WallTime::of_date(year, month, day), Some(time));
        }
        for (year, month, day) in [(2001, 2, 29), (2000, 13, 1), (2000, 0, 1), (2000, 4, 31)] {
            assert_eq!(WallTime::of_date(year, month, day), None);
        }
    }
}
