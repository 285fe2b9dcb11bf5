//! The life cycle of a block: its places, the events there, and their effects.
//!
//! A block can be in several places at once: *running* (filed in the running transaction),
//! *committing* (its frozen image is being written to the log), *awaiting* checkpoint (committed,
//! and its final location has an older image) and *in flight* (its image is being written there).
//! It is *absent* if it is in none of them; only then may a cache evict it. A reader always gets
//! the current contents.
//!
//! | place | dirty | free | as metadata | as ordered | as journaled | commit | abort | error |
//! |---|---|---|---|---|---|---|---|---|
//! | absent | file | revoke | file | write | file | - | - | - |
//! | running | in place | drop | in place | refused | in place | freeze | hold | - |
//! | committing | copy | keep | copy | refused | copy | take over | hold | abort |
//! | awaiting | copy | keep | copy | refused | copy | supersede | hold | abort |
//! | in flight | copy | keep | copy | refused | copy | supersede after | hold | abort |
//!
//! The three columns *as* are the reuse of the block, as metadata, ordered data or journaled data,
//! in the running transaction after it was freed there; its revoke and the cancellation are then
//! dropped. *Refused*: a freed block gets ordered data only after the freeing transaction is
//! durable, and the client does not allocate it before; then the block is absent. *Keep*: the write
//! of the older image stays pending until the freeing transaction is durable; then it is cancelled,
//! or waited for if it is in flight.
//!
//! [`RULES`] is the same table as data. The pending write of a committed block is its `Debt`, the
//! only part of the life cycle with a state of its own.

/// A place of a block. A block can be in several places; the first of running, committing, in
/// flight, awaiting, absent determines the effect on its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// In none of the others.
    Absent,
    /// Filed in the running transaction.
    Running,
    /// Frozen by the committing transaction.
    Committing,
    /// Committed, and its final location has an older image.
    Awaiting,
    /// Being written to its final location.
    InFlight,
}

/// An event of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A handle changes it.
    Dirty,
    /// A handle frees it.
    Free,
    /// Freed in the running transaction, it becomes metadata there.
    ReuseAsMetadata,
    /// Freed in the running transaction, it would get ordered data.
    ReuseAsOrderedData,
    /// Freed in the running transaction, it gets journaled data there.
    ReuseAsJournaledData,
    /// A transaction commits: the running one closes, or the committing one becomes durable.
    Commit,
    /// The journal aborts.
    Abort,
    /// The write of its image fails.
    WriteError,
}

/// The effect of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It cannot happen, or changes nothing.
    Nothing,
    /// It is filed in the running transaction, for a credit.
    File,
    /// The running image changes in place.
    InPlace,
    /// It is filed, and the change takes a copy; the older image stays with its other references.
    Copy,
    /// Only a revoke is added.
    Revoke,
    /// It is removed from the running transaction.
    Drop,
    /// The write of the older image stays pending until the freeing transaction is durable.
    Keep,
    /// Data is written directly to it.
    Write,
    /// The client must not do this before the freeing transaction is durable.
    Refused,
    /// Its image is frozen.
    Freeze,
    /// The transaction that is now durable takes over its pending writes.
    TakeOver,
    /// The newer image replaces this one.
    Supersede,
    /// The newer image replaces this one when the write in flight has completed.
    SupersedeAfter,
    /// It stays in memory unchanged.
    Hold,
    /// The journal aborts.
    Abort,
}

/// The places, in the order of [`RULES`].
pub const BLOCK_STATES: [BlockState; 5] = [
    BlockState::Absent,
    BlockState::Running,
    BlockState::Committing,
    BlockState::Awaiting,
    BlockState::InFlight,
];

/// The events, in the order of [`RULES`].
pub const EVENTS: [Event; 8] = [
    Event::Dirty,
    Event::Free,
    Event::ReuseAsMetadata,
    Event::ReuseAsOrderedData,
    Event::ReuseAsJournaledData,
    Event::Commit,
    Event::Abort,
    Event::WriteError,
];

/// The table: a row for each place, a column for each event.
pub const RULES: [[Rule; 8]; 5] = {
    use Rule::*;
    [
        [File, Revoke, File, Write, File, Nothing, Nothing, Nothing],
        [
            InPlace, Drop, InPlace, Refused, InPlace, Freeze, Hold, Nothing,
        ],
        [Copy, Keep, Copy, Refused, Copy, TakeOver, Hold, Abort],
        [Copy, Keep, Copy, Refused, Copy, Supersede, Hold, Abort],
        [Copy, Keep, Copy, Refused, Copy, SupersedeAfter, Hold, Abort],
    ]
};

/// Returns the effect of an event on a block in a place.
pub const fn rule(place: BlockState, event: Event) -> Rule {
    RULES[place as usize][event as usize]
}

/// The pending write of a committed block to its final location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Debt {
    /// No write is pending.
    None,
    /// Its newest committed image has to be written.
    Awaiting,
    /// It is being written.
    InFlight,
    /// An older image is being written; the newest one has to be written after it.
    Superseded,
}

/// An event of a pending write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DebtEvent {
    /// A transaction that holds the block became durable.
    Commit,
    /// A transaction that freed the block became durable.
    Free,
    /// A thread starts the write.
    Start,
    /// The write has completed.
    Done,
    /// The write has failed: the journal aborts, or retries when the device has room.
    Failed,
}

