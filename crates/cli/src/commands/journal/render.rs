//! A journal as text and as JSON.

use std::fmt::Write;

use ext::census::BlockUse;
use jbd2::recovery::{Inspection, TransactionInfo};
use layout::BlockNr;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::blocks::{Blocks, SORTS, sort};
use super::fast_commits;
use crate::output;

const INFALLIBLE: &str = "writing to a string does not fail";

/// Returns a journal as text, on request with each of its blocks. `fate` describes the further
/// treatment of its transactions.
pub(super) fn text(
    place: String,
    fate: &str,
    found: &Inspection,
    blocks: &Blocks,
    with_blocks: bool,
) -> String {
    let mut text = String::new();
    let mut row = |label: &str, value: String| {
        writeln!(text, "{label:<18}{value}").expect(INFALLIBLE);
    };
    row("Journal:", place);
    row("Version:", found.version.to_string());
    row("Features:", found.features.join(" "));
    row(
        "Blocks:",
        format!("{} of {} bytes", found.blocks, found.block_bytes),
    );
    row("Sequence:", found.sequence.to_string());
    row(
        "Start:",
        match found.start {
            Some(start) => format!("block {start}; {fate}"),
            None => "empty".to_owned(),
        },
    );
    // An internal journal has a user without a UUID.
    for user in found.users.iter().filter(|user| **user != [0; 16]) {
        row("User:", Uuid::from_bytes(*user).to_string());
    }
    if let Some(error) = found.noted_error {
        row("Aborted with:", format!("errno {}", -error));
    }
    for transaction in &found.transactions {
        render_transaction(&mut text, transaction, blocks);
        if with_blocks {
            render_blocks(&mut text, transaction, blocks);
        }
    }
    if let Some(end) = &found.end {
        let state = match (end.is_damaged, end.is_torn) {
            (true, _) => "damaged: recovery refuses it",
            _ if end.is_lost => {
                "a committed transaction is damaged: it is dropped, and noted as an error"
            }
            (_, true) => "a transaction was interrupted and is dropped",
            _ => "the end",
        };
        let why = end
            .wrong
            .map(|(block, what)| format!(" ({what} in block {block})"));
        let why = why.unwrap_or_default();
        writeln!(text, "block {:<8} {state}{why}", end.log_block).expect(INFALLIBLE);
    }
    if let Some(fast_commits) = &found.fast_commits {
        fast_commits::render(&mut text, fast_commits);
    }
    text
}

fn render_transaction(text: &mut String, transaction: &TransactionInfo, blocks: &Blocks) {
    let TransactionInfo {
        tid,
        first,
        commit_block,
        committed_at,
        ..
    } = transaction;
    let time = match committed_at {
        0 => String::new(),
        seconds => format!(
            ", {}",
            output::time_text(i64::try_from(*seconds).unwrap_or(i64::MAX))
        ),
    };
    let (count, revoked) = (transaction.blocks.len(), transaction.revokes.len());
    writeln!(
        text,
        "block {first:<8} transaction {tid}: {count} blocks, {revoked} revoked, commit in block {commit_block}{time}"
    )
    .expect(INFALLIBLE);
    let counts = blocks.count(transaction);
    let counts = counts.iter().zip(SORTS).filter(|(count, _)| **count > 0);
    let words = counts.map(|(count, (_, one, many))| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    });
    let words: Vec<String> = words.collect();
    if !words.is_empty() {
        writeln!(text, "               {}", words.join(", ")).expect(INFALLIBLE);
    }
}

fn render_blocks(text: &mut String, transaction: &TransactionInfo, blocks: &Blocks) {
    for block in &transaction.blocks {
        let escaped = if block.is_escaped { ", escaped" } else { "" };
        let what = what(blocks, block.home);
        writeln!(
            text,
            "  block {:<8} of {}{what}{escaped}",
            block.log_block, block.home
        )
        .expect(INFALLIBLE);
    }
    for revoke in &transaction.revokes {
        writeln!(text, "  revoked {revoke}{}", what(blocks, *revoke)).expect(INFALLIBLE);
    }
}

