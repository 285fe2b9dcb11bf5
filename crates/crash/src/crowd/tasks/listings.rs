//! Tasks that list directories in small steps, beside tasks that create, rename and remove names
//! there, compared with a model of POSIX.
//!
//! A directory fills one block, is converted to an htree, which splits, and becomes nearly empty
//! again. A name that exists during a whole listing is listed once; a name that is added or removed
//! meanwhile at most once, since its position follows from its hash. A listing may continue at the
//! cookie of any name read before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ext::volume::{Entry, NewInode, RenameMode};
use ext::{Error, Volume};
use layout::InodeNr;
use rt::Mutex;
use rt::split_mix::SplitMix;

use super::{Step, Task, tolerate};
use crate::rule::{Broken, Rule, RuleCounts};

/// Number of tasks that change names, and of tasks that list.
const CHANGERS: u8 = 2;
const LISTERS: usize = 2;
const DIRECTORIES: usize = 2;
/// Number of files that have the names: links take no inodes.
const TARGETS: usize = 2;
/// Length of a name in bytes: a block of 1 KiB has about sixteen.
const NAME_BYTES: usize = 40;
/// Numbers of a task's names in a directory at which it starts to remove them and to create them
/// again.
const NAMES_MAX: usize = 24;
const NAMES_MIN: usize = 3;
/// Maximum number of names of one read.
const READ_MAX: u64 = 6;
/// One read in this number continues from an older cookie.
const SEEK_ONE_IN: u64 = 8;
const DOTS: [&[u8]; 2] = [b".", b".."];

type Name = Vec<u8>;

/// The known facts about a directory.
#[derive(Default)]
struct Model {
    /// Names that exist and that no call is about to remove.
    stable: BTreeSet<Name>,
    /// All names that were ever about to be added.
    known: BTreeSet<Name>,
    /// For each listing in progress: names that have been stable since its start.
    throughout: BTreeMap<u64, BTreeSet<Name>>,
    listings: u64,
}

impl Model {
    fn removes(&mut self, name: &[u8]) {
        self.stable.remove(name);
        for names in self.throughout.values_mut() {
            names.remove(name);
        }
    }
}

/// A directory that is listed and changed.
struct Watched {
    directory: InodeNr,
    model: Mutex<Model>,
}

type Directories = Arc<Vec<Watched>>;

pub(super) fn tasks(volume: &Volume, top: InodeNr) -> Result<Vec<Box<dyn Task>>, Error> {
    let new = NewInode::default();
    let targets: Result<Vec<InodeNr>, Error> = (0..TARGETS)
        .map(|number| volume.create(top, format!("target{number}").as_bytes(), &new))
        .collect();
    let targets = targets?;
    let watched: Result<Vec<Watched>, Error> = (0..DIRECTORIES)
        .map(|number| {
            let directory =
                volume.make_directory(top, format!("watched{number}").as_bytes(), &new)?;
            let model = Mutex::new(Model::default());
            Ok(Watched { directory, model })
        })
        .collect();
    let watched: Directories = Arc::new(watched?);
    let changers = (0..CHANGERS).map(|number| -> Box<dyn Task> {
        Box::new(Changer {
            watched: Arc::clone(&watched),
            targets: targets.clone(),
            letter: b'a' + number,
            fresh: 0,
            own: vec![Own::default(); DIRECTORIES],
        })
    });
    let listers = (0..LISTERS).map(|_| -> Box<dyn Task> {
        Box::new(Lister {
            watched: Arc::clone(&watched),
            listing: None,
        })
    });
    Ok(changers.chain(listers).collect())
}

/// A task's names in a directory, each with the number of its file.
#[derive(Clone, Default)]
struct Own {
    names: BTreeMap<Name, usize>,
    is_shrinking: bool,
}

/// A task that creates, renames and removes its own names.
struct Changer {
    watched: Directories,
    targets: Vec<InodeNr>,
    letter: u8,
    fresh: u64,
    own: Vec<Own>,
}

impl Changer {
    /// Returns a new name, or one that is reused.
    fn name(&mut self, random: &mut SplitMix) -> Name {
        self.fresh += 1;
        let number = match random.below(2) {
            0 => self.fresh,
            _ => random.below(NAMES_MAX as u64) + 1,
        };
        let mut name = format!("{number:04}").into_bytes();
        name.resize(NAME_BYTES - (number % 7) as usize, self.letter);
        name
    }

