//! [`Virtqueue`]: a split virtqueue in the guest's memory.
//!
//! The guest puts chains of descriptors into the *available* ring; each describes the buffers of
//! one request. The device returns them in the *used* ring. Virtual I/O Device Version 1.1, section
//! 2.6.

use crate::GuestError;
use crate::memory::GuestMemory;

/// Maximum number of descriptors of a queue.
pub const SIZE_MAX: u16 = 1024;
/// Size of a descriptor in bytes.
const DESCRIPTOR_BYTES: usize = 16;
/// The chain continues in the descriptor `next`.
const HAS_NEXT: u16 = 1;
/// The device writes the buffer.
const IS_WRITABLE: u16 = 2;
/// The buffer is a table of descriptors.
const IS_INDIRECT: u16 = 4;
/// Offset of a ring's index and of its entries.
const INDEX_OFFSET: u64 = 2;
const ENTRIES_OFFSET: u64 = 4;

/// A queue. The guest sets the fields while it initialises the device.
#[derive(Debug, Default)]
pub struct Virtqueue {
    /// Number of descriptors, a power of two.
    pub size: u16,
    /// Address of the table of descriptors.
    pub descriptors: u64,
    /// Address of the available ring.
    pub available: u64,
    /// Address of the used ring.
    pub used: u64,
    /// Number of chains taken so far, as the guest counts them.
    pub taken: u16,
    returned: u16,
}

/// A buffer of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u32,
    /// True if the device writes it, false if the device reads it.
    pub is_writable: bool,
}

/// The buffers of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The number by which the chain is returned.
    pub head: u16,
    /// The buffers in order.
    pub buffers: Vec<Buffer>,
}

/// A descriptor as it is in memory.
struct Descriptor {
    buffer: Buffer,
    flags: u16,
    next: u16,
}

impl Virtqueue {
    /// Takes the next chain from the available ring; `None` if there is none.
    ///
    /// # Errors
    /// Fails if the queue or the chain is invalid.
    pub fn take(&mut self, memory: &GuestMemory) -> Result<Option<Chain>, GuestError> {
        self.check_size()?;
        let index = read_u16(memory, self.available.saturating_add(INDEX_OFFSET))?;
        if index == self.taken {
            return Ok(None);
        }
        // Each chain in flight holds a descriptor at least.
        let offered = index.wrapping_sub(self.returned);
        let in_flight = self.taken.wrapping_sub(self.returned);
        if offered > self.size || offered < in_flight {
            let what = format!("{offered} chains for {} descriptors", self.size);
            return Err(GuestError::Protocol(what));
        }
        let slot = u64::from(self.taken % self.size);
        let entry = self.available.saturating_add(ENTRIES_OFFSET + 2 * slot);
        let head = read_u16(memory, entry)?;
        let chain = self.chain(memory, head)?;
        self.taken = self.taken.wrapping_add(1);
        Ok(Some(chain))
    }

