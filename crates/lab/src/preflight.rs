//! Checks that a machine can run a plan, before anything is changed.
//!
//! A parsed plan is valid. This machine can run it if devices, directories, memory, space and
//! permissions allow it. Each missing resource is one line with the file and line of the plan that
//! needs it.
//!
//! Nothing is created, written or locked. If the machine changes before a trial runs, that trial
//! fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use block::DeviceText;
use block::text::Size;
use rustix::fs::{Access, access, statvfs};
use workload::Load;

use crate::file_system::{Described, JournalPlace, size_of};
use crate::plan::{Plan, PlanError, Spot};
use crate::setup::{Environment, Setup};
use crate::trial;

/// Unit of the memory that is asked for.
const MIB: u64 = 1 << 20;

/// The resources of a machine.
pub trait Offers {
    /// Returns the bytes of memory available to programs, if known.
    fn memory(&self) -> Option<u64>;

    /// Returns the free bytes on a directory's file system, if known.
    fn space(&self, directory: &Path) -> Option<u64>;

    /// Returns true if this user may write a file or device, or create files in a directory.
    fn may_write(&self, path: &Path) -> bool;
}

/// The machine that the program is running on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisMachine;

impl Offers for ThisMachine {
    fn memory(&self) -> Option<u64> {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        kilobytes.checked_mul(1024)
    }

    fn space(&self, directory: &Path) -> Option<u64> {
        let status = statvfs(directory).ok()?;
        status.f_bavail.checked_mul(status.f_frsize)
    }

    fn may_write(&self, path: &Path) -> bool {
        access(path, Access::WRITE_OK).is_ok()
    }
}

/// Checks that this machine can run a plan. `file` is the plan's name in errors.
///
/// # Errors
/// Fails with the first missing resource, and the line that needs it.
pub fn check(plan: &Plan, file: &str) -> Result<(), PlanError> {
    check_on(&ThisMachine, plan, file)
}

/// Checks that a given machine can run a plan.
///
/// # Errors
/// Fails as [`check`].
pub fn check_on(machine: &dyn Offers, plan: &Plan, file: &str) -> Result<(), PlanError> {
    let mut seen = BTreeSet::new();
    for combination in plan.combinations() {
        let settings = &combination.settings;
        let Ok(setup) = Setup::of(settings) else {
            // A parsed plan has no such combination.
            continue;
        };
        check_setup(machine, &setup, &mut seen).map_err(|lack| {
            let start = Spot {
                file: file.into(),
                line: 1,
            };
            let spot = settings.spot(lack.key).unwrap_or(&start);
            PlanError::at(spot, &format!("{}: {}", lack.key, lack.message))
        })?;
    }
    Ok(())
}

/// A missing resource, and the key that needs it.
struct Lack {
    key: &'static str,
    message: String,
}

fn lack(key: &'static str, message: String) -> Result<(), Lack> {
    Err(Lack { key, message })
}

fn check_setup(
    machine: &dyn Offers,
    setup: &Setup,
    seen: &mut BTreeSet<String>,
) -> Result<(), Lack> {
    match &setup.place {
        Environment::Simulated { file_system, .. } => {
            open_devices(&**file_system, setup.cut.is_some(), seen)?;
            check_simulated(machine, &setup.workload, file_system.cache_bytes())
        }
        Environment::Process { file_system } => {
            check_devices(machine, devices(&**file_system), file_system.cache_bytes())
        }
        Environment::Directory { path } => check_directory(machine, &setup.workload, path),
        Environment::Mounted { file_system } => {
            check_devices(machine, devices(&**file_system), 0)?;
            check_system(setup)
        }
        Environment::Guest { file_system, .. } if file_system.is_simulated() => {
            check_system(setup)?;
            open_devices(&**file_system, false, seen)?;
            check_simulated(machine, &setup.workload, file_system.cache_bytes())
        }
        Environment::Guest { file_system, .. } => {
            check_system(setup)?;
            check_devices(machine, devices(&**file_system), 0)
        }
    }
}

