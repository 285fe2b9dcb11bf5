//! Tasks that use files by path and by number while others remove and create files, which get the
//! numbers freed last.
//!
//! The contents, the permission bits and the attribute of a file follow from its path. A call by
//! path must see the file of that path, and must change nothing else, regardless of its duration.

use ext::volume::{NewInode, OpenFlags, SetAttributes, SetMode};
use ext::{Error, Volume};
use layout::InodeNr;
use rt::Nanos;
use rt::split_mix::SplitMix;

use super::{Step, Task, tolerate};
use crate::observe::CROWD;
use crate::rule::{Broken, Rule, RuleCounts};

/// Number of tasks that create and remove files, that use them by path, and by number.
const MAKERS: usize = 2;
const BY_PATH: usize = 2;
const BY_NUMBER: usize = 1;
/// Number of files that are created and removed.
const FILES: u64 = 3;
/// Size of the largest file in bytes: a little more than a block.
const BYTES_MAX: u64 = 1500;
/// One call by path in this number pauses between the look-up and the use.
const SLOW_ONE_IN: u64 = 2;
/// Permission bits of a new file.
const PERMISSIONS: u16 = 0o644;
/// The attribute that follows from the path.
const OF_PATH: &[u8] = b"user.path";
/// An attribute that calls by number set.
const OF_NUMBER: &[u8] = b"user.number";

pub(super) fn tasks() -> Vec<Box<dyn Task>> {
    let makers = (0..MAKERS).map(|_| Box::new(Maker) as Box<dyn Task>);
    let by_path = (0..BY_PATH).map(|_| Box::new(ByPath) as Box<dyn Task>);
    let by_number = (0..BY_NUMBER).map(|_| Box::new(ByNumber::default()) as Box<dyn Task>);
    makers.chain(by_path).chain(by_number).collect()
}

/// A path of the crowd, with the contents that follow from it.
#[derive(Clone, Copy)]
struct Slot(u8);

impl Slot {
    fn any(random: &mut SplitMix) -> Self {
        Self(random.below(FILES) as u8)
    }

    fn path(self) -> String {
        format!("{}/{}", String::from_utf8_lossy(CROWD), self.0)
    }

    fn byte(self) -> u8 {
        b'A' + self.0
    }

    fn permissions(self) -> u16 {
        0o600 + u16::from(self.0)
    }

    fn check(self, is_own: bool, what: &dyn core::fmt::Debug) -> Result<(), Broken> {
        if is_own {
            return Ok(());
        }
        let what = format!("/{} shows {what:?}, which is another file's", self.path());
        Err(Broken::new(Rule::C3, what))
    }
}

/// A task that creates, fills and removes files.
struct Maker;

impl Task for Maker {
    fn call(&mut self, volume: &Volume, random: &mut SplitMix, _: &mut RuleCounts) -> Step {
        let place = Slot::any(random);
        let path = place.path();
        let called = match random.below(5) {
            0 | 1 => {
                let count = 1 + random.below(BYTES_MAX);
                volume.write_file(&path, &vec![place.byte(); count as usize])
            }
            2 => volume.with_parent_of(&path, |parent, name| {
                let new = NewInode::default();
                volume.create(parent, name, &new).map(drop)
            }),
            _ => volume.remove_file(&path),
        };
        tolerate(called)?;
        Ok(())
    }
}

/// A task that reads and changes files by their paths.
struct ByPath;

impl ByPath {
    /// Reads a file through a handle that is kept for a while.
    fn read(volume: &Volume, nr: InodeNr, is_slow: bool) -> Result<Vec<u8>, Error> {
        let file = volume.open_inode(nr, OpenFlags::READ)?;
        if is_slow {
            rt::sleep(Nanos::from_millis(1));
        }
        let mut bytes = vec![0; BYTES_MAX as usize];
        let read = volume.read(file, 0, &mut bytes);
        volume.release(file)?;
        bytes.truncate(read?);
        Ok(bytes)
    }

    fn look(
        volume: &Volume,
        place: Slot,
        nr: InodeNr,
        random: &mut SplitMix,
    ) -> Result<Result<(), Broken>, Error> {
        match random.below(5) {
            0 | 1 => {
                let bytes = Self::read(volume, nr, random.below(2) == 0)?;
                let foreign = bytes.iter().find(|byte| ![place.byte(), 0].contains(byte));
                Ok(place.check(foreign.is_none(), &foreign))
            }
            2 => {
                let found = volume.attributes(nr)?.permissions;
                let is_own = [PERMISSIONS, place.permissions()].contains(&found);
                Ok(place.check(is_own, &found))
            }
            3 => {
                let value = volume.get_attribute(nr, OF_PATH)?;
                Ok(place.check(value == [place.byte()], &value))
            }
            _ => {
                Self::change(volume, place, nr, random)?;
                Ok(Ok(()))
            }
        }
    }

    fn change(
        volume: &Volume,
        place: Slot,
        nr: InodeNr,
        random: &mut SplitMix,
    ) -> Result<(), Error> {
        let none = SetAttributes::default();
        match random.below(3) {
            0 => volume.set_attribute(nr, OF_PATH, &[place.byte()], SetMode::Any),
            1 => {
                let permissions = Some(place.permissions());
                let change = SetAttributes {
                    permissions,
                    ..none
                };
                volume.set_attributes(nr, &change)
            }
            _ => {
                let size = Some(random.below(BYTES_MAX));
                volume.set_attributes(nr, &SetAttributes { size, ..none })
            }
        }
    }
}

impl Task for ByPath {
    fn call(&mut self, volume: &Volume, random: &mut SplitMix, counts: &mut RuleCounts) -> Step {
        let place = Slot::any(random);
        let looked = volume.with_inode_at(&place.path(), true, |nr| {
            if random.below(SLOW_ONE_IN) == 0 {
                rt::sleep(Nanos::from_millis(1));
            }
            Self::look(volume, place, nr, random)
        });
        match looked {
            Ok(looked) => {
                counts.note(Rule::C3);
                Ok(looked?)
            }
            // The inode of a path exists until the call ends.
            Err(error) => Ok(tolerate(Err(error)).map(drop)?),
        }
    }
}

/// A task that changes files by numbers seen earlier: another file may have the number now, or
/// none.
#[derive(Default)]
struct ByNumber {
    seen: Vec<InodeNr>,
}

impl Task for ByNumber {
    fn call(&mut self, volume: &Volume, random: &mut SplitMix, _: &mut RuleCounts) -> Step {
        if self.seen.is_empty() || random.below(4) == 0 {
            if let Ok(found) = volume.metadata(&Slot::any(random).path(), true)
                && !self.seen.contains(&found.inode)
            {
                self.seen.push(found.inode);
            }
            return Ok(());
        }
        let nr = self.seen[random.below(self.seen.len() as u64) as usize];
        let called = match random.below(4) {
            0 | 1 => {
                let uid = Some(random.below(1000) as u32);
                let none = SetAttributes::default();
                volume.set_attributes(nr, &SetAttributes { uid, ..none })
            }
            2 => volume.set_attribute(nr, OF_NUMBER, b"1", SetMode::Any),
            _ => volume.remove_attribute(nr, OF_NUMBER),
        };
        match called {
            Ok(())
            | Err(
                Error::NotFound | Error::NoAttribute | Error::AttributeTooLarge | Error::NoSpace,
            ) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
