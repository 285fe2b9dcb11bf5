//! A full host: writes are refused for a while. The journal holds images that it cannot write,
//! callers get errors, nothing acknowledged is lost, and everything continues when there is room.

use std::sync::Arc;

use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use ext::options::{DataMode, Memory};
use ext::volume::{NewInode, OpenFlags, RangeChange, RenameMode};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;

use crate::damage::assert_notices;
use crate::rig::{Place, Rig, Structures, device, quiet};

/// A volume whose host is full on demand: the whole device, or the journal's.
struct Host {
    rig: Rig,
    device: Arc<FaultDevice>,
    volume: Volume,
}

impl Host {
    fn new(place: Place, on_log: bool, options: MountOptions) -> Self {
        Self::on(Rig::new(place, 4096, 16 << 20), on_log, options)
    }

    fn on(rig: Rig, on_log: bool, options: MountOptions) -> Self {
        let rule = FaultRule {
            operations: Operations::WRITES,
            when: When::Always,
            effect: Effect::NoSpace,
        };
        let plan = FaultPlan {
            seed: 1,
            rules: vec![rule],
            bad_sectors: Vec::new(),
        };
        let inner = if on_log {
            rig.log_device().expect("there is one")
        } else {
            device(&rig.home)
        };
        let full = Arc::new(FaultDevice::new(inner, plan));
        full.set_armed(false);
        let front = Arc::<FaultDevice>::clone(&full);
        let volume = if on_log {
            Volume::open(device(&rig.home), Some(front), options)
        } else {
            Volume::open(front, rig.log_device(), options)
        };
        Self {
            rig,
            device: full,
            volume: volume.expect("the volume opens"),
        }
    }

    fn create(&self, name: &str) -> Result<InodeNr, Error> {
        let new = NewInode::default();
        self.volume.create(InodeNr::ROOT, name.as_bytes(), &new)
    }
}

/// Returns the policies that assign commits and checkpoints to threads.
fn policies() -> [jbd2::LogPolicy; 4] {
    let linux24 = jbd2::LogPolicy::LINUX24;
    let with = |policy: jbd2::LogPolicy, part, value| policy.with(part, value).expect("a part");
    [
        jbd2::LogPolicy::DEFAULT,
        with(jbd2::LogPolicy::DEFAULT, "committer", "daemon"),
        with(jbd2::LogPolicy::DEFAULT, "checkpointer", "caller"),
        linux24,
    ]
}

fn with_policy(log_policy: jbd2::LogPolicy) -> MountOptions {
    let mut options = quiet(DataMode::Ordered);
    options.tuning.log_policy = log_policy;
    options
}

fn in_a_world(work: impl FnOnce() + Send + 'static) {
    sim::run(sim::Config::fair(1), work).unwrap_or_else(|error| panic!("{error}"));
}

fn assert_full<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.expect_err("the host is full");
    assert!(error.is_device_full(), "{error}");
}

/// No room for the log: sync calls report it, each at once, changes continue in memory as far as
/// they fit, and a sync call after there is room makes all of them durable.
#[test]
fn a_commit_is_held_until_there_is_room() {
    for policy in policies() {
        for place in [Place::Internal, Place::External] {
            in_a_world(move || hold_a_commit(policy, place));
        }
    }
}

fn hold_a_commit(policy: jbd2::LogPolicy, place: Place) {
    let host = Host::new(place, place == Place::External, with_policy(policy));
    host.create("before").expect("create");
    host.volume.sync().expect("sync");
    host.create("held").expect("create");
    host.device.set_armed(true);
    for _ in 0..3 {
        assert_full(host.volume.sync());
        assert_full(host.volume.sync_directory(InodeNr::ROOT));
    }
    assert!(!host.volume.is_read_only());
    host.create("later").expect("it fits into memory");
    let mut made = 0;
    let refused = loop {
        match host.create(&format!("more{made}")) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 10_000, "a full transaction cannot be committed");
    };
    assert!(refused.is_device_full(), "{refused}");
    assert!(!host.volume.is_read_only());
    // A power cut now: acknowledged changes are there.
    let copy = host.rig.copy();
    let names = copy.open(quiet(DataMode::Ordered));
    assert!(names.resolve("/before", true).is_ok());
    host.device.set_armed(false);
    host.volume.sync().expect("there is room again");
    host.create("after").expect("create");
    host.volume
        .sync_directory(InodeNr::ROOT)
        .expect("there is room again");
    let copy = host.rig.copy();
    let names = copy.open(quiet(DataMode::Ordered));
    for name in ["/before", "/held", "/later", "/more0", "/after"] {
        names.resolve(name, true).expect(name);
    }
    host.volume.close().expect("close");
    host.rig.assert_fsck_clean("after a held commit");
}

