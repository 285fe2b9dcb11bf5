//! Log policies: when transactions close, and which threads checkpoint and wait.
//!
//! A [`LogPolicy`] is made of parts that can be set one by one, so that an experiment can measure
//! the effect of each. Two sets of them have names:
//!
//! | part | `default` | `linux24` |
//! |---|---|---|
//! | `closing` | `early`: in the background, at 3/4 of it | `full`: a handle no longer fits |
//! | `committer` | `caller`: a thread that waits for it | `daemon`: one daemon, all commits |
//! | `data` | `beside`: ordered data together with the log | `before`: the log follows the data |
//! | `log_io` | `copy`: a block being written to the log can be changed | `wait`: it cannot |
//! | `checkpointer` | `daemon`: keeps a part of the log free | `caller`: a thread without room |
//! | `extent` | `quarter`: the oldest quarter of the log | `all`: one by one, until it is empty |
//! | `held` | `write`: the committed image is written | `commit`: the later one commits first |
//! | `batch` | `1024` blocks | `64` blocks |
//! | `batches` | `wait`: for each batch | `overlap`: wait after submitting all of a transaction |
//! | `rewrite` | `share`: the current contents are written | `write`: the page is written first |
//! | `order` | `sorted`: by block | `logged`: by first change; the elevator may sort |
//! | `home` | `copy`: a block being written to its final location can be changed | `wait`: not |
//! | `tick` | `age`: a commit when the transaction is old | `commit`: also when the writer runs |
//! | `credits` | `exact`: as many as a step may need | `ext3`: as many as ext3 asked for |
//!
//! `default` is the policy for production use. `linux24` is the behaviour of the kernels of 2001 to
//! 2003, as far as their published sources show: 2.4.18-14 of Red Hat, and for checkpoints
//! 2.4.12-ac1 (2.6.9 checkpoints the oldest transaction only, `extent=oldest`).

macro_rules! part {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// The words for its values.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Returns the value of a word, if there is one.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

part! {
    /// The time at which a transaction closes because of its size.
    Closing {
        /// It is committed in the background when it is three quarters full.
        Early = "early",
        /// At a handle that no longer fits.
        Full = "full",
    }
}

part! {
    /// The leader of commits.
    Committer {
        /// A thread that waits for a commit; without one, the daemon.
        Caller = "caller",
        /// The daemon.
        Daemon = "daemon",
    }
}

part! {
    /// The time at which ordered data is written.
    OrderedData {
        /// At the same time as the log.
        Beside = "beside",
        /// Before the log.
        Before = "before",
    }
}

part! {
    /// The effect of log I/O on a thread that changes a block being written to the log.
    LogIo {
        /// It changes a copy.
        Copy = "copy",
        /// It waits.
        Wait = "wait",
    }
}

part! {
    /// The thread that checkpoints.
    Checkpointer {
        /// A daemon, when less than three eighths of the log are free.
        Daemon = "daemon",
        /// A thread that starts a handle and finds the log too full for a whole transaction beside
        /// the one that is being committed.
        Caller = "caller",
    }
}

part! {
    /// The amount that is checkpointed at a time.
    CheckpointScope {
        /// The oldest transaction.
        Oldest = "oldest",
        /// The oldest transactions that together fill a quarter of the log.
        Quarter = "quarter",
        /// All, transaction after transaction.
        All = "all",
    }
}

part! {
    /// The treatment, in a checkpoint, of a block that a running or committing transaction holds.
    HeldBlocks {
        /// The checkpoint writes the committed image.
        Write = "write",
        /// The holding transaction is committed first, and takes over the block.
        Commit = "commit",
    }
}

part! {
    /// Number of blocks in a batch of checkpoint writes.
    Batch {
        /// 1024.
        Large = "1024",
        /// 64.
        Small = "64",
    }
}

part! {
    /// The overlap of batches.
    Batches {
        /// Each batch is waited for before the next.
        Wait = "wait",
        /// All are submitted, and then waited for.
        Overlap = "overlap",
    }
}

part! {
    /// The effect on a thread that changes a data page which a committing transaction has yet to
    /// write. Implemented by the client: the journal has no pages.
    Rewrite {
        /// The page's current contents are written for that transaction.
        Share = "share",
        /// The thread writes the page and waits before it changes it.
        Write = "write",
    }
}

part! {
    /// The order in which blocks and pages are submitted to the device.
    WriteOrder {
        /// By block number.
        Sorted = "sorted",
        /// The order of the first change.
        Logged = "logged",
    }
}

part! {
    /// The effect of a write of a block to its final location on a thread that changes the block.
    ///
    /// `wait` is fs/jbd/transaction.c of Linux 2.4.18-14, `do_get_write_access`.
    HomeIo {
        /// It changes a copy.
        Copy = "copy",
        /// It waits.
        Wait = "wait",
    }
}

part! {
    /// The commits besides those of full, old and awaited transactions. Implemented by the client,
    /// which has the writer.
    ///
    /// `commit` is fs/buffer.c of Linux 2.4.18-14: `kupdate` calls `sync_supers` in each round, and
    /// `ext3_write_super` starts a commit.
    Tick {
        /// None.
        Age = "age",
        /// Each round of the writer requests one.
        Commit = "commit",
    }
}

part! {
    /// The credits that a handle asks for. Implemented by the client, which knows the steps.
    CreditsAsked {
        /// As many as its step may need.
        Exact = "exact",
        /// As many as ext3 of Linux 2.4 asked for, if those are more.
        Ext3 = "ext3",
    }
}

/// The policy that decides when transactions close, and which threads checkpoint and wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogPolicy {
    /// The time at which a transaction closes because of its size.
    pub closing: Closing,
    /// The leader of commits.
    pub committer: Committer,
    /// The time at which ordered data is written.
    pub data: OrderedData,
    /// The effect of log I/O on a thread that wants to change a block.
    pub log_io: LogIo,
    /// The thread that checkpoints.
    pub checkpointer: Checkpointer,
    /// The amount that is checkpointed at a time.
    pub extent: CheckpointScope,
    /// The treatment of blocks that a running or committing transaction has.
    pub held: HeldBlocks,
    /// Number of blocks that are written together.
    pub batch: Batch,
    /// The overlap of batches.
    pub batches: Batches,
    /// The effect on a thread that changes a page which a committing transaction has yet to write.
    pub rewrite: Rewrite,
    /// The order in which blocks are submitted.
    pub order: WriteOrder,
    /// The effect of a write to the final location on a thread that wants to change the block.
    pub home: HomeIo,
    /// The commits that the writer requests.
    pub tick: Tick,
    /// The credits that a handle asks for.
    pub credits: CreditsAsked,
    /// For tests only, not a part of the policy: every n-th request for more credits closes the
    /// running transaction and is refused, so that the handle restarts in the next one; 0 disables
    /// this.
    pub restart_every: u32,
}

