//! PostMark: the load of a mail or news server, many small files that live for a short time.
//!
//! # Origin
//!
//! J. Katcher, *PostMark: A New File System Benchmark*, Network Appliance TR3022, 1997; the
//! behaviour is that of versions 1.51 and 1.53, of which Debian's package `postmark` (1.53) is an
//! instance. Written from its published description and from what the program does; no code is
//! taken over. Results of versions before 1.5 are not comparable with these (another generator, and
//! a megabyte of 10^6 bytes).
//!
//! # What it does
//!
//! It makes a pool of [`Parameters::number`] files of random sizes, then does
//! [`Parameters::transactions`] transactions on it, then removes what is left. A transaction is two
//! halves: *read a whole file or append to one*, then *create a file or delete one*, each chosen by
//! a bias of 0 to 10, where a half can be switched off. All parameters and their defaults are
//! fields of [`Parameters`]; [`Session`] reads the program's command files.
//!
//! One stream of random numbers decides everything ([`random`] has the generator). In order:
//!
//! 1. 2 x `size_high` draws of 95 for the bytes that will be written.
//! 2. For each file created: the location if there are two or more, weighted; the subdirectory if
//!    there are two or more; then the size, `size_low` + a draw of (`size_high` - `size_low`).
//! 3. For each transaction: a draw of 10 against the bias, draws of the slot table (2 x `number`)
//!    until a slot holds a file, for an append 1 + a draw of (`size_high` - size); then the same
//!    for the second half.
//!
//! A draw of 0 takes no number. An append to a file that has `size_high` bytes does nothing and
//! still counts as a transaction.
//!
//! # The two forms
//!
//! [`Options::compat`] does what the original does, to the system call, and reports in whole
//! seconds with integer division. [`Options::lab`] draws the same numbers, so one thread does the
//! same work, and measures it better: a nanosecond clock, a histogram for every kind of call, each
//! phase by itself, syncing where the options say so, and several threads, each with its own share
//! of the pool and its own random stream.
//!
//! # Where ours differs, in both forms
//!
//! - Every result is checked. After an error the files are removed and the run fails; the original
//!   counts bytes that were never written, and works on with files that it could not make.
//! - Fewer than ten transactions are allowed (the original divides by zero); a dot is then drawn
//!   for each.
//! - With no file left the run ends at once ("out of files"). [`Options::compat`] then withholds
//!   the report, as the original does; the lab form reports and says so.
//! - Bytes are counted in 64-bit integers; the original adds them up in 32-bit floats, so its sums
//!   are off in the fifth digit.
//! - Names of any length; no shell escape; `show FILE` writes the locations to the file too.
//!
//! # What to know before believing a result
//!
//! The original never syncs: on a machine with enough memory it measures the cache. Its defaults
//! finish in well under a second. Its byte rates are over the whole run, not over the transactions.

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
