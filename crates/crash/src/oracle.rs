//! The oracle: checks that the state found after a recovery is one that the contract allows.
//!
//! The last committed transaction, as reported by the journal itself, determines the required state
//! of each lane. Sync calls determine the states that are too old. Contents follow the rules of the
//! data mode, sector by sector.

mod blocks;
mod data;
mod delayed;

use crate::mode::DataMode;
use layout::{InodeNr, Tid};

use crate::history::{Binding, Bounds, History, LaneBounds, Stage};
use crate::leftover::{Held, Leftovers};
use crate::marks;
use crate::model::{Kind, NodeId, ROOT, Tree};
use crate::observe::{Contents, Observation, Seen};
use crate::op::Op;
use crate::rule::{Broken, Rule, RuleCounts};
use crate::setting::LANES_MAX;
use crate::suspect::Suspect;

/// The outcome of recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The last committed transaction.
    pub last: Tid,
    /// True if recovery completed a truncation, which changes the times of a file.
    pub has_truncated: bool,
    /// True if recovery dropped a committed transaction because its log was damaged.
    pub has_lost: bool,
    /// True if the volume records an error when it is closed again.
    pub has_error: bool,
    /// The visible tree.
    pub observation: Observation,
}

/// A comparison of one recovered image.
pub struct Oracle<'a> {
    pub(crate) histories: &'a [History],
    pub(crate) bounds: &'a Bounds,
    pub(crate) data: DataMode,
    pub(crate) recovered: &'a Recovered,
    /// Places where files show contents that the cut left in their blocks.
    pub(crate) leftovers: &'a Leftovers,
    pub(crate) held: &'a Held,
    /// Data whose write failed.
    pub(crate) suspects: &'a [Suspect],
    pub(crate) counts: &'a mut RuleCounts,
}

/// One lane at one state.
pub(crate) struct View<'a> {
    pub(crate) history: &'a History,
    pub(crate) bounds: &'a LaneBounds,
    /// The required tree.
    pub(crate) tree: &'a Tree,
    /// The last state that was reached completely.
    pub(crate) state: usize,
    /// The first state that contains all of the tree.
    pub(crate) whole: usize,
    /// True if the promises of sync calls hold: damage has dropped no committed transaction.
    has_promises: bool,
    /// The inode of each node.
    inodes: Vec<(NodeId, InodeNr)>,
}

impl<'a> Oracle<'a> {
    /// Compares everything. Returns the state of each lane.
    ///
    /// # Errors
    /// - The first broken rule.
    pub fn check(&mut self) -> Result<Vec<usize>, Broken> {
        if self.data == DataMode::Journal {
            self.check_blocks()?;
        }
        let mut states = Vec::new();
        for lane in 0..self.histories.len() {
            states.push(self.check_lane(lane)?);
        }
        self.check_root()?;
        Ok(states)
    }

    /// Checks that names, sizes and times are those that the last committed transaction left,
    /// regardless of the promises of sync calls.
    ///
    /// # Errors
    /// Fails with the first difference.
    pub fn check_names(&self) -> Result<(), Broken> {
        for (lane, history) in self.histories.iter().enumerate() {
            let stages = history.stages_at(self.recovered.last, self.bounds.is_fast);
            let results = stages
                .iter()
                .map(|stage| self.compare_names(lane, stage, false));
            let results: Vec<Result<View<'_>, Broken>> = results.collect();
            if results.iter().all(Result::is_err) {
                return results
                    .into_iter()
                    .next()
                    .map_or(Ok(()), |first| first.map(drop));
            }
        }
        Ok(())
    }

    fn check_lane(&mut self, lane: usize) -> Result<usize, Broken> {
        let (history, bounds) = (&self.histories[lane], &self.bounds.lanes[lane]);
        let stages = history.stages_at(self.recovered.last, self.bounds.is_fast);
        let newest = stages.last().map_or(0, |stage| stage.state);
        if newest < bounds.state {
            return Err(self.too_old(lane, newest));
        }
        self.note_binding(bounds);
        // Two states can look the same, as after an overwrite: a state is too old only if it equals
        // no newer one.
        let (old, new): (Vec<&Stage>, Vec<&Stage>) =
            stages.iter().partition(|stage| stage.state < bounds.state);
        let mut first = None;
        for stage in new {
            match self.check_stage(lane, stage) {
                Ok(()) => return Ok(stage.state),
                Err(broken) => first = first.or(Some(broken)),
            }
        }
        let is_there = |stage: &&&Stage| self.check_stage(lane, stage).is_ok();
        if let Some(stage) = old.iter().find(is_there) {
            return Err(self.too_old(lane, stage.state));
        }
        // A state with the right names says more than the first one.
        let named = stages
            .iter()
            .find(|stage| self.compare_names(lane, stage, true).is_ok());
        if let Some(stage) = named
            && let Err(broken) = self.check_stage(lane, stage)
        {
            return Err(self.explain(lane, stage.state, broken));
        }
        let broken = first.expect("there is a stage");
        Err(self.explain(lane, stages[0].state, broken))
    }

