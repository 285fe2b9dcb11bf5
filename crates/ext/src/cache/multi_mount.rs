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
//! Every renewal first reads the block: if the node was suspended for longer than others wait, one
//! of them may have taken the volume. Then a fence is closed in front of the volume's devices, and
//! nothing more is written.
//!
//! Source: Linux `Documentation/filesystems/ext4/mmp.rst`.

use std::sync::Arc;

use block::{BlockDevice, Fence, FenceDevice};
use layout::multi_mount::{
    CHECK_SECONDS_MIN, INTERVAL_SECONDS_MAX, SEQUENCE_CHECKED, SEQUENCE_CLEAN, SEQUENCE_MAX,
};
use rt::{Mutex, Nanos};

use crate::disk::multi_mount::{Place, Record};
use crate::disk::superblock;
use crate::error::{OtherUser, Result};

/// A volume that this node has taken.
pub(crate) struct MultiMount {
    device: Arc<dyn BlockDevice>,
    place: Place,
    /// The block as this node wrote it last. // [multi-mount]
    own: Mutex<Own>,
    fence: Arc<Fence>,
}

struct Own {
    record: Record,
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
    ) -> Result<Self> {
        let found = place.read(device)?;
        if found.is_checked() {
            return Err(found.user().into());
        }
        let mut wait = Nanos::ZERO;
        if !found.is_clean() && !rt::mutant!("multi-mount/taken-at-once") {
            let seconds = found.wait_seconds(&place);
            wait = Nanos::from_secs(seconds.into());
            tracing::warn!(user = %found.user(), seconds, "waiting until the volume is surely unused");
            rt::sleep(wait);
            let now = place.read(device)?;
            if now.is_clean() {
                wait = Nanos::ZERO;
            } else if now != found {
                return Err(now.user().into());
            }
        }
        let taken = Self {
            device: Arc::clone(device),
            place,
            own: Mutex::new(Own {
                record: Record::own(device, new_sequence()),
                written: Nanos::ZERO,
            }),
            fence: Arc::default(),
        };
        let mut own = taken.own.lock();
        taken.write(&mut own)?;
        rt::sleep(wait);
        taken.check(&own)?;
        if purpose == Purpose::Offline {
            own.record.sequence = SEQUENCE_CHECKED;
            taken.write(&mut own)?;
        }
        drop(own);
        Ok(taken)
    }

    /// Returns the time between two renewals.
    pub(crate) fn interval(&self) -> Nanos {
        Nanos::from_secs(self.place.update_seconds().into())
    }

    /// Puts a device of the volume behind the fence.
    pub(crate) fn fenced(&self, device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        Arc::new(FenceDevice::new(device, Arc::clone(&self.fence)))
    }

    /// Renews the sequence number. If another node has taken the volume, the fence is closed.
    ///
    /// # Errors
    /// - [`Error::InUse`](crate::Error::InUse) names that node.
    pub(crate) fn renew(&self) -> Result<()> {
        let mut own = self.own.lock();
        self.check(&own)?;
        let elapsed = rt::monotonic().saturating_sub(own.written).as_secs();
        let check = (2 * elapsed).clamp(CHECK_SECONDS_MIN.into(), INTERVAL_SECONDS_MAX.into());
        own.record.check_seconds = check as u16;
        own.record.sequence = match own.record.sequence {
            SEQUENCE_MAX => 1,
            sequence => sequence + 1,
        };
        self.write(&mut own)
    }

    /// Releases the volume, durably.
    ///
    /// # Errors
    /// - [`Error::InUse`](crate::Error::InUse) if another node has taken it.
    pub(crate) fn release(&self) -> Result<()> {
        let mut own = self.own.lock();
        self.check(&own)?;
        own.record.sequence = SEQUENCE_CLEAN;
        self.write(&mut own)?;
        Ok(self.device.flush()?)
    }

    fn write(&self, own: &mut Own) -> Result<()> {
        own.record.seconds = rt::wall().seconds.max(0).cast_unsigned();
        own.written = rt::monotonic();
        self.place.write(&self.device, &own.record)
    }

    /// Checks that the block is as this node has written it.
    fn check(&self, own: &Own) -> Result<()> {
        let now = self.place.read(&self.device)?;
        let is_own = now.sequence == own.record.sequence && now.node == own.record.node;
        if is_own || rt::mutant!("multi-mount/not-rechecked") {
            return Ok(());
        }
        let user = now.user();
        self.fence.close(&user.to_string());
        Err(user.into())
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
