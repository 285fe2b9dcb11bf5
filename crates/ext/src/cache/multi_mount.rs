//! Multiple mount protection (`mmp`): a volume on a shared device is written by one node at a time.
//!
//! A node that opens the volume for writing takes its sequence number, renews it at an interval,
//! and releases it when it closes the volume:
//!
//! | the block holds | the node that opens |
//! |---|---|
//! | no user | writes its own number, and reads it back |
//! | a checker | fails |
//! | a number, or a torn write | waits; if it is as before, writes its own, and waits again |
//!
//! The wait covers two intervals of renewal. It is long enough for each node to see a renewal of
//! the other, and for the loser of two that start at once to see the number of the winner.
//!
//! The number is renewed in the middle of the last wait and at its end, so that a node that comes
//! during the wait sees it change. A released volume is waited for a moment, in which one of two
//! that open it at once sees the number of the other. A node that is held up between its look and
//! its number waits as for a number: it may have hidden the one of a node that came meanwhile.
//!
//! Every renewal first reads the block: if the node was suspended for longer than others wait, one
//! of them may have taken the volume. A fence in front of the volume's devices stops every change:
//!
//! | event | fence |
//! |---|---|
//! | the last renewal is older than a lease, shorter than others' wait | a change renews first |
//! | the block has the number of another node, or is damaged | closes |
//! | the device fails | closes when the lease ends; until then the renewal is repeated |
//! | a renewal takes longer than a lease between its read and the end of its write | closes |
//! | the volume is released | closes |
//!
//! The clock of the lease counts the time for which the machine was suspended.
//!
//! Source: Linux `Documentation/filesystems/ext4/mmp.rst`.

use std::sync::{Arc, Weak};

use block::{BlockDevice, Fence, FenceDevice};
use layout::multi_mount::{
    CHECK_SECONDS_MIN, INTERVAL_SECONDS_MAX, SEQUENCE_CHECKED, SEQUENCE_CLEAN, SEQUENCE_MAX,
};
use rt::{Mutex, Nanos};

use crate::disk::multi_mount::{Place, Record};
use crate::disk::superblock;
use crate::error::{Corrupt, Error, OtherUser, Result};

/// The wait after a node has written its number over the one of a released volume. Half of it is
/// longer than two nodes that do this at once need for a read and a write.
const SETTLE: Nanos = Nanos::from_millis(200);

/// A volume that this node has taken.
pub(crate) struct MultiMount {
    device: Arc<dyn BlockDevice>,
    place: Place,
    purpose: Purpose,
    own: Mutex<Own>, // [multi-mount]
    fence: Arc<Fence>,
}

/// The block as this node wrote it.
struct Own {
    record: Record,
    /// The number of a write that failed: the device may have it.
    doubtful: Option<u32>,
    written: Nanos,
}

/// The work for which a node takes a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It opens the volume.
    Mount,
    /// It changes the volume offline, and renews nothing.
    Offline,
}

impl MultiMount {
    /// Takes a volume; waits if another node may use it.
    ///
    /// # Errors
    /// - [`Error::InUse`](crate::Error::InUse) names the node that uses it.
    /// - [`Corrupt::MultiMount`](crate::Corrupt::MultiMount) if the block is damaged.
    pub(crate) fn take(
        device: &Arc<dyn BlockDevice>,
        place: Place,
        purpose: Purpose,
    ) -> Result<Arc<Self>> {
        let mut looked = rt::uptime();
        let found = place.read(device)?;
        if found.is_checked() && !rt::mutant!("multi-mount/checker-ignored") {
            return Err(found.user().into());
        }
        let mut wait = SETTLE;
        if !found.is_clean() && !rt::mutant!("multi-mount/taken-at-once") {
            let seconds = found.wait_seconds(&place);
            let long = Nanos::from_secs(seconds.into());
            tracing::warn!(user = %found.user(), seconds, "waiting until the volume is surely unused");
            rt::sleep(long);
            looked = rt::uptime();
            let now = place.read(device)?;
            if !now.is_clean() {
                if now != found {
                    return Err(now.user().into());
                }
                wait = long;
            }
        }
        // What was read before may be old, and a write changes a part of a page.
        device.drop_cached();
        let taken = Self::new(device, place, purpose);
        let last = match purpose {
            Purpose::Mount => None,
            Purpose::Offline => Some(SEQUENCE_CHECKED),
        };
        let mut own = taken.own.lock();
        let first = own.record.clone();
        taken.write(&mut own, first)?;
        // This node was held up since it looked, and may have hidden another one, which has come
        // meanwhile. That one goes on until it renews its number.
        let is_late = rt::uptime() - looked > SETTLE / 2;
        if is_late && wait == SETTLE && !rt::mutant!("multi-mount/late-taken-at-once") {
            wait = Nanos::from_secs(found.wait_seconds(&place).into());
        }
        // Two renewals: a node that comes during the wait sees at least one of them.
        for sequence in [None, last] {
            rt::sleep(wait / 2);
            own.written = rt::uptime();
            taken.advance(&mut own, sequence)?;
        }
        drop(own);
        Ok(taken)
    }