    fn note_binding(&mut self, bounds: &LaneBounds) {
        match bounds.binding {
            Some(Binding::Fsync) => self.counts.note(Rule::F1),
            Some(Binding::Fdatasync) => self.counts.note(Rule::F2),
            Some(Binding::Age) => self.counts.note(Rule::F5),
            Some(Binding::Write) => self.counts.note(Rule::F3),
            Some(Binding::Wide) => self.counts.note(Rule::F4),
            None => {}
        }
    }

    fn too_old(&self, lane: usize, state: usize) -> Broken {
        let bounds = &self.bounds.lanes[lane];
        let rule = match bounds.binding {
            Some(Binding::Fdatasync) => Rule::F2,
            Some(Binding::Age) => Rule::F5,
            Some(Binding::Write) => Rule::F3,
            Some(Binding::Wide) => Rule::F4,
            _ => Rule::F1,
        };
        let what = format!(
            "lane {lane} is in state {state}, but a sync call that has returned covers state {}; transaction {} was the \
             last to be committed",
            bounds.state, self.recovered.last,
        );
        Broken::new(rule, what)
    }

    /// Adds the number of the state that was found, if it is another one.
    fn explain(&mut self, lane: usize, wanted: usize, broken: Broken) -> Broken {
        let last = self.recovered.last;
        let others = self.histories[lane].base..self.histories[lane].states.len();
        let other = others.rev().filter(|state| *state != wanted).find(|state| {
            let stage = Stage {
                state: *state,
                part: None,
            };
            self.compare_names(lane, &stage, true).is_ok()
        });
        let is_named =
            |stage: &Stage| stage.state == wanted && self.compare_names(lane, stage, true).is_ok();
        let hint = match other {
            _ if self.histories[lane]
                .stages_at(last, self.bounds.is_fast)
                .iter()
                .any(is_named) =>
            {
                String::new()
            }
            Some(state) => format!("; names and sizes are those of state {state}"),
            None => "; no state has these names and sizes".to_owned(),
        };
        let what = format!(
            "lane {lane} should be in state {wanted}, as transaction {last} was the last to be committed: {}{hint}",
            broken.what
        );
        Broken::new(broken.rule, what)
    }

    fn check_stage(&mut self, lane: usize, stage: &Stage) -> Result<(), Broken> {
        let view = self.compare_names(lane, stage, true)?;
        self.counts.note(Rule::U3);
        self.counts.note(Rule::U4);
        if self.data == DataMode::Writeback {
            self.counts.note(Rule::W1);
        }
        // Any rename that has started may be half done.
        let begun = view.history.base..view.bounds.begun.max(stage.state);
        let is_rename =
            |op: &Op| matches!(op, Op::Rename(..) | Op::Exchange(..) | Op::Whiteout(..));
        if view.history.ops[begun].iter().any(is_rename) {
            self.counts.note(Rule::U5);
        }
        self.check_data(&view)
    }

