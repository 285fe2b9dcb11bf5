//! The members of an array, and those that have left it.

use core::ops::Range;
use std::collections::BTreeSet;
use std::sync::Arc;

use rt::Mutex;

use crate::device::BlockDevice;
use crate::error::DeviceError;
use crate::ticket::DetachedErrors;

/// Devices, some of which may have failed.
pub(super) struct Members {
    devices: Vec<Arc<dyn BlockDevice>>,
    /// Number of members that may leave.
    tolerance: usize,
    /// Invariant: at most `tolerance` members; a failed member never gets another request.
    failed: Mutex<BTreeSet<usize>>,
}

impl Members {
    pub(super) fn new(devices: Vec<Arc<dyn BlockDevice>>, tolerance: usize) -> Self {
        Self {
            devices,
            tolerance,
            failed: Mutex::new(BTreeSet::new()),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.devices.len()
    }

    pub(super) fn get(&self, member: usize) -> &dyn BlockDevice {
        &*self.devices[member]
    }

    /// Returns the members that have left, in order.
    pub(super) fn failed(&self) -> Vec<usize> {
        self.failed.lock().iter().copied().collect()
    }

    /// Returns the remaining members, in order.
    pub(super) fn healthy(&self) -> Vec<usize> {
        let failed = self.failed.lock();
        (0..self.devices.len())
            .filter(|member| !failed.contains(member))
            .collect()
    }

    /// Reserves space on the remaining members.
    pub(super) fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        let mut healthy = self.healthy().into_iter();
        healthy.try_for_each(|member| self.devices[member].reserve(ranges))
    }

    /// Returns another user of one of the members, if there is one.
    pub(super) fn intruder(&self) -> Option<String> {
        self.devices.iter().find_map(|device| device.intruder())
    }

    /// Removes a member from the array. Returns false, and keeps the member, if the array cannot
    /// work without it.
    pub(super) fn fail(&self, member: usize) -> bool {
        let mut failed = self.failed.lock();
        if failed.contains(&member) {
            return true;
        }
        if failed.len() == self.tolerance {
            return false;
        }
        tracing::error!(
            member,
            "a member of the array has failed: its contents are stale, leave it out from now on"
        );
        failed.insert(member)
    }

    /// Removes the members whose detached requests failed, before they get another request. Errors
    /// that the array cannot tolerate become detached errors of its own.
    pub(super) fn reap_detached(&self, detached: &DetachedErrors) {
        for (member, device) in self.devices.iter().enumerate() {
            if let Some(error) = device.take_detached_error()
                && !self.fail(member)
            {
                detached.keep_error(error);
            }
        }
    }
}
