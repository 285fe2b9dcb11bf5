//! Several trees as one: sources on top of each other, and the layers of container images.
//!
//! The layers are read twice. First only names, kinds and links are merged, on a thread for each of
//! a few layers; then each entry that is left is sent once, with its data, in the order of the
//! layers.

mod overlay;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use ext::volume::FileKind;
use layout::time::InodeTime;

use super::digest::TreeDigest;
use super::edits::Edits;
use super::origin::{Layer, Origin};
use super::tally::{Tally, Units, entry_bytes};
use super::{Item, Node, Source, Times, Visitor, split_path, worker_count};
use overlay::{Entry, Inode, Merged, NONE, Overlay, ROOT};

/// Start of the name of an entry that removes another, in a container image.
const WHITEOUT: &[u8] = b".wh.";
/// Name of an entry that hides what lower layers have in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Start of the names of other entries that are no files.
const RESERVED: &[u8] = b".wh..wh.";
/// Entries of a message, and maximum number of messages in a channel.
const BATCH_ENTRIES: usize = 128;
const BATCHES_ON_THE_WAY: usize = 64;

/// A merged tree.
pub(crate) struct Merge {
    merged: Merged,
    /// Numbers of the inodes that some layer describes, in the order of layers and entries.
    described: Vec<u32>,
}

/// A merged tree, and what is known of it.
pub(crate) struct Survey {
    pub(crate) merge: Merge,
    pub(crate) tally: Tally,
    /// Digests of the layers, if they were wanted.
    pub(crate) digests: Vec<u128>,
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
) -> Result<Survey> {
    let layers: Vec<Layer<'_>> = origins.iter().flat_map(Origin::layers).collect();
    let (senders, receivers): (Vec<_>, Vec<_>) = layers
        .iter()
        .map(|_| sync_channel(BATCHES_ON_THE_WAY))
        .unzip();
    let senders: Vec<_> = senders
        .into_iter()
        .map(|one| Mutex::new(Some(one)))
        .collect();
    let next = AtomicUsize::new(0);
    let serve = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(layer) = layers.get(number) else {
                return;
            };
            let sender = senders[number].lock();
            let sender = sender.unwrap_or_else(PoisonError::into_inner).take();
            let Some(sender) = sender else { return };
            let scanner = Scanner {
                sender: &sender,
                batch: Vec::with_capacity(BATCH_ENTRIES),
                digest: times.map(TreeDigest::new),
                edits,
                units,
            };
            let ended = scanner.scan(layer);
            // The receiver is gone if the merge has failed.
            if sender.send(Message::End(ended)).is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..worker_count().min(layers.len()) {
            scope.spawn(serve);
        }
        let (merged, digests) = merge(&layers, receivers)?;
        let merge = Merge::new(merged);
        let tally = merge.tally(units);
        Ok(Survey {
            merge,
            tally,
            digests,
        })
    })
}

/// Merges the layers in order, as their entries arrive.
fn merge(layers: &[Layer<'_>], receivers: Vec<Receiver<Message>>) -> Result<(Merged, Vec<u128>)> {
    let mut overlay = Overlay::new();
    let mut digests = Vec::new();
    let last = u16::try_from(layers.len());
    last.with_context(|| format!("{} layers", layers.len()))?;
    for (number, (layer, receiver)) in layers.iter().zip(receivers).enumerate() {
        overlay.start(number as u16, layer.is_container());
        let (mut count, mut has_ended) = (0_u32, false);
        for message in receiver {
            let entries = match message {
                Message::Entries(entries) => entries,
                Message::End(digest) => {
                    digests.extend(digest?);
                    has_ended = true;
                    break;
                }
            };
            for entry in entries {
                let put = put(&mut overlay, layer, &entry, count);
                put.with_context(|| {
                    let path = String::from_utf8_lossy(&entry.path);
                    format!("{}: {path}", layer.name())
                })?;
                count = count.checked_add(1).context("more than 2^32 entries")?;
            }
        }
        if !has_ended {
            return Err(anyhow!("{}: reading has panicked", layer.name()));
        }
    }
    Ok((overlay.finish(), digests))
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
    digest: Option<TreeDigest>,
    edits: &'s Edits,
    units: Units,
}

impl Scanner<'_> {
    fn scan(mut self, layer: &Layer<'_>) -> Result<Option<u128>> {
        layer.verify()?;
        layer.visit(&mut self)?;
        self.send()?;
        Ok(self.digest.map(TreeDigest::end))
    }

    fn send(&mut self) -> Result<()> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_ENTRIES));
        let sent = self.sender.send(Message::Entries(batch));
        sent.map_err(|_| anyhow!("the merge has ended"))
    }
}

impl Visitor for Scanner<'_> {
    fn node(&mut self, mut node: Node) -> Result<bool> {
        if let Some(digest) = &mut self.digest {
            digest.node(&node);
        }
        self.edits.edit_attributes(&mut node);
        self.batch.push(Entry {
            kind: node.kind,
            held: node.held,
            attributes: self.units.attributes(&node.attributes),
            target: node.target,
            link_to: node.link_to,
            path: node.path,
        });
        if self.batch.len() == BATCH_ENTRIES {
            self.send()?;
        }
        Ok(self.digest.is_some())
    }

    fn data(&mut self, offset: u64, bytes: Vec<u8>) -> Result<()> {
        if let Some(digest) = &mut self.digest {
            digest.data(offset, &bytes);
        }
        Ok(())
    }
}

