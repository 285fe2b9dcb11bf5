//! Tests of the journal from outside: on memory devices, under crashes, faults and threads, and
//! beside e2fsprogs.

#![expect(clippy::unwrap_used, reason = "tests stop at what they do not expect")]

mod abort;
mod crash;
mod damage;
mod external;
mod flushes;
mod formats;
mod group;
mod harness;
mod linux24;
mod oracle;
mod panics;
mod rules;
mod space;
mod stress;