    /// Returns a chain to the guest; `written` is the number of bytes that the device has written.
    ///
    /// # Errors
    /// Fails if the ring is outside the guest's memory, or if the guest has changed the size of the
    /// queue to an invalid one.
    pub fn give_back(
        &mut self,
        memory: &GuestMemory,
        head: u16,
        written: u32,
    ) -> Result<(), GuestError> {
        self.check_size()?;
        let slot = u64::from(self.returned % self.size);
        let mut entry = [0; 8];
        entry[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        entry[4..].copy_from_slice(&written.to_le_bytes());
        let at = self.used.saturating_add(ENTRIES_OFFSET + 8 * slot);
        memory.write(at, &entry)?;
        self.returned = self.returned.wrapping_add(1);
        let index = self.used.saturating_add(INDEX_OFFSET);
        memory.write(index, &self.returned.to_le_bytes())
    }

    /// Resets the number of chains that were taken and returned.
    pub fn start_at(&mut self, base: u16) {
        self.taken = base;
        self.returned = base;
    }

    /// Checks the size, which the guest may change at any time.
    fn check_size(&self) -> Result<(), GuestError> {
        if self.size.is_power_of_two() && self.size <= SIZE_MAX {
            return Ok(());
        }
        let what = format!("a queue of {} descriptors", self.size);
        Err(GuestError::Protocol(what))
    }

    fn chain(&self, memory: &GuestMemory, head: u16) -> Result<Chain, GuestError> {
        let first = self.descriptor(memory, head)?;
        if first.flags & IS_INDIRECT == 0 {
            let rest = |number| self.descriptor(memory, number);
            let buffers = follow(first, self.size, rest)?;
            return Ok(Chain { head, buffers });
        }
        let bytes = first.buffer.bytes as usize;
        let count = bytes / DESCRIPTOR_BYTES;
        if !bytes.is_multiple_of(DESCRIPTOR_BYTES) || count == 0 || count > usize::from(SIZE_MAX) {
            return Err(wrong_chain("a table of descriptors", bytes));
        }
        let mut table = vec![0; bytes];
        memory.read(first.buffer.address, &mut table)?;
        let at = |number: u16| {
            let start = usize::from(number) * DESCRIPTOR_BYTES;
            let bytes = table.get(start..start + DESCRIPTOR_BYTES);
            let bytes = bytes.ok_or_else(|| wrong_chain("descriptor", start))?;
            Ok(Descriptor::decode(bytes))
        };
        let buffers = follow(at(0)?, u16::try_from(count).unwrap_or(SIZE_MAX), at)?;
        Ok(Chain { head, buffers })
    }

    fn descriptor(&self, memory: &GuestMemory, number: u16) -> Result<Descriptor, GuestError> {
        if number >= self.size {
            return Err(wrong_chain("descriptor", usize::from(number)));
        }
        let mut bytes = [0; DESCRIPTOR_BYTES];
        let offset = u64::from(number) * DESCRIPTOR_BYTES as u64;
        memory.read(self.descriptors.saturating_add(offset), &mut bytes)?;
        Ok(Descriptor::decode(&bytes))
    }
}

impl Descriptor {
    fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let address = bytes[..8].try_into().expect("eight bytes");
        let length = bytes[8..12].try_into().expect("four bytes");
        let flags = word(12);
        Self {
            buffer: Buffer {
                address: u64::from_le_bytes(address),
                bytes: u32::from_le_bytes(length),
                is_writable: flags & IS_WRITABLE != 0,
            },
            flags,
            next: word(14),
        }
    }
}

/// Returns the buffers of a chain of at most `most` descriptors.
fn follow(
    first: Descriptor,
    most: u16,
    get: impl Fn(u16) -> Result<Descriptor, GuestError>,
) -> Result<Vec<Buffer>, GuestError> {
    let mut buffers = Vec::new();
    let mut current = first;
    loop {
        if current.flags & IS_INDIRECT != 0 || buffers.len() == usize::from(most) {
            return Err(wrong_chain("a circle of descriptors", buffers.len()));
        }
        buffers.push(current.buffer);
        if current.flags & HAS_NEXT == 0 {
            return Ok(buffers);
        }
        current = get(current.next)?;
    }
}

fn wrong_chain(what: &str, number: usize) -> GuestError {
    GuestError::Protocol(format!(
        "an invalid chain of descriptors: {what} ({number})"
    ))
}

