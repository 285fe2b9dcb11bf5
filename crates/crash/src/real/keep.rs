//! The files that a violation leaves in a folder, since threads do not repeat.
//!
//! | file | contents |
//! |---|---|
//! | `violation.txt` | the broken rule, and the setting of the round |
//! | `lanes.txt` | each client's operations, their outcomes and possible transactions |
//! | `events.txt` | the order of operations that begin and return, and of requests to the devices |
//! | `before.img`, `before-log.img` | the devices before the round |
//! | `left.img`, `left-log.img` | the devices after the power cut, not recovered |

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use crate::device_log::device_log;
use crate::disks::Disks;
use crate::recording::Recording;
use crate::rule::Broken;
use crate::setting::Setting;

/// Everything that belongs to a violation.
pub(super) struct Evidence {
    pub(super) broken: Broken,
    pub(super) setting: Setting,
    /// The operations, if the clients ended.
    pub(super) recording: Option<Recording>,
    /// The contents after the power cut, if there was one.
    pub(super) left: Option<Disks>,
}

impl Evidence {
    pub(super) fn without_images(setting: Setting, broken: Broken) -> Box<Self> {
        Box::new(Self {
            broken,
            setting,
            recording: None,
            left: None,
        })
    }

    pub(super) fn of(recording: Recording, broken: Broken) -> Box<Self> {
        Box::new(Self {
            broken,
            setting: recording.workload.setting,
            recording: Some(recording),
            left: None,
        })
    }
}

/// Writes the evidence to a new folder below this one.
pub(super) fn keep(evidence: &Evidence, folder: &Path, round: u64) -> io::Result<PathBuf> {
    let folder = folder.join(format!("jext-violation-{}-{round}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let Evidence {
        broken,
        setting,
        recording,
        left,
    } = evidence;
    let text = format!("violation of {broken}\non {setting}\n");
    std::fs::write(folder.join("violation.txt"), text)?;
    if let Some(recording) = recording {
        std::fs::write(folder.join("lanes.txt"), lanes(recording))?;
        let events = device_log(recording, usize::MAX).join("\n");
        std::fs::write(folder.join("events.txt"), events + "\n")?;
        images(&folder, "before", &recording.initial)?;
    }
    if let Some(left) = left {
        images(&folder, "left", left)?;
    }
    Ok(folder)
}

fn images(folder: &Path, name: &str, disks: &Disks) -> io::Result<()> {
    std::fs::write(folder.join(format!("{name}.img")), disks.home.to_bytes())?;
    if let Some(log) = &disks.log {
        std::fs::write(folder.join(format!("{name}-log.img")), log.to_bytes())?;
    }
    Ok(())
}

fn lanes(recording: &Recording) -> String {
    let mut text = String::new();
    let lanes = recording.workload.lanes.iter().zip(&recording.done);
    for (lane, (ops, done)) in lanes.enumerate() {
        for (number, (op, done)) in ops.iter().zip(done).enumerate() {
            let (outcome, first, last) = (done.outcome, done.first, done.last);
            let _ = writeln!(
                text,
                "lane {lane}: {number:5} {op}  ({outcome:?}; transactions {first} to {last})"
            );
        }
    }
    text
}
