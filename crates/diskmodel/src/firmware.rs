//! The order in which a drive serves its queued commands and cached writes: [`Firmware`].
//!
//! Sources, all of them older than any result of the models here:
//!
//! - Quantum's firmware takes the command with the least latency, seek and rotation together, out
//!   of the whole queue: US patents 5,548,795 ("Disk drive command queue reordering", filed 1994)
//!   and 5,729,718 ("lead time", filed 1996). This is [`Order::Sptf`], the default of the Atlas
//!   drives. M. Seltzer, P. Chen, J. Ousterhout, "Disk scheduling revisited", 1990, and D.
//!   Jacobson, J. Wilkes, "Disk scheduling algorithms based on rotational position", 1991,
//!   introduced it.
//! - Conner's CFP2107 (technical reference manual, chapter 3) orders seeks by C-SCAN, a sweep
//!   towards the inner edge, with rotational position ordering beside it: [`Order::Clook`].
//! - IBM's specifications of the Ultrastar XP (section 3.4.7.1) and of the IC35L018UCDY10 (section
//!   11.4) state that commands are reordered to minimize the seek time: [`Order::Sstf`].
//! - US patent 6,145,052 (Western Digital, filed 1997) adds a maximum age to the least latency:
//!   older commands go first.
//! - DiskSim's validated parameters, of the Atlas III and the Atlas 10K too, have one command at a
//!   time in the drive: its order was not measured.

use rt::Nanos;

/// An order of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Shortest positioning time first: seek, settling and rotation.
    #[default]
    Sptf,
    /// Shortest seek first, whatever the rotation.
    Sstf,
    /// Ascending sectors from the last access on, then from the lowest one again.
    Clook,
    /// Order of arrival.
    Fifo,
}

impl Order {
    const ALL: [Self; 4] = [Self::Sptf, Self::Sstf, Self::Clook, Self::Fifo];

    /// Names of all orders, for messages.
    pub const NAMES: &str = "sptf, sstf, clook or fifo";

    /// Returns the order with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sptf => "sptf",
            Self::Sstf => "sstf",
            Self::Clook => "clook",
            Self::Fifo => "fifo",
        }
    }
}

/// The scheduling of a drive's firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Firmware {
    /// Order of the queued commands.
    pub reorder: Order,
    /// Number of the oldest commands from which the next one is chosen; the whole queue if absent.
    pub window: Option<u32>,
    /// Order of the cached writes; that of the commands if absent.
    pub destage: Option<Order>,
    /// Age from which a command or flush goes first; if absent, three revolutions for each place
    /// of the queue.
    pub age: Option<Nanos>,
}

impl Firmware {
    /// Returns the order of the cached writes.
    pub fn destage(&self) -> Order {
        self.destage.unwrap_or(self.reorder)
    }
}
