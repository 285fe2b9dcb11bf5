//! [`Setup`]: the settings of a trial as typed values, checked against each other.

mod cut;
mod ext4;
mod guest;
mod memory;
mod mounted;
mod options;
mod plan;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use block::DeviceText;
use block::text::Size;
use ext::mkfs::FileSystemType;
use rt::Nanos;
use sim::HostProfile;
use workload::Load;

use crate::file_system::{
    Described, ExtSetup, FileSystem, GuestFileSystem, JournalPlace, MountedSetup,
};
use crate::plan::key::{EXT4, JOURNAL_SIZE, TIMELINE, USES};
use crate::plan::settings::Settings;
use crate::plan::value::{DIRECTORY_PREFIX, INTERNAL, INTERNAL_PREFIX, NONE, Value};
use crate::power_cut::PowerCut;

use cut::check_cut;
pub use options::load;

/// The typed settings of a trial.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The environment in which it runs.
    pub place: Environment,
    /// The benchmark with its parameters.
    pub workload: Load,
    /// True if the first repetition records a timeline.
    pub has_timeline: bool,
    /// The cut of the power while it runs.
    pub cut: Option<PowerCut>,
}

/// The environment in which a trial runs.
#[derive(Debug, Clone)]
pub enum Environment {
    /// The engine in a simulated world.
    Simulated {
        /// The cost of host work.
        host: HostProfile,
        /// The virtual time after which the trial fails.
        time_max: Nanos,
        /// The file system.
        file_system: Arc<dyn FileSystem>,
    },
    /// The engine in this process and in real time.
    Process {
        /// The file system.
        file_system: Arc<dyn FileSystem>,
    },
    /// A directory on any mounted file system.
    Directory {
        /// Its path.
        path: PathBuf,
    },
    /// A file system that the kernel or a program mounts.
    Mounted {
        /// The file system.
        file_system: Box<MountedSetup>,
    },
    /// A file system that the kernel of a guest mounts.
    Guest {
        /// The cost of host work, if the guest's time is virtual.
        host: HostProfile,
        /// The virtual time after which the trial fails.
        time_max: Nanos,
        /// The file system.
        file_system: Box<GuestFileSystem>,
    },
}

/// Settings that cannot be combined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SetupError {
    /// The keys involved.
    pub keys: Vec<&'static str>,
    /// The fault, in one line.
    pub message: String,
}

impl Setup {
    /// Converts settings.
    ///
    /// # Errors
    /// Fails with the first invalid setting.
    pub fn of(settings: &Settings) -> Result<Self, SetupError> {
        let reader = Reader { settings };
        let workload = reader.workload()?;
        let cut = reader.cut()?;
        if let Some(mounted) = reader.mounted()? {
            let place = Environment::Mounted {
                file_system: Box::new(mounted),
            };
            return Ok(reader.setup(place, workload, None));
        }
        if let Some(file_system) = reader.guest()? {
            let place = Environment::Guest {
                host: reader.host()?,
                time_max: reader.time("limit.virtual_time"),
                file_system: Box::new(file_system),
            };
            return Ok(reader.setup(place, workload, None));
        }
        let place = match reader.text("target") {
            "simulated" => {
                let host = reader.host()?;
                let time_max = reader.time("limit.virtual_time");
                let file_system = reader.volume(true)?;
                Environment::Simulated {
                    host,
                    time_max,
                    file_system,
                }
            }
            "process" => Environment::Process {
                file_system: reader.volume(false)?,
            },
            directory => {
                let path = directory
                    .strip_prefix(DIRECTORY_PREFIX)
                    .unwrap_or(directory);
                reader.check_directory()?;
                Environment::Directory {
                    path: PathBuf::from(path),
                }
            }
        };
        Ok(reader.setup(place, workload, cut))
    }

