//! Several trees as one: sources on top of each other, and the layers of container images.
//!
//! The layers are read twice. First only names, kinds and links are merged, on a thread for each of
//! a few layers; then each entry that is left is sent once, with its data, in the order of the
//! layers.

mod merged;
mod overlay;
mod records;

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use ext::volume::FileKind;
use layout::time::InodeTime;

use super::digest::TreeDigest;
use super::edits::Edits;
use super::origin::{Layer, Origin};
use super::tally::{Tally, Units};
use super::{Item, Node, Source, Stop, Times, Visitor, split_path, worker_count};
use merged::Merged;
use overlay::{Entry, Overlay};
use records::{Inode, NONE, ROOT};

/// Start of the name of an entry that removes another, in a container image.
const WHITEOUT: &[u8] = b".wh.";
/// Name of an entry that hides what lower layers have in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Start of the names of other entries that are no files.
const RESERVED: &[u8] = b".wh..wh.";
/// Limits of a message: entries, and approximately the bytes of their paths.
const BATCH_ENTRIES: usize = 128;
const BATCH_BYTES: usize = 64 << 10;
/// Maximum number of messages in a channel.
const BATCHES_ON_THE_WAY: usize = 16;
/// Memory of the decompressors that work at the same time, in bytes.
const DECODERS_BYTES: u64 = 64 << 20;

/// A merged tree.
pub(crate) struct Merge {
    merged: Mutex<Merged>,
}

/// A merged tree, and what is known of it.
pub(crate) struct Survey {
    pub(crate) merge: Merge,
    pub(crate) tally: Tally,
    /// Digests of the layers, if they were wanted.
    pub(crate) digests: Vec<u128>,
}

/// A layer, and the way of its entries.
struct Job<'j> {
    layer: &'j Layer<'j>,
    sender: SyncSender<Message>,
}

/// Report of a thread that reads a layer.
enum Message {
    Entries(Vec<Entry>),
    /// The layer has been read; its digest, if it was wanted.
    End(Result<Option<u128>>),
}

/// Reads all layers and merges them. With `times` the digests of the layers are computed, too.
pub(crate) fn survey(
    origins: &[Origin],
    edits: &Edits,
    units: Units,
    times: Option<Times>,
    stop: &Stop,
) -> Result<Survey> {
    let layers: Vec<Vec<Layer<'_>>> = origins.iter().map(Origin::layers).collect();
    let decoder = layers.iter().flatten().map(Layer::decoder_bytes).max();
    let decoders = DECODERS_BYTES / decoder.unwrap_or_default().max(1);
    let workers = worker_count().min(decoders.max(1) as usize);
    let (jobs, waiting) = channel::<Job<'_>>();
    let waiting = Mutex::new(waiting);
    let next_job = || {
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv()
    };
    let serve = || {
        while let Ok(Job { layer, sender }) = next_job() {
            let scanner = Scanner {
                sender: &sender,
                batch: Vec::with_capacity(BATCH_ENTRIES),
                batch_bytes: 0,
                digest: times.map(TreeDigest::new),
                edits,
                units,
                stop,
            };
            let ended = scanner.scan(layer);
            // The receiver is gone if the merge has failed.
            if sender.send(Message::End(ended)).is_err() {
                return;
            }
        }
    };
    let (merged, digests) = std::thread::scope(|scope| {
        for _ in 0..workers.min(layers.iter().flatten().count()) {
            scope.spawn(serve);
        }
        merge(&layers, jobs, workers)
    })?;
    let merge = Merge {
        merged: Mutex::new(merged),
    };
    let tally = merge.tally(units)?;
    Ok(Survey {
        merge,
        tally,
        digests,
    })
}