impl Merge {
    fn new(merged: Merged) -> Self {
        let inodes = &merged.inodes;
        let is_left = |inode: &Inode| inode.first_name != NONE && inode.layer.is_some();
        let numbers = 0..inodes.len() as u32;
        let mut described: Vec<u32> = numbers
            .filter(|number| is_left(&inodes[*number as usize]))
            .collect();
        described.sort_unstable_by_key(|number| {
            let inode = &inodes[*number as usize];
            (inode.layer, inode.entry)
        });
        Self { merged, described }
    }

    /// Returns the space of the tree.
    fn tally(&self, units: Units) -> Tally {
        let mut tally = Tally::default();
        let merged = &self.merged;
        for (number, inode) in merged.inodes.iter().enumerate() {
            if inode.first_name == NONE {
                continue;
            }
            let (held, target) = (Merged::held(inode), Merged::target_bytes(inode));
            tally.add_all(&units.file(inode.kind, held, target));
            if let Some(attributes) = merged.attributes.get(&(number as u32)) {
                tally.add_all(attributes);
            }
        }
        let mut bytes = vec![0_u32; merged.names.len()];
        for name in merged.names.iter().skip(1).filter(|name| name.is_present) {
            let added = entry_bytes(merged.text(name).len()) as u32;
            let total = &mut bytes[Merged::parent(name) as usize];
            *total = total.saturating_add(added);
        }
        for bytes in bytes {
            tally.blocks += units.more_for_names(bytes.into());
        }
        tally
    }

    /// Returns the inodes that a layer describes.
    fn of_layer(&self, layer: usize) -> &[u32] {
        let inodes = &self.merged.inodes;
        let layer_of = |number: &u32| inodes[*number as usize].layer.map(usize::from);
        let start = self
            .described
            .partition_point(|number| layer_of(number) < Some(layer));
        let end = self
            .described
            .partition_point(|number| layer_of(number) <= Some(layer));
        &self.described[start..end]
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
        let layers = self.origins.iter().flat_map(Origin::layers);
        for (number, layer) in layers.enumerate() {
            let left = self.merge.of_layer(number);
            if left.is_empty() {
                continue;
            }
            let mut picker = Picker {
                merged: &self.merge.merged,
                left,
                reached: 0,
                with_data,
                first: Vec::new(),
                links: Vec::new(),
                send: &mut *send,
            };
            layer.visit(&mut picker)?;
            picker.send_links()?;
            if !picker.left.is_empty() {
                bail!("{}: has changed while it was read", layer.name());
            }
        }
        let merged = &self.merge.merged;
        for (number, name) in merged.names.iter().enumerate() {
            let is_described = merged.inodes[name.inode as usize].layer.is_some();
            if !name.is_present || is_described || number as u32 == ROOT {
                continue;
            }
            let mut node = Node::plain_directory(merged.path(number as u32)?);
            node.mtime = self.made;
            send(Item::Node(Box::new(node)))?;
        }
        Ok(())
    }
}

/// Sends the entries of a layer that are left.
struct Picker<'p> {
    merged: &'p Merged,
    /// Inodes that are not sent yet.
    left: &'p [u32],
    /// Number of the next entry.
    reached: u32,
    with_data: bool,
    /// First name of the last inode, and its other names.
    first: Vec<u8>,
    links: Vec<u32>,
    send: &'p mut dyn FnMut(Item) -> Result<()>,
}

impl Picker<'_> {
    fn send_links(&mut self) -> Result<()> {
        for link in std::mem::take(&mut self.links) {
            let mut node = Node::plain_directory(self.merged.path(link)?);
            node.kind = FileKind::Regular;
            node.link_to = Some(self.first.clone());
            (self.send)(Item::Node(Box::new(node)))?;
        }
        Ok(())
    }
}

impl Visitor for Picker<'_> {
    fn node(&mut self, mut node: Node) -> Result<bool> {
        self.send_links()?;
        let number = self.reached;
        self.reached += 1;
        let [first, rest @ ..] = self.left else {
            return Ok(false);
        };
        let inode = &self.merged.inodes[*first as usize];
        if inode.entry != number {
            return Ok(false);
        }
        self.left = rest;
        let is_regular = node.kind == FileKind::Regular;
        let is_same = node.kind == inode.kind && node.link_to.is_none();
        if !is_same || is_regular && node.held != Merged::held(inode) {
            bail!("has changed while it was read");
        }
        let mut names = self.merged.names_of(inode);
        node.path = self.merged.path(names.next().unwrap_or(ROOT))?;
        self.links = names.collect();
        self.first.clone_from(&node.path);
        (self.send)(Item::Node(Box::new(node)))?;
        Ok(self.with_data && is_regular)
    }

    fn data(&mut self, offset: u64, bytes: Vec<u8>) -> Result<()> {
        (self.send)(Item::Data { offset, bytes })
    }
}