/// The daemon commits held transactions without a call, when there is room.
#[test]
fn a_held_commit_goes_on_by_itself() {
    in_a_world(|| {
        let host = Host::new(Place::Internal, false, quiet(DataMode::Ordered));
        host.create("held").expect("create");
        host.device.set_armed(true);
        assert_full(host.volume.sync());
        rt::sleep(rt::Nanos::from_secs(10));
        host.device.set_armed(false);
        rt::sleep(rt::Nanos::from_secs(1));
        let copy = host.rig.copy();
        let volume = copy.open(quiet(DataMode::Ordered));
        volume.resolve("/held", true).expect("it was committed");
        host.volume.close().expect("close");
    });
}

/// No room for checkpoints: the log is used as far as possible, then calls that need its space
/// report the error.
#[test]
fn a_checkpoint_is_held_until_there_is_room() {
    for policy in policies() {
        in_a_world(move || hold_a_checkpoint(policy));
    }
    assert_notices("checkpoint/refused-block-forgotten", || {
        hold_a_checkpoint(jbd2::LogPolicy::DEFAULT);
    });
}

fn hold_a_checkpoint(policy: jbd2::LogPolicy) {
    let host = Host::new(Place::External, false, with_policy(policy));
    host.device.set_armed(true);
    let mut made = 0;
    let refused = loop {
        let created = host.create(&format!("f{made}"));
        if let Err(error) = created.and_then(|_| host.volume.sync_directory(InodeNr::ROOT)) {
            break error;
        }
        made += 1;
        assert!(made < 10_000, "the log is full one day");
    };
    assert!(refused.is_device_full(), "{refused}");
    assert!(made > 20 && !host.volume.is_read_only());
    let copy = host.rig.copy();
    let volume = copy.open(quiet(DataMode::Ordered));
    for number in 0..made {
        let path = format!("/f{number}");
        volume.resolve(&path, true).expect("it was acknowledged");
    }
    host.device.set_armed(false);
    host.create("after").expect("there is room again");
    host.volume.close().expect("close");
    host.rig.assert_fsck_clean("after a held checkpoint");
}

/// A close fails while there is no room, and the next open has all acknowledged changes.
#[test]
fn a_close_without_room_ends_with_an_error() {
    for policy in policies() {
        in_a_world(move || {
            let host = Host::new(Place::Internal, false, with_policy(policy));
            host.create("kept").expect("create");
            host.volume.sync().expect("sync");
            host.create("lost").expect("create");
            host.device.set_armed(true);
            assert_full(host.volume.close());
            let volume = host.rig.open(quiet(DataMode::Ordered));
            volume.resolve("/kept", true).expect("it was acknowledged");
            volume.close().expect("close");
            host.rig.assert_fsck_clean("after a close without room");
        });
    }
}

/// No room for data: fsync reports it, the pages stay dirty, and with `data_err=abort` the commit
/// waits for them.
#[test]
fn data_without_room_stays_dirty() {
    for abort_on_data_error in [false, true] {
        in_a_world(move || {
            let options = MountOptions {
                abort_on_data_error,
                ..quiet(DataMode::Ordered)
            };
            let host = Host::new(Place::External, false, options);
            let volume = &host.volume;
            volume.write_file("/f", &[6; 50_000]).expect("write");
            let file = volume.open_file("/f", OpenFlags::READ_WRITE).expect("open");
            host.device.set_armed(true);
            assert_full(file.sync_all());
            let committed = volume.sync_directory(InodeNr::ROOT);
            assert_eq!(committed.is_err(), abort_on_data_error, "{committed:?}");
            assert!(!volume.is_read_only());
            host.device.set_armed(false);
            // A held commit has been retried meanwhile, and has failed again.
            let told = file.sync_all();
            let is_told = told.is_err();
            assert_eq!(is_told, abort_on_data_error, "each failure is told once");
            file.sync_all().expect("there is room again");
            file.close().expect("close");
            let copy = host.rig.copy();
            let found = copy.open(quiet(DataMode::Ordered)).read_file("/f");
            assert!(found.expect("read") == [6; 50_000]);
            host.volume.close().expect("close");
            host.rig.assert_fsck_clean("after data without room");
        });
    }
}

/// A writer gets the error as soon as the cache is at its dirty limit, and not when memory is used
/// up.
#[test]
fn a_writer_stops_when_nothing_can_be_written() {
    assert_notices("error/writer-not-stopped", write_until_refused);
}

