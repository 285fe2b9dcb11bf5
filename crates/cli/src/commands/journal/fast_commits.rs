//! Fast commits as text and as JSON.

use std::fmt::Write;

use jbd2::recovery::FastCommits;
use layout::extent::Extent;
use layout::fast_commit::{EntryHeader, Record, Tag};
use serde_json::{Value, json};

use crate::image::fast_commits;
use crate::output;

const INFALLIBLE: &str = "writing to a string does not fail";

/// Writes the fast commits of a journal as text, with each of their tags.
pub(super) fn render(text: &mut String, found: &FastCommits) {
    let (at, why) = found.end;
    if !found.is_empty() {
        let count = fast_commits(found.count);
        let (first, tid) = (found.first, found.tid);
        writeln!(text, "block {first:<8} {count} of transaction {tid}").expect(INFALLIBLE);
    }
    for (at, tag) in found.tags() {
        if let Some(what) = tag_text(&tag) {
            writeln!(text, "  block {at:<8} {what}").expect(INFALLIBLE);
        }
    }
    writeln!(text, "block {at:<8} the end of the fast commits ({why})").expect(INFALLIBLE);
}

/// Returns a tag as text; none for padding.
fn tag_text(tag: &Tag<'_>) -> Option<String> {
    let entry = |entry: &EntryHeader, name: &[u8], what| {
        let name = output::without_controls(&output::name_text(name));
        let (parent, inode) = (entry.parent.get(), entry.inode.get());
        format!("name {name:?} in directory {parent} {what} inode {inode}")
    };
    Some(match &tag.record {
        Record::Head(head) => format!("head, features {:#x}", head.features.get()),
        Record::AddRange(range) => {
            let Extent { file_block, .. } = range.extent;
            let (inode, count) = (range.inode.get(), range.extent.block_count());
            let kind = match range.extent.is_unwritten() {
                true => ", unwritten",
                false => "",
            };
            let start = range.extent.start();
            format!("inode {inode}: {count} blocks from {file_block} on at {start}{kind}")
        }
        Record::DelRange(range) => {
            let (inode, count) = (range.inode.get(), range.count.get());
            let from = range.file_block.get();
            format!("inode {inode}: {count} blocks from {from} on are a hole")
        }
        Record::Create(header, name) => entry(header, name, "made for new"),
        Record::Link(header, name) => entry(header, name, "made for"),
        Record::Unlink(header, name) => entry(header, name, "removed from"),
        Record::Inode(header, bytes) => {
            format!("inode {}: its {} bytes", header.inode.get(), bytes.len())
        }
        Record::Pad => return None,
        Record::Tail(tail) => format!("tail, transaction {}", tail.tid.get()),
    })
}

/// Returns the fast commits of a journal as JSON.
pub(super) fn to_json(found: &FastCommits) -> Value {
    let tags = found.tags().map(|(at, tag)| {
        let mut object = tag_json(&tag);
        object["log_block"] = at.into();
        object
    });
    let (at, why) = found.end;
    json!({
        "tid": found.tid.get(),
        "first": found.first,
        "count": found.count,
        "tags": tags.collect::<Vec<_>>(),
        "end": { "log_block": at, "why": why },
    })
}

fn tag_json(tag: &Tag<'_>) -> Value {
    let entry = |kind, entry: &EntryHeader, name: &[u8]| {
        json!({
            "kind": kind,
            "parent": entry.parent.get(),
            "inode": entry.inode.get(),
            "name": output::name_text(name),
        })
    };
    match &tag.record {
        Record::Head(head) => json!({ "kind": "head", "features": head.features.get() }),
        Record::AddRange(range) => json!({
            "kind": "add_range",
            "inode": range.inode.get(),
            "file_block": range.extent.file_block.get(),
            "count": range.extent.block_count(),
            "block": range.extent.start(),
            "is_unwritten": range.extent.is_unwritten(),
        }),
        Record::DelRange(range) => json!({
            "kind": "del_range",
            "inode": range.inode.get(),
            "file_block": range.file_block.get(),
            "count": range.count.get(),
        }),
        Record::Create(header, name) => entry("create", header, name),
        Record::Link(header, name) => entry("link", header, name),
        Record::Unlink(header, name) => entry("unlink", header, name),
        Record::Inode(header, bytes) => json!({
            "kind": "inode",
            "inode": header.inode.get(),
            "bytes": bytes.len(),
        }),
        Record::Pad => json!({ "kind": "pad" }),
        Record::Tail(tail) => json!({ "kind": "tail", "tid": tail.tid.get() }),
    }
}
