//! The other user of a volume that multiple mount protection found.

use core::fmt;

use rt::WallTime;

/// A node that uses the volume, or has used it and not released it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherUser {
    /// Name of the host.
    pub node: String,
    /// Name of the device there.
    pub device: String,
    /// Time at which the node was seen, in seconds since 1970 by its own clock.
    pub seconds: u64,
    /// True if a checker or another offline tool uses the volume.
    pub is_checking: bool,
}

impl core::error::Error for OtherUser {}

impl fmt::Display for OtherUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            device,
            seconds,
            is_checking,
        } = self;
        let seconds = i64::try_from(*seconds).unwrap_or(i64::MAX);
        let (year, month, day) = WallTime { seconds, nanos: 0 }.date();
        let of_day = seconds.rem_euclid(24 * 60 * 60);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let is_used = match is_checking {
            true => "is checked or changed offline",
            false => "is in use",
        };
        write!(
            f,
            "the volume {is_used} by node {node} (device {device}, seen {year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC)"
        )?;
        match is_checking {
            true => {
                f.write_str("; if nothing does that any more, tune::clear_multi_mount releases it")
            }
            false => f.write_str("; close it there first"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_node_device_and_time() {
        let mut user = OtherUser {
            node: "mail".to_owned(),
            device: "sda1".to_owned(),
            seconds: 951_782_399,
            is_checking: false,
        };
        assert_eq!(
            user.to_string(),
            "the volume is in use by node mail (device sda1, seen 2000-02-28 23:59:59 UTC); close it there first"
        );
        user.is_checking = true;
        user.seconds = u64::MAX;
        assert!(user.to_string().contains("clear_multi_mount"));
    }
}
