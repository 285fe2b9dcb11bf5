//! `chattr +j` and `-j` with a power cut at every event of the switch: the file has the synced
//! contents or those written since, never an older image from the log, and the switch happens or
//! does not.

use std::sync::Arc;

use block::trace::Event;
use ext::Volume;
use ext::options::DataMode;
use ext::volume::{InodeFlags, OpenFlags, SetAttributes};
use layout::InodeNr;

use crate::durability::{Recorded, cut_image};
use crate::rig::{Place, Rig, quiet};

const BLOCK_BYTES: usize = 1024;
const VOLUME_BYTES: u64 = 8 << 20;
const FILE_BYTES: usize = 20 * BLOCK_BYTES;
/// Number of images of each cut: all lost, all kept, and some at random.
const IMAGES: u64 = 4;
/// Interval of images that `e2fsck` checks, too.
const FSCK_ONE_IN: usize = 60;
/// Number of worlds in which another task sets flags during the switch.
const WORLDS: u64 = 200;

/// The versions that the file has had, in order: all its bytes are 1, 2, ...
struct Progress {
    /// The oldest possible version.
    bound: u8,
    /// The newest possible version.
    most: u8,
}

fn switch(volume: &Volume, is_on: bool) {
    let flags = if is_on {
        InodeFlags::JOURNAL_DATA
    } else {
        InodeFlags::empty()
    };
    let nr = volume.resolve("/f", true).expect("it is there");
    set_flags(volume, nr, flags);
}

fn set_flags(volume: &Volume, nr: InodeNr, flags: InodeFlags) {
    let change = SetAttributes {
        flags: Some(flags),
        ..Default::default()
    };
    volume.set_attributes(nr, &change).expect("chattr");
}

/// Writes all of the file.
fn write_all(volume: &Volume, version: u8, is_synced: bool) {
    let file = volume.open_file("/f", OpenFlags::READ_WRITE).expect("open");
    file.write_at(0, &[version; FILE_BYTES]).expect("write");
    if is_synced {
        file.sync_all().expect("fsync");
    }
    file.close().expect("close");
}

/// Sets marks in the trace: twice the number of a written version, and one more when it is synced.
fn work(recorded: &Recorded, data: DataMode) {
    let volume = recorded.open(quiet(data));
    let mut version = 0;
    let mut write = |is_synced: bool| {
        version += 1;
        recorded.trace.mark(2 * version);
        if version == 1 {
            volume.write_file("/f", &[1; FILE_BYTES]).expect("write");
        }
        let file = volume.open_file("/f", OpenFlags::READ_WRITE).expect("open");
        let bytes = [version as u8; FILE_BYTES];
        file.write_at(0, &bytes).expect("write");
        if is_synced {
            file.sync_all().expect("fsync");
            recorded.trace.mark(2 * version + 1);
        }
        file.close().expect("close");
    };
    write(true);
    for is_synced in [true, false] {
        for is_on in [true, false] {
            // The log has transactions and the file dirty pages, then the switch; and the same
            // after it.
            write(true);
            write(is_synced);
            switch(&volume, is_on);
            write(is_synced);
            write(true);
        }
    }
    volume.close().expect("close");
}

fn check(rig: &Rig, data: DataMode, progress: &Progress, when: &str) {
    let volume = rig.open(quiet(data));
    if progress.bound == 0 {
        return volume.close().expect("close");
    }
    let bytes = volume.read_file("/f").expect("it is there");
    assert_eq!(bytes.len(), FILE_BYTES, "{when}");
    for (sector, part) in bytes.chunks(512).enumerate() {
        let version = part[0];
        assert!(
            part.iter().all(|byte| *byte == version),
            "{when}: sector {sector} is mixed"
        );
        let allowed = progress.bound..=progress.most;
        assert!(
            allowed.contains(&version),
            "{when}: sector {sector} has version {version}, not of {allowed:?}"
        );
    }
    // The switch works in both directions, and the log has nothing old.
    for is_on in [true, false] {
        switch(&volume, is_on);
    }
    assert!(
        volume.read_file("/f").expect("it is there") == bytes,
        "{when}"
    );
    volume.close().expect("close");
}

