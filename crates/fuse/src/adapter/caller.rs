//! The caller of a request: what the request carries of it, and what `/proc` says beyond that.

use std::fs;

use fuser::Request;

/// CAP_FSETID: the set-user-ID and set-group-ID bits stay when the caller changes a file.
const FSETID: u32 = 4;

/// The groups and rights of a caller, which waits for its answer meanwhile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Caller {
    /// All groups.
    pub(super) groups: Vec<u32>,
    /// True if the caller has CAP_FSETID.
    pub(super) keeps_set_id: bool,
}

impl Caller {
    /// Reads `/proc/PID/status`. A caller in another PID namespace has the group of its request only.
    pub(super) fn of(request: &Request) -> Self {
        let status = fs::read_to_string(format!("/proc/{}/status", request.pid()));
        let mut caller = Self::parse(&status.unwrap_or_default());
        caller.groups.push(request.gid());
        caller.keeps_set_id |= request.uid() == 0;
        caller
    }

    fn parse(status: &str) -> Self {
        let line = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let groups = line("Groups:").unwrap_or_default();
        let rights = line("CapEff:").map(str::trim).unwrap_or_default();
        let rights = u64::from_str_radix(rights, 16).unwrap_or(0);
        Self {
            groups: groups
                .split_ascii_whitespace()
                .filter_map(|group| group.parse().ok())
                .collect(),
            keeps_set_id: rights >> FSETID & 1 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_rights_are_read() {
        let status = "Name:\tcat\nGid:\t7\t7\t7\t7\nGroups:\t20 2000 \nCapEff:\t0000000000000010\n";
        let expected = Caller {
            groups: vec![20, 2000],
            keeps_set_id: true,
        };
        assert_eq!(Caller::parse(status), expected);
        assert_eq!(
            Caller::parse("Groups:\t\nCapEff:\t00ef\n"),
            Caller::default()
        );
        assert_eq!(Caller::parse(""), Caller::default());
    }
}
