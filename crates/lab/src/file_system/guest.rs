//! A file system that the kernel of a guest creates and mounts: the commands that make it and its
//! mount options.
//!
//! | type | its maker | a journal's size | an external journal |
//! |---|---|---|---|
//! | ext | `mke2fs` | `-J size=` | `-O journal_dev`, `-J device=`; mounted with `journal_path=` |
//! | reiserfs | `mkreiserfs` | `-s`, in blocks | `-j`; mounted with `jdev=` |
//! | jfs | `mkfs.jfs` | `-s`, in MiB | `-J journal_dev`, `-J device=`; found by its number |
//! | xfs | `mkfs.xfs` | `-l size=` | `-l logdev=`; mounted with `logdev=` |
//! | btrfs | `mkfs.btrfs` | | none |

use anyhow::{Context, Result};
use block::DeviceText;
use rt::split_mix::SplitMix;

use super::{Described, FormatSetup, JournalPlace, MemorySetup};
use crate::system::makers::GUEST_KINDS;
use crate::system::tool::{self, Needed};

/// Block size of ReiserFS, and of ext volumes with an external journal, whose block size must be
/// the same.
const BLOCK_BYTES: u64 = 4096;

/// A file system in a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestFileSystem {
    /// The type, one of [`GUEST_KINDS`].
    pub kind: &'static str,
    /// Its device.
    pub device: DeviceText,
    /// Its journal.
    pub journal: JournalPlace,
    /// Options of mkfs.
    pub format: FormatSetup,
    /// Mount options, without those for the journal device.
    pub options: String,
    /// I/O scheduler of its devices; `None` for the kernel's choice.
    pub scheduler: Option<String>,
    /// Requests that it holds at most; `None` for the kernel's choice.
    pub requests: Option<u32>,
    /// Commands that the kernel gives a device at a time; `None` for its choice.
    pub depth: Option<u32>,
    /// Blocks up to which ext3 and ext4 place files one behind another; `None` for their choice.
    pub stream: Option<u32>,
    /// False if the kernel does not flush the caches of its devices.
    pub has_flushes: bool,
    /// Values of `/proc/sys/vm`, by name.
    pub limits: Vec<(&'static str, u64)>,
    /// True if requests are counted by the use of their blocks.
    pub has_uses: bool,
    /// The memory of the guest.
    pub memory: MemorySetup,
    /// True if its devices are served by this program in real time, too, and not opened by the
    /// kernel: the requests to them are recorded.
    pub is_recorded: bool,
}

impl Described for GuestFileSystem {
    fn device(&self) -> &DeviceText {
        &self.device
    }

    fn journal(&self) -> &JournalPlace {
        &self.journal
    }

    fn memory(&self) -> Option<&MemorySetup> {
        Some(&self.memory)
    }

    fn check_system(&self) -> Result<()> {
        let (_, maker) = self.maker();
        tool::check(&uml::cage::TOOLS)?;
        tool::check(&[maker])?;
        self.kernel().map(drop)
    }
}