/// Opens the devices of a file system in a world of their own, unless they were seen before.
fn open_devices(
    file_system: &dyn Described,
    is_cut: bool,
    seen: &mut BTreeSet<String>,
) -> Result<(), Lack> {
    for (key, device) in devices(file_system) {
        if seen.insert(device.to_string())
            && let Err(error) = trial::open_simulated(device, is_cut)
        {
            return lack(key, format!("{error:#}"));
        }
    }
    Ok(())
}

fn check_system(setup: &Setup) -> Result<(), Lack> {
    match trial::check_system(setup) {
        Err(error) => lack("target", format!("{error:#}")),
        Ok(()) => Ok(()),
    }
}

/// Returns the devices of a file system with the keys that name them.
fn devices(file_system: &dyn Described) -> impl Iterator<Item = (&'static str, &DeviceText)> {
    let journal = match file_system.journal() {
        JournalPlace::External(device) => Some(("journal", device)),
        JournalPlace::Internal | JournalPlace::None => None,
    };
    let own = ("device", file_system.device());
    [own].into_iter().chain(journal)
}

/// Checks real devices, and the memory that they and a cache of `cache` bytes need.
fn check_devices<'s>(
    machine: &dyn Offers,
    devices: impl Iterator<Item = (&'static str, &'s DeviceText)>,
    cache: u64,
) -> Result<(), Lack> {
    let mut in_memory = 0;
    for (key, device) in devices {
        match device {
            DeviceText::Memory { .. } => in_memory += size_of(device).unwrap_or(0),
            DeviceText::File { path, .. } => check_file(machine, key, Path::new(path))?,
            _ => {}
        }
    }
    match machine.memory().filter(|_| in_memory > 0) {
        Some(free) if free < in_memory + cache => {
            let cached = match cache {
                0 => String::new(),
                bytes => format!(" and {} of cache", Size::from(bytes)),
            };
            let (wanted, free) = (Size::from(in_memory), Size::from(free));
            let message = format!("{wanted} in memory{cached} are needed, {free} are free");
            lack("device", message)
        }
        _ => Ok(()),
    }
}

fn check_file(machine: &dyn Offers, key: &'static str, path: &Path) -> Result<(), Lack> {
    let shown = path.display();
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return lack(key, format!("{shown}: {error}")),
    };
    if metadata.is_dir() {
        return lack(
            key,
            format!("{shown} is a directory; a target can be \"directory:{shown}\""),
        );
    }
    if !machine.may_write(path) {
        return lack(
            key,
            format!("{shown} cannot be written by this user; run as root, or own it"),
        );
    }
    Ok(())
}

fn check_directory(machine: &dyn Offers, load: &Load, path: &Path) -> Result<(), Lack> {
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) => return lack("target", format!("{shown}: {error}")),
        Ok(metadata) if !metadata.is_dir() => {
            return lack("target", format!("{shown} is not a directory"));
        }
        Ok(_) => {}
    }
    if !machine.may_write(path) {
        return lack(
            "target",
            format!("{shown} cannot be written by this user; run as root, or own it"),
        );
    }
    let wanted = load.footprint().map(|written| written.bytes);
    match machine.space(path).zip(wanted) {
        Some((free, wanted)) if free < wanted => {
            let (wanted, free) = (Size::from(wanted), Size::from(free));
            lack(
                "target",
                format!("{shown}: the workload needs about {wanted}, {free} are free"),
            )
        }
        _ => Ok(()),
    }
}

/// Returns the number of simulated trials, at most `jobs`, that fit in this machine's memory at
/// once; at least one.
#[must_use]
pub fn jobs_in_memory(plan: &Plan, jobs: usize) -> usize {
    jobs_on(&ThisMachine, plan, jobs)
}

