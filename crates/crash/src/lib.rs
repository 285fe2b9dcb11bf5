//! Crashes: the model file system, the explorer of crash states and the oracle that checks them.
//!
//! A *workload* runs once in a simulated world, on devices with volatile caches whose requests are
//! recorded. Then the power is cut after every event of the recording, in many ways, and the
//! contents that are left are recovered, checked, read back in full and compared with the model.
//! `docs/crash-model.md` states the contract.
//!
//! # Map
//!
//! | module | contents |
//! |---|---|
//! | [`fault`], [`sweep`](mod@sweep) | commands of a run that fail; one run for each |
//! | [`setting`] | cells of the matrix (data mode, place of the journal); the world |
//! | [`op`], [`tag`] | operations, and the data that they write |
//! | [`model`], [`history`] | the model file system; its states, and the bounds of sync calls |
//! | [`image`](mod@image), [`device`], [`disks`] | the small devices of a world |
//! | [`workload`], [`timetable`] | the operations of all clients, and their times |
//! | [`world`](mod@world) | the simulated world |
//! | [`run`], [`recording`], [`run_error`] | a workload, run and recorded |
//! | [`engine`], [`tested`] | the traits of a file system that can be explored; ours |
//! | [`mode`] | data modes and structures, as far as the contract differs |
//! | [`crowd`](mod@crowd) | tasks beside the clients of a workload, whose calls race |
//! | [`cut`], [`explore`](mod@explore) | the results of a power cut, and those that are tried |
//! | [`recover`](mod@recover), [`observe`](mod@observe), [`epilogue`] | a recovered image |
//! | [`explore::silent`] | a block of a recovered volume that changes silently |
//! | [`leftover`] | the contents of blocks before files get them |
//! | [`protocol`] | the rules for the order of requests |
//! | [`findings`] | counts of the states tried, and a violation |
//! | `suspect` | data that may be anything, because its write has failed |
//! | [`generator`] | workloads: all short ones, and long ones that stress |
//! | [`mutant`](mod@mutant), [`hunt`](mod@hunt) | rules of the engine, broken on purpose |
//! | [`session`], `volumes` | many workloads on several threads; their prepared volumes |
//! | [`real`] | clients on threads of the operating system, with a cut at a random instant |
//! | [`recorded`] | recordings of other programs, such as guests, cut off and recovered |
//! | [`replay`], [`device_log`](mod@device_log) | a violation in one line; its requests as text |
//! | [`shrink`] | the shortest workload that shows a violation |
//! | [`e2fsck`](mod@e2fsck), [`outside`] | the same images given to e2fsck and to the kernel |
//! | `unjournaled` | volumes without a journal, closed, or repaired by e2fsck |
//! | [`marks`] | extended attributes and access control lists, in the model and on a volume |
//! | [`oracle`], [`rule`] | the comparison with the contract |

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "explorations run side by side on threads of the real world"
)]

pub mod crowd;
pub mod cut;
pub mod device;
pub mod device_log;
pub mod disks;
pub mod e2fsck;
pub mod engine;
pub mod epilogue;
pub mod explore;
pub mod fault;
pub mod findings;
pub mod generator;
pub mod history;
pub mod hunt;
pub mod image;
mod judge;
pub mod leftover;
pub mod marks;
pub mod mode;
pub mod model;
pub mod mutant;
pub mod observe;
pub mod op;
pub mod oracle;
pub mod outside;
pub mod protocol;
pub mod real;
pub mod recorded;
pub mod recording;
pub mod recover;
pub mod replay;
pub mod rule;
pub mod run;
pub mod run_error;
pub mod session;
pub mod setting;
pub mod shrink;
mod suspect;
pub mod sweep;
pub mod tag;
pub mod tested;
pub mod timetable;
mod unjournaled;
mod volumes;
pub mod workload;
pub mod world;