    /// Compares names, kinds, links, sizes and times.
    fn compare_names<'v>(
        &self,
        lane: usize,
        stage: &'v Stage,
        has_promises: bool,
    ) -> Result<View<'v>, Broken>
    where
        'a: 'v,
    {
        let (histories, bounds) = (self.histories, self.bounds);
        let (history, state) = (&histories[lane], stage.state);
        let tree = stage.part.as_ref().unwrap_or(&history.states[state]);
        let mut view = View {
            history,
            bounds: &bounds.lanes[lane],
            tree,
            state,
            whole: state + usize::from(stage.part.is_some()),
            has_promises,
            inodes: Vec::new(),
        };
        let lane_of = |name: &[u8]| self.lane_of(name);
        let is_own = |name: &[u8]| lane_of(name) == lane;
        self.compare_directory(tree, (ROOT, 0), "", &is_own, &mut view)?;
        Ok(view)
    }

    /// Returns the lane of a name in the root. If there are several lanes, names end with the
    /// lane's number.
    fn lane_of(&self, name: &[u8]) -> usize {
        match name.last() {
            Some(digit) if self.histories.len() > 1 => char::from(*digit)
                .to_digit(LANES_MAX)
                .map_or(usize::MAX, |lane| lane as usize),
            _ => 0,
        }
    }

    fn compare_directory(
        &self,
        tree: &Tree,
        (id, place): (NodeId, usize),
        path: &str,
        is_own: &dyn Fn(&[u8]) -> bool,
        view: &mut View<'_>,
    ) -> Result<(), Broken> {
        let nodes = &self.recovered.observation.nodes;
        let Contents::Directory(found) = &nodes[place].contents else {
            return Err(Broken::new(Rule::U3, format!("/{path} is no directory")));
        };
        let names = tree.names(id).expect("the model has a directory here");
        let found = || found.iter().filter(|(name, _)| is_own(name));
        let found_names = || found().map(|(name, _)| name.as_slice());
        if !found_names().eq(names.keys().map(|name| name.as_bytes())) {
            let texts: Vec<_> = found_names().map(String::from_utf8_lossy).collect();
            let what = format!(
                "/{path} has names {texts:?} and should have {:?}",
                names.keys()
            );
            return Err(Broken::new(Rule::U3, what));
        }
        for ((name, child), (_, place)) in names.iter().zip(found()) {
            let path = format!("{path}/{name}");
            let path = path.trim_start_matches('/');
            self.compare_node(tree, (*child, *place), path, view)?;
            if tree.names(*child).is_some() {
                self.compare_directory(tree, (*child, *place), path, &|_| true, view)?;
            }
        }
        Ok(())
    }

    fn compare_node(
        &self,
        tree: &Tree,
        (id, place): (NodeId, usize),
        path: &str,
        view: &mut View<'_>,
    ) -> Result<(), Broken> {
        let (node, seen) = (tree.node(id), &self.recovered.observation.nodes[place]);
        let known = view
            .inodes
            .iter()
            .find(|(other, inode)| *other == id || *inode == seen.inode);
        match known {
            Some(pair) if *pair != (id, seen.inode) => {
                let what = format!(
                    "/{path} is inode {}, which is something else, too",
                    seen.inode
                );
                return Err(Broken::new(Rule::U4, what));
            }
            Some(_) => {}
            None => view.inodes.push((id, seen.inode)),
        }
        let differs =
            |what: &str, found: &dyn core::fmt::Display, wanted: &dyn core::fmt::Display| {
                let what = format!("{what} of /{path} is {found} and should be {wanted}");
                Err(Broken::new(Rule::U3, what))
            };
        match (&node.kind, &seen.contents) {
            (Kind::File { size, .. }, Contents::File(bytes)) => {
                if !self.fits_size(view, id, *size, bytes.len() as u64) {
                    return differs("size", &bytes.len(), size);
                }
            }
            (Kind::Symlink(target), Contents::Symlink(found)) => {
                if target.as_bytes() != found {
                    return differs("target", &String::from_utf8_lossy(found), target);
                }
            }
            (Kind::Special(special), Contents::Special(found)) => {
                if special != found {
                    return differs("kind", found, special);
                }
            }
            (Kind::Directory(_), Contents::Directory(_)) => {}
            _ => return Err(Broken::new(Rule::U3, format!("/{path} is of another kind"))),
        }
        if node.links != seen.links {
            return differs("link count", &seen.links, &node.links);
        }
        if node.permissions != seen.permissions {
            return differs("mode", &seen.permissions, &node.permissions);
        }
        if node.owner != seen.owner {
            let text = |(user, group): (u32, u32)| format!("{user}:{group}");
            return differs("owner", &text(seen.owner), &text(node.owner));
        }
        let marks = node.marks.told(node.permissions);
        if marks != seen.marks {
            let (found, wanted) = (marks::text(&seen.marks), marks::text(&marks));
            return differs("extended attributes", &found, &wanted);
        }
        let is_finished = self.recovered.has_truncated && matches!(node.kind, Kind::File { .. });
        // Fast commits have no times of directories.
        let is_replayed = self.bounds.is_fast && matches!(node.kind, Kind::Directory(_));
        if is_finished || is_replayed || !self.bounds.has_times {
            return Ok(());
        }
        let within = node.punched_within.filter(|_| self.bounds.is_inline);
        let is_time = |time: i64, seen: i64| {
            seen == time || within.is_some_and(|within| within > time && seen == within)
        };
        if !is_time(node.modified, seen.modified) {
            return differs("mtime", &seen.modified, &node.modified);
        }
        if !is_time(node.changed, seen.changed) {
            return differs("ctime", &seen.changed, &node.changed);
        }
        Ok(())
    }

    /// Checks that the root has only directories of lanes.
    fn check_root(&self) -> Result<(), Broken> {
        let Some(Seen {
            contents: Contents::Directory(names),
            ..
        }) = self.recovered.observation.nodes.first()
        else {
            return Err(Broken::new(Rule::U3, "the root is no directory"));
        };
        let foreign = names
            .keys()
            .find(|name| self.lane_of(name) >= self.histories.len());
        foreign.map_or(Ok(()), |name| {
            let what = format!("/{} belongs to nobody", String::from_utf8_lossy(name));
            Err(Broken::new(Rule::U4, what))
        })
    }
}

impl View<'_> {
    /// Returns the inode of a node.
    pub(crate) fn inode(&self, id: NodeId) -> Option<InodeNr> {
        let pair = self.inodes.iter().find(|(node, _)| *node == id);
        pair.map(|(_, inode)| *inode)
    }
}