fn jobs_on(machine: &dyn Offers, plan: &Plan, jobs: usize) -> usize {
    let wanted = plan.combinations().into_iter().filter_map(|combination| {
        let setup = Setup::of(&combination.settings).ok()?;
        match &setup.place {
            Environment::Simulated { file_system, .. } => {
                memory_wanted(&setup.workload, file_system.cache_bytes())
            }
            Environment::Guest { file_system, .. } if file_system.is_simulated() => {
                memory_wanted(&setup.workload, file_system.cache_bytes())
            }
            _ => None,
        }
    });
    match machine.memory().zip(wanted.max()) {
        Some((free, wanted)) => {
            let fit = usize::try_from(free / wanted.max(1)).unwrap_or(usize::MAX);
            jobs.min(fit).max(1)
        }
        None => jobs,
    }
}

/// Checks that the memory of this machine suffices for a simulated one.
fn check_simulated(machine: &dyn Offers, load: &Load, cache: u64) -> Result<(), Lack> {
    match machine.memory().zip(memory_wanted(load, cache)) {
        Some((free, wanted)) if free < wanted => {
            let (wanted, free) = (Size::from(wanted), Size::from(free));
            lack(
                "workload",
                format!(
                    "simulated disks hold written data in memory: about {wanted} of memory are needed, {free} are free"
                ),
            )
        }
        _ => Ok(()),
    }
}

