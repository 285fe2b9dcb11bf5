//! A scripted run with a model: its states, and those of them that a crash or a failure may leave.
//!
//! State 0 is the empty volume, state `n` the result of operation `n - 1`. A sync call sets a
//! bound: no state before the one that it covers may come back. Every sector identifies the
//! operation that wrote it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ext::volume::{FileKind, NewInode, OpenFlags, SetAttributes};
use ext::{Error, Volume};

const SECTOR_BYTES: usize = 512;

/// One operation: a single step with respect to crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Create(&'static str),
    Mkdir(&'static str),
    /// Path, offset, length.
    Write(&'static str, usize, usize),
    Truncate(&'static str, usize),
    Rename(&'static str, &'static str),
    Link(&'static str, &'static str),
    Unlink(&'static str),
    Rmdir(&'static str),
    Fsync(&'static str),
    Fdatasync(&'static str),
    SyncDirectory(&'static str),
    Sync,
}

/// Files that grow, shrink, are overwritten, renamed over each other and deleted, with sync calls
/// of each kind.
pub const SCRIPT: &[Op] = &[
    Op::Create("/a"),
    Op::Write("/a", 0, 3000),
    Op::Fsync("/a"),
    Op::Mkdir("/d"),
    Op::Create("/d/b"),
    Op::Write("/d/b", 0, 20_000),
    Op::SyncDirectory("/d"),
    Op::Write("/a", 1000, 500),
    Op::Fdatasync("/a"),
    Op::Create("/c"),
    Op::Write("/c", 0, 9000),
    Op::Rename("/c", "/a"),
    Op::Fsync("/d/b"),
    Op::Write("/d/b", 18_000, 30_000),
    Op::Fsync("/d/b"),
    Op::Truncate("/d/b", 5000),
    Op::Link("/d/b", "/e"),
    Op::Fsync("/e"),
    Op::Write("/e", 12_000, 4000),
    Op::Unlink("/d/b"),
    Op::Sync,
    Op::Create("/f"),
    Op::Write("/f", 0, 40_000),
    Op::Unlink("/a"),
    Op::Rmdir("/d"),
    Op::Sync,
    Op::Create("/g"),
    Op::Write("/g", 0, 40_000),
    Op::Write("/f", 0, 4096),
    Op::Fdatasync("/f"),
    Op::Unlink("/f"),
    Op::Fsync("/g"),
    Op::Create("/h"),
    Op::Write("/h", 0, 12_000),
    Op::Rename("/h", "/g"),
    Op::SyncDirectory("/"),
    Op::Write("/g", 6000, 9000),
];

impl Op {
    /// Returns true if the operation is a sync call.
    pub fn is_sync(self) -> bool {
        matches!(
            self,
            Self::Fsync(_) | Self::Fdatasync(_) | Self::SyncDirectory(_) | Self::Sync
        )
    }

    /// Runs the operation on a volume. `number` is part of the written data.
    pub fn run(self, volume: &Volume, number: usize) -> Result<(), Error> {
        match self {
            Self::Create(path) => {
                let (parent, name) = volume.resolve_parent(path)?;
                volume.create(parent, name, &NewInode::default()).map(drop)
            }
            Self::Mkdir(path) => volume.create_directory(path).map(drop),
            Self::Write(path, offset, length) => with_file(volume, path, |file| {
                file.write_at(offset as u64, &bytes_of(number, offset, length))
            }),
            Self::Truncate(path, size) => {
                let nr = volume.resolve(path, true)?;
                let change = SetAttributes {
                    size: Some(size as u64),
                    ..Default::default()
                };
                volume.set_attributes(nr, &change)
            }
            Self::Rename(from, to) => volume.rename_path(from, to),
            Self::Link(from, to) => {
                let nr = volume.resolve(from, true)?;
                let (parent, name) = volume.resolve_parent(to)?;
                volume.link(nr, parent, name)
            }
            Self::Unlink(path) => volume.remove_file(path),
            Self::Rmdir(path) => volume.remove_directory_at(path),
            Self::Fsync(path) => with_file(volume, path, |file| file.sync_all()),
            Self::Fdatasync(path) => with_file(volume, path, |file| file.sync_data()),
            Self::SyncDirectory(path) => volume.sync_directory(volume.resolve(path, true)?),
            Self::Sync => volume.sync(),
        }
    }
}

fn with_file(
    volume: &Volume,
    path: &str,
    work: impl FnOnce(&ext::volume::File<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let file = volume.open_file(path, OpenFlags::READ_WRITE)?;
    let result = work(&file);
    let closed = file.close();
    result.and(closed)
}

/// Returns the data of operation `number`: each sector identifies its writer and its place.
pub fn bytes_of(number: usize, offset: usize, length: usize) -> Vec<u8> {
    let byte = |at: usize| {
        let word = (number as u64 + 1) << 32 | (at / 8) as u64;
        word.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()[at % 8]
    };
    (offset..offset + length).map(byte).collect()
}

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The file's identity and contents; `None` for a directory.
    pub file: Option<(usize, Arc<Vec<u8>>)>,
    /// The state after the last change of the inode.
    pub changed: usize,
    /// The state after the last change of the contents.
    pub data: usize,
}

pub type State = BTreeMap<String, Node>;

/// The tree found on a volume: contents, or none for a directory.
pub type Found = BTreeMap<String, Option<Vec<u8>>>;

/// The guarantee for unsynced data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// `data=journal`: contents are those of the state.
    Exact,
    /// `data=ordered`: no contents are older than the state.
    Ordered,
    /// Only contents that were synced and not written since.
    Synced,
}

/// The states of a script.
pub struct History {
    pub ops: Vec<Op>,
    pub states: Vec<State>,
    /// The number of the first operation in its data.
    pub first_number: usize,
    /// True if a part of a write may be in the state: other tasks fill the transactions.
    pub may_split: bool,
}

/// The bounds that sync calls have set so far.
#[derive(Debug, Clone, Default)]
pub struct Bound {
    /// Lower bound of the state.
    pub state: usize,
    /// Lower bounds of the contents of single files, by identity, as states.
    pub files: BTreeMap<usize, usize>,
}

impl Bound {
    /// Raises the bound of a file, whose contents are durable as they are.
    fn raise(&mut self, node: &Node) {
        if let Some((id, _)) = &node.file {
            let data = self.files.entry(*id).or_default();
            *data = node.data.max(*data);
        }
    }
}

impl History {
    /// Creates the history of the only script.
    pub fn new(ops: &[Op]) -> Self {
        Self::beside_others(ops, 0, false)
    }

    /// Creates the history of one of several scripts, each with its own directories.
    pub fn beside_others(ops: &[Op], first_number: usize, may_split: bool) -> Self {
        let root = Node {
            file: None,
            changed: 0,
            data: 0,
        };
        let mut states = vec![State::from([("/".to_owned(), root)])];
        for (number, op) in ops.iter().enumerate() {
            let next = after(&states[number], number, *op, first_number);
            states.push(next);
        }
        Self {
            ops: ops.to_vec(),
            states,
            first_number,
            may_split,
        }
    }

    /// Sets the bounds for operation `number`, a sync call that has returned without an error.
    pub fn bind(&self, bound: &mut Bound, number: usize) {
        let state = &self.states[number];
        match self.ops[number] {
            Op::Sync => self.bind_all(bound, number),
            Op::Fsync(path) | Op::SyncDirectory(path) => {
                let node = &state[path];
                bound.state = bound.state.max(node.changed);
                bound.raise(node);
            }
            Op::Fdatasync(path) => bound.raise(&state[path]),
            _ => {}
        }
    }

    /// Sets the bounds for a durable state, with everything before it.
    pub fn bind_all(&self, bound: &mut Bound, number: usize) {
        bound.state = bound.state.max(number);
        for node in self.states[number].values() {
            bound.raise(node);
        }
    }

    /// Sets the bounds for durable names and sizes up to a state, and with `has_data` for all
    /// contents.
    pub fn bind_state(&self, bound: &mut Bound, number: usize, has_data: bool) {
        if has_data {
            self.bind_all(bound, number);
        } else {
            bound.state = bound.state.max(number);
        }
    }

    /// Checks a tree against the states from `bound` to `most`. Returns the states that it may be,
    /// or the contradiction.
    pub fn check(
        &self,
        found: &Found,
        bound: &Bound,
        most: usize,
        rule: Rule,
    ) -> Result<Vec<usize>, String> {
        let mut why = format!(
            "no state from {} to {most} has these names and sizes",
            bound.state
        );
        let mut allowed = Vec::new();
        for k in bound.state..=most {
            if !self.has_shape(k, most, found) {
                continue;
            }
            match self.check_contents(found, k, bound, most, rule) {
                Ok(()) => allowed.push(k),
                Err(difference) => why = format!("as state {k}, {difference}"),
            }
        }
        if !allowed.is_empty() {
            return Ok(allowed);
        }
        let shape: Vec<(&String, Option<usize>)> = found
            .iter()
            .map(|(path, file)| (path, file.as_ref().map(Vec::len)))
            .collect();
        Err(format!("{why}; found {shape:?}"))
    }

    /// Returns true if names and sizes are those of state `k`, or of it and a part of the write
    /// after it.
    fn has_shape(&self, k: usize, most: usize, found: &Found) -> bool {
        let state = &self.states[k];
        let written = self.split_write(k, most);
        state.len() == found.len()
            && state
                .iter()
                .zip(found)
                .all(|((path, node), (other, seen))| match (&node.file, seen) {
                    (None, None) => path == other,
                    (Some((id, contents)), Some(seen)) => {
                        let grown = match written {
                            Some((file, after)) if file == *id => after.len(),
                            _ => contents.len(),
                        };
                        path == other && (contents.len()..=grown).contains(&seen.len())
                    }
                    _ => false,
                })
    }

    /// Returns the file that a write after state `k` may have changed in part, and its contents
    /// afterwards.
    fn split_write(&self, k: usize, most: usize) -> Option<(usize, &Vec<u8>)> {
        match self.ops.get(k) {
            Some(Op::Write(path, ..)) if self.may_split && k < most => {
                let file = self.states[k + 1][*path].file.as_ref();
                file.map(|(id, contents)| (*id, &**contents))
            }
            _ => None,
        }
    }

    fn check_contents(
        &self,
        found: &Found,
        k: usize,
        bound: &Bound,
        most: usize,
        rule: Rule,
    ) -> Result<(), String> {
        for (path, node) in &self.states[k] {
            let (Some((id, contents)), Some(Some(seen))) = (&node.file, found.get(path)) else {
                continue;
            };
            let least = bound.files.get(id).copied().unwrap_or(0);
            let versions: Vec<&Vec<u8>> = match rule {
                Rule::Exact if least <= k => match self.split_write(k, most) {
                    Some((file, after)) if file == *id => vec![&**contents, after],
                    _ => vec![&**contents],
                },
                Rule::Exact | Rule::Ordered => self.versions(*id, k.max(least), most),
                Rule::Synced if least > 0 && self.last_data(*id, most) <= least => {
                    self.versions(*id, least, most)
                }
                Rule::Synced => continue,
            };
            for (sector, bytes) in seen.chunks(SECTOR_BYTES).enumerate() {
                let at = sector * SECTOR_BYTES;
                let is_known = versions.iter().any(|version| {
                    bytes
                        .iter()
                        .enumerate()
                        .all(|(index, byte)| *byte == version.get(at + index).copied().unwrap_or(0))
                });
                if !is_known {
                    let zero = bytes.iter().all(|byte| *byte == 0);
                    return Err(format!(
                        "{path} has at byte {at} what it never had since (zeroes: {zero})"
                    ));
                }
            }
        }
        Ok(())
    }

    fn versions(&self, id: usize, from: usize, to: usize) -> Vec<&Vec<u8>> {
        let all = self.states[from..=to]
            .iter()
            .filter_map(|state| contents(state, id));
        let mut versions: Vec<&Vec<u8>> = all.collect();
        versions.dedup();
        versions
    }

    fn last_data(&self, id: usize, to: usize) -> usize {
        let find = |state: &State| {
            let is_it = |node: &&Node| node.file.as_ref().is_some_and(|file| file.0 == id);
            state.values().find(is_it).map(|node| node.data)
        };
        self.states[..=to]
            .iter()
            .filter_map(find)
            .max()
            .unwrap_or(0)
    }
}

fn contents(state: &State, id: usize) -> Option<&Vec<u8>> {
    state.values().find_map(|node| match &node.file {
        Some((other, contents)) if *other == id => Some(&**contents),
        _ => None,
    })
}

fn parent_of(path: &str) -> String {
    match path.rfind('/') {
        Some(0) | None => "/".to_owned(),
        Some(at) => path[..at].to_owned(),
    }
}

fn after(state: &State, number: usize, op: Op, first_number: usize) -> State {
    let mut next = state.clone();
    let at = number + 1;
    let touch = |state: &mut State, path: &str| {
        state
            .get_mut(&parent_of(path))
            .expect("the directory is there")
            .changed = at;
    };
    match op {
        Op::Create(path) => {
            let file = Some((number, Arc::new(Vec::new())));
            next.insert(
                path.to_owned(),
                Node {
                    file,
                    changed: at,
                    data: at,
                },
            );
            touch(&mut next, path);
        }
        Op::Mkdir(path) => {
            next.insert(
                path.to_owned(),
                Node {
                    file: None,
                    changed: at,
                    data: at,
                },
            );
            touch(&mut next, path);
        }
        Op::Write(path, offset, length) => {
            let bytes = bytes_of(first_number + number, offset, length);
            change(&mut next, path, at, |contents| {
                contents.resize(contents.len().max(offset + length), 0);
                contents[offset..offset + length].copy_from_slice(&bytes);
            });
        }
        Op::Truncate(path, size) => {
            change(&mut next, path, at, |contents| contents.resize(size, 0))
        }
        Op::Rename(from, to) if is_same_file(&next, from, to) => {}
        Op::Rename(from, to) => {
            let mut node = next.remove(from).expect("it is there");
            node.changed = at;
            next.insert(to.to_owned(), node);
            touch(&mut next, from);
            touch(&mut next, to);
        }
        Op::Link(from, to) => {
            let node = next.get_mut(from).expect("it is there");
            node.changed = at;
            let node = node.clone();
            next.insert(to.to_owned(), node);
            touch(&mut next, to);
        }
        Op::Unlink(path) | Op::Rmdir(path) => {
            next.remove(path).expect("it is there");
            touch(&mut next, path);
        }
        Op::Fsync(_) | Op::Fdatasync(_) | Op::SyncDirectory(_) | Op::Sync => {}
    }
    next
}

/// Returns true if two names are links of one file: then a rename does nothing.
fn is_same_file(state: &State, one: &str, other: &str) -> bool {
    let identity = |path: &str| Some(state.get(path)?.file.as_ref()?.0);
    identity(one).is_some() && identity(one) == identity(other)
}

/// Changes the contents of a file under all its names.
fn change(state: &mut State, path: &str, at: usize, work: impl FnOnce(&mut Vec<u8>)) {
    let (id, contents) = state[path].file.clone().expect("a file");
    let mut changed = (*contents).clone();
    work(&mut changed);
    let changed = Arc::new(changed);
    for node in state.values_mut() {
        if let Some((other, contents)) = &mut node.file
            && *other == id
        {
            *contents = Arc::clone(&changed);
            (node.changed, node.data) = (at, at);
        }
    }
}

/// Returns everything below the root except `lost+found`, and the root itself.
pub fn read_tree(volume: &Volume) -> Result<Found, Error> {
    let mut found = Found::from([("/".to_owned(), None)]);
    let mut open = vec![String::new()];
    while let Some(directory) = open.pop() {
        for entry in volume.list(&format!("{directory}/"))? {
            let name = String::from_utf8_lossy(&entry.name);
            let path = format!("{directory}/{name}");
            if path == "/lost+found" {
                continue;
            }
            if volume.metadata(&path, false)?.kind == FileKind::Directory {
                found.insert(path.clone(), None);
                open.push(path);
            } else {
                let bytes = volume.read_file(&path)?;
                found.insert(path, Some(bytes));
            }
        }
    }
    Ok(found)
}

#[test]
fn the_script_works_without_failures() {
    let history = History::new(SCRIPT);
    let rig = crate::rig::Rig::new(crate::rig::Place::Internal, 1024, 16 << 20);
    let volume = rig.open(crate::rig::quiet(Default::default()));
    for (number, op) in history.ops.iter().enumerate() {
        op.run(&volume, number)
            .unwrap_or_else(|error| panic!("{op:?}: {error}"));
        let found = read_tree(&volume).expect("it can be read");
        let mut bound = Bound::default();
        history.bind_all(&mut bound, number + 1);
        let checked = history.check(&found, &bound, number + 1, Rule::Exact);
        let states = checked.unwrap_or_else(|why| panic!("after {op:?}: {why}"));
        assert_eq!(states, [number + 1], "after {op:?}");
    }
    volume.close().expect("close");
    rig.assert_fsck_clean("after the script");
}
