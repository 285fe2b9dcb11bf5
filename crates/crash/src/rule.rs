//! The rules, under the names in `docs/crash-model.md`.

use core::fmt;
use core::ops::AddAssign;

macro_rules! rules {
    ($($name:ident: $text:literal,)*) => {
        /// A rule of the contract.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $text] $name,)*
        }

        /// All rules.
        pub const RULES: &[Rule] = &[$(Rule::$name,)*];

        impl Rule {
            /// Returns the rule in one line.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

rules! {
    U1: "recovery ends without an error, and everything can be read",
    U2: "a check of the recovered volume finds nothing",
    U3: "the metadata is that of the last committed transaction: all of it and nothing else",
    U4: "nothing comes back that was deleted; names, links and blocks fit together",
    U5: "a rename is done or not done",
    U6: "recovery that is interrupted, anywhere and repeatedly, comes to the same",
    U7: "a recovered volume works: all can be deleted, and then it is empty",
    U8: "recovery depends on nothing but the image",
    F1: "what fsync covered is there",
    F2: "what fdatasync covered can be read back",
    F3: "what a synchronous write wrote is there",
    F4: "what the fsync of a directory, sync or unmount covered is there",
    F5: "a change is committed when the commit interval is over, and data is written when it is old",
    F6: "no sync call returns before what it promises is durable",
    J1: "data=journal: contents are those of the state",
    J2: "data=journal: no block is a mixture",
    J3: "a block that was freed never gets its old image back",
    J4: "blocks that begin like a journal's come back as they were",
    O1: "data=ordered: a file shows its own data or zeroes, never another's",
    O2: "data=ordered: no size without its data",
    O3: "data=ordered: a sector is one of the versions since the last durable one",
    O4: "data=ordered: after a rename over a file, the new file's data is there",
    O5: "what lies between an old end and a new one reads as zeroes",
    W1: "data=writeback: the metadata follows the rules of the others",
    W2: "data=writeback: a new block shows some data that was written, and a synced one its own",
    T1: "log blocks are complete before their commit record is issued, behind a flush and forced",
    T2: "no block goes home before its commit record is durable",
    T3: "the tail passes no transaction whose blocks are not home and flushed",
    T4: "a revoke is durable before its block is used for data",
    T5: "the file system's device is flushed before an ordered commit record, and before the tail moves",
    T6: "log space is used again only when the new tail is durable",
    T7: "the log can be found, and needs recovery, before the first commit is acknowledged",
    E0: "a sync call that says yes is true, whatever failed before it",
    E1: "a failed write of data is told once to every handle that was open, and to no other",
    E2: "a failed write of the log ends all commits and changes; reads work",
    E3: "the tail passes no block whose write home has failed",
    E4: "what a failed flush was to cover is not made durable by a later one",
    E5: "a failed read fails the operation that needs it, and nothing else",
    E6: "where the log is damaged or cannot be read, what can be a torn end drops the last transaction; anything else is refused, \
         and nothing is written",
    E7: "a block that changes silently makes nothing panic or hang, and costs a reader only what hangs on it",
    E8: "a write that was accepted does not fail later for want of space",
    E9: "after an error that passes, and calls that were repeated, all is as if it had not been",
    E10: "a device without room ends nothing: calls say so, and all goes on when there is room",
    C1: "calls beside each other all return",
    C2: "a listing beside changes shows what is there throughout once, and anything else at most once",
    C3: "a call sees and changes the file that it names and no other, also where numbers are used again at once",
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, out)
    }
}

/// The number of times that each rule was exercised: checked where it could have been broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCounts([u64; RULES.len()]);

impl Default for RuleCounts {
    fn default() -> Self {
        Self([0; RULES.len()])
    }
}

impl RuleCounts {
    /// Counts one more check of a rule.
    pub fn note(&mut self, rule: Rule) {
        self.0[rule as usize] += 1;
    }

    /// Returns the number of times that a rule was exercised.
    pub fn get(&self, rule: Rule) -> u64 {
        self.0[rule as usize]
    }
}

impl AddAssign<&Self> for RuleCounts {
    fn add_assign(&mut self, other: &Self) {
        for (own, more) in self.0.iter_mut().zip(other.0) {
            *own += more;
        }
    }
}

/// A violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The rule.
    pub rule: Rule,
    /// The state found, and the expected one.
    pub what: String,
}

impl Broken {
    /// Creates the violation of a rule.
    pub fn new(rule: Rule, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { rule, what }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({}): {}", self.rule, self.rule.text(), self.what)
    }
}
