//! Owners of files, all the same or mapped by ranges.
//!
//! A range is written as in mount(8)'s `X-mount.idmap`: `u:FROM:TO:COUNT` for users, `g:` for
//! groups, `b:` or nothing for both. The owners FROM, FROM+1, ... of the source become TO, TO+1,
//! ... in the image. If users have ranges, a user outside of all is an error, and likewise groups.

use anyhow::{Context, Result, bail};
use ext::volume::FileKind;
use layout::acl;
use zerocopy::{FromBytes, IntoBytes};

use super::Node;

/// Attributes that hold access control lists.
const LISTS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// The owners of files in an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Owners {
    /// Those of the source.
    #[default]
    Kept,
    /// One user and one group for all files.
    All {
        /// User ID.
        uid: u32,
        /// Group ID.
        gid: u32,
    },
    /// Mapped by ranges.
    Mapped {
        /// Ranges of user IDs; without any, users stay the same.
        users: Vec<IdRange>,
        /// Ranges of group IDs; without any, groups stay the same.
        groups: Vec<IdRange>,
    },
}

/// A range of IDs and its place in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// First ID in the source.
    pub from: u32,
    /// First ID in the image.
    pub to: u32,
    /// Number of IDs.
    pub count: u32,
}

impl IdRange {
    fn map(&self, id: u32) -> Option<u32> {
        let offset = id.checked_sub(self.from)?;
        (offset < self.count).then(|| self.to + offset)
    }
}

impl Owners {
    /// Parses `UID:GID`.
    ///
    /// # Errors
    /// Fails if the text has another form.
    pub fn parse_all(text: &str) -> Result<Self> {
        let numbers = text
            .split_once(':')
            .and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
        let (uid, gid) = numbers.with_context(|| format!("{text}: expected UID:GID"))?;
        Ok(Self::All { uid, gid })
    }

    /// Parses ranges such as `u:100000:0:65536`; each text may hold several, separated by commas or
    /// spaces.
    ///
    /// # Errors
    /// Fails if a text has another form, or ranges overlap.
    pub fn parse_ranges<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Self> {
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        let words = texts.into_iter().flat_map(|text| text.split([',', ' ']));
        for word in words.filter(|word| !word.is_empty()) {
            let (kind, numbers) = match word.split_once(':') {
                Some((kind @ ("u" | "g" | "b"), numbers)) => (kind, numbers),
                _ => ("b", word),
            };
            let range = parse_range(numbers)
                .with_context(|| format!("{word}: expected u:FROM:TO:COUNT, g: or b:"))?;
            for (letter, ranges) in [("u", &mut users), ("g", &mut groups)] {
                if kind == letter || kind == "b" {
                    add(ranges, range).with_context(|| word.to_owned())?;
                }
            }
        }
        Ok(Self::Mapped { users, groups })
    }

    /// Sets the owners of a node, and of its access control lists.
    pub(super) fn apply(&self, node: &mut Node) -> Result<()> {
        match self {
            Self::Kept => {}
            Self::All { uid, gid } => (node.uid, node.gid) = (*uid, *gid),
            Self::Mapped { users, groups } => {
                node.uid = mapped(users, node.uid, "user")?;
                node.gid = mapped(groups, node.gid, "group")?;
                if node.kind != FileKind::Symlink {
                    let mut attributes = node.attributes.iter_mut();
                    attributes.try_for_each(|(name, value)| {
                        match LISTS.contains(&name.as_slice()) {
                            true => map_list(value, users, groups),
                            false => Ok(()),
                        }
                    })?;
                }
            }
        }
        Ok(())
    }
}

