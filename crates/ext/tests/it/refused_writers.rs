//! Writers of data are refused when the cache is full of pages that cannot be written, and only
//! then. In virtual time.

use std::sync::Arc;

use ext::options::DataMode;
use ext::tuning::{DirtyOf, MemoryAccounting, Writers};
use ext::volume::{File, OpenFlags};
use ext::{Error, MountOptions, Volume};
use rt::Nanos;
use testkit::{Behaviour, UnreliableDevice};

use crate::rig::{Place, Rig, device, quiet};

const BLOCK_BYTES: u64 = 1024;
const KIBIBYTE: usize = 1 << 10;
const MEBIBYTE: usize = 1 << 20;
/// Above 60 % of it, writers wait or submit.
const BUDGET: u64 = 8 << 20;

/// Returns options with a small budget, under which nothing happens in the background.
fn options() -> MountOptions {
    let mut options = quiet(DataMode::Ordered);
    options.memory.budget_bytes = BUDGET;
    options.tuning.memory_accounting = MemoryAccounting::Contents;
    options
}

fn in_world(work: impl FnOnce() + 'static) {
    sim::run(sim::Config::fair(5), work).unwrap_or_else(|error| panic!("{error}"));
}

fn open(place: Place, options: MountOptions) -> (Arc<UnreliableDevice>, Arc<Volume>) {
    let made = Rig::new(place, BLOCK_BYTES as u32, 24 << 20);
    let home = UnreliableDevice::new(device(&made.home));
    let shared = Arc::<UnreliableDevice>::clone(&home);
    let volume = Volume::open(shared, made.log_device(), options).expect("it opens");
    (home, Arc::new(volume))
}

fn open_file<'v>(volume: &'v Volume, path: &str) -> File<'v> {
    let opened = volume.open_file(path, OpenFlags::READ_WRITE);
    opened.expect("it is there")
}

/// Returns the behaviour of a device with one bad block, which a file has.
fn with_bad_block_of(volume: &Volume, path: &str, file_block: u64) -> Behaviour {
    let nr = volume.resolve(path, true).expect("it is there");
    let extents = volume.blocks_of(nr).expect("blocks");
    let found = extents.iter().find_map(|extent| {
        let step = file_block.checked_sub(extent.file_block?.get())?;
        extent.blocks().nth(step as usize)
    });
    let block = found.expect("the file has the block");
    let sectors = BLOCK_BYTES / 512;
    Behaviour {
        bad_sectors: block * sectors..(block + 1) * sectors,
        ..Behaviour::default()
    }
}

fn close(home: &UnreliableDevice, volume: Arc<Volume>) {
    home.set(Behaviour::default());
    let volume = Arc::into_inner(volume).expect("no other thread has it");
    volume.close().expect("close");
}

/// A file with a bad block, whose pages are older than all others, does not refuse a writer of
/// another file, whose pages can be written.
#[test]
fn a_bad_block_of_another_file_does_not_refuse_a_stream() {
    for writers in [Writers::Wait, Writers::Submit] {
        in_world(move || {
            let mut options = options();
            options.tuning.writeback.writers = writers;
            let (home, volume) = open(Place::None, options);
            let bytes = vec![1; MEBIBYTE];
            volume.write_file("/bad", &bytes).expect("write");
            volume.sync().expect("sync");
            // It is in the middle of a long request, which fails as a whole.
            home.set(with_bad_block_of(&volume, "/bad", 600));
            let bad = open_file(&volume, "/bad");
            bad.write_at(0, &bytes).expect("write");
            volume.write_file("/good", &[]).expect("create");
            let good = open_file(&volume, "/good");
            for step in 0..12 * 16_u64 {
                let at = step * 64 * KIBIBYTE as u64;
                let written = good.write_at(at, &[2; 64 * KIBIBYTE]);
                written.unwrap_or_else(|error| panic!("{writers:?}, {at}: {error}"));
            }
            good.sync_all().expect("its data is written");
            bad.sync_all().expect_err("its data is not written");
            home.set(Behaviour::default());
            bad.sync_all().expect("the device works again");
            good.close().expect("close");
            bad.close().expect("close");
            close(&home, volume);
        });
    }
}

/// Metadata that awaits checkpoint above the limit, and a page that cannot be written, do not
/// refuse writers.
#[test]
fn owed_metadata_and_a_bad_page_do_not_refuse_writers() {
    in_world(|| {
        let mut options = options();
        options.memory.dirty_background_percent = 1;
        options.memory.dirty_percent = 1;
        options.tuning.writeback.writers = Writers::Submit;
        options.tuning.writeback.dirty_of = DirtyOf::Inactive;
        let (home, volume) = open(Place::External, options);
        volume.write_file("/bad", &[1; KIBIBYTE]).expect("write");
        for number in 0..200 {
            let made = volume.create_directory(&format!("/{number}"));
            made.expect("mkdir");
        }
        volume.write_file("/good", &[1; KIBIBYTE]).expect("write");
        volume.sync().expect("sync");
        home.set(with_bad_block_of(&volume, "/bad", 0));
        let bad = open_file(&volume, "/bad");
        bad.write_at(0, &[2; KIBIBYTE]).expect("write");
        bad.sync_data().expect_err("its block is bad");
        let good = open_file(&volume, "/good");
        good.write_at(0, &[2; KIBIBYTE])
            .expect("data takes little memory");
        good.close().expect("close");
        bad.close().expect("close");
        close(&home, volume);
    });
}

/// While one writer finds again that nothing can be written, another is not admitted because no
/// page is left for it to try.
#[test]
fn no_writer_is_admitted_while_another_tries() {
    in_world(|| {
        let (home, volume) = open(Place::None, options());
        for path in ["/big", "/1", "/2"] {
            volume.write_file(path, &[]).expect("create");
        }
        volume.sync().expect("sync");
        home.set(Behaviour {
            completion: Nanos::from_millis(100),
            ..Behaviour::failing()
        });
        let big = open_file(&volume, "/big");
        let refused = (0..BUDGET).step_by(64 * KIBIBYTE).find_map(|at| {
            let written = big.write_at(at, &[1; 64 * KIBIBYTE]);
            written.err()
        });
        let error = refused.expect("a writer is refused");
        assert!(matches!(error, Error::Device(_)), "{error:?}");
        let writers = [("/1", 0), ("/2", 10)].map(|(path, milliseconds)| {
            let volume = Arc::clone(&volume);
            rt::spawn("writer", move || {
                rt::sleep(Nanos::from_millis(milliseconds));
                let file = open_file(&volume, path);
                let written = file.write_at(0, &[2; KIBIBYTE]);
                assert!(
                    matches!(written, Err(Error::Device(_))),
                    "{path}: {written:?}"
                );
                file.close().expect("it has no data");
            })
        });
        for writer in writers {
            writer.join().expect("it ends well");
        }
        home.set(Behaviour::default());
        big.write_at(0, &[3; KIBIBYTE])
            .expect("the device works again");
        drop(big.sync_data());
        drop(big.close());
        close(&home, volume);
    });
}