/// Merges the layers in order, as their entries arrive. As many layers as there are threads are
/// read ahead, so that what waits in their channels is bounded.
fn merge<'j>(
    layers: &'j [Vec<Layer<'j>>],
    jobs: Sender<Job<'j>>,
    workers: usize,
) -> Result<(Merged, Vec<u128>)> {
    let mut overlay = Overlay::new()?;
    let mut digests = Vec::new();
    let mut ahead = layers.iter().flatten();
    let mut receivers = std::collections::VecDeque::new();
    for origin in layers {
        let is_image = origin.iter().any(Layer::is_container);
        if is_image {
            overlay.start_image()?;
        }
        for layer in origin {
            for layer in ahead.by_ref().take(workers - receivers.len()) {
                let (sender, receiver) = sync_channel(BATCHES_ON_THE_WAY);
                // The threads are gone only if one of them has panicked.
                drop(jobs.send(Job { layer, sender }));
                receivers.push_back(receiver);
            }
            let receiver = receivers.pop_front();
            let receiver = receiver.context("a layer that nobody reads")?;
            overlay.start(layer.is_container())?;
            digests.extend(put_all(&mut overlay, layer, receiver)?);
        }
        if is_image {
            overlay.end_image()?;
        }
    }
    Ok((overlay.finish()?, digests))
}

/// Puts the entries of a layer into the tree. Returns the digest of the layer, if it was wanted.
fn put_all(
    overlay: &mut Overlay,
    layer: &Layer<'_>,
    receiver: Receiver<Message>,
) -> Result<Option<u128>> {
    let mut count = 0_u32;
    for message in receiver {
        let entries = match message {
            Message::Entries(entries) => entries,
            Message::End(digest) => {
                overlay.end()?;
                return digest;
            }
        };
        for entry in entries {
            let put = put(overlay, layer, &entry, count);
            put.with_context(|| {
                let path = String::from_utf8_lossy(&entry.path);
                format!("{}: {path}", layer.name())
            })?;
            count = count.checked_add(1).context("more than 2^32 entries")?;
        }
    }
    Err(anyhow!("{}: reading has panicked", layer.name()))
}

fn put(overlay: &mut Overlay, layer: &Layer<'_>, entry: &Entry, number: u32) -> Result<()> {
    let (parent, name) = split_path(&entry.path);
    if !layer.is_container() || !name.starts_with(WHITEOUT) {
        return overlay.put(entry, number);
    }
    if name == OPAQUE {
        return overlay.make_opaque(parent);
    }
    if name.starts_with(RESERVED) || name == WHITEOUT {
        return Ok(());
    }
    let hidden = &name[WHITEOUT.len()..];
    match parent {
        [] => overlay.white_out(hidden),
        parent => overlay.white_out(&[parent, hidden].join(&b'/')),
    }
}

/// Reads a layer, and sends its entries.
struct Scanner<'s> {
    sender: &'s SyncSender<Message>,
    batch: Vec<Entry>,
    batch_bytes: usize,
    digest: Option<TreeDigest>,
    edits: &'s Edits,
    units: Units,
    stop: &'s Stop,
}

impl Scanner<'_> {
    fn scan(mut self, layer: &Layer<'_>) -> Result<Option<u128>> {
        layer.verify(self.stop)?;
        layer.visit(&mut self)?;
        self.send()?;
        Ok(self.digest.map(TreeDigest::end))
    }

    fn send(&mut self) -> Result<()> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_ENTRIES));
        self.batch_bytes = 0;
        let sent = self.sender.send(Message::Entries(batch));
        sent.map_err(|_| anyhow!("the merge has ended"))
    }
}

impl Visitor for Scanner<'_> {
    fn node(&mut self, mut node: Node) -> Result<bool> {
        self.stop.check()?;
        if let Some(digest) = &mut self.digest {
            digest.node(&node);
        }
        self.edits.edit_attributes(&mut node);
        let link = node.link_to.as_ref().map_or(0, Vec::len);
        self.batch_bytes += node.path.len() + node.target.len() + link;
        let mut more = self.units.attributes(&node.attributes);
        more.add_all(&self.units.more_for_parts(&node)?);
        self.batch.push(Entry {
            kind: node.kind,
            held: node.held,
            more,
            target: node.target,
            link_to: node.link_to,
            path: node.path,
        });
        if self.batch.len() == BATCH_ENTRIES || self.batch_bytes >= BATCH_BYTES {
            self.send()?;
        }
        Ok(self.digest.is_some())
    }

    fn data(&mut self, offset: u64, bytes: Vec<u8>) -> Result<()> {
        self.stop.check()?;
        if let Some(digest) = &mut self.digest {
            digest.data(offset, &bytes);
        }
        Ok(())
    }
}