    fn some(&self, at: usize, random: &mut SplitMix) -> Option<(Name, usize)> {
        let names = &self.own[at].names;
        let place = random.below(names.len().max(1) as u64) as usize;
        let (name, target) = names.iter().nth(place)?;
        Some((name.clone(), *target))
    }

    /// Makes a call that adds names to one directory and removes names from another, and updates
    /// the model before and after.
    fn change(
        &mut self,
        (removed_from, removed): (usize, &[&Name]),
        (added_to, added): (usize, &[(&Name, usize)]),
        call: impl FnOnce() -> Result<(), Error>,
    ) -> Step {
        let mut model = self.watched[removed_from].model.lock();
        removed.iter().for_each(|name| model.removes(name));
        drop(model);
        let mut model = self.watched[added_to].model.lock();
        let names = added.iter().map(|(name, _)| (*name).clone());
        model.known.extend(names);
        drop(model);
        let is_done = tolerate(call())?;
        let (gone, come): (&[&Name], &[(&Name, usize)]) = match is_done {
            true => (removed, added),
            false => (&[], &[]),
        };
        for name in gone {
            self.own[removed_from].names.remove(*name);
        }
        for (name, target) in come {
            self.own[added_to].names.insert((*name).clone(), *target);
        }
        // The task's own names are stable until its next call.
        let mut model = self.watched[added_to].model.lock();
        model
            .stable
            .extend(come.iter().map(|(name, _)| (*name).clone()));
        drop(model);
        if !is_done {
            let mut model = self.watched[removed_from].model.lock();
            model
                .stable
                .extend(removed.iter().map(|name| (*name).clone()));
        }
        Ok(())
    }

    fn add(&mut self, volume: &Volume, at: usize, random: &mut SplitMix) -> Step {
        let name = self.name(random);
        if self.own[at].names.contains_key(&name) {
            return Ok(());
        }
        let target = random.below(TARGETS as u64) as usize;
        let (nr, directory) = (self.targets[target], self.watched[at].directory);
        self.change((at, &[]), (at, &[(&name, target)]), || {
            volume.link(nr, directory, &name)
        })
    }

    fn remove(&mut self, volume: &Volume, at: usize, random: &mut SplitMix) -> Step {
        let Some((name, _)) = self.some(at, random) else {
            return Ok(());
        };
        let directory = self.watched[at].directory;
        self.change((at, &[&name]), (at, &[]), || {
            volume.unlink(directory, &name)
        })
    }

    /// Renames a name to a new one here or in another directory, replaces another, or exchanges
    /// two.
    fn rename(&mut self, volume: &Volume, at: usize, random: &mut SplitMix) -> Step {
        let to = random.below(DIRECTORIES as u64) as usize;
        let Some((name, target)) = self.some(at, random) else {
            return Ok(());
        };
        let other = self.some(to, random).filter(|_| random.below(2) == 0);
        let (here, there) = (self.watched[at].directory, self.watched[to].directory);
        let call = |new: &[u8], mode| volume.rename(here, &name, there, new, mode);
        match other {
            // Two names of one file: the rename does nothing.
            Some((_, of_other)) if of_other == target => Ok(()),
            Some((other, of_other)) if random.below(2) == 0 => {
                // Both names stay, and refer to the other file.
                let mode = RenameMode::Exchange;
                if tolerate(call(&other, mode))? {
                    self.own[at].names.insert(name.clone(), of_other);
                    self.own[to].names.insert(other, target);
                }
                Ok(())
            }
            Some((other, _)) => self.change((at, &[&name]), (to, &[(&other, target)]), || {
                call(&other, RenameMode::Replace)
            }),
            None => {
                let new = self.name(random);
                if self.own[to].names.contains_key(&new) {
                    return Ok(());
                }
                self.change((at, &[&name]), (to, &[(&new, target)]), || {
                    call(&new, RenameMode::NoReplace)
                })
            }
        }
    }
}

