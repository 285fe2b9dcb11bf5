//! [`number`]: figures as text.

/// Significant digits of a figure.
const DIGITS: i32 = 3;

/// Formats a number with three significant digits, or with all digits of its integer part.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (DIGITS - 1 - magnitude).max(i32::from(magnitude < DIGITS));
    let text = format!("{value:.*}", decimals.unsigned_abs() as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (588.0, "588"),
            (455.5, "455.5"),
            (2.64, "2.64"),
            (14_813.0, "14813"),
            (0.012_345, "0.0123"),
            (1192.83, "1193"),
            (0.0, "0"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
