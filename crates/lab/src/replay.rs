//! Replays a recording ([`block::Recording`]) on other devices, in virtual time or in real time.
//!
//! # Order and time
//!
//! - A batch is submitted after everything that was complete before it in the recording: what the
//!   recorded program may have waited for. So flushes cover what they covered.
//! - Between two events there is the same pause as in the recording, unless the second is a
//!   completion: the program computed or slept. Pauses can be left out.
//! - A batch is waited for when it was waited for in the recording: a plugged queue starts then.
//!
//! So a replay on equal devices takes the recorded time to the nanosecond, and on faster devices
//! less. A replay cannot know which of the completions the program really waited for: on devices
//! that complete requests in another order it takes longer than the program would have.

mod player;
mod summary;

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use block::trace::Event;
use block::{BlockDevice, DeviceText, RecordingReader};
use layout::SectorNr;
use rt::Nanos;
use workload::Control;

use crate::file_system::DeviceMaker;
use player::Player;
pub use summary::{Comparison, DeviceComparison, Latency, RequestComparison};

/// Seed of the world of a replay, that of `jext bench`: only the phase of platters follows from it.
const SEED: u64 = 1;

/// The description of a replay.
#[derive(Debug, Clone)]
pub struct ReplaySetup {
    /// The recording.
    pub path: PathBuf,
    /// A device for each one in the recording.
    pub devices: Vec<DeviceText>,
    /// True if the program's pauses take their time.
    pub has_pauses: bool,
    /// True if devices may be overwritten that contain something.
    pub overwrites: bool,
}

/// The needs of a recording.
struct Needs {
    names: Vec<String>,
    /// The byte after the last one that a request touches, for each device.
    ends: Vec<u64>,
    events: u64,
}

impl ReplaySetup {
    /// Replays the recording.
    ///
    /// # Errors
    /// Fails if the recording is invalid, if a device is too small or may not be overwritten, or
    /// with the first request that fails and did not fail in the recording.
    pub fn run(&self, control: &Arc<Control>) -> Result<Comparison> {
        let needs = self.needs()?;
        let (wanted, given) = (needs.names.len(), self.devices.len());
        if wanted != given {
            let path = self.path.display();
            bail!("{path}: has {wanted} devices, and {given} are given for them");
        }
        let is_virtual = self.devices.iter().any(DeviceText::is_ephemeral);
        let real = self.devices.iter().find(|device| !device.is_ephemeral());
        if let (true, Some(real)) = (is_virtual, real) {
            bail!(
                "{real}: is real and others are not; the time of a replay is either virtual or real"
            );
        }
        let (setup, control) = (self.clone(), Arc::clone(control));
        if !is_virtual {
            return setup.play(&needs, &control);
        }
        let config = sim::Config {
            time_max: Nanos::MAX,
            ..sim::Config::fair(SEED)
        };
        let world = move || setup.play(&needs, &control);
        sim::run(config, world)
            .map_err(|error| anyhow!(error))?
            .value
    }

    fn open(&self) -> Result<RecordingReader<BufReader<File>>> {
        let named = || self.path.display().to_string();
        let file = File::open(&self.path).with_context(named)?;
        RecordingReader::new(BufReader::new(file)).with_context(named)
    }

    /// Reads the whole recording, before anything is changed.
    fn needs(&self) -> Result<Needs> {
        let mut reader = self.open()?;
        let mut ends = Vec::new();
        let mut events = 0;
        for recorded in reader.by_ref() {
            let recorded = recorded.with_context(|| self.path.display().to_string())?;
            events += 1;
            let Event::Submitted {
                device, requests, ..
            } = &recorded.event
            else {
                continue;
            };
            ends.resize(ends.len().max(device + 1), 0);
            for request in requests.iter() {
                let (first, sectors) = request.range();
                let end = (first.get() + sectors) * SectorNr::SIZE;
                ends[*device] = end.max(ends[*device]);
            }
        }
        let names = reader.devices().iter().map(|(name, _)| name.clone());
        let names: Vec<String> = names.collect();
        ends.resize(names.len(), 0);
        Ok(Needs {
            names,
            ends,
            events,
        })
    }

    /// Plays the recording in the present world.
    fn play(&self, needs: &Needs, control: &Control) -> Result<Comparison> {
        let mut maker = DeviceMaker::default();
        let mut devices: Vec<Arc<dyn BlockDevice>> = Vec::new();
        for (text, end) in self.devices.iter().zip(&needs.ends) {
            let device = maker.open(text)?.device;
            let bytes = device.geometry().size_bytes;
            ensure!(
                bytes >= *end,
                "{text}: has {bytes} bytes, and the recording reaches to byte {end}"
            );
            let is_empty = device.next_data(0..bytes).is_empty();
            if !text.is_ephemeral() && !is_empty && !self.overwrites {
                bail!("{text}: contains something; --overwrite writes over it");
            }
            devices.push(device);
        }
        let mut player = Player::new(devices, self.has_pauses);
        control.begin(needs.events);
        for recorded in self.open()? {
            let recorded = recorded.with_context(|| self.path.display().to_string())?;
            if control.is_cancelled() {
                bail!("cancelled");
            }
            player.play(recorded)?;
            control.advance(1);
        }
        player.finish(&needs.names, &self.devices)
    }
}
