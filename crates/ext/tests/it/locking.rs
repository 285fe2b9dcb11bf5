//! The lock order, and calls during removals of their objects by other tasks: numbers are reused at
//! once.
//!
//! Each case runs in simulated worlds that switch tasks at the worst moments. The world reports a
//! deadlock.

use std::sync::Arc;

use block::BlockDevice;
use ext::Error;
use ext::Volume;
use ext::options::DataMode;
use ext::volume::{FileKind, NewInode, OpenFlags, RenameMode, SetAttributes, SetMode};
use layout::InodeNr;
use rt::Nanos;
use testkit::share;

use crate::hostile::{first_seed, worlds};
use crate::rig::{Place, Rig, device, quiet};

/// Number of worlds in which each case runs; the default tests take every second one.
const WORLDS: u64 = 200;
/// Number of rounds of each task in one world.
const ROUNDS: u32 = 12;
/// Interval of worlds that `e2fsck` checks.
const FSCK_ONE_IN: u64 = 10;
const VOLUME_BYTES: u64 = 12 << 20;

/// A volume and its media.
struct Case {
    rig: Rig,
    volume: Volume,
}

impl core::ops::Deref for Case {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

/// The repeated work of one task.
type Part = fn(&Case);

/// An attempt of one task.
type Attempt = fn(&Volume) -> Result<(), Error>;

/// Runs tasks concurrently in many worlds. Returns the first failure, if there is one.
fn run(mutant: Option<&'static str>, made: Part, parts: &'static [Part]) -> Option<String> {
    run_on(Place::Internal, mutant, made, parts)
}

fn run_on(
    place: Place,
    mutant: Option<&'static str>,
    made: Part,
    parts: &'static [Part],
) -> Option<String> {
    let first = first_seed();
    // A mutant may be noticed in few worlds only.
    let is_taken = |seed: &u64| mutant.is_some() || share::takes((seed - first) as usize, 2);
    let mut seeds = (first..first + worlds(WORLDS)).filter(is_taken);
    seeds.find_map(|seed| {
        let config = sim::Config {
            mutant,
            ..if seed % 4 == 0 {
                sim::Config::random(seed)
            } else {
                sim::Config::pct(seed, 2 + (seed % 3) as u32)
            }
        };
        let world = sim::run(config, move || {
            let rig = Rig::new(place, 1024, VOLUME_BYTES);
            let volume = rig.open(quiet(DataMode::Ordered));
            let volume = Arc::new(Case { rig, volume });
            made(&volume);
            let tasks: Vec<_> = parts
                .iter()
                .map(|part| {
                    let volume = Arc::clone(&volume);
                    rt::spawn("part", move || (0..ROUNDS).for_each(|_| part(&volume)))
                })
                .collect();
            for task in tasks {
                task.join().expect("it ends well");
            }
            let Case { rig, volume } = Arc::into_inner(volume).expect("the tasks are gone");
            volume.close().expect("close");
            if seed % FSCK_ONE_IN == 0 {
                rig.assert_fsck_clean("after it was closed");
            }
        });
        world.err().map(|error| format!("seed {seed}: {error}"))
    })
}

/// Asserts that the concurrent parts succeed, and fail if a rule is broken.
fn assert_notices(mutant: &'static str, made: Part, parts: &'static [Part]) {
    assert_notices_on(Place::Internal, mutant, made, parts);
}

fn assert_notices_on(place: Place, mutant: &'static str, made: Part, parts: &'static [Part]) {
    if let Some(why) = run_on(place, None, made, parts) {
        panic!("with nothing broken: {why}");
    }
    if rt::mutant::IS_POSSIBLE {
        assert!(
            run_on(place, Some(mutant), made, parts).is_some(),
            "{mutant} is not noticed"
        );
    }
}

fn nothing(_: &Case) {}

fn number(volume: &Case, path: &str) -> InodeNr {
    volume.resolve(path, false).expect("it is there")
}

/// Creates a file with a smaller number than a directory, and a link to it in the directory.
fn file_and_directory(volume: &Case) {
    let new = NewInode::default();
    let file = volume.create(InodeNr::ROOT, b"m", &new).expect("create");
    // Directories of the root go to separate groups; in one group, a new inode has the next number.
    let directory = volume.create_directory("/E").expect("mkdir");
    assert!(file < directory);
    volume.link(file, directory, b"x").expect("link");
}

/// Returns the file and the directory, whichever name each has.
fn both(volume: &Case) -> (InodeNr, InodeNr) {
    let found = |name: &[u8]| volume.look_up_node(InodeNr::ROOT, name).expect("look-up");
    loop {
        let (one, other) = (found(b"m"), found(b"E"));
        volume.forget(one.inode, 1).expect("forget");
        volume.forget(other.inode, 1).expect("forget");
        // They may have been exchanged between the two look-ups.
        if one.inode != other.inode {
            let is_file = one.kind == FileKind::Regular;
            return if is_file {
                (one.inode, other.inode)
            } else {
                (other.inode, one.inode)
            };
        }
    }
}

fn exchange(volume: &Case) {
    let root = InodeNr::ROOT;
    volume
        .rename(root, b"m", root, b"E", RenameMode::Exchange)
        .expect("exchange");
}

fn link_and_unlink(volume: &Case) {
    let (file, directory) = both(volume);
    volume.link(file, directory, b"y").expect("link");
    volume.unlink(directory, b"y").expect("unlink");
}

fn list(volume: &Case) {
    let (_, directory) = both(volume);
    let mut held = Vec::new();
    volume
        .read_directory_nodes(directory, 0, &mut |_, entry, attributes| {
            held.extend(attributes.map(|_| entry.inode));
            true
        })
        .expect("listing");
    for nr in held {
        volume.forget(nr, 1).expect("forget");
    }
}

/// A file that also has a link in a directory is exchanged with it, while other tasks work in the
/// directory.
#[test]
fn a_file_and_a_directory_are_exchanged_beside_others() {
    let mutant = "names/children-locked-by-number";
    assert_notices(
        mutant,
        file_and_directory,
        &[exchange, link_and_unlink, list],
    );
}

fn nested(volume: &Case) {
    volume.create_directory("/D").expect("mkdir");
    volume.create_directory("/D/E").expect("mkdir");
    volume.create_directory("/D/E/F").expect("mkdir");
}

/// A link to a directory, into one below it, is refused without locking it.
#[test]
fn a_link_to_a_directory_waits_for_nobody() {
    assert_notices(
        "names/link-locks-directory",
        nested,
        &[
            |volume| {
                let (above, below) = (number(volume, "/D"), number(volume, "/D/E"));
                let linked = volume.link(above, below, b"x");
                assert!(matches!(linked, Err(Error::IsDirectory)), "{linked:?}");
            },
            |volume| {
                let removed = volume.remove_directory_at("/D/E");
                assert!(matches!(removed, Err(Error::NotEmpty)), "{removed:?}");
            },
        ],
    );
}

/// The number of the first file of a volume: it follows the reserved ones and that of lost+found.
const FIRST_FILE: InodeNr = InodeNr::new(12);

fn one_file(volume: &Case) {
    volume.write_file("/a", b"a").expect("write");
    assert_eq!(number(volume, "/a"), FIRST_FILE);
}

fn remove_and_make(volume: &Case) {
    volume.unlink(InodeNr::ROOT, b"a").expect("unlink");
    let new = NewInode::default();
    volume.create(InodeNr::ROOT, b"a", &new).expect("create");
    volume.sync().expect("sync");
    let copy = volume.rig.copy().open(quiet(DataMode::Ordered));
    let found = copy.metadata("/a", false).expect("it is there");
    assert_eq!(found.links, 1, "a deleted inode came back");
    copy.close().expect("close");
}

/// Changes by number while other tasks remove and create files: a change reaches the inode that has
/// the number, or finds nothing; it never brings a deleted inode back over another.
#[test]
fn changes_do_not_reach_deleted_inodes() {
    assert_notices(
        "inode/changed-when-dead",
        one_file,
        &[
            remove_and_make,
            |volume| {
                let permissions = Some(0o600);
                let change = SetAttributes {
                    permissions,
                    ..SetAttributes::default()
                };
                check(volume.set_attributes(FIRST_FILE, &change));
            },
            |volume| {
                check(volume.set_attribute(FIRST_FILE, b"user.x", b"1", SetMode::Any));
                check(volume.remove_attribute(FIRST_FILE, b"user.x"));
            },
        ],
    );
}

/// Checks that a change succeeded, or found nothing.
fn check(changed: ext::Result<()>) {
    match changed {
        Ok(()) | Err(Error::NotFound | Error::NoAttribute) => {}
        Err(error) => panic!("{error}"),
    }
}

fn two_files_in_turn(volume: &Case) {
    for (path, bytes) in [("/a", b"AAAA"), ("/b", b"BBBB")] {
        volume.write_file(path, bytes).expect("write");
        rt::sleep(Nanos::from_millis(2));
        volume.remove_file(path).expect("remove");
    }
}

/// A path leads to the inode that had the name, or to nothing, and not to an inode that got its
/// number afterwards, however long the call takes.
#[test]
fn a_path_holds_what_it_leads_to() {
    assert_notices(
        "path/inode-not-held",
        nothing,
        &[two_files_in_turn, |volume| {
            let read = volume.with_inode_at("/a", true, |nr| {
                rt::sleep(Nanos::from_millis(3));
                let file = volume.open_inode(nr, OpenFlags::READ)?;
                let mut bytes = [0; 8];
                let count = volume.read(file, 0, &mut bytes)?;
                volume.release(file)?;
                Ok(bytes[..count].to_vec())
            });
            match read {
                Ok(bytes) => assert!(bytes.is_empty() || bytes == b"AAAA", "{bytes:?}"),
                Err(error) => {
                    assert!(matches!(error, Error::NotFound), "{error}");
                    rt::sleep(Nanos::from_millis(1));
                }
            }
        }],
    );
}

/// The same for a file that is created and opened, and one that is created in a directory that
/// other tasks remove.
#[test]
fn what_is_made_by_a_path_is_what_is_opened() {
    let made = run(
        None,
        nothing,
        &[
            |volume| {
                volume.write_file("/a", b"AAAA").expect("write");
                let bytes = volume.read_file("/a").expect("read");
                assert_eq!(bytes, b"AAAA");
                volume.remove_file("/a").expect("remove");
            },
            |volume| {
                volume.write_file("/b", b"BBBB").expect("write");
            },
            |volume| {
                let _ = volume.remove_file("/b");
            },
            |volume| {
                let _ = volume.create_directory_all("/d/e/f");
                let _ = volume.remove_directory_at("/d/e/f");
                let _ = volume.remove_directory_at("/d/e");
                let _ = volume.remove_directory_at("/d");
            },
            |volume| {
                let _ = volume.write_file("/d/e/file", b"D");
                let _ = volume.remove_file("/d/e/file");
            },
        ],
    );
    assert!(made.is_none(), "{made:?}");
}

fn tree_of_directories(volume: &Case) {
    for path in ["/p", "/p/d", "/p/d/e", "/q"] {
        volume.create_directory(path).expect("mkdir");
    }
    volume.write_file("/p/x", b"x").expect("write");
}

/// Renames an entry; every refusal is accepted.
fn shuffle(volume: &Case, from: &str, to: &str, mode: RenameMode) {
    let moved = volume.with_parent_of(from, |parent, name| {
        volume.with_parent_of(to, |new_parent, new_name| {
            volume.rename(parent, name, new_parent, new_name, mode)
        })
    });
    match moved {
        Ok(())
        | Err(
            Error::NotFound
            | Error::NotEmpty
            | Error::Exists
            | Error::IsDirectory
            | Error::NotDirectory
            | Error::Invalid(_),
        ) => {}
        Err(error) => panic!("{from} to {to}: {error}"),
    }
}

/// Entries of files and directories are exchanged within a directory and between directories: the
/// tree stays a tree.
#[test]
fn exchanges_do_not_move_a_directory_into_itself() {
    let run = run(
        None,
        tree_of_directories,
        &[
            |volume| shuffle(volume, "/p/x", "/p/d", RenameMode::Exchange),
            |volume| shuffle(volume, "/p/x", "/p/d/e/y", RenameMode::Replace),
            |volume| shuffle(volume, "/p/d/e", "/q/e", RenameMode::Exchange),
            |volume| shuffle(volume, "/q", "/p/q", RenameMode::Replace),
            |volume| shuffle(volume, "/p/q", "/q", RenameMode::NoReplace),
            |volume| shuffle(volume, "/p/d/e/y", "/p/x", RenameMode::NoReplace),
        ],
    );
    assert!(run.is_none(), "{run:?}");
}

/// Creates an entry in `/D/E` that leads up to `/D`, as damage can do.
fn upward_name(volume: &Case) -> Rig {
    let name = b"upwards";
    volume.create_directory("/D").expect("mkdir");
    volume.create_directory("/D/E").expect("mkdir");
    volume.create_directory("/D/E/upwards").expect("mkdir");
    volume.sync().expect("sync");
    let up = number(volume, "/D");
    let rig = volume.rig.copy();
    let (media, size) = (device(&rig.home), rig.home.geometry().size_bytes);
    for at in (0..size).step_by(1024) {
        let mut block = media.read_block(at, 1024).expect("memory does not fail");
        let found = block.windows(name.len()).position(|bytes| bytes == name);
        if let Some(found) = found {
            let bytes = Arc::make_mut(&mut block);
            bytes[found - 8..found - 4].copy_from_slice(&up.get().to_le_bytes());
            media
                .write_blocks(at, vec![block])
                .expect("memory does not fail");
        }
    }
    rig
}

#[test]
fn names_that_lead_upwards_are_refused_and_nobody_waits_in_a_circle() {
    let damaged = sim::run(sim::Config::fair(1), || {
        let rig = Rig::new(Place::Internal, 1024, VOLUME_BYTES);
        let volume = rig.open(quiet(DataMode::Ordered));
        upward_name(&Case { rig, volume })
    });
    let damaged = Arc::new(damaged.expect("it is made").value);
    for seed in 0..worlds(WORLDS) {
        let rig = damaged.copy();
        let world = sim::run(sim::Config::pct(seed, 3), move || {
            let volume = Arc::new(rig.open(quiet(DataMode::Ordered)));
            let parts: [Attempt; 4] = [
                |volume| volume.remove_directory_at("/D/E/upwards"),
                |volume| volume.remove_directory_at("/D/E"),
                |volume| volume.rename_path("/D/E/upwards", "/D/E/other"),
                |volume| volume.remove_file("/D/E/upwards"),
            ];
            let tasks = parts.map(|part| {
                let volume = Arc::clone(&volume);
                rt::spawn("part", move || {
                    (0..ROUNDS).for_each(|_| assert!(part(&volume).is_err(), "it is refused"));
                })
            });
            for task in tasks {
                task.join().expect("it ends well");
            }
        });
        world.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Fills a volume that has two directories: one whose block has no room for another entry, and one
/// whose block has.
fn full_volume(volume: &Case) {
    volume.create_directory_all("/d/crowded").expect("mkdir");
    volume.create_directory("/d/roomy").expect("mkdir");
    let file = volume.create_file("/big", &NewInode::default());
    let mut file = file.expect("create");
    while file.write_all(&[7; 1 << 16]).is_ok() {}
    while file.write_all(&[7; 1024]).is_ok() {}
    file.close().expect("close");
    let crowded = number(volume, "/d/crowded");
    let names = (0..100).map(|number| format!("{number:0>100}"));
    let made = names.map(|name| volume.create(crowded, name.as_bytes(), &NewInode::default()));
    let refused = made.filter_map(Result::err).next();
    assert!(matches!(refused, Some(Error::NoSpace)), "{refused:?}");
}

/// Creates a file whose entry finds no space.
fn create_in_vain(volume: &Case) {
    let new = NewInode::default();
    let made = volume.create(number(volume, "/d/crowded"), &[b'n'; 200], &new);
    assert!(matches!(made, Err(Error::NoSpace)), "{made:?}");
}

/// A new inode whose entry finds no space is undone, and its number is reused at once: the other
/// new inode stays in the cache and in the table.
#[test]
fn what_is_taken_back_does_not_take_another_along() {
    assert_notices(
        "names/undone-number-freed-first",
        full_volume,
        &[
            |volume| (0..3).for_each(|_| create_in_vain(volume)),
            |volume| {
                let (directory, new) = (number(volume, "/d/roomy"), NewInode::default());
                let nr = volume.create(directory, b"f", &new).expect("create");
                let file = volume.open_inode(nr, OpenFlags::READ).expect("open");
                volume.sync().expect("sync");
                let copy = volume.rig.copy().open(quiet(DataMode::Ordered));
                let found = copy.metadata("/d/roomy/f", false).expect("it is there");
                assert_eq!(found.links, 1, "it was written over");
                copy.close().expect("close");
                volume.unlink(directory, b"f").expect("unlink");
                let found = volume.attributes(nr).expect("it is open");
                assert_eq!(found.links, 0);
                volume.release(file).expect("release");
            },
        ],
    );
}

/// Fills a volume until as many blocks are free as a file with one indirect block takes.
fn nearly_full_volume(volume: &Case) {
    let file = volume.create_file("/big", &NewInode::default());
    let mut file = file.expect("create");
    while file.write_all(&[7; 1 << 16]).is_ok() {}
    while file.write_all(&[7; 1024]).is_ok() {}
    let size = volume.metadata("/big", false).expect("stat").size;
    file.set_len(size - 14 * 1024).expect("truncate");
    file.close().expect("close");
}

/// Without a journal, a freed indirect block may become a directory's at once: that directory's
/// buffer is not the old one, which is forgotten.
#[test]
fn a_freed_map_block_does_not_take_another_along() {
    assert_notices_on(
        Place::None,
        "free/map-block-forgotten-late",
        nearly_full_volume,
        &[
            |volume| {
                let written = volume.write_file("/file", &[8; 13 * 1024]);
                assert!(
                    matches!(written, Ok(()) | Err(Error::NoSpace)),
                    "{written:?}"
                );
                volume.remove_file("/file").expect("remove");
            },
            |volume| {
                let paths = (0..14).map(|number| format!("/d{number}"));
                let made = paths.map_while(|path| match volume.create_directory(&path) {
                    Ok(_) => Some(path),
                    Err(Error::NoSpace) => None,
                    Err(error) => panic!("{error}"),
                });
                let made: Vec<String> = made.collect();
                rt::sleep(Nanos::from_millis(1));
                for path in made {
                    assert_eq!(volume.list(&path).expect("listing"), []);
                    volume.remove_directory_at(&path).expect("rmdir");
                }
            },
        ],
    );
}