impl Task for Changer {
    fn call(&mut self, volume: &Volume, random: &mut SplitMix, _: &mut RuleCounts) -> Step {
        let at = random.below(DIRECTORIES as u64) as usize;
        let own = &mut self.own[at];
        own.is_shrinking = match own.names.len() {
            count if count >= NAMES_MAX => true,
            count if count <= NAMES_MIN => false,
            _ => own.is_shrinking,
        };
        let is_shrinking = own.is_shrinking;
        match random.below(6) {
            0 => self.rename(volume, at, random),
            1 => self.remove(volume, at, random),
            _ if is_shrinking => self.remove(volume, at, random),
            _ => self.add(volume, at, random),
        }
    }
}

/// A listing in progress.
struct Listing {
    at: usize,
    number: u64,
    cookie: u64,
    /// The names that were read, each with the cookie after it.
    read: Vec<(Name, u64)>,
}

/// A task that reads directories, a few names at a time.
struct Lister {
    watched: Directories,
    listing: Option<Listing>,
}

impl Lister {
    fn open(&self, random: &mut SplitMix) -> Listing {
        let at = random.below(DIRECTORIES as u64) as usize;
        let mut model = self.watched[at].model.lock();
        model.listings += 1;
        let number = model.listings;
        let dots = DOTS.iter().map(|name| name.to_vec());
        let stable = model.stable.iter().cloned().chain(dots).collect();
        model.throughout.insert(number, stable);
        Listing {
            at,
            number,
            cookie: 0,
            read: Vec::new(),
        }
    }

    /// Reads some more names. A complete listing is compared.
    fn read(&mut self, volume: &Volume, room: u64, counts: &mut RuleCounts) -> Step {
        let Some(listing) = &mut self.listing else {
            return Ok(());
        };
        let (mut left, mut is_stopped) = (room, false);
        let directory = self.watched[listing.at].directory;
        volume.read_directory(directory, listing.cookie, &mut |next, entry: Entry| {
            is_stopped = left == 0;
            if !is_stopped {
                left -= 1;
                listing.read.push((entry.name, next));
                listing.cookie = next;
            }
            !is_stopped
        })?;
        if is_stopped {
            return Ok(());
        }
        let mut model = self.watched[listing.at].model.lock();
        let throughout = model.throughout.remove(&listing.number);
        let checked = listing.check(&throughout.unwrap_or_default(), &model.known);
        drop(model);
        self.listing = None;
        counts.note(Rule::C2);
        Ok(checked?)
    }
}

impl Listing {
    /// Continues at an earlier cookie.
    fn seek(&mut self, random: &mut SplitMix) {
        let at = random.below(self.read.len() as u64 + 1) as usize;
        self.read.truncate(at);
        self.cookie = self.read.last().map_or(0, |(_, cookie)| *cookie);
    }

    fn check(&self, throughout: &BTreeSet<Name>, known: &BTreeSet<Name>) -> Result<(), Broken> {
        let mut times = BTreeMap::<&[u8], u32>::new();
        for (name, _) in &self.read {
            *times.entry(name).or_default() += 1;
        }
        let broken = |name: &[u8], what: &str| {
            let name = String::from_utf8_lossy(name);
            let what = format!("/crowd/watched{}: {name:?} {what}", self.at);
            Err(Broken::new(Rule::C2, what))
        };
        if let Some(name) = throughout
            .iter()
            .find(|name| !times.contains_key(name.as_slice()))
        {
            return broken(name, "is there throughout and is not listed");
        }
        if let Some((name, times)) = times.iter().find(|(_, times)| **times > 1) {
            return broken(name, &format!("is listed {times} times"));
        }
        let is_foreign = |name: &&[u8]| !known.contains(*name) && !DOTS.contains(name);
        match times.keys().find(|name| is_foreign(name)) {
            Some(name) => broken(name, "is listed, and nobody created it"),
            None => Ok(()),
        }
    }
}

impl Task for Lister {
    fn call(&mut self, volume: &Volume, random: &mut SplitMix, counts: &mut RuleCounts) -> Step {
        if self.listing.is_none() {
            self.listing = Some(self.open(random));
        }
        if random.below(SEEK_ONE_IN) == 0 {
            self.listing
                .iter_mut()
                .for_each(|listing| listing.seek(random));
        }
        self.read(volume, 1 + random.below(READ_MAX), counts)
    }

    fn finish(&mut self, volume: &Volume, counts: &mut RuleCounts) -> Step {
        self.read(volume, u64::MAX, counts)
    }
}
