//! Devices worse than failing: a failed flush that loses data, writes that are lost, misdirected or
//! corrupted, and failures that occur several times in a row and then stop.

use std::sync::Arc;

use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use block::memory::MemoryDevice;
use block::{BlockDevice, DeviceError, Geometry, Outcome, Request, Ticket};
use ext::options::DataMode;
use ext::volume::OpenFlags;
use ext::{Error, MountOptions, Volume};
use rt::Mutex;

use crate::history::{Bound, History, Op, Rule, SCRIPT, read_tree};
use crate::image::Image;
use crate::rig::{Place, Rig, device, quiet};

const VOLUME_BYTES: u64 = 8 << 20;
/// Largest number of failures in a row for an operation.
const TRIES_MAX: usize = 4;
/// Interval of writes or reads that are corrupted silently.
const SILENT_ONE_IN: usize = 5;

/// A device with a volatile cache whose n-th flush fails and loses everything since the last good
/// one, as drives and kernels do that mark unwritten data as clean. Later flushes work, and mean
/// nothing for the lost data.
struct Forgetful {
    memory: Arc<MemoryDevice>,
    state: Mutex<ForgetfulState>,
}

struct ForgetfulState {
    durable: MemoryDevice,
    flushes: u64,
    fails_at: u64,
}

impl Forgetful {
    fn new(memory: &Arc<MemoryDevice>, fails_at: u64) -> Arc<Self> {
        let state = ForgetfulState {
            durable: memory.snapshot(),
            flushes: 0,
            fails_at,
        };
        Arc::new(Self {
            memory: Arc::clone(memory),
            state: Mutex::new(state),
        })
    }

    fn flush(&self) -> Result<Outcome, DeviceError> {
        let mut state = self.state.lock();
        state.flushes += 1;
        if state.flushes == state.fails_at {
            self.memory.restore(&state.durable);
            return Err(DeviceError::Failed {
                operation: "flush",
                sector: layout::SectorNr::new(0),
                sectors: 0,
                device: self.name(),
                cause: "the cache is lost".to_owned(),
            });
        }
        state.durable = self.memory.snapshot();
        Ok(Outcome::Done)
    }

    /// Cuts the power: data that no flush covers is lost.
    fn cut(&self) {
        self.memory.restore(&self.state.lock().durable);
    }
}

impl BlockDevice for Forgetful {
    fn geometry(&self) -> Geometry {
        Geometry {
            has_volatile_cache: true,
            has_force_unit_access: false,
            ..self.memory.geometry()
        }
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let answer = |request: Request| match request {
            Request::Flush => self.flush(),
            Request::Write {
                sector, payload, ..
            } => {
                let plain = Request::Write {
                    sector,
                    payload,
                    force_unit_access: false,
                };
                self.memory.submit(vec![plain]).wait().remove(0)
            }
            other => self.memory.submit(vec![other]).wait().remove(0),
        };
        Ticket::ready(batch.into_iter().map(answer).collect())
    }

    fn name(&self) -> String {
        "forgetful".to_owned()
    }
}

/// A flush that fails for the zeroing of inode tables has lost others' data.
#[test]
fn a_failed_flush_of_the_zeroing_is_everybodys() {
    let image = Image::over_garbage("ext4", 1024, 24 << 20, false, &[]);
    let bytes = std::fs::read(&image.path).expect("the image is there");
    for fails_at in 1..16 {
        let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
        let world = sim::run(sim::Config::fair(1), move || {
            overwrite_beside_zeroing(&memory, fails_at);
        });
        world.unwrap_or_else(|error| panic!("flush {fails_at}: {error}"));
    }
}

fn overwrite_beside_zeroing(memory: &Arc<MemoryDevice>, fails_at: u64) {
    let made = Volume::open(device(memory), None, quiet(DataMode::Ordered)).expect("it opens");
    made.write_file("/f", &[b'a'; 4096]).expect("write");
    made.close().expect("close");
    let forgetful = Forgetful::new(memory, fails_at);
    let front = Arc::<Forgetful>::clone(&forgetful);
    let options = MountOptions {
        init_tables: Some(1),
        ..quiet(DataMode::Ordered)
    };
    let Ok(volume) = Volume::open(front, None, options) else {
        return;
    };
    let flags = OpenFlags {
        direct: true,
        ..OpenFlags::READ_WRITE
    };
    let mut file = volume.open_file("/f", flags).expect("open");
    let is_written = file.write_all(&[b'b'; 4096]).is_ok();
    // Tables are zeroed from the fifth second on.
    rt::sleep(rt::Nanos::from_secs(8));
    let is_synced = is_written && file.sync_all().is_ok();
    drop(volume);
    forgetful.cut();
    if is_synced {
        let volume = Volume::open(device(memory), None, quiet(DataMode::Ordered));
        let found = volume.expect("it opens").read_file("/f").expect("read");
        assert!(found == [b'b'; 4096], "what was synced is there");
    }
}

