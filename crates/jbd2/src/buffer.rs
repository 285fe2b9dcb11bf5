//! Buffers: metadata blocks (and journaled data blocks) in memory.
//!
//! A buffer belongs to the file system's cache; transactions and the checkpoint list hold
//! references to it while they need it. It always has the current contents. A frozen older image is
//! a separate `Arc`, so the next change copies (`Arc::make_mut`) exactly when the old contents are
//! still needed: by a commit that writes them to the log, by a checkpoint that writes them to their
//! final location, or by a memory device that keeps them.
//!
//! What a file system derives from the contents, to search them faster, is kept beside them until
//! they change.
//!
//! # Rules
//!
//! - A buffer's lock is a *leaf* for all code but the journal: it is held for memory work only,
//!   never across I/O, the start or end of a handle or another lock, except that of another buffer
//!   with a higher block number.
//! - `holds` lists the uses of the buffer; only a buffer without uses may be evicted. The life
//!   cycle of a block is the table in [`crate::lifecycle`].

use core::any::Any;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use layout::{Block, BlockNr, Tid};
use rt::{Cost, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// One block in memory, shared by the file system's cache and the journal.
pub struct Buffer {
    nr: BlockNr,
    // [buffer]
    state: RwLock<BufferState>,
}

/// The kind of a block's contents and its owner, as numbers of the file system. The journal keeps
/// them with the buffer and passes them to [`Client::seal`](crate::Client::seal).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Label {
    /// The kind of contents.
    pub kind: u8,
    /// The owner's number.
    pub owner: u32,
    /// The owner's generation, if numbers are reused.
    pub generation: u32,
}

/// Facts that a file system has derived from the contents of a block.
pub type Derived = Box<dyn Any + Send + Sync>;

/// The state that the lock protects.
pub(crate) struct BufferState {
    /// The current contents.
    image: Arc<Block>,
    /// Facts derived from the current contents.
    derived: Option<Derived>,
    label: Label,
    /// The uses of the buffer.
    pub(crate) holds: Holds,
}

/// The uses of a buffer. A clean buffer has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Holds {
    /// The running transaction in which it is filed, and its place in the list of that transaction.
    pub(crate) running: Option<Filing>,
    /// The committing transaction that logs it.
    pub(crate) committing: Option<Tid>,
    /// The committed transaction that has yet to checkpoint it.
    pub(crate) owed: Option<Tid>,
}

/// The place of a buffer in the running transaction's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filing {
    pub(crate) tid: Tid,
    pub(crate) slot: usize,
}

/// Read access to a buffer's current contents, for a short time.
pub struct BufferRead<'a>(RwLockReadGuard<'a, BufferState>);

/// Write access to a buffer's contents, for a short time.
pub struct BufferWrite<'a>(RwLockWriteGuard<'a, BufferState>);

impl Buffer {
    /// Creates a clean buffer of a block with the given contents.
    pub fn new(nr: BlockNr, image: Arc<Block>) -> Arc<Self> {
        Self::labelled(nr, image, Label::default())
    }

    /// Creates a clean buffer with a label.
    pub fn labelled(nr: BlockNr, image: Arc<Block>, label: Label) -> Arc<Self> {
        Arc::new(Self {
            nr,
            state: RwLock::new(BufferState {
                image,
                derived: None,
                label,
                holds: Holds::default(),
            }),
        })
    }

    /// Returns the block's number on the file-system device.
    pub fn nr(&self) -> BlockNr {
        self.nr
    }

    /// Returns the current contents. The guard is kept for memory work only.
    pub fn read(&self) -> BufferRead<'_> {
        BufferRead(self.state.read())
    }

    /// Returns the current image, shared. Later changes of the buffer do not affect it.
    pub fn image(&self) -> Arc<Block> {
        Arc::clone(&self.state.read().image)
    }

    /// Keeps what `derive` returns for the current contents and what was kept of them, until they
    /// change.
    pub fn derive(&self, derive: impl FnOnce(Option<Derived>, &[u8]) -> Option<Derived>) {
        let mut state = self.state.write();
        let kept = state.derived.take();
        state.derived = derive(kept, &state.image);
    }

    /// Gives the block another label, after it was freed and allocated again.
    pub fn relabel(&self, label: Label) {
        self.state.write().label = label;
    }

    /// Returns the current image, shared, after `seal` has completed it: for a volume without a
    /// journal, which writes it in place.
    pub fn sealed_image(&self, seal: impl FnOnce(Label, &mut Arc<Block>)) -> Arc<Block> {
        let mut state = self.state.write();
        state.seal(seal);
        state.freeze()
    }

    /// Returns write access on a volume without a journal, where the caller tracks dirty buffers.
    pub fn write_unjournaled(&self) -> BufferWrite<'_> {
        BufferWrite(self.state.write())
    }

    /// Returns true if the buffer is unused and this is its only reference: a cache may evict it.
    /// Does not take the lock.
    pub fn is_idle(this: &mut Arc<Self>) -> bool {
        let own = Arc::get_mut(this);
        own.is_some_and(|buffer| buffer.state.get_mut().holds == Holds::default())
    }

    /// Returns true if the buffer is unused: in no transaction, and not awaiting checkpoint.
    pub fn is_clean(&self) -> bool {
        self.state.read().holds == Holds::default()
    }

    /// Locks contents and holds for changes.
    pub(crate) fn lock(&self) -> RwLockWriteGuard<'_, BufferState> {
        self.state.write()
    }
}