fn read_u16(memory: &GuestMemory, address: u64) -> Result<u16, GuestError> {
    let mut bytes = [0; 2];
    memory.read(address, &mut bytes)?;
    Ok(u16::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::zeroes;

    const SIZE: u16 = 4;
    const QUEUE: (u64, u64, u64) = (0x0, 0x100, 0x200);

    fn queue() -> Virtqueue {
        Virtqueue {
            size: SIZE,
            descriptors: QUEUE.0,
            available: QUEUE.1,
            used: QUEUE.2,
            ..Virtqueue::default()
        }
    }

    fn put(memory: &GuestMemory, at: u64, (address, bytes, flags, next): (u64, u32, u16, u16)) {
        let mut raw = [0; DESCRIPTOR_BYTES];
        raw[..8].copy_from_slice(&address.to_le_bytes());
        raw[8..12].copy_from_slice(&bytes.to_le_bytes());
        raw[12..14].copy_from_slice(&flags.to_le_bytes());
        raw[14..].copy_from_slice(&next.to_le_bytes());
        memory.write(at, &raw).expect("inside");
    }

    fn offer(memory: &GuestMemory, heads: &[u16]) {
        for (slot, head) in heads.iter().enumerate() {
            let at = QUEUE.1 + ENTRIES_OFFSET + 2 * slot as u64;
            memory.write(at, &head.to_le_bytes()).expect("inside");
        }
        let index = (heads.len() as u16).to_le_bytes();
        memory
            .write(QUEUE.1 + INDEX_OFFSET, &index)
            .expect("inside");
    }

    #[test]
    fn chains_are_taken_and_returned() {
        let memory = zeroes(0, 0x1000);
        put(&memory, 16, (0x400, 16, HAS_NEXT, 3));
        put(&memory, 48, (0x500, 512, IS_WRITABLE, 0));
        offer(&memory, &[1]);
        let mut queue = queue();
        let chain = queue.take(&memory).expect("valid").expect("one");
        assert_eq!(chain.head, 1);
        let expected = [(0x400, 16, false), (0x500, 512, true)];
        let found: Vec<_> = chain
            .buffers
            .iter()
            .map(|b| (b.address, b.bytes, b.is_writable))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(queue.take(&memory).expect("valid"), None);
        queue.give_back(&memory, 1, 513).expect("inside");
        let mut used = [0; 12];
        memory.read(QUEUE.2, &mut used).expect("inside");
        assert_eq!(used, [0, 0, 1, 0, 1, 0, 0, 0, 1, 2, 0, 0]);
    }

    #[test]
    fn a_table_of_descriptors_is_a_chain() {
        let memory = zeroes(0, 0x1000);
        put(&memory, 0, (0x800, 32, IS_INDIRECT, 0));
        put(&memory, 0x800, (0x400, 16, HAS_NEXT, 1));
        put(&memory, 0x810, (0x500, 1, IS_WRITABLE, 0));
        offer(&memory, &[0]);
        let chain = queue().take(&memory).expect("valid").expect("one");
        assert_eq!(chain.buffers.len(), 2);
    }

    #[test]
    fn invalid_chains_are_refused() {
        for (name, descriptor) in [
            ("a circle", (0x400, 16, HAS_NEXT, 0)),
            ("a number beyond the table", (0x400, 16, HAS_NEXT, SIZE)),
            ("a table outside the memory", (0x9000, 32, IS_INDIRECT, 0)),
            ("a table of half a descriptor", (0x800, 8, IS_INDIRECT, 0)),
            ("a table without descriptors", (0x800, 0, IS_INDIRECT, 0)),
        ] {
            let memory = zeroes(0, 0x1000);
            put(&memory, 0, descriptor);
            offer(&memory, &[0]);
            assert!(queue().take(&memory).is_err(), "{name}");
        }
    }

    /// Otherwise one message could make the host start 65,535 requests.
    #[test]
    fn an_index_that_jumps_is_refused() {
        let memory = zeroes(0, 0x1000);
        put(&memory, 0, (0x400, 16, 0, 0));
        let jump = |index: u16| {
            let place = QUEUE.1 + INDEX_OFFSET;
            memory.write(place, &index.to_le_bytes()).expect("inside");
        };
        for (index, chains) in [(SIZE, 4), (SIZE + 1, 0), (u16::MAX, 0)] {
            let mut queue = queue();
            jump(index);
            let taken = std::iter::from_fn(|| queue.take(&memory).transpose());
            let taken: Vec<_> = taken.take(10).collect();
            let valid = taken.iter().filter(|chain| chain.is_ok()).count();
            assert_eq!(valid, chains, "{index}");
        }
        // What is in flight counts; an index that goes back is none of the guest's either.
        let mut queue = queue();
        jump(SIZE);
        while queue.take(&memory).expect("valid").is_some() {}
        for index in [SIZE + 1, SIZE - 1] {
            jump(index);
            assert!(queue.take(&memory).is_err(), "{index}");
        }
        queue.give_back(&memory, 0, 1).expect("inside");
        jump(SIZE + 1);
        assert!(queue.take(&memory).expect("valid").is_some());
    }

    #[test]
    fn a_size_that_changes_under_way_is_refused() {
        let memory = zeroes(0, 0x1000);
        put(&memory, 0, (0x400, 16, 0, 0));
        offer(&memory, &[0]);
        let mut queue = queue();
        queue.take(&memory).expect("valid").expect("one");
        for size in [0, 3, SIZE_MAX + 1] {
            queue.size = size;
            assert!(queue.give_back(&memory, 0, 1).is_err(), "{size}");
        }
    }

    #[test]
    fn a_table_inside_a_table_is_refused() {
        let memory = zeroes(0, 0x1000);
        put(&memory, 0, (0x800, 16, IS_INDIRECT, 0));
        put(&memory, 0x800, (0x800, 16, IS_INDIRECT, 0));
        offer(&memory, &[0]);
        assert!(queue().take(&memory).is_err());
    }
}
