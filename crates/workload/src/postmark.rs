//! PostMark: the load of a mail or news server, many short-lived small files.
//!
//! # Origin
//!
//! J. Katcher, *PostMark: A New File System Benchmark*, Network Appliance TR3022, 1997. The
//! behaviour is that of versions 1.51 and 1.53, of which Debian's package `postmark` (1.53) is an
//! instance. Written from its published description and from observation of the program; it
//! contains none of its code. Results of versions before 1.5 are not comparable with these (another
//! generator, and a megabyte of 10^6 bytes).
//!
//! # Operation
//!
//! The workload creates a pool of [`Parameters::number`] files of random sizes, then runs
//! [`Parameters::transactions`] transactions on it, then removes the remaining files. A transaction
//! has two halves: *read a whole file or append to one*, then *create a file or delete one*. Each
//! is chosen by a bias of 0 to 10, and a half can be switched off. All parameters and their
//! defaults are fields of [`Parameters`]; [`Session`] reads the program's command files.
//!
//! One stream of random numbers decides everything ([`random`] has the generator). In order:
//!
//! 1. 2 x `size_high` draws of 95 for the bytes to write.
//! 2. For each file created: the location if there are two or more, weighted; the subdirectory if
//!    there are two or more; then the size, `size_low` + a draw of (`size_high` - `size_low`).
//! 3. For each transaction: a draw of 10 against the bias, draws of the slot table (2 x `number`)
//!    until a slot holds a file, for an append 1 + a draw of (`size_high` - size); then the same
//!    for the second half.
//!
//! A draw of 0 takes no number. An append to a file of `size_high` bytes does nothing and still
//! counts as a transaction.
//!
//! # Two modes
//!
//! [`Options::compat`] repeats the original down to the system call, and reports in whole seconds
//! with integer division. [`Options::lab`] draws the same numbers, so one thread does the same
//! work, and measures it better: a nanosecond clock, a histogram for every kind of call, each phase
//! separately, optional syncs, and several threads, each with its own share of the pool and its own
//! random stream.
//!
//! # Differences from the original, in both modes
//!
//! - Every result is checked. After an error the files are removed and the run fails; the original
//!   counts bytes that were never written, and continues with files that it could not create.
//! - Fewer than ten transactions are allowed (the original divides by zero); a dot is then drawn
//!   for each.
//! - If no file is left the run stops at once ("out of files"). [`Options::compat`] then prints no
//!   report, like the original; the lab mode prints one with a note.
//! - Bytes are counted in 64-bit integers. The original sums them in 32-bit floats, so its sums are
//!   off in the fifth digit.
//! - Names can have any length; there is no shell escape; `show FILE` writes the locations to the
//!   file too.
//!
//! # Interpretation of results
//!
//! The original never syncs: on a machine with enough memory it measures the cache. With its
//! defaults it takes well under a second. Its byte rates are over the whole run, not over the
//! transactions.

mod account;
mod client;
mod command;
mod console;
mod counts;
mod load;
mod names;
mod options;
mod parameters;
mod pool;
pub mod random;
mod report;
mod run;
mod session;
mod worker;

pub use command::{COMMANDS, Flow};
pub use console::{Console, NoObserver, Observer, Phase};
pub use load::DEFINITION;
pub use options::{FinalSync, Fsync, Mode, Options};
pub use parameters::{Bias, Location, ParameterError, Parameters, ReportFormat};
pub use run::run;
pub use session::{DEFAULT_SCRIPT, Session, SessionRun};
