//! A trial in a guest: the kernel of the guest makes the file system and runs the workload; the
//! devices are in a new simulated world, or are files.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use block::{BlockDevice, DeviceText, MeterDevice, Recording};
use diskmodel::catalogue::hard_disk;
use rt::split_mix::SplitMix;
use sim::HostProfile;
use uml::guest::Disks;
use uml::serve::{self, Watcher};
use uml::{Guest, GuestSetup, Processor};
use workload::Control;

use super::perturbation::Perturbation;
use super::{RecordOutput, Work};
use crate::file_system::{Counted, DeviceMaker, DevicesReading, GuestFileSystem};
use crate::guest::job::{Job, JobResult, Report};
use crate::plan::Replica;
use crate::record::Measured;
use crate::system::program;

/// Maximum size of a result in bytes: a guest may report without end.
const RESULT_BYTES_MAX: usize = 64 << 20;
/// Steps of the progress that a guest reports.
const STEPS: u32 = 1000;
/// Separates the numbers of a guest from those of the world.
const GUEST_STREAM: u64 = 0x6e57_0000_6e57_0000;

/// Runs a trial; `config` is that of the world of a guest in virtual time.
pub(super) fn run(
    file_system: &GuestFileSystem,
    config: sim::Config,
    replica: Replica,
    work: &Work,
) -> Result<Measured> {
    run_in_full(file_system, config, replica, work, None).map(|result| result.measured)
}

/// Runs a trial, and returns its phases as well; records the requests if there is an output.
pub(super) fn run_in_full(
    file_system: &GuestFileSystem,
    config: sim::Config,
    replica: Replica,
    work: &Work,
    record: Option<RecordOutput>,
) -> Result<JobResult> {
    let mut numbers = SplitMix::new(replica.seed ^ GUEST_STREAM);
    let perturbation = match replica.is_perturbed {
        true => Perturbation::of(&mut numbers),
        false => Perturbation::default(),
    };
    let host = file_system.is_simulated().then_some(&config.host);
    let job =
        job(file_system, numbers.next_u64(), host, &perturbation).with_workload(&work.workload);
    let setup = GuestSetup {
        kernel: file_system.kernel()?,
        program: program()?,
        memory_bytes: file_system.memory_bytes(),
        queue_depth: file_system.depth,
        disks: disks(file_system)?,
        job: serde_json::to_string(&job)?,
        seed: numbers.next_u64(),
    };
    // The guest inherits it. In real time both would run at once.
    let _processor = file_system.is_simulated().then(Processor::claim);
    // It lives outside the world: a world that fails drops nothing.
    let guest = Arc::new(Guest::start(&setup)?);
    let result = match file_system.is_simulated() {
        true => in_virtual_time(file_system, config, &perturbation, &guest, work, record),
        false => in_real_time(file_system, &guest, &work.control, record),
    };
    guest.kill();
    result
}

fn disks(file_system: &GuestFileSystem) -> Result<Disks> {
    let count = file_system.devices().count();
    if file_system.is_simulated() {
        return Ok(Disks::Served(count));
    }
    if file_system.is_recorded {
        return Ok(Disks::ServedInRealTime(count));
    }
    // The kernel opens them: whether something else has them open, it cannot know.
    let mut maker = DeviceMaker::default();
    for device in file_system.devices() {
        maker.open(device)?;
    }
    Ok(Disks::Images(file_system.images()?))
}

/// Returns what the kernel is told about the queue of a device, by the name of the file.
fn queue(
    file_system: &GuestFileSystem,
    device: &DeviceText,
) -> impl Iterator<Item = (&'static str, String)> {
    let requests = file_system.requests.map(|count| count.to_string());
    let cache = (!file_system.has_flushes).then(|| "write through".to_owned());
    // A kernel takes every device of virtio for a disk, unless it is told; btrfs then delays each
    // sync by a tick, to write several at once.
    let stands_still = file_system.is_simulated() && !has_disk(device);
    // The scheduler comes first: it resets the number of requests.
    [
        ("scheduler", file_system.scheduler.clone()),
        ("nr_requests", requests),
        ("write_cache", cache),
        ("rotational", stands_still.then(|| "0".to_owned())),
    ]
    .into_iter()
    .filter_map(|(file, value)| Some((file, value?)))
}

