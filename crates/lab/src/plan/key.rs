//! The keys of a plan: a closed set, each with a type and a default.
//!
//! `[fixed]`, `[factors]` and the `fixed` and `factors` of a block accept the same keys. Defaults
//! are jext's own. The keys of the workloads are derived from the workloads' tables of parameters.

mod workloads;

use jbd2::LogPolicy;
use jbd2::policy::{
    Batch, Batches, CheckpointScope, Checkpointer, Closing, Committer, CreditsAsked, HeldBlocks,
    HomeIo, LogIo, OrderedData, Rewrite, Tick, WriteOrder,
};

use super::replica::Vary;
use super::value::{INTERNAL, Kind, NONE, SIMULATED, Value};
use crate::power_cut::PowerCut;

/// A key of `[fixed]` and `[factors]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its name, with dots: `fs.commit`.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// Its value if a plan does not set it; a key without a default must be given if the target
    /// needs it.
    pub default: Initial,
    /// The meaning, in one line.
    pub meaning: &'static str,
}

/// A default, in a form that can be a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initial {
    /// No default.
    None,
    /// A word or text.
    Text(&'static str),
    /// Yes or no.
    Switch(bool),
    /// A number.
    Number(i64),
    /// A number of bytes.
    Bytes(u64),
    /// Seconds.
    Seconds(u64),
    /// Nanoseconds.
    Nanos(u64),
    /// Two numbers.
    Range(u32, u32),
}

/// Value of a log policy's part: as in the log policy.
pub(crate) const AS_POLICY: &str = "policy";
/// The prefix of the log policy's parts.
pub(crate) const LOG_PART_PREFIX: &str = "fs.log.";
/// The key that selects the trials with a timeline.
pub(crate) const TIMELINE: &str = "timeline";
/// The key that selects the trials whose commands are counted by the use of the blocks.
pub(crate) const USES: &str = "uses";
/// The key that selects the differences between repetitions.
pub(crate) const VARY: &str = "vary";
/// The prefix of the keys of a power cut.
pub(crate) const CUT_PREFIX: &str = "cut.";
/// The key that selects what is measured after a power cut.
pub(crate) const CUT_MEASURES: &str = "cut.measures";
/// Value of it: there is no power cut.
pub(crate) const NOTHING: &str = "nothing";
/// The prefix of the keys of a guest.
pub(crate) const GUEST_KEY_PREFIX: &str = "guest.";
/// The key of the I/O scheduler of a guest.
pub(crate) const GUEST_SCHEDULER: &str = "guest.scheduler";
/// The key of the length of a guest's device queues.
pub(crate) const GUEST_REQUESTS: &str = "guest.requests";
/// The key of the number of commands that a guest's device takes at a time.
pub(crate) const GUEST_DEPTH: &str = "guest.depth";
/// The key of the size up to which a guest's ext4 driver places files in one stream.
pub(crate) const GUEST_STREAM: &str = "guest.stream";
/// Its default, that of the kernel.
pub(crate) const GUEST_STREAM_DEFAULT: i64 = 16;
/// The key that decides if a guest's kernel flushes its devices.
pub(crate) const GUEST_FLUSH: &str = "guest.flush";
/// The key of further mount options of a guest.
pub(crate) const GUEST_OPTIONS: &str = "guest.options";
/// The prefix of the keys of ext4.
pub(crate) const EXT4_PREFIX: &str = "fs.ext4.";
/// The type whose keys they are.
pub(crate) const EXT4: &str = "ext4";
/// Value of a key: mkfs decides.
pub(crate) const AUTO: &str = "auto";
/// The size of an internal journal that does not have its own.
pub(crate) const JOURNAL_SIZE: &str = "fs.journal_size";
/// Ballast of the size of the journal device.
pub(crate) const JOURNAL: &str = "journal";

const MIB: u64 = 1 << 20;

use Initial as D;
use Kind as K;

/// All keys, in the order of lists and records.
pub static KEYS: [Key; OWN.len() + workloads::COUNT] = workloads::join(&OWN);

pub(crate) use workloads::concerns;

