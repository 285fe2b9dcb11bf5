//! Circles of files that import each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::source::{File, FileId};

/// The files whose items each file uses.
pub(crate) type Graph = BTreeMap<FileId, BTreeSet<FileId>>;

/// A set of files in which each file reaches every other one by imports.
pub(crate) struct Knot {
    pub(crate) files: BTreeSet<FileId>,
    /// The shortest disallowed circle in it, in the order of the imports.
    pub(crate) shortest: Vec<FileId>,
}

/// Finds the strongly connected files, largest knot first.
///
/// A circle is allowed if one of its files is an ancestor module of all its others. So if a
/// strongly connected component has such an ancestor, that file is removed and the rest is examined
/// again. A component that remains without a common ancestor always has a disallowed circle.
pub(crate) fn knots(files: &[File], graph: &Graph) -> Vec<Knot> {
    let mut found = Vec::new();
    let mut pending = vec![(0..files.len()).collect::<BTreeSet<FileId>>()];
    while let Some(within) = pending.pop() {
        for mut component in components(graph, &within) {
            if component.len() == 1 {
                continue;
            }
            let is_above_all =
                |a: &FileId| component.iter().all(|b| a == b || is_above(files, *a, *b));
            if let Some(ancestor) = component.iter().copied().find(is_above_all) {
                component.remove(&ancestor);
                pending.push(component);
            } else {
                let shortest = shortest(files, graph, &component);
                found.push(Knot {
                    files: component,
                    shortest,
                });
            }
        }
    }
    found.sort_by_key(|knot| (usize::MAX - knot.files.len(), knot.shortest.clone()));
    found
}

/// Returns true if module `a` contains module `b`, directly or indirectly.
pub(crate) fn is_above(files: &[File], a: FileId, b: FileId) -> bool {
    let (a, b) = (&files[a].path, &files[b].path);
    a.len() < b.len() && b.starts_with(a)
}

/// Returns the strongly connected components of the part of the graph in `within`.
fn components(graph: &Graph, within: &BTreeSet<FileId>) -> Vec<BTreeSet<FileId>> {
    let mut reverse = Graph::new();
    for (from, to) in graph {
        for to in to {
            reverse.entry(*to).or_default().insert(*from);
        }
    }
    let mut left = within.clone();
    let mut found = Vec::new();
    while let Some(start) = left.first().copied() {
        let forward = reached(graph, start, &left);
        let component: BTreeSet<FileId> = reached(&reverse, start, &forward);
        left.retain(|file| !component.contains(file));
        found.push(component);
    }
    found
}

fn reached(graph: &Graph, start: FileId, within: &BTreeSet<FileId>) -> BTreeSet<FileId> {
    let mut seen = BTreeSet::from([start]);
    let mut pending = vec![start];
    while let Some(file) = pending.pop() {
        for next in graph.get(&file).into_iter().flatten() {
            if within.contains(next) && seen.insert(*next) {
                pending.push(*next);
            }
        }
    }
    seen
}

/// Returns the shortest disallowed circle. Each has an import between two files of which neither
/// contains the other, and does not pass through any file that contains both.
fn shortest(files: &[File], graph: &Graph, component: &BTreeSet<FileId>) -> Vec<FileId> {
    let mut best: Option<Vec<FileId>> = None;
    for from in component {
        for to in graph.get(from).into_iter().flatten() {
            let is_family = is_above(files, *from, *to) || is_above(files, *to, *from);
            if is_family || !component.contains(to) {
                continue;
            }
            let is_open = |file: &FileId| {
                component.contains(file)
                    && !(is_above(files, *file, *from) && is_above(files, *file, *to))
            };
            if let Some(path) = path(graph, *to, *from, &is_open)
                && best.as_ref().is_none_or(|best| path.len() < best.len())
            {
                best = Some(path);
            }
        }
    }
    best.expect("a component without an ancestor of all has a circle that counts")
}

/// Returns the files of the shortest path, both ends included.
fn path(
    graph: &Graph,
    start: FileId,
    end: FileId,
    is_open: &dyn Fn(&FileId) -> bool,
) -> Option<Vec<FileId>> {
    let mut before = BTreeMap::from([(start, start)]);
    let mut pending = VecDeque::from([start]);
    while let Some(file) = pending.pop_front() {
        if file == end {
            let mut path = vec![end];
            let mut last = end;
            while last != start {
                last = before[&last];
                path.push(last);
            }
            path.reverse();
            return Some(path);
        }
        for next in graph.get(&file).into_iter().flatten() {
            if is_open(next) && !before.contains_key(next) {
                before.insert(*next, file);
                pending.push_back(*next);
            }
        }
    }
    None
}