/// Runs a script up to the first permanent failure. Returns the bounds, and the number of
/// operations started.
fn run_script(volume: &Volume, history: &History, tries: usize) -> (Bound, usize) {
    let mut bound = Bound::default();
    for (number, op) in history.ops.iter().enumerate() {
        let mut result = op.run(volume, number);
        for _ in 1..tries {
            match result {
                // The try before had succeeded, but had reported an error.
                Err(Error::Exists | Error::NotFound) if is_once(*op) => result = Ok(()),
                Err(_) => result = op.run(volume, number),
                Ok(()) => break,
            }
        }
        match result {
            Ok(()) => history.bind(&mut bound, number),
            Err(_) => return (bound, number + 1),
        }
    }
    (bound, history.ops.len())
}

fn is_once(op: Op) -> bool {
    matches!(
        op,
        Op::Create(_) | Op::Mkdir(_) | Op::Rename(..) | Op::Link(..) | Op::Unlink(_) | Op::Rmdir(_)
    )
}

/// Fails each flush (E4): data written since the last good flush does not count as durable because
/// a later flush works.
fn lose_at_each_flush(place: Place, data: DataMode) {
    let made = Rig::new(place, 1024, VOLUME_BYTES);
    let history = Arc::new(History::new(SCRIPT));
    for on_log in [false, true] {
        if on_log && made.log.is_none() {
            continue;
        }
        for fails_at in 1.. {
            let (rig, history) = (made.copy(), Arc::clone(&history));
            let when = format!("{place:?}, {data:?}, log {on_log}, flush {fails_at}");
            let what = when.clone();
            let world = sim::run(sim::Config::fair(1), move || {
                lose(&rig, &history, data, on_log, fails_at, &what)
            });
            let has_failed = world
                .unwrap_or_else(|error| panic!("{when}: {error}"))
                .value;
            if !has_failed {
                assert!(fails_at > 1, "{when}: there are flushes");
                break;
            }
        }
    }
}

/// Runs the script once; returns true if a flush has failed.
fn lose(
    rig: &Rig,
    history: &History,
    data: DataMode,
    on_log: bool,
    fails_at: u64,
    when: &str,
) -> bool {
    let at = |here| if here { fails_at } else { 0 };
    let home = Forgetful::new(&rig.home, at(!on_log));
    let log = rig
        .log
        .as_ref()
        .map(|memory| Forgetful::new(memory, at(on_log)));
    let log_device = log.clone().map(|log| log as Arc<dyn BlockDevice>);
    let opened = Volume::open(Arc::<Forgetful>::clone(&home), log_device, quiet(data));
    let mut outcome = (Bound::default(), 0);
    if let Ok(volume) = opened {
        outcome = run_script(&volume, history, 2);
        let later = [volume.sync(), volume.sync()];
        let has_failed = home.state.lock().flushes >= fails_at && !on_log;
        if has_failed && outcome.1 < history.ops.len() {
            assert!(later.iter().all(Result::is_err), "{when}: never again");
        }
        if volume.close().is_ok() {
            assert_eq!(outcome.1, history.ops.len(), "{when}: close says yes");
            history.bind_all(&mut outcome.0, outcome.1);
        }
    }
    let (bound, most) = outcome;
    home.cut();
    if let Some(log) = &log {
        log.cut();
    }
    let failing = if on_log { log.as_ref() } else { Some(&home) };
    let has_failed = failing.is_some_and(|device| device.state.lock().flushes >= fails_at);
    let volume = rig.open(quiet(data));
    let found = read_tree(&volume).unwrap_or_else(|error| panic!("{when}: {error}"));
    if let Err(why) = history.check(&found, &bound, most, Rule::Synced) {
        panic!("{when}: bound {bound:?}: {why}");
    }
    volume.close().expect("close");
    has_failed
}

#[test]
fn a_failed_flush_loses_what_it_covers() {
    for data in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
        lose_at_each_flush(Place::Internal, data);
        lose_at_each_flush(Place::External, data);
    }
}

fn faulty(memory: &Arc<MemoryDevice>, rules: Vec<FaultRule>) -> Arc<FaultDevice> {
    let plan = FaultPlan {
        seed: 3,
        rules,
        bad_sectors: Vec::new(),
    };
    Arc::new(FaultDevice::new(device(memory), plan))
}

/// Returns the number of reads and writes of the script on the file-system device, including open
/// and close.
fn accesses(made: &Rig, history: &History, data: DataMode) -> [u64; 2] {
    let counting = [Operations::READS, Operations::WRITES].map(|operations| FaultRule {
        operations,
        when: When::Nth(0),
        effect: Effect::Fail,
    });
    let rig = made.copy();
    let home = faulty(&rig.home, counting.to_vec());
    let failing = Arc::<FaultDevice>::clone(&home);
    let volume = Volume::open(failing, rig.log_device(), quiet(data)).expect("it opens");
    run_script(&volume, history, 1);
    volume.close().expect("close");
    [0, 1].map(|rule| home.seen(rule))
}