impl GuestFileSystem {
    /// Returns true if its devices are simulated, so that its time is virtual.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.device.is_ephemeral()
    }

    /// Returns the modules that the kernel needs for its devices.
    #[must_use]
    pub fn modules(&self) -> Vec<String> {
        match self.is_recorded && !self.is_simulated() {
            true => vec!["drivers/block/virtio_blk.ko".to_owned()],
            false => Vec::new(),
        }
    }

    /// Returns the kernel that it runs on.
    ///
    /// # Errors
    /// Fails if the kernel is not installed.
    pub fn kernel(&self) -> Result<uml::Kernel> {
        Ok(match self.is_simulated() {
            true => uml::Kernel::in_virtual_time()?,
            false => uml::Kernel::in_real_time()?,
        })
    }

    /// Returns the size of the guest's memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.cache_bytes()
    }

    /// Returns the devices: that of the file system, and that of its journal.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceText> {
        let journal = match &self.journal {
            JournalPlace::External(device) => Some(device),
            JournalPlace::Internal | JournalPlace::None => None,
        };
        [&self.device].into_iter().chain(journal)
    }

    /// Returns the names that the guest gives the devices.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let names = match self.is_simulated() || self.is_recorded {
            true => ["/dev/vda", "/dev/vdb"],
            false => ["/dev/ubda", "/dev/ubdb"],
        };
        names.into_iter().take(self.devices().count()).collect()
    }

    /// Returns the image files of the devices, if they are files.
    ///
    /// # Errors
    /// Fails if a device is of another kind.
    pub fn images(&self) -> Result<Vec<std::path::PathBuf>> {
        let image = |device: &DeviceText| match device {
            DeviceText::File { path, .. } => {
                std::path::absolute(path).with_context(|| device.to_string())
            }
            other => anyhow::bail!("{other}: a guest in real time needs a file"),
        };
        self.devices().map(image).collect()
    }

    /// Returns the commands that make it. Identifiers and hash seeds follow from the seed.
    #[must_use]
    pub fn commands(&self, seed: u64) -> Vec<Vec<String>> {
        let names = self.names();
        let (device, log) = (names[0], names.get(1).copied());
        let mut numbers = SplitMix::new(seed);
        let mut uuid = || uuid(&mut numbers);
        let (program, _) = self.maker().1;
        let mut make = vec![program.to_owned()];
        let mut before = None;
        let mut add = |words: &[&str]| make.extend(words.iter().map(|word| (*word).to_owned()));
        match self.kind {
            "reiserfs" => {
                add(&["-q", "-ff", "-u", &uuid()]);
                if let Some(log) = log {
                    add(&["-j", log]);
                } else if let Some(bytes) = self.format.journal_bytes {
                    add(&["-s", &(bytes / BLOCK_BYTES).to_string()]);
                }
            }
            "jfs" => {
                add(&["-q"]);
                if let Some(log) = log {
                    let journal = ["mkfs.jfs", "-q", "-J", "journal_dev", log];
                    before = Some(journal.map(str::to_owned).to_vec());
                    add(&["-J", &format!("device={log}")]);
                } else if let Some(bytes) = self.format.journal_bytes {
                    add(&["-s", &(bytes >> 20).to_string()]);
                }
            }
            "xfs" => {
                add(&["-q", "-f", "-K", "-m", &format!("uuid={}", uuid())]);
                if let Some(log) = log {
                    add(&["-l", &format!("logdev={log}")]);
                } else if let Some(bytes) = self.format.journal_bytes {
                    add(&["-l", &format!("size={bytes}")]);
                }
            }
            // It refuses an identifier that it finds on the device already.
            "btrfs" => add(&["-q", "-f", "-K"]),
            _ => {
                add(&["-q", "-F", "-t", self.kind, "-U", &uuid()]);
                // The kernel must not initialise anything while the benchmark runs, unless the plan
                // says so.
                let lazy = self.format.initialisation();
                add(&["-E", &format!("{lazy},hash_seed={}", uuid())]);
                let (more, journal) = self.ext(log, &uuid());
                make.extend(more);
                before = journal;
            }
        }
        make.push(device.to_owned());
        before.into_iter().chain([make]).collect()
    }

    /// Returns the options of mke2fs, and the command that makes the journal device.
    fn ext(&self, log: Option<&str>, uuid: &str) -> (Vec<String>, Option<Vec<String>>) {
        let format = &self.format;
        let reserved = format.reserved_percent.to_string();
        let mut all = vec!["-m".to_owned(), reserved];
        let classic_inode = format.is_classic.then_some(128);
        let block = format.block_bytes.or(log.is_some().then_some(BLOCK_BYTES));
        for (flag, number) in [
            ("-b", block),
            ("-I", format.inode_bytes.or(classic_inode)),
            ("-i", format.bytes_per_inode),
        ] {
            if let Some(number) = number {
                all.extend([flag.to_owned(), number.to_string()]);
            }
        }
        if !format.features.is_empty() {
            all.extend(["-O".to_owned(), format.features.clone()]);
        }
        if format.is_classic {
            let journal = match self.kind {
                "ext2" => "",
                _ => "has_journal,",
            };
            let features = format!("none,{journal}filetype,sparse_super");
            all.extend(["-O".to_owned(), features]);
        }
        let Some(log) = log else {
            if let Some(bytes) = format.journal_bytes {
                all.extend(["-J".to_owned(), format!("size={}", bytes >> 20)]);
            }
            return (all, None);
        };
        all.extend(["-J".to_owned(), format!("device={log}")]);
        let block = block.unwrap_or(BLOCK_BYTES).to_string();
        let journal = [
            "mke2fs",
            "-q",
            "-F",
            "-O",
            "journal_dev",
            "-b",
            &block,
            "-U",
            uuid,
            log,
        ];
        (all, Some(journal.map(str::to_owned).to_vec()))
    }

    /// Returns the mount options, with those for the journal device.
    #[must_use]
    pub fn mount_options(&self) -> String {
        let names = self.names();
        let own = match (names.get(1), self.kind) {
            (None, _) | (_, "jfs") => None,
            (Some(log), "reiserfs") => Some(format!("jdev={log}")),
            (Some(log), "xfs") => Some(format!("logdev={log}")),
            (Some(log), _) => Some(format!("journal_path={log}")),
        };
        let parts = [Some(self.options.clone()), own];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(",")
    }

    fn maker(&self) -> (&'static str, Needed) {
        let found = GUEST_KINDS.iter().find(|(kind, _)| *kind == self.kind);
        *found.expect("the setup accepts these types only")
    }
}