/// A part of a policy, as users set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// The words for its values.
    pub words: &'static [&'static str],
}

impl LogPolicy {
    /// The default policy.
    pub const DEFAULT: Self = Self {
        closing: Closing::Early,
        committer: Committer::Caller,
        data: OrderedData::Beside,
        log_io: LogIo::Copy,
        checkpointer: Checkpointer::Daemon,
        extent: CheckpointScope::Quarter,
        held: HeldBlocks::Write,
        batch: Batch::Large,
        batches: Batches::Wait,
        rewrite: Rewrite::Share,
        order: WriteOrder::Sorted,
        home: HomeIo::Copy,
        tick: Tick::Age,
        credits: CreditsAsked::Exact,
        restart_every: 0,
    };

    /// The policy of kernels of 2001 to 2003.
    pub const LINUX24: Self = Self {
        closing: Closing::Full,
        committer: Committer::Daemon,
        data: OrderedData::Before,
        log_io: LogIo::Wait,
        checkpointer: Checkpointer::Caller,
        extent: CheckpointScope::All,
        held: HeldBlocks::Commit,
        batch: Batch::Small,
        batches: Batches::Overlap,
        rewrite: Rewrite::Write,
        order: WriteOrder::Logged,
        home: HomeIo::Wait,
        tick: Tick::Commit,
        credits: CreditsAsked::Ext3,
        restart_every: 0,
    };

    /// The names of policies.
    pub const NAMES: &[&str] = &["default", "linux24"];

    /// The parts, in the order of the fields.
    pub const PARTS: [Part; 14] = [
        Part::new("closing", Closing::WORDS),
        Part::new("committer", Committer::WORDS),
        Part::new("data", OrderedData::WORDS),
        Part::new("log_io", LogIo::WORDS),
        Part::new("checkpointer", Checkpointer::WORDS),
        Part::new("extent", CheckpointScope::WORDS),
        Part::new("held", HeldBlocks::WORDS),
        Part::new("batch", Batch::WORDS),
        Part::new("batches", Batches::WORDS),
        Part::new("rewrite", Rewrite::WORDS),
        Part::new("order", WriteOrder::WORDS),
        Part::new("home", HomeIo::WORDS),
        Part::new("tick", Tick::WORDS),
        Part::new("credits", CreditsAsked::WORDS),
    ];