    fn new(device: &Arc<dyn BlockDevice>, place: Place, purpose: Purpose) -> Arc<Self> {
        Arc::new_cyclic(|taken| {
            let weak: Weak<Self> = Weak::clone(taken);
            let passes = move || weak.upgrade().is_some_and(|taken| taken.passes());
            Self {
                device: Arc::clone(device),
                place,
                purpose,
                own: Mutex::new(Own {
                    record: Record::own(device, new_sequence()),
                    doubtful: None,
                    written: rt::uptime(),
                }),
                fence: Arc::new(Fence::leased(passes)),
            }
        })
    }

    /// Returns the time between two renewals.
    pub(crate) fn interval(&self) -> Nanos {
        Nanos::from_secs(self.place.update_seconds().into())
    }

    /// Puts a device of the volume behind the fence.
    pub(crate) fn fenced(&self, device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        Arc::new(FenceDevice::new(device, Arc::clone(&self.fence)))
    }

    /// Closes the fence: nothing more is written.
    pub(crate) fn lose(&self, cause: &str) {
        self.fence.close(cause);
    }

    /// Returns true if nothing more is written.
    pub(crate) fn is_lost(&self) -> bool {
        self.fence.is_closed()
    }

    /// Renews the sequence number. Unless this can be tried again in time, a failure closes the
    /// fence.
    ///
    /// # Errors
    /// - [`Error::InUse`](crate::Error::InUse) names the node that has taken the volume.
    pub(crate) fn renew(&self) -> Result<()> {
        self.renew_held(&mut self.own.lock())
    }

    fn renew_held(&self, own: &mut Own) -> Result<()> {
        self.fence.check(&*self.device)?;
        let renewed = match self.purpose {
            Purpose::Mount => self.advance(own, None),
            // No node takes the volume from a checker.
            Purpose::Offline => self.check(own).map(drop),
        };
        if let Err(error) = &renewed {
            let can_wait = matches!(error, Error::Device(_)) && self.fence.is_leased();
            if !can_wait {
                self.fence
                    .close(&format!("multiple mount protection is lost: {error}"));
            }
        }
        renewed
    }

    /// Returns true if a change may be made after the lease has ended.
    fn passes(&self) -> bool {
        let mut own = self.own.lock();
        self.fence.is_leased() || self.renew_held(&mut own).is_ok()
    }

    /// Releases the volume, durably. Nothing else is written from now on.
    ///
    /// # Errors
    /// - [`Error::InUse`](crate::Error::InUse) if another node has taken it.
    pub(crate) fn release(&self) -> Result<()> {
        let mut own = self.own.lock();
        let held = self.fence.check(&*self.device);
        self.fence.close("it was closed");
        held?;
        self.advance(&mut own, Some(SEQUENCE_CLEAN))?;
        Ok(self.device.flush()?)
    }