/// Returns true if a part of a device is the model of a hard disk.
fn has_disk(device: &DeviceText) -> bool {
    let mut models = device.models().into_iter();
    models.any(|model| hard_disk(model).is_some())
}

fn job(
    file_system: &GuestFileSystem,
    seed: u64,
    host: Option<&HostProfile>,
    perturbation: &Perturbation,
) -> Job {
    let limits = file_system.limits.iter();
    let limits = limits.map(|(name, value)| (format!("/proc/sys/vm/{name}"), value.to_string()));
    let devices = file_system.names().into_iter().zip(file_system.devices());
    let queues = devices.flat_map(|(name, device)| {
        let folder = name.replace("/dev/", "/sys/block/");
        queue(file_system, device)
            .map(move |(file, value)| (format!("{folder}/queue/{file}"), value))
    });
    let device = file_system.names()[0];
    let stream = file_system.stream.map(|blocks| {
        let name = device.trim_start_matches("/dev/");
        let file = format!("/sys/fs/ext4/{name}/mb_stream_req");
        (file, blocks.to_string())
    });
    Job {
        modules: file_system.modules(),
        commands: file_system.commands(seed),
        kind: file_system.kind.to_owned(),
        device: device.to_owned(),
        options: file_system.mount_options(),
        values: limits.chain(queues).collect(),
        mounted_values: stream.into_iter().collect(),
        pause_ns: perturbation.before_workload.get(),
        host: host.map(ToString::to_string),
        workload: String::new(),
        parameters: Vec::new(),
    }
}

fn in_virtual_time(
    file_system: &GuestFileSystem,
    config: sim::Config,
    perturbation: &Perturbation,
    guest: &Arc<Guest>,
    work: &Work,
    record: Option<RecordOutput>,
) -> Result<JobResult> {
    let texts: Vec<_> = file_system.devices().cloned().collect();
    let (guest, control) = (Arc::clone(guest), Arc::clone(&work.control));
    let (before_mkfs, has_uses) = (perturbation.before_mkfs, file_system.has_uses);
    let world = move || -> Result<JobResult> {
        let devices = Devices::open(&texts, has_uses, record)?;
        rt::sleep(before_mkfs);
        let read = |is_running| Some(devices.read(is_running));
        let mut listener = Listener::new(control, read);
        serve::in_virtual_time(&guest, devices.served(), &mut listener)?;
        let mut result = listener.result(&guest)?;
        devices.home.measure_uses(&mut result.measured)?;
        devices.finish()?;
        Ok(result)
    };
    let report = sim::run(config, world).map_err(|error| anyhow!(error))?;
    let mut result = report.value?;
    let metrics = &mut result.measured.metrics;
    metrics.insert("virtual_time".to_owned(), report.elapsed.as_secs_f64());
    result.measured.trace_hash = Some(format!("{:016x}", report.trace_hash));
    Ok(result)
}

fn in_real_time(
    file_system: &GuestFileSystem,
    guest: &Arc<Guest>,
    control: &Arc<Control>,
    record: Option<RecordOutput>,
) -> Result<JobResult> {
    let control = Arc::clone(control);
    if record.is_none() {
        let mut listener = Listener::new(control, |_| None);
        serve::in_real_time(guest, &mut listener)?;
        return listener.result(guest);
    }
    let texts: Vec<_> = file_system.devices().cloned().collect();
    let devices = Devices::open(&texts, false, record)?;
    let mut listener = Listener::new(control, |is_running| Some(devices.read(is_running)));
    serve::disks_in_real_time(guest, devices.served(), &mut listener)?;
    let result = listener.result(guest)?;
    devices.finish()?;
    Ok(result)
}

/// The devices that a guest is served with.
struct Devices {
    home: Counted,
    log: Option<Counted>,
    recording: Option<Arc<Recording>>,
}

impl Devices {
    /// Opens the devices; `has_uses` lists the requests to the home by their blocks.
    fn open(texts: &[DeviceText], has_uses: bool, record: Option<RecordOutput>) -> Result<Self> {
        let mut maker = DeviceMaker::default();
        // The journal's first, as for the engine.
        let mut log = texts.get(1).map(|text| maker.open(text)).transpose()?;
        let home = match has_uses {
            true => maker.open_listed(&texts[0])?,
            false => maker.open(&texts[0])?,
        };
        if let Some(log) = &mut log {
            log.leave_out(&home);
        }
        Ok(Self {
            home,
            log,
            recording: record.map(Recording::new),
        })
    }