impl Merge {
    fn lock(&self) -> std::sync::MutexGuard<'_, Merged> {
        self.merged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the space of the tree.
    fn tally(&self, units: Units) -> Result<Tally> {
        let mut tally = Tally::default();
        let Merged { names, inodes, .. } = &mut *self.lock();
        for number in 0..inodes.len() {
            let inode = inodes.get(number)?;
            if inode.is_left() {
                let (held, target) = (inode.held(), inode.target_bytes());
                tally.add_all(&units.file(inode.kind(), held, target));
                tally.add_all(&inode.more());
            }
        }
        for number in 0..names.len() {
            let name = names.get(number)?;
            if name.is_present() {
                tally.blocks += units.more_for_names(name.entries_bytes());
            }
        }
        Ok(tally)
    }
}

/// A merged tree as a source.
pub(crate) struct MergedSource<'m> {
    pub(crate) merge: &'m Merge,
    pub(crate) origins: &'m [Origin],
    /// Time of directories that no layer describes.
    pub(crate) made: InodeTime,
}

impl Source for MergedSource<'_> {
    fn tell(&self, with_data: bool, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
        let mut merged = self.merge.lock();
        let layers = self.origins.iter().flat_map(Origin::layers);
        for (number, layer) in layers.enumerate() {
            let left = merged.of_layer(number);
            let mut picker = Picker {
                merged: &mut merged,
                left,
                first: None,
                reached: 0,
                with_data,
                path: Vec::new(),
                link: NONE,
                send: &mut *send,
            };
            picker.advance()?;
            if picker.first.is_none() {
                continue;
            }
            layer.visit(&mut picker)?;
            picker.send_links()?;
            if picker.first.is_some() {
                bail!("{}: has changed while it was read", layer.name());
            }
        }
        for number in 0..merged.names.len() {
            let name = merged.names.get(number)?;
            if !name.is_present() || number as u32 == ROOT {
                continue;
            }
            if !merged.inodes.get(name.inode as usize)?.is_described() {
                let path = merged.path(number as u32)?;
                let node = Node::undescribed_directory(path, self.made);
                send(Item::Node(Box::new(node)))?;
            }
        }
        Ok(())
    }
}

/// Sends the entries of a layer that are left.
struct Picker<'p> {
    merged: &'p mut Merged,
    /// Inodes that are not sent yet, the first of them, and those behind it.
    first: Option<Inode>,
    left: Range<u32>,
    /// Number of the next entry.
    reached: u32,
    with_data: bool,
    /// First name of the last inode, and the next of its other names.
    path: Vec<u8>,
    link: u32,
    send: &'p mut dyn FnMut(Item) -> Result<()>,
}

impl Picker<'_> {
    /// Finds the next inode that is left.
    fn advance(&mut self) -> Result<()> {
        self.first = None;
        for number in self.left.by_ref() {
            let inode = self.merged.inodes.get(number as usize)?;
            if inode.is_left() && inode.is_described() {
                self.first = Some(inode);
                break;
            }
        }
        Ok(())
    }

    fn send_links(&mut self) -> Result<()> {
        while self.link != NONE {
            let mut node = Node::plain_directory(self.merged.path(self.link)?);
            node.kind = FileKind::Regular;
            node.link_to = Some(self.path.clone());
            (self.send)(Item::Node(Box::new(node)))?;
            self.link = self.merged.names.get(self.link as usize)?.next;
        }
        Ok(())
    }
}

impl Visitor for Picker<'_> {
    fn node(&mut self, mut node: Node) -> Result<bool> {
        self.send_links()?;
        let number = self.reached;
        self.reached += 1;
        let Some(inode) = self.first.filter(|inode| inode.entry == number) else {
            return Ok(false);
        };
        let is_regular = node.kind == FileKind::Regular;
        let is_same = node.kind == inode.kind() && node.link_to.is_none();
        if !is_same || is_regular && node.held != inode.held() {
            bail!("has changed while it was read");
        }
        node.path = self.merged.path(inode.first_name)?;
        self.link = self.merged.names.get(inode.first_name as usize)?.next;
        self.path.clone_from(&node.path);
        self.advance()?;
        (self.send)(Item::Node(Box::new(node)))?;
        Ok(self.with_data && is_regular)
    }

    fn data(&mut self, offset: u64, bytes: Vec<u8>) -> Result<()> {
        (self.send)(Item::Data { offset, bytes })
    }
}