    /// Returns true if the trial runs in a simulated world: its time is virtual.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        match &self.place {
            Environment::Simulated { .. } => true,
            Environment::Guest { file_system, .. } => file_system.is_simulated(),
            _ => false,
        }
    }

    /// Returns true if the trial mounts something, see [`Plan::mounts`](crate::Plan::mounts).
    #[must_use]
    pub fn mounts(&self) -> bool {
        matches!(self.place, Environment::Mounted { .. })
    }

    /// Returns true if the trial runs in a guest.
    #[must_use]
    pub fn has_guest(&self) -> bool {
        matches!(self.place, Environment::Guest { .. })
    }

    /// Returns the file system that is made for the trial; `None` for a directory.
    #[must_use]
    pub fn file_system(&self) -> Option<&dyn Described> {
        match &self.place {
            Environment::Simulated { file_system, .. } | Environment::Process { file_system } => {
                Some(&**file_system)
            }
            Environment::Mounted { file_system } => Some(&**file_system),
            Environment::Guest { file_system, .. } => Some(&**file_system),
            Environment::Directory { .. } => None,
        }
    }
}

/// Typed access to settings whose kinds were checked when the plan was read.
struct Reader<'s> {
    settings: &'s Settings,
}

const CHECKED: &str = "the key has a default and its kind was checked";

impl Reader<'_> {
    fn value(&self, key: &str) -> &Value {
        self.settings.get(key).expect(CHECKED)
    }

    fn text(&self, key: &str) -> &str {
        match self.value(key) {
            Value::Text(text) => text,
            other => unreachable!("{key} is {other:?}, not a text"),
        }
    }

    fn switch(&self, key: &str) -> bool {
        *self.value(key) == Value::Switch(true)
    }

    fn number(&self, key: &str) -> i64 {
        match self.value(key) {
            Value::Number(number) => *number,
            other => unreachable!("{key} is {other:?}, not a number"),
        }
    }

    /// Returns a number that was checked to be within 0 and 2^31.
    fn small(&self, key: &str) -> u32 {
        u32::try_from(self.number(key)).expect("checked against its limits")
    }

    fn percent(&self, key: &str) -> u8 {
        u8::try_from(self.number(key)).expect("checked against its limits")
    }

    fn time(&self, key: &str) -> Nanos {
        match self.value(key) {
            Value::Time(nanos) => Nanos::new(*nanos),
            other => unreachable!("{key} is {other:?}, not a time"),
        }
    }

    /// Returns a number of bytes; `None` for a word.
    fn bytes(&self, key: &str) -> Option<u64> {
        match self.value(key) {
            Value::Bytes(bytes) => Some(*bytes),
            _ => None,
        }
    }

    fn is_said(&self, key: &str) -> bool {
        self.settings.spot(key).is_some()
    }

    fn setup(&self, place: Environment, workload: Load, cut: Option<PowerCut>) -> Setup {
        let has_timeline = match self.text(TIMELINE) {
            "always" => true,
            "simulated" => matches!(place, Environment::Simulated { .. }),
            _ => false,
        };
        Setup {
            place,
            workload,
            has_timeline: has_timeline && cut.is_none(),
            cut,
        }
    }

    fn host(&self) -> Result<HostProfile, SetupError> {
        let text = self.text("host");
        let host = HostProfile::from_str(text).map_err(|error| SetupError {
            keys: vec!["host"],
            message: error.to_string(),
        })?;
        if !self.is_said("host_scale_permille") {
            return Ok(host);
        }
        Ok(host.scaled(self.small("host_scale_permille")))
    }

    /// Returns the file system that the key `fs.type` selects; all are the engine's.
    fn volume(&self, is_simulated: bool) -> Result<Arc<dyn FileSystem>, SetupError> {
        Ok(Arc::new(self.ext(is_simulated)?))
    }

    fn ext(&self, is_simulated: bool) -> Result<ExtSetup, SetupError> {
        let Some(Value::Text(text)) = self.settings.get("device") else {
            return Err(wrong(
                &["target", "device"],
                "device: a file system needs one",
            ));
        };
        let device = self.device("device", text)?;
        check_world(&device, "device", is_simulated)?;
        let journal = self.journal(is_simulated)?;
        if let JournalPlace::External(journal) = &journal {
            check_parts(&device, journal)?;
        }
        let is_cut = self.settings.has_cut();
        if is_cut {
            check_cut("device", &device)?;
            if let JournalPlace::External(journal) = &journal {
                check_cut("journal", journal)?;
            }
        }
        let kind = self.text("fs.type");
        self.check_engine()?;
        let memory = self.memory(&journal)?;
        let ballast = memory.ballast_bytes(&journal);
        let budget = memory.left(&journal);
        Ok(ExtSetup {
            file_system: match kind {
                EXT4 => FileSystemType::Ext4,
                "ext2" => FileSystemType::Ext2,
                _ => FileSystemType::Ext3,
            },
            device,
            format: self.format(kind, &journal)?,
            journal,
            mount: self.mount(budget, ballast, is_simulated)?,
            memory,
            is_cut,
            has_uses: self.switch(USES),
        })
    }

    /// Returns where the journal is: a word, or the text of a device.
    fn journal_word(&self) -> &str {
        match self.text("journal") {
            text if text.starts_with(INTERNAL_PREFIX) => INTERNAL,
            text => text,
        }
    }

    /// Returns the size of an internal journal; `None` if mkfs decides.
    fn journal_bytes(&self) -> Option<u64> {
        match self.text("journal").strip_prefix(INTERNAL_PREFIX) {
            Some(size) => Some(Size::parse(size).expect("the plan was checked").bytes()),
            None => self.bytes(JOURNAL_SIZE),
        }
    }

    fn device(&self, key: &'static str, text: &str) -> Result<DeviceText, SetupError> {
        text.parse()
            .map_err(|error| wrong(&[key], &format!("{key}: {error}")))
    }

    fn journal(&self, is_simulated: bool) -> Result<JournalPlace, SetupError> {
        let is_ext2 = self.text("fs.type") == "ext2";
        let is_ext4 = self.text("fs.type") == EXT4;
        let place = match self.journal_word() {
            NONE => JournalPlace::None,
            INTERNAL if is_ext4 && self.has_no_journal() => JournalPlace::None,
            INTERNAL if is_ext2 && !self.is_said("journal") => JournalPlace::None,
            INTERNAL => JournalPlace::Internal,
            text => {
                let device = self.device("journal", text)?;
                check_world(&device, "journal", is_simulated)?;
                JournalPlace::External(device)
            }
        };
        match (is_ext2, &place) {
            _ if is_ext4 => Ok(place),
            (true, JournalPlace::None) => Ok(place),
            (true, _) => Err(wrong(
                &["fs.type", "journal"],
                "journal: ext2 has none; set \"none\"",
            )),
            (false, JournalPlace::None) => {
                let message = "journal: ext3 needs one; without a journal it is fs.type = \"ext2\", or \"ext4\"";
                Err(wrong(&["fs.type", "journal"], message))
            }
            (false, _) => Ok(place),
        }
    }

    fn check_directory(&self) -> Result<(), SetupError> {
        let meaningless = ["device", "journal", "host", "mkfs"];
        match meaningless.iter().find(|key| self.is_said(key)) {
            None => Ok(()),
            Some(key) => {
                let message = format!(
                    "{key}: has no effect for a directory, whose file system already exists"
                );
                Err(wrong(&[key], &message))
            }
        }
    }
}