/// The lab's own keys, without those of the workloads.
const OWN: [Key; 67] = [
    key(
        "workload",
        K::Word(&workloads::NAMES),
        D::Text(workloads::NAMES[0]),
        "the benchmark",
    ),
    key(
        "target",
        K::Target,
        D::Text(SIMULATED),
        "environment: a simulated world, this process, a directory, or a file system mounted by the kernel, a program, or the kernel of a guest",
    ),
    key(
        VARY,
        K::Word(&Vary::WORDS),
        D::Text(Vary::WORDS[0]),
        "differences between repetitions: the workload's seed, the world (phases, allocation, jitter), or both",
    ),
    key("device", K::Device, D::None, "file-system device"),
    key(
        "journal",
        K::Journal,
        D::Text(INTERNAL),
        "location of the journal: in the file system, with the size of fs.journal_size or its own, or a device that it fills",
    ),
    key(
        "host",
        K::Host,
        D::Text("zero"),
        "cost of host work in a simulated world",
    ),
    key(
        "host_scale_permille",
        K::Number(1, 1_000_000),
        D::Number(1000),
        "factor for the cost of host work, in thousandths",
    ),
    key(
        "mkfs",
        K::Word(&["default", "classic2002"]),
        D::Text("default"),
        "set of mkfs defaults",
    ),
    key(
        "fs.type",
        K::Word(&["ext2", "ext3", EXT4]),
        D::Text("ext3"),
        "the file system",
    ),
    key(
        "fs.ext4.features",
        K::Text,
        D::Text(""),
        "changes of the features that mkfs chooses for ext4: \"^metadata_csum,orphan_file\"",
    ),
    key(
        "fs.ext4.commits",
        K::Word(&["full", "fast", NONE]),
        D::Text("full"),
        "how fsync makes changes durable: by whole blocks (full), by tags (the feature fast_commit, in an internal journal), or without a journal (none)",
    ),
    key(
        "fs.ext4.delayed_allocation",
        K::Switch,
        D::Switch(true),
        "whether blocks are allocated when data is written back: delalloc, nodelalloc",
    ),
    key(
        "fs.ext4.lazy_init",
        K::Switch,
        D::Switch(false),
        "whether inode tables are initialised after the mount, while the workload runs, as by default on Linux",
    ),
    key(
        "fs.profile",
        K::Word(&["modern", "ext3-2.4", "multi-block", "windows"]),
        D::Text("modern"),
        "allocation policy of blocks and inodes; modern is multi-block on ext4, and windows of reservation on ext2 and ext3",
    ),
    key(
        "fs.block_size",
        K::BytesOr(&[AUTO]),
        D::Text(AUTO),
        "block size in bytes",
    ),
    key(
        "fs.inode_size",
        K::BytesOr(&[AUTO]),
        D::Text(AUTO),
        "inode size in bytes",
    ),
    key(
        "fs.bytes_per_inode",
        K::BytesOr(&[AUTO]),
        D::Text(AUTO),
        "bytes per inode",
    ),
    key(
        JOURNAL_SIZE,
        K::BytesOr(&[AUTO]),
        D::Text(AUTO),
        "size of an internal journal in bytes; an external journal is as large as its device",
    ),
    key(
        "fs.reserved_percent",
        K::Number(0, 50),
        D::Number(5),
        "percentage of blocks reserved for privileged users",
    ),
    key(
        "fs.data",
        K::Word(&["ordered", "writeback", "journal"]),
        D::Text("ordered"),
        "data=",
    ),
    key(
        "fs.ordered",
        K::Word(&["all", "allocated"]),
        D::Text("all"),
        "ordered=",
    ),
    key("fs.barrier", K::Switch, D::Switch(true), "barrier="),
    key(
        "fs.log_policy",
        K::Word(LogPolicy::NAMES),
        D::Text("default"),
        "log_policy=",
    ),
    key(
        "fs.log.closing",
        K::WordOr(Closing::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "size at which a transaction closes",
    ),
    key(
        "fs.log.committer",
        K::WordOr(Committer::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "which thread commits",
    ),
    key(
        "fs.log.data",
        K::WordOr(OrderedData::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "when ordered data is written",
    ),
    key(
        "fs.log.log_io",
        K::WordOr(LogIo::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "whether a block under log I/O can be modified",
    ),
    key(
        "fs.log.checkpointer",
        K::WordOr(Checkpointer::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "which thread checkpoints",
    ),
    key(
        "fs.log.extent",
        K::WordOr(CheckpointScope::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "amount that is checkpointed at a time",
    ),
    key(
        "fs.log.held",
        K::WordOr(HeldBlocks::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "checkpointing of blocks that a later transaction holds",
    ),
    key(
        "fs.log.batch",
        K::WordOr(Batch::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "number of blocks in a checkpoint batch",
    ),
    key(
        "fs.log.batches",
        K::WordOr(Batches::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "whether checkpoint batches overlap",
    ),
    key(
        "fs.log.rewrite",
        K::WordOr(Rewrite::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "whether a page under commit is written before it is modified",
    ),
    key(
        "fs.log.order",
        K::WordOr(WriteOrder::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "write order of blocks and pages",
    ),
    key(
        "fs.log.home",
        K::WordOr(HomeIo::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "whether a block being checkpointed can be modified",
    ),
    key(
        "fs.log.tick",
        K::WordOr(Tick::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "whether each round of background writeback requests a commit",
    ),
    key(
        "fs.log.credits",
        K::WordOr(CreditsAsked::WORDS, AS_POLICY),
        D::Text(AS_POLICY),
        "number of log blocks that operations reserve",
    ),
    key("fs.commit", K::Time, D::Seconds(5), "commit="),
    key(
        "fs.access_time",
        K::Word(&["noatime", "relatime", "strictatime"]),
        D::Text("relatime"),
        "which access times are updated",
    ),
    key(
        "fs.sync",
        K::Switch,
        D::Switch(false),
        "every change is durable when the call returns",
    ),
    key(
        "fs.dirsync",
        K::Switch,
        D::Switch(false),
        "every change of a directory is durable when the call returns",
    ),
    key(
        "memory.host",
        K::Bytes,
        D::Bytes(512 * MIB),
        "memory of the host in bytes",
    ),
    key(
        "memory.kernel",
        K::Bytes,
        D::Bytes(0),
        "memory used by the kernel and programs",
    ),
    key(
        "memory.ballast",
        K::BytesOr(&[JOURNAL]),
        D::Bytes(0),
        "further memory taken from the cache: a size, or that of the journal",
    ),
    key(
        "cache.dirty_background",
        K::Number(0, 100),
        D::Number(40),
        "dirty percentage at which background writeback starts",
    ),
    key(
        "cache.dirty",
        K::Number(1, 100),
        D::Number(60),
        "dirty percentage at which writing threads wait",
    ),
    key(
        "cache.dirty_stop",
        K::Number(0, 100),
        D::Number(100),
        "dirty percentage at which background writeback stops, if below cache.dirty_background",
    ),
    key(
        "cache.dirty_of",
        K::Word(&["budget", "inactive"]),
        D::Text("budget"),
        "memory of which these are shares: all for caching, or free and inactive as in Linux 2.4.18-14",
    ),
    key(
        "cache.writers",
        K::Word(&["wait", "submit"]),
        D::Text("wait"),
        "whether threads that write pages because of these limits wait for them",
    ),
    key(
        "cache.writer_interval",
        K::Time,
        D::Seconds(5),
        "interval of background writeback",
    ),
    key(
        "cache.dirty_expiry",
        K::Time,
        D::Seconds(30),
        "maximum age of dirty data",
    ),
    key(
        GUEST_SCHEDULER,
        K::Word(&["mq-deadline", "none", "bfq", "kyber"]),
        D::Text("mq-deadline"),
        "I/O scheduler of a guest's devices; if it is not set, the kernel chooses",
    ),
    key(
        GUEST_REQUESTS,
        K::Number(4, 2048),
        D::Number(128),
        "requests that the I/O scheduler of a guest's device holds at most; if it is not set, the kernel chooses",
    ),
    key(
        GUEST_DEPTH,
        K::Number(1, 256),
        D::Number(32),
        "commands that a guest's kernel gives a device at a time, the queue of a drive; the scheduler orders the others; if it is not set, 256",
    ),
    key(
        GUEST_STREAM,
        K::Number(0, 1_000_000),
        D::Number(GUEST_STREAM_DEFAULT),
        "blocks up to which a guest's driver of ext3 and ext4 places files one behind another; later blocks of a file go elsewhere (mb_stream_req)",
    ),
    key(
        GUEST_FLUSH,
        K::Switch,
        D::Switch(true),
        "whether a guest's kernel flushes the write caches of its devices; false as in kernels before barriers, for every file system",
    ),
    key(
        GUEST_OPTIONS,
        K::Text,
        D::Text(""),
        "further mount options of a guest's file system",
    ),
    key(
        CUT_MEASURES,
        K::Word(&PowerCut::WORDS),
        D::Text(NOTHING),
        "what is measured after a power cut: nothing (there is none), the time to a usable volume, or what is lost",
    ),
    key(
        "cut.after",
        K::Time,
        D::Seconds(60),
        "time from the start of the workload to the first instant at which the power may be cut",
    ),
    key(
        "cut.within",
        K::Time,
        D::Seconds(30),
        "the power is cut at a random instant of this time after that",
    ),
    key(
        "cut.write_rate",
        K::Bytes,
        D::Bytes(0),
        "bytes per second that the workload may write until then; 0 for no limit",
    ),
    key(
        "cut.sync_interval",
        K::Time,
        D::Seconds(0),
        "interval at which everything is synced while the workload runs; 0 for never",
    ),
    key(
        "cut.files",
        K::Number(0, 10_000_000),
        D::Number(0),
        "files that are written and synced before the workload starts",
    ),
    key(
        "cut.file_size",
        K::Bytes,
        D::Bytes(4096),
        "size of each of these files in bytes",
    ),
    key(
        TIMELINE,
        K::Word(&["simulated", "always", "never"]),
        D::Text("simulated"),
        "trials whose first repetition records a timeline",
    ),
    key(
        USES,
        K::Switch,
        D::Switch(false),
        "whether requests are counted by the use of their blocks (log, inode tables, data ...), by a pass over the closed ext volume",
    ),
    key(
        "limit.virtual_time",
        K::Time,
        D::Seconds(86_400),
        "maximum virtual time of a simulated trial",
    ),
];

const fn key(name: &'static str, kind: Kind, default: Initial, meaning: &'static str) -> Key {
    Key {
        name,
        kind,
        default,
        meaning,
    }
}

impl Key {
    /// Returns the key with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Returns the known name that is closest to an unknown one, if one is close.
    #[must_use]
    pub fn closest(name: &str) -> Option<&'static str> {
        let distances = KEYS.iter().map(|key| (distance(name, key.name), key.name));
        let (least, closest) = distances.min()?;
        (least <= name.len().div_ceil(3)).then_some(closest)
    }

    /// Returns the default as a value.
    #[must_use]
    pub fn default_value(&self) -> Option<Value> {
        Some(match self.default {
            D::None => return None,
            D::Text(text) => Value::Text(text.to_owned()),
            D::Switch(on) => Value::Switch(on),
            D::Number(number) => Value::Number(number),
            D::Bytes(bytes) => Value::Bytes(bytes),
            D::Seconds(seconds) => Value::Time(seconds * 1_000_000_000),
            D::Nanos(nanos) => Value::Time(nanos),
            D::Range(low, high) => Value::Range(low, high),
        })
    }
}

/// Returns the Levenshtein distance of two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (index, key) in KEYS.iter().enumerate() {
            assert!(
                KEYS[..index].iter().all(|other| other.name != key.name),
                "{}",
                key.name
            );
        }
    }

    #[test]
    fn every_part_of_a_log_policy_has_a_key() {
        let parts: Vec<&str> = KEYS
            .iter()
            .filter_map(|key| key.name.strip_prefix(LOG_PART_PREFIX))
            .collect();
        assert_eq!(parts, LogPolicy::PARTS.map(|part| part.name));
        for part in LogPolicy::PARTS {
            let key = Key::named(&format!("{LOG_PART_PREFIX}{}", part.name));
            assert_eq!(key.expect("listed").kind, K::WordOr(part.words, AS_POLICY));
        }
    }

    #[test]
    fn a_misspelt_key_finds_its_name() {
        assert_eq!(Key::closest("fs.comit"), Some("fs.commit"));
        assert_eq!(
            Key::closest("cache.dirty_backgruond"),
            Some("cache.dirty_background")
        );
        assert_eq!(Key::closest("completely.different"), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
