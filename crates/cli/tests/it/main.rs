//! The commands, as a user types them, on small images; what they make is checked by e2fsck.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests stop at what they did not expect, and live in the real world"
)]

mod archives;
mod bench;
mod building;
mod cages;
mod checking;
mod containers;
mod copying;
mod crashes;
mod exporting;
mod facts;
mod foreign;
mod guests;
mod hostile;
mod images;
#[cfg(feature = "built-kernel")]
mod in_virtual_time;
mod interrupted;
mod journals;
mod kept;
mod lab_errors;
mod labs;
mod large_blocks;
mod logged;
mod manual;
mod many;
mod mount_options;
mod mount_uses;
mod mounting;
mod overwriting;
mod plan_times;
mod protected;
mod ranges;
mod reading;
mod recordings;
mod refused;
mod scaling;
mod shapes;
mod strangers;
mod strays;
mod support;
mod torture;
mod tour;
mod tuning;
mod unmarked;