fn write_until_refused() {
    let options = quiet(DataMode::Ordered);
    let memory = Memory {
        budget_bytes: 4 << 20,
        ..options.memory
    };
    let host = Host::new(Place::External, false, MountOptions { memory, ..options });
    let volume = &host.volume;
    let nr = host.create("f").expect("create");
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
    host.device.set_armed(true);
    let piece = [7; 1 << 16];
    let mut written = 0;
    let refused = loop {
        match volume.write(file, written, &piece) {
            Ok(count) => written += count as u64,
            Err(error) => break error,
        }
        assert!(written < 8 << 20, "nothing stops the writer");
    };
    assert!(refused.is_device_full(), "{refused}");
    assert!(volume.read_file("/f").expect("read").len() as u64 == written);
    host.device.set_armed(false);
    let done = volume.write(file, written, &piece).expect("write");
    assert_eq!(done, piece.len());
    assert_full(volume.sync_file(file, false));
    volume.sync_file(file, false).expect("it is told once");
    volume.release(file).expect("release");
    host.volume.close().expect("close");
    host.rig.assert_fsck_clean("after writes found no room");
}

/// Allocating a range of a file stops as a writer does.
#[test]
fn an_allocation_stops_when_nothing_can_be_written() {
    let options = quiet(DataMode::Ordered);
    let budget_bytes = 4 << 20;
    let memory = Memory {
        budget_bytes,
        ..options.memory
    };
    let host = Host::new(Place::External, false, MountOptions { memory, ..options });
    let nr = host.create("f").expect("create");
    host.device.set_armed(true);
    let whole = RangeChange::Allocate;
    let allocated = host.volume.change_range(nr, 0, 12 << 20, whole, false);
    let used = host.volume.memory_used();
    assert_full(allocated);
    // While another thread evicts, one step may be in memory above the budget.
    assert!(used <= budget_bytes + (1 << 20), "{used} bytes");
    host.device.set_armed(false);
    host.volume.sync().expect("there is room again");
    host.volume.close().expect("close");
    host.rig
        .assert_fsck_clean("after an allocation found no room");
}

/// A file that lost its last link while there was no room frees its space when there is room again,
/// and not only at the next open.
#[test]
fn what_was_removed_without_room_is_deleted_later() {
    assert_notices("orphan/left-until-close", remove_without_room);
}

fn remove_without_room() {
    // The deletion takes more than one transaction, which the held commit before it does not allow.
    let log_policy = jbd2::LogPolicy {
        restart_every: 1,
        ..jbd2::LogPolicy::DEFAULT
    };
    let options = MountOptions {
        memory: Memory::default(),
        ..with_policy(log_policy)
    };
    let host = Host::new(Place::Internal, false, options);
    let volume = &host.volume;
    volume.write_file("/f", &[7; 1 << 20]).expect("write");
    volume.sync().expect("sync");
    let before = volume.usage().blocks_free;
    host.create("held").expect("create");
    host.device.set_armed(true);
    assert_full(volume.sync());
    let removed = volume.unlink(InodeNr::ROOT, b"f");
    removed.expect("the name is gone, and the rest waits");
    assert_eq!(volume.orphan_count(), 1);
    host.device.set_armed(false);
    rt::sleep(rt::Nanos::from_secs(60));
    volume.sync().expect("there is room again");
    assert_eq!(volume.orphan_count(), 0);
    assert!(volume.usage().blocks_free >= before + 256);
    host.volume.close().expect("close");
    host.rig.assert_fsck_clean("after a late deletion");
}

/// On a volume with `dirsync` whose device is full, a change of directory entries happens and
/// fails. Inodes that it leaves without links are deleted.
#[test]
fn what_loses_its_name_undurably_is_deleted() {
    for name in [
        "names/not-deleted-unless-durable",
        "names/pin-of-undurable-kept",
    ] {
        assert_notices(name, change_undurably);
    }
}

fn change_undurably() {
    let options = MountOptions {
        directory_sync: true,
        ..with_policy(jbd2::LogPolicy::DEFAULT)
    };
    let host = Host::new(Place::Internal, false, options);
    let volume = &host.volume;
    let root = InodeNr::ROOT;
    let new = NewInode::default();
    let free = || volume.usage().inodes_free;
    let before = free();
    for name in ["removed", "replaced", "moved"] {
        host.create(name).expect("create");
    }
    volume
        .make_directory(root, b"empty", &new)
        .expect("make a directory");
    host.device.set_armed(true);
    assert_full(host.create("made"));
    assert_full(volume.make_directory(root, b"directory", &new));
    assert_eq!(free(), before - 6, "all of them are made");
    assert_full(volume.unlink(root, b"removed"));
    assert_full(volume.remove_directory(root, b"empty"));
    let replace = RenameMode::Replace;
    assert_full(volume.rename(root, b"moved", root, b"replaced", replace));
    assert_full(volume.unlink(root, b"made"));
    assert_full(volume.remove_directory(root, b"directory"));
    assert_eq!(volume.orphan_count(), 0, "nothing waits for a close");
    host.device.set_armed(false);
    volume.sync().expect("there is room again");
    assert_eq!(free(), before - 1, "one file is left");
    host.volume.close().expect("close");
    host.rig.assert_fsck_clean("after undurable changes");
}

