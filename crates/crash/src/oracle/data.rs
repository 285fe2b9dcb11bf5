//! Contents, sector by sector.
//!
//! | mode | possible contents of a sector of a file |
//! |---|---|
//! | journal | those of the state |
//! | ordered | those of the state, or of a later one that may have been in progress |
//! | ordered, new blocks only | see below |
//! | writeback | those of any state since its last sync call; see below |
//!
//! With *new blocks only*, a sector may have the contents of any state since its block was
//! allocated, since the file was extended or truncated within it, or since its last sync call, or
//! of a later state. In writeback mode a block that is newer than the last sync call may also have
//! earlier contents that the cut left there ([`crate::leftover`]).
//!
//! "Ordered" is ext3's own rule (`ordered=all`): every block that a transaction's operations wrote
//! is on the device before the transaction commits, overwrites in place included. With
//! `ordered=allocated` overwrites in place are not ordered.
//!
//! If the write of a block has failed, the contents of its sectors are undefined until a sync call
//! covers them.

use crate::mode::{DataMode, OrderedScope};
use layout::InodeNr;

use super::{Oracle, View};
use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::model::{NodeId, Sector, Tree};
use crate::observe::Contents;
use crate::op::Op;
use crate::rule::{Broken, Rule};
use crate::suspect::Suspect;
use crate::tag::{NOBODY, Tag};

/// One file.
pub(super) struct File {
    pub(super) id: NodeId,
    inode: InodeNr,
    /// Number of the file in tags.
    number: u32,
    /// The state before which no contents may return.
    bound: usize,
    /// The state whose blocks are all allocated.
    pub(super) mapped: usize,
    /// The state that sync calls cover: failed writes up to it were reported.
    synced: usize,
}