fn parse_range(text: &str) -> Option<IdRange> {
    let mut numbers = text.split(':').map(|word| word.parse::<u32>().ok());
    let (from, to, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let fits = |first: u32| count > 0 && first.checked_add(count - 1).is_some();
    let is_right = numbers.next().is_none() && fits(from) && fits(to);
    is_right.then_some(IdRange { from, to, count })
}

/// Adds a range that has no ID in common with the others, on either side.
fn add(ranges: &mut Vec<IdRange>, range: IdRange) -> Result<()> {
    let meets = |one: u32, other: u32, other_count: u32| {
        let (one, other) = (u64::from(one), u64::from(other));
        one < other + u64::from(other_count) && other < one + u64::from(range.count)
    };
    let overlaps = ranges.iter().any(|other| {
        meets(range.from, other.from, other.count) || meets(range.to, other.to, other.count)
    });
    if overlaps {
        bail!("overlaps another range");
    }
    ranges.push(range);
    Ok(())
}

fn mapped(ranges: &[IdRange], id: u32, what: &str) -> Result<u32> {
    if ranges.is_empty() {
        return Ok(id);
    }
    let place = ranges.iter().find_map(|range| range.map(id));
    place.with_context(|| format!("{what} {id} is in no range of the owner map"))
}

/// Maps the users and groups that an access control list names. A list that is no list stays as it
/// is: the volume refuses it.
fn map_list(value: &mut [u8], users: &[IdRange], groups: &[IdRange]) -> Result<()> {
    let Ok((_, rest)) = acl::Header::ref_from_prefix(value) else {
        return Ok(());
    };
    let start = value.len() - rest.len();
    for bytes in value[start..].chunks_exact_mut(size_of::<acl::Entry>()) {
        let Ok(mut entry) = acl::Entry::read_from_bytes(bytes) else {
            continue;
        };
        entry.id = match entry.tag.get() {
            acl::USER => mapped(users, entry.id.get(), "user")?.into(),
            acl::GROUP => mapped(groups, entry.id.get(), "group")?.into(),
            _ => continue,
        };
        bytes.copy_from_slice(entry.as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_map_owners_and_lists() {
        let owners = Owners::parse_ranges(["u:100000:0:65536,u:1000:70000:1", "g:5:6:1"]);
        let owners = owners.expect("they are ranges");
        let list = crate::acl_text::parse("u::rwx,u:100007:r-x,g::r-x,g:5:r-x,m::rwx,o::---");
        let node = |uid, gid| {
            let mut node = Node::plain_directory(Vec::new());
            (node.uid, node.gid) = (uid, gid);
            let list = list.as_ref().expect("a list").clone();
            node.attributes = vec![(LISTS[0].to_vec(), list)];
            let applied = owners.apply(&mut node);
            applied.map(|()| node).map_err(|error| error.to_string())
        };
        let mapped = node(100_005, 5).expect("they are in ranges");
        assert_eq!((mapped.uid, mapped.gid), (5, 6));
        let list = crate::acl_text::write(&mapped.attributes[0].1);
        assert_eq!(
            list.as_deref(),
            Some("user::rwx,user:7:r-x,group::r-x,group:6:r-x,mask::rwx,other::---")
        );
        assert_eq!(node(1000, 5).expect("a range").uid, 70_000);
        let error = |uid, gid| node(uid, gid).expect_err("it is in no range");
        assert_eq!(error(0, 5), "user 0 is in no range of the owner map");
        assert_eq!(error(1000, 0), "group 0 is in no range of the owner map");
    }

    #[test]
    fn ranges_do_not_overlap() {
        for (text, is_right) in [
            ("0:100000:65536", true),
            ("u:0:1:1 g:0:1:1", true),
            ("u:0:1:1,b:0:1:1", false),
            ("u:0:10:5,u:5:14:1", false),
            ("u:0:1:0", false),
            ("u:4294967295:0:2", false),
            ("u:0:1", false),
            ("u:0:1:1:1", false),
            ("x:0:1:1", false),
        ] {
            assert_eq!(Owners::parse_ranges([text]).is_ok(), is_right, "{text}");
        }
        assert!(Owners::parse_all("0:0").is_ok());
        assert!(Owners::parse_all("root:0").is_err());
    }
}