    /// Returns the policy with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "default" => Some(Self::DEFAULT),
            "linux24" => Some(Self::LINUX24),
            _ => None,
        }
    }

    /// Parses a name and, after colons, the parts that differ from it:
    /// `linux24:checkpointer=daemon:batch=1024`. Returns `None` if a name or word is unknown.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split(':');
        let policy = Self::named(words.next()?)?;
        words.try_fold(policy, |policy, word| {
            let (part, value) = word.split_once('=')?;
            policy.with(part, value)
        })
    }

    /// Returns the policy with one part set; none if there is no such part or word.
    #[must_use]
    pub fn with(mut self, part: &str, word: &str) -> Option<Self> {
        match part {
            "closing" => self.closing = Closing::from_word(word)?,
            "committer" => self.committer = Committer::from_word(word)?,
            "data" => self.data = OrderedData::from_word(word)?,
            "log_io" => self.log_io = LogIo::from_word(word)?,
            "checkpointer" => self.checkpointer = Checkpointer::from_word(word)?,
            "extent" => self.extent = CheckpointScope::from_word(word)?,
            "held" => self.held = HeldBlocks::from_word(word)?,
            "batch" => self.batch = Batch::from_word(word)?,
            "batches" => self.batches = Batches::from_word(word)?,
            "rewrite" => self.rewrite = Rewrite::from_word(word)?,
            "order" => self.order = WriteOrder::from_word(word)?,
            "home" => self.home = HomeIo::from_word(word)?,
            "tick" => self.tick = Tick::from_word(word)?,
            "credits" => self.credits = CreditsAsked::from_word(word)?,
            _ => return None,
        }
        Some(self)
    }
}

impl Default for LogPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Part {
    const fn new(name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, words }
    }
}

impl Batch {
    /// Returns the number of blocks.
    #[must_use]
    pub const fn blocks(self) -> usize {
        match self {
            Self::Large => 1024,
            Self::Small => 64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_set_by_each_of_its_words() {
        for part in LogPolicy::PARTS {
            let made: Vec<LogPolicy> = part
                .words
                .iter()
                .map(|word| {
                    let made = LogPolicy::DEFAULT.with(part.name, word);
                    made.unwrap_or_else(|| panic!("{} = {word}", part.name))
                })
                .collect();
            let distinct = made.iter().enumerate();
            let mut pairs = distinct.flat_map(|(i, a)| made[..i].iter().map(move |b| (a, b)));
            assert!(pairs.all(|(a, b)| a != b), "{}", part.name);
            assert!(made.contains(&LogPolicy::DEFAULT), "{}", part.name);
            assert_eq!(LogPolicy::DEFAULT.with(part.name, "never"), None);
        }
        assert_eq!(LogPolicy::DEFAULT.with("policy", "daemon"), None);
    }

    #[test]
    fn the_two_named_ones_differ_in_every_part() {
        for part in LogPolicy::PARTS {
            let same = part.words.iter().any(|word| {
                let set = |policy: LogPolicy| policy.with(part.name, word) == Some(policy);
                set(LogPolicy::DEFAULT) && set(LogPolicy::LINUX24)
            });
            assert!(!same, "{}", part.name);
        }
        for name in LogPolicy::NAMES {
            assert!(LogPolicy::named(name).is_some(), "{name}");
        }
        assert_eq!(LogPolicy::named("linux26"), None);
    }

    #[test]
    fn a_text_names_a_policy_and_what_differs_from_it() {
        let mixed = LogPolicy {
            checkpointer: Checkpointer::Daemon,
            batch: Batch::Large,
            ..LogPolicy::LINUX24
        };
        for (text, expect) in [
            ("default", Some(LogPolicy::DEFAULT)),
            ("linux24", Some(LogPolicy::LINUX24)),
            ("linux24:checkpointer=daemon:batch=1024", Some(mixed)),
            ("checkpointer=daemon", None),
            ("linux24:checkpointer", None),
            ("linux24:batch=65", None),
            ("", None),
        ] {
            assert_eq!(LogPolicy::from_text(text), expect, "{text}");
        }
    }
}