const BLOCK: usize = 4096;

/// Blocks that changed places in a transaction that is held are not written in place: after a
/// power cut they are where they were.
#[test]
fn what_moved_without_room_is_not_written_over() {
    for is_direct in [true, false] {
        in_a_world(move || exchange_without_room(is_direct));
        for what in [RangeChange::Collapse, RangeChange::Insert] {
            for forces_restarts in [false, true] {
                in_a_world(move || move_without_room(what, is_direct, forces_restarts));
            }
        }
    }
}

fn with_extents(options: MountOptions) -> Host {
    let rig = Rig::of(Structures::Ext4, Place::External, 4096, 16 << 20);
    Host::on(rig, true, options)
}

/// Writes a block of `X`, in place if that is allowed.
fn overwrite(host: &Host, nr: InodeNr, block: u64, is_direct: bool) {
    let flags = OpenFlags {
        direct: is_direct,
        ..OpenFlags::READ_WRITE
    };
    let file = host.volume.open_inode(nr, flags).expect("open");
    // It may be refused, as long as there is no room.
    let _ = host
        .volume
        .write(file, block * BLOCK as u64, &[b'X'; BLOCK]);
    let _ = host.volume.sync_file(file, false);
    let _ = host.volume.release(file);
}

fn make(host: &Host, path: &str, bytes: &[u8]) -> InodeNr {
    host.volume.write_file(path, bytes).expect("write");
    host.volume.resolve(path, true).expect("it is there")
}

fn exchange_without_room(is_direct: bool) {
    let host = with_extents(quiet(DataMode::Ordered));
    let one = make(&host, "/one", &[b'a'; BLOCK]);
    let other = make(&host, "/other", &[b'b'; BLOCK]);
    host.volume.sync().expect("sync");
    host.device.set_armed(true);
    let exchanged = host
        .volume
        .exchange_range([one, other], [0; 2], BLOCK as u64);
    exchanged.expect("it fits into memory");
    overwrite(&host, other, 0, is_direct);
    let copy = host.rig.copy();
    let found = copy.open(quiet(DataMode::Ordered)).read_file("/one");
    let found = found.expect("read");
    assert!(
        [[b'a'; BLOCK], [b'b'; BLOCK]]
            .iter()
            .any(|is| *is == found[..]),
        "a file has bytes that were written to another one"
    );
    host.device.set_armed(false);
    overwrite(&host, other, 0, is_direct);
    assert_eq!(
        host.volume.read_file("/other").expect("read"),
        [b'X'; BLOCK]
    );
    assert_eq!(host.volume.read_file("/one").expect("read"), [b'b'; BLOCK]);
    host.volume.close().expect("close");
    host.rig.assert_fsck_clean("after an exchange without room");
}

fn move_without_room(what: RangeChange, is_direct: bool, forces_restarts: bool) {
    let mut options = quiet(DataMode::Ordered);
    options.tuning.log_policy.restart_every = u32::from(forces_restarts);
    let host = with_extents(options);
    let bytes: Vec<u8> = (b'a'..b'f').flat_map(|byte| [byte; BLOCK]).collect();
    let nr = make(&host, "/f", &bytes);
    host.volume.sync().expect("sync");
    host.device.set_armed(true);
    let block = BLOCK as u64;
    let moved = host.volume.change_range(nr, block, block, what, false);
    assert!(moved.is_ok() || forces_restarts, "it fits into memory");
    overwrite(&host, nr, 2, is_direct);
    let copy = host.rig.copy();
    let found = copy.open(quiet(DataMode::Ordered)).read_file("/f");
    let found = found.expect("read");
    let is_written = found[2 * BLOCK] == b'X';
    let count = found.iter().filter(|byte| **byte == b'X').count();
    assert!(
        count == 0 || is_written && count == BLOCK,
        "{what:?}: bytes at a place to which they were not written"
    );
    host.device.set_armed(false);
    host.volume.sync().expect("there is room again");
    host.volume.close().expect("close");
    host.rig.assert_fsck_clean("after a move without room");
}