/// The effect of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The pending write gets this state.
    Become(Debt),
    /// The write in flight has to complete first.
    Wait,
    /// It cannot happen.
    Never,
}

impl Debt {
    /// Returns the effect of an event: the table of pending writes.
    pub(crate) const fn after(self, event: DebtEvent) -> Next {
        use Debt::{Awaiting, InFlight, None, Superseded};
        use Next::{Become, Never, Wait};
        match (self, event) {
            (None | Awaiting, DebtEvent::Commit) => Become(Awaiting),
            (InFlight | Superseded, DebtEvent::Commit) => Become(Superseded),
            (None | Awaiting, DebtEvent::Free) => Become(None),
            (InFlight | Superseded, DebtEvent::Free) => Wait,
            (Awaiting, DebtEvent::Start) => Become(InFlight),
            (InFlight | Superseded, DebtEvent::Start) => Wait,
            (InFlight, DebtEvent::Done) => Become(None),
            (Superseded, DebtEvent::Done) => Become(Awaiting),
            (InFlight | Superseded, DebtEvent::Failed) => Become(Awaiting),
            (None, DebtEvent::Start) | (None | Awaiting, DebtEvent::Done | DebtEvent::Failed) => {
                Never
            }
        }
    }
}

#[cfg(test)]
mod exhaustive;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name of a rule in the table of the documentation.
    fn word(rule: Rule) -> &'static str {
        match rule {
            Rule::Nothing => "-",
            Rule::File => "file",
            Rule::InPlace => "in place",
            Rule::Copy => "copy",
            Rule::Revoke => "revoke",
            Rule::Drop => "drop",
            Rule::Keep => "keep",
            Rule::Write => "write",
            Rule::Refused => "refused",
            Rule::Freeze => "freeze",
            Rule::TakeOver => "take over",
            Rule::Supersede => "supersede",
            Rule::SupersedeAfter => "supersede after",
            Rule::Hold => "hold",
            Rule::Abort => "abort",
        }
    }

    #[test]
    fn the_documentation_says_what_the_data_says() {
        let source = include_str!("lifecycle.rs");
        let rows: Vec<Vec<&str>> = source
            .lines()
            .filter_map(|line| line.strip_prefix("//! | ")?.strip_suffix(" |"))
            .map(|line| line.split(" | ").collect())
            .collect();
        let (head, rows) = rows.split_first().expect("there is a table");
        assert_eq!(head.len(), 1 + EVENTS.len());
        assert_eq!(rows.len(), BLOCK_STATES.len());
        for (place, row) in BLOCK_STATES.into_iter().zip(rows) {
            for (event, cell) in EVENTS.into_iter().zip(&row[1..]) {
                assert_eq!(*cell, word(rule(place, event)), "{place:?} {event:?}");
            }
        }
    }

    const DEBTS: [Debt; 4] = [Debt::None, Debt::Awaiting, Debt::InFlight, Debt::Superseded];
    const DEBT_EVENTS: [DebtEvent; 5] = [
        DebtEvent::Commit,
        DebtEvent::Free,
        DebtEvent::Start,
        DebtEvent::Done,
        DebtEvent::Failed,
    ];

    /// The same rules in another form: the image versions that may reach the final location, and
    /// the write in flight.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Model {
        /// True if the newest committed version is not at the final location.
        owed: bool,
        /// The write in flight, if there is one: true if it is of the newest version.
        writing: Option<bool>,
    }

    fn model(debt: Debt) -> Model {
        match debt {
            Debt::None => Model {
                owed: false,
                writing: None,
            },
            Debt::Awaiting => Model {
                owed: true,
                writing: None,
            },
            Debt::InFlight => Model {
                owed: true,
                writing: Some(true),
            },
            Debt::Superseded => Model {
                owed: true,
                writing: Some(false),
            },
        }
    }

    #[test]
    fn the_table_agrees_with_the_model() {
        for debt in DEBTS {
            for event in DEBT_EVENTS {
                let before = model(debt);
                let is_writing = before.writing.is_some();
                let expect = match event {
                    DebtEvent::Commit => Some(Some(Model {
                        owed: true,
                        writing: before.writing.map(|_| false),
                    })),
                    DebtEvent::Free if is_writing => Some(None),
                    DebtEvent::Free => Some(Some(Model {
                        owed: false,
                        writing: None,
                    })),
                    DebtEvent::Start if !before.owed => None,
                    DebtEvent::Start if is_writing => Some(None),
                    DebtEvent::Start => Some(Some(Model {
                        owed: true,
                        writing: Some(true),
                    })),
                    DebtEvent::Done | DebtEvent::Failed if !is_writing => None,
                    DebtEvent::Done => Some(Some(Model {
                        owed: before.writing == Some(false),
                        writing: None,
                    })),
                    DebtEvent::Failed => Some(Some(Model {
                        owed: true,
                        writing: None,
                    })),
                };
                let found = match debt.after(event) {
                    Next::Become(debt) => Some(Some(model(debt))),
                    Next::Wait => Some(None),
                    Next::Never => None,
                };
                assert_eq!(found, expect, "{debt:?} {event:?}");
            }
        }
    }
}
