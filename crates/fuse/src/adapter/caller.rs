//! The caller of a request: the request's own fields, and further ones from `/proc`.

use std::fs;
use std::os::unix::fs::MetadataExt;

use fuser::Request;

/// CAP_FOWNER: the caller counts as the owner of every file.
const FOWNER: u32 = 3;
/// CAP_FSETID: set-user-ID and set-group-ID bits survive the caller's changes.
const FSETID: u32 = 4;
/// CAP_LINUX_IMMUTABLE: the caller may make files immutable or append-only.
const LINUX_IMMUTABLE: u32 = 9;

/// CAP_SYS_ADMIN: the caller sees trusted attributes.
const SYS_ADMIN: u32 = 21;
/// CAP_SYS_RESOURCE: the caller may switch data journaling of files.
const SYS_RESOURCE: u32 = 24;

/// The groups and capabilities of a caller, which waits for its answer meanwhile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Caller {
    /// All groups.
    pub(super) groups: Vec<u32>,
    /// Capabilities, one bit each.
    rights: u64,
}

impl Caller {
    /// Reads `/proc/PID/status`. A caller in another PID namespace has the group of its request
    /// only.
    pub(super) fn of(request: &Request) -> Self {
        let process = format!("/proc/{}", request.pid());
        let status = fs::read_to_string(format!("{process}/status"));
        let mut caller = Self::parse(&status.unwrap_or_default());
        caller.groups.push(request.gid());
        if request.uid() == 0 {
            caller.rights = u64::MAX;
        } else if caller.rights != 0 && !has_our_users(&process) {
            caller.rights = 0;
        }
        caller
    }

    /// Reads the same of the process behind a request, regardless of the user of the request. An
    /// overlay file system sends that of its mounter, usually root, for any process. A kernel
    /// thread, such as an NFS server's, acts with the rights of its request's user. A process that
    /// cannot be read has no rights.
    pub(super) fn behind(request: &Request) -> Self {
        let process = format!("/proc/{}", request.pid());
        let status = fs::read_to_string(format!("{process}/status")).unwrap_or_default();
        let mut caller = Self::parse(&status);
        if is_kernel_thread(&status) {
            caller.groups.push(request.gid());
            caller.rights = if request.uid() == 0 { u64::MAX } else { 0 };
        } else if caller.rights != 0 && !has_our_users(&process) {
            caller.rights = 0;
        }
        caller
    }

    /// True if the caller has CAP_FOWNER.
    pub(super) fn owns_everything(&self) -> bool {
        self.has(FOWNER)
    }

    /// True if the caller has CAP_FSETID.
    pub(super) fn keeps_set_id(&self) -> bool {
        self.has(FSETID)
    }

    /// True if the caller has CAP_LINUX_IMMUTABLE.
    pub(super) fn makes_immutable(&self) -> bool {
        self.has(LINUX_IMMUTABLE)
    }

    /// True if the caller has CAP_SYS_ADMIN.
    pub(super) fn administers(&self) -> bool {
        self.has(SYS_ADMIN)
    }

    /// True if the caller has CAP_SYS_RESOURCE.
    pub(super) fn journals_data(&self) -> bool {
        self.has(SYS_RESOURCE)
    }

    fn has(&self, right: u32) -> bool {
        self.rights >> right & 1 != 0
    }

    fn parse(status: &str) -> Self {
        let line = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let words = |name| line(name).unwrap_or_default().split_ascii_whitespace();
        // The last of four is the group for access to files.
        let groups = words("Gid:").skip(3).chain(words("Groups:"));
        let rights = line("CapEff:").map(str::trim).unwrap_or_default();
        let rights = u64::from_str_radix(rights, 16).unwrap_or(0);
        Self {
            groups: groups.filter_map(|group| group.parse().ok()).collect(),
            rights,
        }
    }
}

/// True for the status of a kernel thread: it has no memory of its own.
fn is_kernel_thread(status: &str) -> bool {
    status.starts_with("Name:") && !status.contains("\nVmSize:")
}

/// True if a process is in this process's user namespace. Any user can create a namespace and have
/// all capabilities in it; they do not apply to files of users outside.
fn has_our_users(process: &str) -> bool {
    let namespace = |process: &str| {
        let file = fs::metadata(format!("{process}/ns/user")).ok()?;
        Some((file.dev(), file.ino()))
    };
    let ours = namespace("/proc/self");
    ours.is_some() && namespace(process) == ours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_rights_are_read() {
        let status = "Name:\tcat\nGid:\t7\t7\t7\t8\nGroups:\t20 2000 \nCapEff:\t0000000000000010\n";
        let expected = Caller {
            groups: vec![8, 20, 2000],
            rights: 1 << FSETID,
        };
        assert!(expected.keeps_set_id() && !expected.owns_everything());
        assert_eq!(Caller::parse(status), expected);
        assert!(!Caller::parse("Groups:\t\nCapEff:\t00ef\n").keeps_set_id());
        assert_eq!(Caller::parse(""), Caller::default());
    }

    #[test]
    fn kernel_threads_have_no_memory() {
        let ours = fs::read_to_string("/proc/self/status").expect("readable");
        assert!(!is_kernel_thread(&ours));
        assert!(is_kernel_thread("Name:\tnfsd\nCapEff:\t000001ffffffffff\n"));
        assert!(!is_kernel_thread(""));
    }
}