impl BufferState {
    /// Completes the current image.
    pub(crate) fn seal(&mut self, seal: impl FnOnce(Label, &mut Arc<Block>)) {
        seal(self.label, &mut self.image);
    }

    /// Returns the current image; later changes copy it.
    pub(crate) fn freeze(&self) -> Arc<Block> {
        Arc::clone(&self.image)
    }
}

impl<'a> BufferWrite<'a> {
    pub(crate) fn new(guard: RwLockWriteGuard<'a, BufferState>) -> Self {
        Self(guard)
    }

    /// Replaces the whole contents.
    pub(crate) fn replace(&mut self, image: Arc<Block>) {
        assert_eq!(image.len(), self.0.image.len(), "a block keeps its size");
        self.0.image = image;
        self.0.derived = None;
    }

    /// Takes what was derived from the contents before a change, which would drop it.
    pub fn take_derived(&mut self) -> Option<Derived> {
        self.0.derived.take()
    }

    /// Keeps what fits the contents after a change, until the next one.
    pub fn keep_derived(&mut self, derived: Derived) {
        self.0.derived = Some(derived);
    }
}

impl BufferRead<'_> {
    /// Returns what was derived from the contents, if it is a `T`.
    pub fn derived<T: Any>(&self) -> Option<&T> {
        self.0.derived.as_deref()?.downcast_ref()
    }
}

impl Deref for BufferRead<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0.image
    }
}

impl Deref for BufferWrite<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0.image
    }
}

impl DerefMut for BufferWrite<'_> {
    /// Returns the bytes for a change; an image that was frozen is copied first.
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.derived = None;
        let image = &mut self.0.image;
        if Arc::get_mut(image).is_none() {
            rt::charge(Cost::Copy(image.len() as u64));
        }
        let block: &mut Block = Arc::make_mut(image);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer() -> Arc<Buffer> {
        Buffer::new(BlockNr::new(7), Block::zeroed(1024).into_arc())
    }

    #[test]
    fn a_new_buffer_is_clean_and_shows_its_image() {
        let buffer = buffer();
        assert!(buffer.is_clean());
        assert_eq!(buffer.nr(), BlockNr::new(7));
        assert_eq!(buffer.read().len(), 1024);
    }

    #[test]
    fn a_frozen_image_survives_a_change() {
        let buffer = buffer();
        let frozen = buffer.image();
        buffer.write_unjournaled()[0] = 1;
        assert_eq!(frozen[0], 0);
        assert_eq!(buffer.read()[0], 1);
    }

    #[test]
    fn a_change_drops_what_was_derived() {
        let buffer = buffer();
        let derive =
            |kept: Option<Derived>, bytes: &[u8]| kept.or(Some(Box::new(bytes.len()) as Derived));
        let replaced = |mut bytes: BufferWrite<'_>| bytes.replace(Block::zeroed(1024).into_arc());
        let changes: [&dyn Fn(BufferWrite<'_>); 2] = [&|mut bytes| bytes[0] = 1, &replaced];
        for change in changes {
            buffer.derive(derive);
            assert_eq!(buffer.read().derived::<usize>(), Some(&1024));
            assert_eq!(buffer.read().derived::<u8>(), None);
            change(buffer.write_unjournaled());
            assert_eq!(buffer.read().derived::<usize>(), None);
        }
        let mut bytes = buffer.write_unjournaled();
        bytes[0] = 2;
        bytes.keep_derived(Box::new(7_usize));
        drop(bytes);
        assert_eq!(buffer.read().derived::<usize>(), Some(&7));
    }

    #[test]
    fn an_image_that_nobody_shares_changes_in_place() {
        let buffer = buffer();
        let address = buffer.read().as_ptr();
        buffer.write_unjournaled()[0] = 1;
        assert_eq!(buffer.read().as_ptr(), address);
    }
}