/// Checks that a simulated world has simulated devices and memory, and a process real ones.
fn check_world(
    device: &DeviceText,
    key: &'static str,
    is_simulated: bool,
) -> Result<(), SetupError> {
    let is_memory = matches!(device, DeviceText::Memory { .. });
    match is_simulated {
        true if !device.is_ephemeral() => {
            let message = format!(
                "{key}: {device} runs in real time; a simulated world needs a simulated device"
            );
            Err(wrong(&["target", key], &message))
        }
        false if device.is_simulated() && !is_memory => {
            let message = format!("{key}: {device} exists in a simulated world only");
            Err(wrong(&["target", key], &message))
        }
        _ => Ok(()),
    }
}

/// Refuses a file system and a journal on the same bytes of a shared disk.
fn check_parts(device: &DeviceText, journal: &DeviceText) -> Result<(), SetupError> {
    let own = device.disk_parts();
    for part in journal.disk_parts() {
        if let Some(other) = own.iter().find(|other| other.overlaps(&part)) {
            let message = format!("journal: {part} overlaps {other}, which is the file system's");
            return Err(wrong(&["journal", "device"], &message));
        }
    }
    Ok(())
}

fn wrong(keys: &[&'static str], message: &str) -> SetupError {
    SetupError {
        keys: keys.to_vec(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
