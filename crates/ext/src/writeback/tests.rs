//! Submission of pages to a device that fails.

use std::sync::Arc;

use jbd2::LogPolicy;
use rt::Nanos;
use testkit::{Behaviour, UnreliableDevice};

use super::pages::submit_oldest;
use crate::cache::file_pages::Which;
use crate::file::testing::{Bench, image};
use crate::options::MountOptions;
use crate::tuning::Writers;

/// A failure that is found while later pages are submitted, because only some batches are in flight
/// at a time, is not lost.
#[test]
fn a_failure_found_during_submission_is_returned() {
    let device = UnreliableDevice::new(image(16 << 20, &["-t", "ext2", "-b", "1024"]));
    let mut options = MountOptions::default();
    options.tuning.writeback.writers = Writers::Submit;
    let policy = LogPolicy::DEFAULT.with("batch", "64");
    options.tuning.log_policy = policy.expect("a word");
    let bench = Bench::open(Arc::<UnreliableDevice>::clone(&device), options);
    let inode = bench.create("file");
    // Eight batches.
    bench.write(&inode, 0, &[7; 512 << 10]);
    device.set(Behaviour::failing());
    let submitted = submit_oldest(&bench.core, Nanos::MAX, Which::All, usize::MAX);
    submitted.failure.expect("the first batches have failed");
    device.set(Behaviour::default());
    bench.close();
}