/// Returns a UUID of random numbers.
fn uuid(numbers: &mut SplitMix) -> String {
    let (high, low) = (numbers.next_u64(), numbers.next_u64());
    // Version 4, variant 1.
    let high = high & !0xf000 | 0x4000;
    let low = low & !(3 << 62) | 2 << 62;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_system::Ballast;

    fn file_system(kind: &'static str, has_log: bool) -> GuestFileSystem {
        let device = |text: &str| text.parse().expect("a device");
        GuestFileSystem {
            kind,
            device: device("mem:1GiB"),
            journal: match has_log {
                true => JournalPlace::External(device("mem:64MiB")),
                false => JournalPlace::Internal,
            },
            format: FormatSetup {
                is_classic: false,
                block_bytes: None,
                inode_bytes: None,
                bytes_per_inode: None,
                journal_bytes: Some(8 << 20),
                reserved_percent: 5,
                features: String::new(),
                is_lazy: false,
            },
            options: "noatime".to_owned(),
            scheduler: None,
            requests: None,
            depth: None,
            stream: None,
            has_flushes: true,
            limits: Vec::new(),
            has_uses: false,
            memory: MemorySetup {
                host: 128 << 20,
                kernel: 0,
                ballast: Ballast::Bytes(0),
            },
            is_recorded: false,
        }
    }

    /// Returns the commands with each UUID replaced by U.
    fn commands(kind: &'static str, has_log: bool) -> Vec<String> {
        let commands = file_system(kind, has_log).commands(7);
        let word = |word: &String| {
            let is_part = |part: &&str| part.len() == 36 && part.matches('-').count() == 4;
            let parts = word
                .split_inclusive('=')
                .map(|part| if is_part(&part) { "U" } else { part });
            parts.collect::<String>()
        };
        let line = |command: &Vec<String>| command.iter().map(word).collect::<Vec<_>>().join(" ");
        commands.iter().map(line).collect()
    }

    #[test]
    fn every_type_is_made_and_mounted() {
        let lazy = "lazy_itable_init=0,lazy_journal_init=0,nodiscard,hash_seed=U";
        for (kind, expected) in [
            (
                "ext3",
                format!("mke2fs -q -F -t ext3 -U U -E {lazy} -m 5 -J size=8 /dev/vda"),
            ),
            (
                "reiserfs",
                "mkreiserfs -q -ff -u U -s 2048 /dev/vda".to_owned(),
            ),
            ("jfs", "mkfs.jfs -q -s 8 /dev/vda".to_owned()),
            (
                "xfs",
                "mkfs.xfs -q -f -K -m uuid=U -l size=8388608 /dev/vda".to_owned(),
            ),
            ("btrfs", "mkfs.btrfs -q -f -K /dev/vda".to_owned()),
        ] {
            assert_eq!(commands(kind, false), [expected], "{kind}");
            assert_eq!(file_system(kind, false).mount_options(), "noatime");
        }
    }

    #[test]
    fn external_journals_are_made_and_mounted() {
        let lazy = "lazy_itable_init=0,lazy_journal_init=0,nodiscard,hash_seed=U";
        for (kind, made, options) in [
            (
                "ext4",
                vec![
                    "mke2fs -q -F -O journal_dev -b 4096 -U U /dev/vdb".to_owned(),
                    format!(
                        "mke2fs -q -F -t ext4 -U U -E {lazy} -m 5 -b 4096 -J device=/dev/vdb /dev/vda"
                    ),
                ],
                "noatime,journal_path=/dev/vdb",
            ),
            (
                "reiserfs",
                vec!["mkreiserfs -q -ff -u U -j /dev/vdb /dev/vda".to_owned()],
                "noatime,jdev=/dev/vdb",
            ),
            (
                "jfs",
                vec![
                    "mkfs.jfs -q -J journal_dev /dev/vdb".to_owned(),
                    "mkfs.jfs -q -J device=/dev/vdb /dev/vda".to_owned(),
                ],
                "noatime",
            ),
            (
                "xfs",
                vec!["mkfs.xfs -q -f -K -m uuid=U -l logdev=/dev/vdb /dev/vda".to_owned()],
                "noatime,logdev=/dev/vdb",
            ),
        ] {
            assert_eq!(commands(kind, true), made, "{kind}");
            assert_eq!(file_system(kind, true).mount_options(), options);
        }
    }

    #[test]
    fn identifiers_follow_from_the_seed() {
        let of = |seed| file_system("xfs", false).commands(seed);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
