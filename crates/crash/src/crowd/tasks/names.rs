//! Tasks that change and list the same few names of files and directories, in directories that are
//! themselves moved.
//!
//! Two names are a *pair*: a file, and a directory with a larger inode number, in which the file
//! gets and loses a second name while the two are exchanged. Three nested directories are not
//! changed: all attempts to do so are refused.

use ext::volume::{FileKind, NewInode, RenameMode, SetMode, WhiteoutOwner};
use ext::{Error, Volume};
use layout::InodeNr;
use rt::split_mix::SplitMix;

use super::{Step, Task, tolerate};
use crate::observe::CROWD;
use crate::rule::{Broken, Rule, RuleCounts};

/// Number of tasks that change names, and of tasks that list.
const CHANGERS: usize = 3;
const LISTERS: usize = 2;
/// Names of directories and files; the first are mostly directories, the last mostly files.
const NAMES: [&str; 4] = ["a", "b", "x", "y"];
const DIRECTORY_NAMES: u64 = 2;
/// Maximum number of names in a path below the crowd's directory.
const DEPTH_MAX: u64 = 3;

/// The directories that are not changed.
const ABOVE: &[u8] = b"above";
const BELOW: &[u8] = b"below";
const INSIDE: &[u8] = b"inside";
/// The names of a pair, in any order.
const PAIR: [&[u8]; 2] = [b"one", b"other"];

pub(super) fn tasks(volume: &Volume, top: InodeNr) -> Result<Vec<Box<dyn Task>>, Error> {
    let new = NewInode::default();
    volume.create(top, PAIR[0], &new)?;
    volume.make_directory(top, PAIR[1], &new)?;
    let above = volume.make_directory(top, ABOVE, &new)?;
    let below = volume.make_directory(above, BELOW, &new)?;
    volume.make_directory(below, INSIDE, &new)?;
    let changer = Changer { top, above, below };
    let changers = (0..CHANGERS).map(|_| Box::new(changer) as Box<dyn Task>);
    let listers = (0..LISTERS).map(|_| Box::new(Lister::default()) as Box<dyn Task>);
    Ok(changers.chain(listers).collect())
}

/// Returns the path of a directory below the crowd's, or of that itself.
fn directory(random: &mut SplitMix) -> String {
    let depth = random.below(DEPTH_MAX);
    let mut path = String::from_utf8_lossy(CROWD).into_owned();
    for _ in 0..depth {
        path.push('/');
        path.push_str(NAMES[random.below(DIRECTORY_NAMES) as usize]);
    }
    path
}

/// Returns a random path.
fn any(random: &mut SplitMix) -> String {
    let directory = directory(random);
    let name = NAMES[random.below(NAMES.len() as u64) as usize];
    format!("{directory}/{name}")
}

#[derive(Clone, Copy)]
struct Changer {
    top: InodeNr,
    above: InodeNr,
    below: InodeNr,
}

impl Changer {
    fn exchange_pair(&self, volume: &Volume) -> Result<(), Error> {
        let [one, other] = PAIR;
        volume.rename(self.top, one, self.top, other, RenameMode::Exchange)
    }

    /// Adds a name for the file of the pair to the directory, and removes it.
    fn link_pair(&self, volume: &Volume) -> Result<(), Error> {
        let one = volume.look_up_node(self.top, PAIR[0])?;
        let other = volume.look_up_node(self.top, PAIR[1])?;
        let link = |file: InodeNr, directory: InodeNr| {
            volume.link(file, directory, b"second")?;
            volume.unlink(directory, b"second")
        };
        let result = match (one.kind, other.kind) {
            (FileKind::Regular, FileKind::Directory) => link(one.inode, other.inode),
            (FileKind::Directory, FileKind::Regular) => link(other.inode, one.inode),
            // They were exchanged between the two look-ups.
            _ => Ok(()),
        };
        volume.forget(one.inode, 1)?;
        volume.forget(other.inode, 1)?;
        result
    }
}