/// Returns `: ` and the use of a block, or an empty text.
fn what(blocks: &Blocks, block: BlockNr) -> String {
    let Some(found) = blocks.find(block) else {
        return String::new();
    };
    let copy = |group: layout::GroupNr| match group.get() {
        0 => String::new(),
        group => format!(", copy in group {group}"),
    };
    let text = match found {
        BlockUse::Superblock { group } => format!("superblock{}", copy(group)),
        BlockUse::Descriptors { first, last, group } if first == last => {
            format!("descriptor of group {first}{}", copy(group))
        }
        BlockUse::Descriptors { first, last, group } => {
            format!("descriptors of groups {first} to {last}{}", copy(group))
        }
        BlockUse::DescriptorRoom { group } => format!("room for descriptors, in group {group}"),
        BlockUse::BlockBitmap { group } => format!("block bitmap of group {group}"),
        BlockUse::InodeBitmap { group } => format!("inode bitmap of group {group}"),
        BlockUse::InodeTable { group, first, last } => {
            format!("inode table of group {group}, inodes {first} to {last}")
        }
        BlockUse::Directory { inode, file_block } => {
            let path = blocks.path(inode).map(|path| format!(", {path}"));
            let path = path.unwrap_or_default();
            format!("block {file_block} of directory {inode}{path}")
        }
        BlockUse::Map { inode, depth } => {
            format!("{} indirect block of inode {inode}", depth_text(depth))
        }
        BlockUse::ExtentNode { inode, depth: 0 } => format!("extents of inode {inode}"),
        BlockUse::ExtentNode { inode, depth } => {
            format!("extent index of inode {inode}, {depth} above the extents")
        }
        BlockUse::Attributes { inode } => format!("attributes of inode {inode}"),
        BlockUse::LinkTarget { inode } => format!("target of link {inode}"),
        BlockUse::Data { inode, file_block } => format!("block {file_block} of file {inode}"),
        BlockUse::MultiMount => "multiple mount protection".to_owned(),
        BlockUse::Free => "free now".to_owned(),
        BlockUse::Unknown => "not known now".to_owned(),
    };
    format!(": {text}")
}

fn depth_text(depth: u8) -> &'static str {
    match depth {
        1 => "single",
        2 => "double",
        _ => "triple",
    }
}

/// Returns a journal as JSON.
pub(super) fn to_json(place: String, found: &Inspection, known: &Blocks) -> Value {
    let transactions = found.transactions.iter().map(|transaction| {
        let blocks = transaction.blocks.iter().map(|block| {
            json!({
                "log_block": block.log_block,
                "home": block.home.get(),
                "is_escaped": block.is_escaped,
                "what": known.find(block.home).map(|what| use_json(what, known)),
            })
        });
        let counts = known.count(transaction).into_iter().zip(SORTS);
        let counts: Map<String, Value> = counts
            .filter(|(count, _)| *count > 0)
            .map(|(count, (key, ..))| ((*key).to_owned(), json!(count)))
            .collect();
        json!({
            "tid": transaction.tid.get(),
            "first": transaction.first,
            "commit_block": transaction.commit_block,
            "committed_at": transaction.committed_at,
            "summary": counts,
            "blocks": blocks.collect::<Vec<_>>(),
            "revokes": transaction.revokes.iter().map(|block| block.get()).collect::<Vec<_>>(),
        })
    });
    let users = found
        .users
        .iter()
        .map(|user| Uuid::from_bytes(*user).to_string());
    json!({
        "place": place,
        "version": found.version,
        "features": found.features,
        "block_bytes": found.block_bytes,
        "blocks": found.blocks,
        "first": found.first,
        "start": found.start,
        "sequence": found.sequence.get(),
        "uuid": Uuid::from_bytes(found.uuid).to_string(),
        "users": users.collect::<Vec<_>>(),
        "noted_error": found.noted_error,
        "transactions": transactions.collect::<Vec<_>>(),
        "end": found.end.as_ref().map(|end| json!({
            "log_block": end.log_block,
            "expected": end.expected.get(),
            "is_torn": end.is_torn,
            "is_lost": end.is_lost,
            "is_damaged": end.is_damaged,
            "wrong": end.wrong.map(|(block, what)| json!({ "log_block": block, "what": what })),
        })),
        "fast_commits": found.fast_commits.as_ref().map(fast_commits::to_json),
    })
}

/// Returns the use of a block, with its kind under `kind`.
fn use_json(what: BlockUse, known: &Blocks) -> Value {
    let mut object = match what {
        BlockUse::Superblock { group }
        | BlockUse::DescriptorRoom { group }
        | BlockUse::BlockBitmap { group }
        | BlockUse::InodeBitmap { group } => json!({ "group": group.get() }),
        BlockUse::Descriptors { first, last, group } => json!({
            "group": group.get(),
            "first_group": first.get(),
            "last_group": last.get(),
        }),
        BlockUse::InodeTable { group, first, last } => json!({
            "group": group.get(),
            "first_inode": first.get(),
            "last_inode": last.get(),
        }),
        BlockUse::Directory { inode, file_block } => json!({
            "inode": inode.get(),
            "file_block": file_block.get(),
            "path": known.path(inode),
        }),
        BlockUse::Map { inode, depth } => json!({ "inode": inode.get(), "depth": depth }),
        BlockUse::ExtentNode { inode, depth } => {
            json!({ "inode": inode.get(), "extent_depth": depth })
        }
        BlockUse::Attributes { inode } | BlockUse::LinkTarget { inode } => {
            json!({ "inode": inode.get() })
        }
        BlockUse::Data { inode, file_block } => json!({
            "inode": inode.get(),
            "file_block": file_block.get(),
        }),
        BlockUse::MultiMount | BlockUse::Free | BlockUse::Unknown => json!({}),
    };
    let (key, ..) = SORTS[sort(what)];
    object["kind"] = json!(key);
    object
}