/// E9: reads and data writes that fail a few times and then work, retried by their callers: the
/// outcome is that without failures. The journal is on another device, so that no failure is
/// permanent.
#[test]
fn failures_that_pass() {
    for data in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
        let made = Rig::new(Place::External, 1024, VOLUME_BYTES);
        let history = Arc::new(History::new(SCRIPT));
        let (copy, script) = (made.copy(), Arc::clone(&history));
        let counts = sim::run(sim::Config::fair(1), move || accesses(&copy, &script, data));
        let counts = counts.unwrap_or_else(|error| panic!("{error}")).value;
        for (operations, count) in [Operations::READS, Operations::WRITES]
            .into_iter()
            .zip(counts)
        {
            for first in 1..=count {
                for failures in [1, TRIES_MAX as u64 - 1] {
                    let rules = (first..first + failures).map(|number| FaultRule {
                        operations,
                        when: When::Nth(number),
                        effect: Effect::Fail,
                    });
                    let (rig, history) = (made.copy(), Arc::clone(&history));
                    let rules: Vec<_> = rules.collect();
                    let when = format!("{data:?}, {operations:?} from {first}, {failures} times");
                    let what = when.clone();
                    let run = sim::run(sim::Config::fair(1), move || {
                        pass(&rig, &history, data, rules, &what);
                    });
                    run.unwrap_or_else(|error| panic!("{when}: {error}"));
                }
            }
        }
    }
}

fn pass(rig: &Rig, history: &History, data: DataMode, rules: Vec<FaultRule>, when: &str) {
    let home = faulty(&rig.home, rules);
    let open = || {
        let failing = Arc::<FaultDevice>::clone(&home);
        Volume::open(failing, rig.log_device(), quiet(data))
    };
    let opened = (0..TRIES_MAX).find_map(|_| open().ok());
    let volume = opened.unwrap_or_else(|| panic!("{when}: it does not open"));
    let (_, most) = run_script(&volume, history, TRIES_MAX);
    let is_aborted = volume.is_read_only();
    let synced = (0..TRIES_MAX).any(|_| volume.sync().is_ok());
    let closed = volume.close();
    if is_aborted || closed.is_err() {
        // A failed checkpoint write, which the journal covers: its contents are replayed.
        assert!(home.strikes() > 0, "{when}: nothing has failed");
    } else {
        assert!(synced, "{when}: sync");
        assert_eq!(most, history.ops.len(), "{when}: operations");
    }
    let volume = rig.open(quiet(data));
    let found = read_tree(&volume).unwrap_or_else(|error| panic!("{when}: {error}"));
    let mut bound = Bound::default();
    if synced && most == history.ops.len() {
        history.bind_all(&mut bound, most);
    }
    if let Err(why) = history.check(&found, &bound, most, Rule::Synced) {
        panic!("{when}: bound {bound:?}: {why}");
    }
    volume.close().expect("close");
}

/// E7: without checksums, lost, misdirected and corrupted writes are undetectable. The result is a
/// typed error or wrong bytes, but no panic and no hang, and a volume that can be tried again.
#[test]
fn silent_corruption_ends_in_errors() {
    for (place, data) in [
        (Place::Internal, DataMode::Ordered),
        (Place::Internal, DataMode::Journal),
        (Place::External, DataMode::Ordered),
        (Place::None, DataMode::Ordered),
    ] {
        let made = Rig::new(place, 1024, VOLUME_BYTES);
        let history = Arc::new(History::new(SCRIPT));
        let (copy, script) = (made.copy(), Arc::clone(&history));
        let counts = sim::run(sim::Config::fair(1), move || accesses(&copy, &script, data));
        let counts = counts.unwrap_or_else(|error| panic!("{error}")).value;
        for (operations, count) in [Operations::READS, Operations::WRITES]
            .into_iter()
            .zip(counts)
        {
            for number in (1..=count).step_by(SILENT_ONE_IN) {
                for effect in [Effect::Lost, Effect::Misdirected, Effect::Rotten] {
                    let rule = FaultRule {
                        operations,
                        when: When::Nth(number),
                        effect,
                    };
                    let (rig, history) = (made.copy(), Arc::clone(&history));
                    let run = sim::run(sim::Config::fair(1), move || {
                        live_with(&rig, &history, data, rule);
                    });
                    run.unwrap_or_else(|error| panic!("{place:?}, {data:?}, {rule:?}: {error}"));
                }
            }
        }
    }
}

fn live_with(rig: &Rig, history: &History, data: DataMode, rule: FaultRule) {
    let home = faulty(&rig.home, vec![rule]);
    if let Ok(volume) = Volume::open(home, rig.log_device(), quiet(data)) {
        for (number, op) in history.ops.iter().enumerate() {
            drop(op.run(&volume, number));
        }
        drop(read_tree(&volume));
        drop(volume.close());
    }
    let again = Volume::open(device(&rig.home), rig.log_device(), quiet(data));
    if let Ok(volume) = again {
        drop(read_tree(&volume));
        drop(volume.close());
    }
}