impl Task for Changer {
    fn call(&mut self, volume: &Volume, random: &mut SplitMix, _: &mut RuleCounts) -> Step {
        let (path, other) = (any(random), any(random));
        let new = NewInode::default();
        let called = match random.below(28) {
            0 | 1 => volume.with_parent_of(&path, |parent, name| {
                volume.create(parent, name, &new).map(drop)
            }),
            2 | 3 => volume.create_directory(&path).map(drop),
            4 => volume.remove_file(&path),
            5 => volume.remove_directory_at(&path),
            6..=9 => rename(volume, &path, &other, RenameMode::Exchange),
            10 => rename(volume, &path, &other, RenameMode::Replace),
            11 => rename(volume, &path, &other, RenameMode::NoReplace),
            12 => {
                let mode = RenameMode::Whiteout(WhiteoutOwner::default());
                rename(volume, &path, &other, mode)
            }
            13 | 14 => link(volume, &path, &other),
            15 => return link_directory(volume, random),
            16 => volume.with_inode_at(&path, false, |nr| {
                volume.set_attribute(nr, b"user.a", b"value", SetMode::Any)
            }),
            17 | 18 => self.exchange_pair(volume),
            19 | 20 => self.link_pair(volume),
            21 | 22 => return is_refused(volume.link(self.above, self.below, b"x")),
            23 => return is_refused(volume.unlink(self.above, BELOW)),
            24..=26 => return is_refused(volume.remove_directory(self.above, BELOW)),
            _ => volume.with_parent_of(&path, |parent, name| {
                volume
                    .symlink(parent, name, other.as_bytes(), &new)
                    .map(drop)
            }),
        };
        tolerate(called)?;
        Ok(())
    }
}

fn rename(volume: &Volume, from: &str, to: &str, mode: RenameMode) -> Result<(), Error> {
    volume.with_parent_of(from, |parent, name| {
        volume.with_parent_of(to, |new_parent, new_name| {
            volume.rename(parent, name, new_parent, new_name, mode)
        })
    })
}

fn link(volume: &Volume, from: &str, to: &str) -> Result<(), Error> {
    volume.with_inode_at(from, false, |nr| {
        volume.with_parent_of(to, |parent, name| volume.link(nr, parent, name))
    })
}

/// Checks that a call is refused because a directory is not empty.
fn is_refused(called: Result<(), Error>) -> Step {
    match called {
        Err(Error::IsDirectory | Error::NotEmpty) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => Err(Broken::new(
            Rule::U4,
            "a directory was linked, or removed though it is not empty",
        )
        .into()),
    }
}

/// Checks that a directory cannot get a second name, in particular below itself.
fn link_directory(volume: &Volume, random: &mut SplitMix) -> Step {
    let above = directory(random);
    let below = format!("{above}/{}", NAMES[random.below(DIRECTORY_NAMES) as usize]);
    let linked = volume.with_inode_at(&above, false, |nr| {
        if volume.attributes(nr)?.kind != FileKind::Directory {
            return Ok(false);
        }
        let linked = volume.with_parent_of(&format!("{below}/y"), |parent, name| {
            volume.link(nr, parent, name)
        });
        tolerate(linked)
    });
    match linked {
        Ok(true) => Err(Broken::new(Rule::U4, "a directory was given a second name").into()),
        Ok(false) => Ok(()),
        Err(error) => Ok(tolerate(Err(error)).map(drop)?),
    }
}

/// A task that reads directories with the attributes of their entries, and pins some inodes for a
/// while, as a mount does.
#[derive(Default)]
struct Lister {
    held: Vec<InodeNr>,
}

impl Lister {
    fn forget(&mut self, volume: &Volume) -> Result<(), Error> {
        let forget = |nr| volume.forget(nr, 1);
        self.held.drain(..).try_for_each(forget)
    }

    /// Lists a directory by its path. One in a few is a directory of a lane.
    fn list(&mut self, volume: &Volume, random: &mut SplitMix) -> Result<(), Error> {
        let held = &mut self.held;
        let mut read = |directory| {
            volume.read_directory_nodes(directory, 0, &mut |_, entry, attributes| {
                held.extend(attributes.map(|_| entry.inode));
                true
            })
        };
        if random.below(4) > 0 {
            return volume.with_inode_at(&directory(random), false, read);
        }
        let lanes = volume.list("/")?;
        let lane = &lanes[random.below(lanes.len() as u64) as usize];
        read(lane.inode)
    }
}

impl Task for Lister {
    fn call(&mut self, volume: &Volume, random: &mut SplitMix, _: &mut RuleCounts) -> Step {
        match random.below(5) {
            0..=2 => tolerate(self.list(volume, random))?,
            3 => tolerate(volume.metadata(&any(random), false).map(drop))?,
            _ => {
                self.forget(volume)?;
                true
            }
        };
        Ok(())
    }

    fn finish(&mut self, volume: &Volume, _: &mut RuleCounts) -> Step {
        Ok(self.forget(volume)?)
    }
}