impl Oracle<'_> {
    /// Compares the contents of all files of a lane.
    pub(super) fn check_data(&mut self, view: &View<'_>) -> Result<(), Broken> {
        let recovered = self.recovered;
        let tree = view.tree;
        for (id, _) in tree.nodes() {
            let (Some(sectors), Some(inode)) = (tree.sectors(id), view.inode(id)) else {
                continue;
            };
            let mut nodes = recovered.observation.nodes.iter();
            let Some(Contents::File(bytes)) = nodes
                .find(|seen| seen.inode == inode)
                .map(|seen| &seen.contents)
            else {
                continue;
            };
            let file = File {
                id,
                inode,
                number: inode.get(),
                bound: self.contents_bound_of(view, id),
                mapped: self.bound_of(view, id),
                synced: view.bounds.files.get(&id).copied().unwrap_or(0),
            };
            self.note_file(view, sectors);
            for (index, piece) in bytes.chunks(SECTOR_BYTES).enumerate() {
                if !self.is_allowed(view, &file, index, piece, sectors[index]) {
                    return Err(self.broken(view, &file, index, piece));
                }
            }
        }
        Ok(())
    }

    /// Notes the rules that a file's contents exercise.
    fn note_file(&mut self, view: &View<'_>, sectors: &[Sector]) {
        if sectors.is_empty() {
            return;
        }
        let rules: &[Rule] = match self.data {
            DataMode::Journal => &[Rule::J1],
            DataMode::Ordered => &[Rule::O1, Rule::O2, Rule::O3],
            DataMode::Writeback => &[Rule::W2],
        };
        rules.iter().for_each(|rule| self.counts.note(*rule));
        if sectors.iter().any(|sector| sector.write % 2 == 1) {
            self.counts.note(Rule::J4);
        }
        if sectors.iter().any(|sector| sector.write == 0) {
            self.counts.note(Rule::O5);
        }
        let is_rename = view.state > 0
            && matches!(
                view.history.ops[view.state - 1],
                Op::Rename(..) | Op::Whiteout(..)
            );
        if is_rename && self.data == DataMode::Ordered {
            self.counts.note(Rule::O4);
        }
    }

    fn is_allowed(
        &self,
        view: &View<'_>,
        file: &File,
        index: usize,
        piece: &[u8],
        wanted: Sector,
    ) -> bool {
        let is = |sector: Sector| is_version(file.number, piece, sector);
        // A hole has no written data. Where contents have left their inode a block has replaced it.
        let was_first = index < BLOCK_SECTORS || wanted.may_have_left_inode;
        let may_be_mapped = self.bounds.is_inline && was_first;
        if wanted.allocated_in == 0 && !may_be_mapped {
            return is(wanted);
        }
        if self.data == DataMode::Journal {
            return is(wanted);
        }
        // The failed writer got the error, unless a later sync call has succeeded.
        let is_suspect = |suspect: &Suspect| {
            let blocks = [index, wanted.written_at as usize].map(|at| at / BLOCK_SECTORS);
            let is_here = suspect.file == file.number && blocks.contains(&suspect.block);
            is_here && suspect.state > file.synced
        };
        if self.suspects.iter().any(is_suspect) {
            return true;
        }
        if self.was_zeroed(view, file, index) {
            return true;
        }
        let least = match (self.data, self.bounds.ordered) {
            (DataMode::Ordered, OrderedScope::All) => view.whole.max(file.bound),
            (DataMode::Ordered, OrderedScope::Allocated) => {
                file.bound.max(wanted.ordered_in as usize)
            }
            _ => file.bound,
        };
        let most = view.bounds.begun.max(view.whole);
        if file.bound <= view.state && is(wanted) {
            return true;
        }
        if self.may_be_hole(view, file, index) && is(Sector::default()) {
            return true;
        }
        let states = &view.history.states[least..=most];
        let is_in = |state: &Tree| {
            let all = state.sectors(file.id).unwrap_or_default();
            all.get(index).is_some_and(|sector| is(*sector))
        };
        if states.iter().any(is_in) {
            return true;
        }
        self.data == DataMode::Writeback && self.is_leftover(view, file, index, wanted)
    }

    /// Returns true if zeroes could not be written somewhere, and this sector was zeroed since the
    /// last successful sync call.
    fn was_zeroed(&self, view: &View<'_>, file: &File, index: usize) -> bool {
        let most = view.bounds.begun.max(view.whole);
        let is_zeroed = |number: usize| {
            let state = &view.history.states[number];
            let is_changed = state
                .get(file.id)
                .is_some_and(|node| node.data_in == number);
            let sector = state.sectors(file.id).and_then(|all| all.get(index));
            is_changed && sector.is_some_and(|sector| sector.write == 0 && sector.allocated_in > 0)
        };
        self.suspects.iter().any(|suspect| suspect.file == NOBODY)
            && (file.synced + 1..=most).any(is_zeroed)
    }

    /// Returns true if a block that was allocated after the last sync call shows its older
    /// contents.
    fn is_leftover(&self, view: &View<'_>, file: &File, index: usize, wanted: Sector) -> bool {
        let allocated_in = wanted.allocated_in as usize;
        let leftover = self.leftovers.get(&(file.inode, index));
        allocated_in > file.bound
            && leftover.is_some_and(|leftover| {
                let lane = view.history.lane;
                self.held.is_older(*leftover, lane, allocated_in - 1)
            })
    }

    fn broken(&self, view: &View<'_>, file: &File, index: usize, piece: &[u8]) -> Broken {
        let wanted = view
            .tree
            .sectors(file.id)
            .map_or(Sector::default(), |sectors| sectors[index]);
        let found = Tag::read(piece);
        let is_own =
            found.is_some_and(|tag| tag.file == file.number && tag.sector as usize == index);
        let is_zero = piece.iter().all(|byte| *byte == 0);
        let synced = view.history.states[file.bound]
            .sectors(file.id)
            .and_then(|all| all.get(index));
        let is_older = match found {
            Some(tag) if is_own => synced.is_some_and(|synced| tag.write < synced.write),
            _ => is_zero && synced.is_some_and(|synced| synced.write > 0),
        };
        let rule = match self.data {
            DataMode::Journal => Rule::J1,
            _ if is_older => Rule::F1,
            DataMode::Writeback => Rule::W2,
            DataMode::Ordered if wanted.write == 0 => Rule::O5,
            DataMode::Ordered if is_own || is_zero => Rule::O2,
            DataMode::Ordered => Rule::O1,
        };
        let found = match found {
            Some(tag) => format!("{tag:?}"),
            None if is_zero => "zeroes".to_owned(),
            None => format!(
                "bytes that nobody wrote, beginning {:02x?}",
                &piece[..16.min(piece.len())]
            ),
        };
        let what = format!(
            "inode {} (node {}) holds {found} in sector {index}; in state {} it is {wanted:?}, and its contents are synced \
             up to state {}",
            file.number, file.id, view.state, file.bound
        );
        Broken::new(rule, what)
    }
}

/// Returns true if bytes are a version of a sector, wherever it was written.
fn is_version(file: u32, piece: &[u8], sector: Sector) -> bool {
    if sector.write == 0 {
        return piece.iter().all(|byte| *byte == 0);
    }
    let tag = Tag {
        file,
        write: sector.write,
        sector: sector.written_at,
    };
    tag.matches(piece, usize::from(sector.cut))
}