/// Returns the memory that a simulated machine needs: its disks keep pages that differ, arrays also
/// their parity; its own memory comes on top. The allocator needs up to half more, as measured: the
/// plan `tree-copy` has 0.9 GiB of such pages and takes 1.5 GiB.
fn memory_wanted(load: &Load, cache: u64) -> Option<u64> {
    let written = load.footprint()?;
    let kept = written.distinct.saturating_add(written.distinct / 2);
    let held = kept.saturating_add(cache.min(written.bytes));
    let wanted = held.saturating_add(held / 2);
    Some(wanted.checked_next_multiple_of(MIB).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::privilege;

    /// A machine with few resources.
    struct Small {
        is_root: bool,
    }

    impl Offers for Small {
        fn memory(&self) -> Option<u64> {
            Some(600 << 20)
        }

        fn space(&self, _directory: &Path) -> Option<u64> {
            Some(1 << 20)
        }

        fn may_write(&self, _path: &Path) -> bool {
            self.is_root
        }
    }

    /// Returns a plan whose text from line 5 on is `rest`, starting with `[fixed]`.
    fn plan(rest: &str) -> Plan {
        let text = format!("[plan]\nname = \"p\"\nquestion = \"?\"\n[fixed]\n{rest}");
        Plan::parse("p.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the missing resources of a small machine.
    fn said(is_root: bool, rest: &str) -> String {
        let error = check_on(&Small { is_root }, &plan(rest), "p.toml");
        error.map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn what_is_missing_has_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let shown = folder.path().display();
        let file = folder.path().join("image");
        fs::write(&file, "").expect("it is written");
        let file = file.display();
        let process = "target = \"process\"\n";
        let check = |is_root: bool, rest: &str, expected: &str| {
            let found = said(is_root, rest);
            assert!(
                found.contains(expected),
                "{rest}\n found: {found}\nwanted: {expected}"
            );
            assert!(found.lines().count() <= 1, "{found}");
        };
        check(true, "device = \"sim:atlas-v-19\"", "p.toml:5: device: ");
        check(
            true,
            "device = \"sim:atlas-v-18\"\n[factors]\njournal = [\n\"internal\",\n\"sim:nvrum\",\n]",
            "p.toml:9: journal: ",
        );
        check(
            true,
            "device = \"slice(mem:1MiB,0..2MiB)\"",
            "p.toml:5: device: ",
        );
        check(
            true,
            &format!("{process}device = \"mem:256MiB\""),
            "p.toml:6: device: 256MiB in memory and 512MiB of cache are needed, 600MiB are free",
        );
        check(true, &format!("{process}device = \"mem:64MiB\""), "");
        check(
            true,
            &format!("{process}device = \"{shown}/none\""),
            "none: No such file or directory",
        );
        check(
            true,
            &format!("{process}device = \"{shown}\""),
            "is a directory",
        );
        check(
            false,
            &format!("{process}device = \"{file}\""),
            "p.toml:6: device: ",
        );
        check(
            false,
            &format!("{process}device = \"{file}\""),
            "run as root, or own it",
        );
        check(true, &format!("{process}device = \"{file}\""), "");
        check(
            true,
            &format!("target = \"directory:{shown}\""),
            "p.toml:5: target: ",
        );
        check(
            true,
            &format!("target = \"directory:{shown}\""),
            "the workload needs about",
        );
        check(
            true,
            &format!("target = \"directory:{shown}\"\npostmark.number = 10\n"),
            "",
        );
        check(
            false,
            &format!("target = \"directory:{shown}\""),
            "run as root, or own it",
        );
        check(
            true,
            &format!("target = \"directory:{file}\""),
            "is not a directory",
        );
        check(
            true,
            "target = \"directory:/no/such/place\"",
            "No such file",
        );
    }

    #[test]
    fn a_simulated_machine_needs_memory_for_its_disks() {
        let tree = |bytes: &str| {
            said(
                true,
                &format!(
                    "device = \"sim:atlas-v-18\"\nworkload = \"tree-copy\"\ntree-copy.bytes = \"{bytes}\""
                ),
            )
        };
        assert_eq!(tree("50MiB"), "");
        assert_eq!(
            tree("300MiB"),
            "p.toml:6: workload: simulated disks hold written data in memory: about 1602MiB of memory are needed, 600MiB are free"
        );
    }

    #[test]
    fn no_more_trials_run_at_once_than_memory_holds() {
        let tree = |bytes: &str| {
            plan(&format!(
                "device = \"sim:atlas-v-18\"\nworkload = \"tree-copy\"\ntree-copy.bytes = \"{bytes}\""
            ))
        };
        let small = Small { is_root: true };
        assert_eq!(jobs_on(&small, &tree("40MiB"), 8), 2);
        assert_eq!(jobs_on(&small, &tree("40MiB"), 1), 1);
        assert_eq!(jobs_on(&small, &tree("300MiB"), 8), 1);
        assert_eq!(jobs_on(&Large, &tree("300MiB"), 8), 8);
    }

    #[test]
    fn what_a_mounted_file_system_lacks_has_its_line() {
        if !privilege::is_granted() {
            return;
        }
        let check = |rest: &str, expected: &str| {
            let found = said(true, rest);
            assert!(
                found.starts_with(expected),
                "{rest}\n found: {found}\nwanted: {expected}"
            );
        };
        check(
            "target = \"kernel:nofs\"\ndevice = \"mem:64MiB\"",
            "p.toml:5: target: mkfs.nofs is missing",
        );
        check(
            "target = \"kernel:ext3\"\ndevice = \"/nowhere/image\"",
            "p.toml:6: device: /nowhere/image: No such file",
        );
        check(
            "target = \"kernel:ext3\"\ndevice = \"mem:500MiB\"\njournal = \"mem:101MiB\"",
            "p.toml:6: device: 601MiB in memory are needed, 600MiB are free",
        );
        let good = "target = \"kernel:ext3\"\ndevice = \"mem:500MiB\"\njournal = \"mem:100MiB\"";
        assert_eq!(said(true, good), "");
    }

    /// A machine with ample countable resources.
    struct Large;

    impl Offers for Large {
        fn memory(&self) -> Option<u64> {
            None
        }

        fn space(&self, _directory: &Path) -> Option<u64> {
            None
        }

        fn may_write(&self, _path: &Path) -> bool {
            true
        }
    }

    #[test]
    fn what_is_there_is_not_complained_of() {
        assert_eq!(said(false, "device = \"sim:atlas-v-18\""), "");
        for builtin in crate::plan::builtin::ALL {
            let plan = builtin.plan().unwrap_or_else(|error| panic!("{error}"));
            // A guest's kernel is built by `jext lab kernel build`.
            if plan.has_guests() || plan.mounts() && !privilege::is_granted() {
                continue;
            }
            check_on(&Large, &plan, builtin.name).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