fn cut_everywhere(place: Place, data: DataMode) {
    let made = Rig::new(place, BLOCK_BYTES as u32, VOLUME_BYTES);
    let world = sim::run(sim::Config::fair(7), move || {
        let recorded = Recorded::new(&made, true);
        work(&recorded, data);
        let (mut home, mut log) = recorded.replays();
        let mut progress = Progress { bound: 0, most: 0 };
        let mut images = 0;
        for (index, event) in recorded.trace.events().iter().enumerate() {
            home.apply(event);
            if let Some(log) = &mut log {
                log.apply(event);
            }
            if let Event::Mark(mark) = event {
                progress.most = (mark / 2) as u8;
                if mark % 2 == 1 {
                    progress.bound = progress.most;
                }
            }
            for seed in 0..IMAGES {
                let rig = cut_image(&home, log.as_ref(), made.block_bytes, index as u64 + seed);
                let when = format!("{place:?}, {data:?}, event {index}, image {seed}");
                check(&rig, data, &progress, &when);
                images += 1;
                if images % FSCK_ONE_IN == 0 {
                    rig.assert_fsck_clean(&when);
                }
            }
        }
    });
    world.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn internal() {
    cut_everywhere(Place::Internal, DataMode::Ordered);
    cut_everywhere(Place::Internal, DataMode::Writeback);
}

#[test]
fn external() {
    cut_everywhere(Place::External, DataMode::Ordered);
}

/// Does work in worlds in which other tasks run whenever they can, with a file of version 1.
fn in_worlds(work: impl Fn(&Rig, &Arc<Volume>) + Copy + Send + 'static) {
    for seed in 0..WORLDS {
        let config = sim::Config::pct(seed, 2 + (seed % 3) as u32);
        let world = sim::run(config, move || {
            let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
            let volume = Arc::new(rig.open(quiet(DataMode::Ordered)));
            volume.write_file("/f", &[1; FILE_BYTES]).expect("write");
            work(&rig, &volume);
        });
        world.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// A program reads the flags of a file and sets others, while another one switches data journaling
/// on and writes. Whatever the flags are then, what is written and synced next is not replaced by
/// an image from the log.
#[test]
fn beside_another_change_of_flags() {
    in_worlds(|rig, volume| {
        volume.sync().expect("sync");
        let nr = volume.resolve("/f", true).expect("it is there");
        let other = {
            let volume = Arc::clone(volume);
            rt::spawn("chattr +d", move || {
                set_flags(&volume, nr, InodeFlags::NO_DUMP);
            })
        };
        switch(volume, true);
        write_all(volume, 2, false);
        other.join().expect("it ends well");
        write_all(volume, 3, true);
        let cut = rig.copy().open(quiet(DataMode::Ordered));
        let bytes = cut.read_file("/f").expect("it is there");
        let found = bytes.iter().find(|byte| **byte != 3);
        assert_eq!(found, None, "what was synced is lost");
        cut.close().expect("close");
    });
}

/// A program reads a file past the cache while another one switches data journaling on and writes:
/// it reads what was there before, or what was written, and no zeroes.
#[test]
fn beside_direct_reads() {
    in_worlds(|_, volume| {
        let reader = {
            let volume = Arc::clone(volume);
            rt::spawn("reader", move || {
                let flags = OpenFlags {
                    direct: true,
                    ..OpenFlags::READ
                };
                let file = volume.open_file("/f", flags).expect("open");
                let mut bytes = [0; FILE_BYTES];
                for _ in 0..4 {
                    file.read_at(0, &mut bytes).expect("read");
                    let is_whole = [1, 2].iter().any(|version| bytes == [*version; FILE_BYTES]);
                    assert!(is_whole, "{:?}", [bytes[0], bytes[FILE_BYTES - 1]]);
                }
                file.close().expect("close");
            })
        };
        switch(volume, true);
        write_all(volume, 2, false);
        reader.join().expect("it ends well");
    });
}
