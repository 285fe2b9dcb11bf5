//! The allowed effect of silent corruption on readers.
//!
//! | damage | may differ, or be an error |
//! |---|---|
//! | file data | the contents of the file in that block, which are those of the block; no error |
//! | target of a symbolic link | the target |
//! | a directory | its entries |
//! | indirect block | the contents of the file or directory |
//! | indirect block of the journal | nothing, or the volume is refused |
//! | attributes | the attributes of the inodes that share the block |
//! | inodes with values of attributes | the attributes of other inodes, which are an error |
//! | inode table | its inodes; with the root or the journal among them, a refusal |
//! | bitmaps | nothing |
//! | superblock | nothing, or a refusal; everything if locations, or a crc16's UUID, have changed |
//! | descriptors | the same; the inode with a block where a bitmap is taken to be |
//! | descriptors with checksums | the inodes of their groups, which are an error; or a refusal |
//!
//! Every inode is read by its number, so that inodes below a damaged directory are compared, too.

use std::borrow::Cow;

use super::harm::Harm;
use super::look::{Contents, Object, Seen, Sight};
use super::territory::Part;
use crate::image::BLOCK_BYTES;

/// Largest reserved inode number: the root and the journal are among the reserved inodes.
const LAST_RESERVED: u32 = 10;

/// Returns true if a volume with this damage may be refused when it is opened.
pub(super) fn may_be_refused(harm: &Harm) -> bool {
    match harm.claim.part {
        Part::Superblock
        | Part::Descriptors
        | Part::BlockBitmap
        | Part::InodeBitmap
        | Part::JournalMap => true,
        Part::InodeTable => {
            let mut owners = harm.claim.owners.iter();
            owners.any(|owner| owner.get() <= LAST_RESERVED)
        }
        Part::Directory | Part::Map | Part::Attributes | Part::Data => false,
    }
}

/// Checks that a damaged volume looks the same as before, except for the parts that depend on the
/// damage.
///
/// # Errors
/// Fails with the difference.
pub(super) fn compare(harm: &Harm, before: &Sight, after: &Sight) -> Result<(), String> {
    if harm.moves_things() {
        return Ok(());
    }
    for (nr, was) in &before.objects {
        let is_owner = harm.claim.owners.contains(nr);
        let Some(is) = after.objects.get(nr) else {
            return Err(format!("nobody looked at inode {nr}"));
        };
        if is.attributes.is_err() && harm.robs(*nr) {
            continue;
        }
        if let Some(what) = differs(harm, is_owner, was, is) {
            return Err(format!("inode {nr} is not what it was: {what}"));
        }
    }
    Ok(())
}

/// Returns a difference of an inode that is not allowed.
fn differs(harm: &Harm, is_owner: bool, was: &Object, is: &Object) -> Option<String> {
    let part = harm.claim.part;
    let is_lost = part == Part::Descriptors && is.attributes.is_err();
    if is_owner && (part == Part::InodeTable || is_lost) {
        return None;
    }
    let mut wanted = Cow::Borrowed(&was.contents);
    if part == Part::Data && is_owner {
        wanted = Cow::Owned(with_block(harm, &was.contents));
    }
    let is_link = matches!(was.contents, Ok(Contents::Symlink(_)));
    let may_err = harm.moves_bitmaps();
    let free_contents = match part {
        Part::Directory | Part::Map => is_owner,
        Part::Data => is_owner && is_link,
        _ => may_err && is.contents.is_err(),
    };
    let free_marks = match part {
        Part::Attributes => is_owner,
        _ => (may_err || harm.is_of_values) && is.marks.is_err(),
    };
    let attributes = difference("attributes", &was.attributes, &is.attributes);
    let contents = || difference("contents", &wanted, &is.contents).filter(|_| !free_contents);
    let marks = || difference("extended attributes", &was.marks, &is.marks).filter(|_| !free_marks);
    attributes.or_else(contents).or_else(marks)
}

fn difference<T>(what: &str, was: &Seen<T>, is: &Seen<T>) -> Option<String>
where
    T: PartialEq + core::fmt::Debug,
{
    if matches!((was, is), (Ok(was), Ok(is)) if was == is) {
        return None;
    }
    let short = |one: &Seen<T>| -> String {
        let text = match one {
            Ok(one) => format!("{one:?}"),
            Err(error) => format!("the error `{error}`"),
        };
        text.chars().take(200).collect()
    };
    let (was, is) = (short(was), short(is));
    Some(format!("{what} were {was}, and are {is}"))
}

/// Returns the contents of a file with the damaged block in them.
fn with_block(harm: &Harm, contents: &Seen<Contents>) -> Seen<Contents> {
    let mut contents = contents.clone();
    if let Ok(Contents::File(bytes)) = &mut contents {
        let start = harm.claim.file_block as usize * BLOCK_BYTES;
        let rest = bytes.get_mut(start..).unwrap_or_default();
        for (byte, bad) in rest.iter_mut().zip(harm.bad.iter()) {
            *byte = *bad;
        }
    }
    contents
}