    /// Reads the block, writes it with a new sequence number, by default the next one, and extends
    /// the lease.
    fn advance(&self, own: &mut Own, sequence: Option<u32>) -> Result<()> {
        let lease = self.place.lease();
        let mut start = rt::uptime();
        self.check(own)?;
        if rt::uptime() - start > lease {
            start = rt::uptime();
            self.check(own)?;
        }
        let elapsed = 2 * start.saturating_sub(own.written).as_secs();
        let next = Record {
            sequence: sequence.unwrap_or(match own.record.sequence {
                sequence if rt::mutant!("multi-mount/number-not-renewed") => sequence,
                SEQUENCE_MAX => 1,
                sequence => sequence + 1,
            }),
            check_seconds: elapsed.clamp(CHECK_SECONDS_MIN.into(), INTERVAL_SECONDS_MAX.into())
                as u16,
            ..own.record.clone()
        };
        self.write(own, next)?;
        if rt::uptime() - start > lease {
            // Another node may have come between the read and the write, which then has hidden it.
            self.check(own)?;
            let (block, why) = (self.place.block, "it took too long to renew it");
            return Err(Corrupt::MultiMount { block, why }.into());
        }
        if self.purpose == Purpose::Mount {
            self.fence.extend(start + lease);
        }
        Ok(())
    }

    fn write(&self, own: &mut Own, mut next: Record) -> Result<()> {
        next.seconds = rt::wall().seconds.max(0).cast_unsigned();
        let now = rt::uptime();
        own.doubtful = Some(next.sequence);
        self.place.write(&self.device, &next)?;
        *own = Own {
            record: next,
            doubtful: None,
            written: now,
        };
        Ok(())
    }

    /// Checks that the block is as this node has written it.
    fn check(&self, own: &mut Own) -> Result<()> {
        let now = self.place.read(&self.device)?;
        if rt::mutant!("multi-mount/not-rechecked") {
            return Ok(());
        }
        let is_doubtful = own.doubtful == Some(now.sequence);
        let is_own = now.sequence == own.record.sequence || is_doubtful;
        if !is_own || now.node != own.record.node {
            return Err(now.user().into());
        }
        // A failed write may be torn.
        if !now.is_whole && own.doubtful.is_none() {
            let (block, why) = (self.place.block, "the checksum is wrong");
            return Err(Corrupt::MultiMount { block, why }.into());
        }
        own.record.sequence = now.sequence;
        Ok(())
    }
}

/// Returns a random sequence number.
fn new_sequence() -> u32 {
    (rt::random_u64() % u64::from(SEQUENCE_MAX)) as u32 + 1
}

/// The user of a volume, as the block of multiple mount protection describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The block on the device.
    pub block: u64,
    /// The sequence number.
    pub sequence: u32,
    /// The node that wrote the block last, with its device and the time.
    pub user: OtherUser,
    /// Seconds between two renewals.
    pub update_seconds: u16,
    /// Seconds after which the node would notice that another one has taken the volume.
    pub check_seconds: u16,
    /// Seconds that opening the volume for writing will wait twice, at most; 0 if the volume was
    /// released.
    pub wait_seconds: u16,
}

impl Status {
    /// Returns true if no node uses the volume.
    pub fn is_clean(&self) -> bool {
        self.sequence == SEQUENCE_CLEAN && self.wait_seconds == 0
    }
}

/// Returns the user of a volume; none without multiple mount protection.
///
/// # Errors
/// - Errors of the superblock, and [`Corrupt::MultiMount`](crate::Corrupt::MultiMount) if the
///   block is damaged.
/// - [`Error::Device`](crate::Error::Device) if the device fails.
pub fn status(device: &Arc<dyn BlockDevice>) -> Result<Option<Status>> {
    let superblock = superblock::read_before_replay(device)?;
    let Some(place) = Place::of(&superblock)? else {
        return Ok(None);
    };
    let record = place.read(device)?;
    Ok(Some(Status {
        block: place.block.get(),
        sequence: record.sequence,
        user: record.user(),
        update_seconds: place.update_seconds(),
        check_seconds: record.check_seconds,
        wait_seconds: match record.is_clean() {
            true => 0,
            false => record.wait_seconds(&place),
        },
    }))
}