    /// Returns the devices in the order of their names in the guest.
    fn served(&self) -> Vec<Arc<dyn BlockDevice>> {
        let own = [Some(&self.home), self.log.as_ref()];
        let device = |counted: &Counted| -> Arc<dyn BlockDevice> {
            let device = Arc::<MeterDevice>::clone(&counted.device);
            match &self.recording {
                None => device,
                Some(recording) => Arc::new(recording.attach(device)),
            }
        };
        own.into_iter().flatten().map(device).collect()
    }

    fn read(&self, is_running: bool) -> DevicesReading {
        self.home.list(is_running);
        DevicesReading::of(&self.home, self.log.as_ref())
    }

    fn finish(&self) -> Result<()> {
        match &self.recording {
            None => Ok(()),
            Some(recording) => recording.finish().context("the recording"),
        }
    }
}

/// Takes the reports of a guest.
struct Listener<F> {
    control: Arc<Control>,
    // Reads the counters at the start of the workload, with true, and at its end.
    read: F,
    before: Option<DevicesReading>,
    after: Option<DevicesReading>,
    parts: String,
    end: Option<Result<(), String>>,
    done: u32,
}

impl<F: Fn(bool) -> Option<DevicesReading>> Listener<F> {
    fn new(control: Arc<Control>, read: F) -> Self {
        control.begin(u64::from(STEPS));
        Self {
            control,
            read,
            before: None,
            after: None,
            parts: String::new(),
            end: None,
            done: 0,
        }
    }

    /// Returns the result, with the work of the devices between start and end of the workload.
    fn result(self, guest: &Guest) -> Result<JobResult> {
        // What follows from it, such as a read-only file system, says less.
        if let Some(message) = guest.failed_write() {
            let hint = match message.starts_with("critical space allocation") {
                true => "; the disk of its image is full",
                false => "",
            };
            bail!("a device of the guest failed a write: {message}{hint}");
        }
        match (self.end, guest.panic()) {
            (None, Some(reason)) => {
                let hint = match reason.contains("deadlocked on memory") {
                    true => "; memory.host is too small",
                    false => "",
                };
                bail!("the guest's kernel gave up: {reason}{hint}");
            }
            (None, None) => bail!(
                "the guest ended without a result; its console ends with:\n{}",
                guest.console_tail()
            ),
            (Some(Err(cause)), _) => bail!("in the guest: {cause}"),
            (Some(Ok(())), _) => {}
        }
        let mut result: JobResult = serde_json::from_str(&self.parts).context("result")?;
        if let (Some(before), Some(after)) = (&self.before, &self.after) {
            after.add_since(before, &mut result.measured);
        }
        Ok(result)
    }
}

impl<F: Fn(bool) -> Option<DevicesReading>> Watcher for Listener<F> {
    fn report(&mut self, text: &str) {
        match Report::parse(text) {
            Some(Report::Begin) => self.before = (self.read)(true),
            Some(Report::End) => self.after = (self.read)(false),
            Some(Report::Progress(permille)) => {
                let by = permille.min(STEPS).saturating_sub(self.done);
                self.done += by;
                self.control.advance(u64::from(by));
            }
            Some(Report::Part(text)) if self.parts.len() + text.len() > RESULT_BYTES_MAX => {
                self.end = Some(Err("a result without end".to_owned()));
            }
            Some(Report::Part(text)) => self.parts.push_str(&text),
            Some(Report::Done) => {
                self.end.get_or_insert(Ok(()));
            }
            Some(Report::Failed(cause)) => self.end = Some(Err(cause)),
            None => {}
        }
    }

    fn is_cancelled(&self) -> bool {
        self.control.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_with_a_disk_in_it_turns() {
        let has = |text: &str| has_disk(&text.parse().expect("a device"));
        for text in [
            "sim:atlas-v-18",
            "slice(sim(constellation-es3,elevator=noop),0..16GiB)",
            "raid1(sim:intel-p4500,sim:constellation-es3)",
            "bbu(raid5(sim:constellation-es3 x4))",
        ] {
            assert!(has(text), "{text}");
        }
        for text in [
            "sim(intel-p4500,capacity=16GiB)",
            "slice(nvram:512MiB,0..128MiB)",
            "raid1(sim:intel-p4500 x2)",
        ] {
            assert!(!has(text), "{text}");
        }
    }
}
