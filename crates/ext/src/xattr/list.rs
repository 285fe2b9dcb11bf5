//! Access control lists: their two forms, and their relation to the permission bits of a mode.
//!
//! | permission bits | entry of a list with named users or groups | entry of one without |
//! |---|---|---|
//! | owner | the owner's | the owner's |
//! | group | the mask | the group's |
//! | others | the others' | the others' |

use layout::InodeNr;
use layout::acl;
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{Corrupt, Error, Result};

/// Bits of read, write and execute.
const ALL: u16 = 0o7;
/// Shifts of the bits of the owner, the group and the others in a mode.
const OWNER_SHIFT: u16 = 6;
const GROUP_SHIFT: u16 = 3;
const OTHER_SHIFT: u16 = 0;

/// A valid access control list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct List {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

impl Entry {
    fn is_named(self) -> bool {
        matches!(self.tag, acl::USER | acl::GROUP)
    }
}

impl List {
    /// Parses the form that programs use; returns none for a list without entries, which removes
    /// the list.
    ///
    /// # Errors
    /// - [`Error::Invalid`] for an invalid list; [`Error::Unsupported`] for another version.
    pub(super) fn from_programs(bytes: &[u8]) -> Result<Option<Self>> {
        let invalid = Error::Invalid("the access control list cannot be right");
        if bytes.is_empty() {
            return Ok(None);
        }
        let Ok((header, rest)) = acl::Header::ref_from_prefix(bytes) else {
            return Err(invalid);
        };
        if header.version.get() != acl::VERSION_OF_PROGRAMS {
            let text = "access control lists of another version than 2 are unknown";
            return Err(Error::Unsupported(text.to_owned()));
        }
        let Ok(raw) = <[acl::Entry]>::ref_from_bytes(rest) else {
            return Err(invalid);
        };
        if raw.is_empty() {
            return Ok(None);
        }
        let entries = raw.iter().map(|raw| Entry {
            tag: raw.tag.get(),
            permissions: raw.permissions.get(),
            id: raw.id.get(),
        });
        let list = Self {
            entries: entries.collect(),
        };
        if list.can_be() {
            Ok(Some(list.without_ids_of_nobody()))
        } else {
            Err(invalid)
        }
    }

    /// Parses the on-disk form.
    pub(super) fn from_ext(nr: InodeNr, bytes: &[u8]) -> Result<Self, Corrupt> {
        let corrupt = Corrupt::Attributes {
            inode: nr,
            why: "an access control list cannot be right",
        };
        match Self::parse_ext(bytes) {
            Some(list) if list.can_be() => Ok(list),
            _ => Err(corrupt),
        }
    }

    fn parse_ext(bytes: &[u8]) -> Option<Self> {
        let (header, mut rest) = acl::Header::ref_from_prefix(bytes).ok()?;
        if header.version.get() != acl::VERSION_OF_EXT {
            return None;
        }
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let (short, behind) = acl::ShortEntry::ref_from_prefix(rest).ok()?;
            let mut entry = Entry {
                tag: short.tag.get(),
                permissions: short.permissions.get(),
                id: acl::NO_ID,
            };
            rest = behind;
            if entry.is_named() {
                let (id, behind) = rest.split_first_chunk::<4>()?;
                entry.id = u32::from_le_bytes(*id);
                rest = behind;
            }
            entries.push(entry);
        }
        Some(Self { entries })
    }

    /// Encodes the form that programs use.
    pub(super) fn to_programs(&self) -> Vec<u8> {
        let mut bytes = acl::VERSION_OF_PROGRAMS.to_le_bytes().to_vec();
        for entry in &self.entries {
            let raw = acl::Entry {
                tag: entry.tag.into(),
                permissions: entry.permissions.into(),
                id: entry.id.into(),
            };
            bytes.extend_from_slice(raw.as_bytes());
        }
        bytes
    }

    /// Encodes the on-disk form.
    pub(super) fn to_ext(&self) -> Vec<u8> {
        let mut bytes = acl::VERSION_OF_EXT.to_le_bytes().to_vec();
        for entry in &self.entries {
            let raw = acl::ShortEntry {
                tag: entry.tag.into(),
                permissions: entry.permissions.into(),
            };
            bytes.extend_from_slice(raw.as_bytes());
            if entry.is_named() {
                bytes.extend_from_slice(&entry.id.to_le_bytes());
            }
        }
        bytes
    }

    /// Returns true if the list is valid: entries are sorted by tag; the owner, the group and the
    /// others occur once; a list with named users or groups has a mask.
    fn can_be(&self) -> bool {
        let count = |tag| self.entries.iter().filter(|entry| entry.tag == tag).count();
        let is_known = |entry: &Entry| {
            let is_tag = entry.tag.is_power_of_two() && entry.tag <= acl::OTHER;
            is_tag && entry.permissions <= ALL && !(entry.is_named() && entry.id == acl::NO_ID)
        };
        self.entries.iter().all(is_known)
            && self.entries.is_sorted_by_key(|entry| entry.tag)
            && [acl::USER_OBJ, acl::GROUP_OBJ, acl::OTHER]
                .iter()
                .all(|tag| count(*tag) == 1)
            && count(acl::MASK) <= 1
            && (count(acl::MASK) == 1 || !self.entries.iter().any(|entry| entry.is_named()))
    }

    fn without_ids_of_nobody(mut self) -> Self {
        for entry in &mut self.entries {
            if !entry.is_named() {
                entry.id = acl::NO_ID;
            }
        }
        self
    }

    /// Returns true if permission bits are equivalent to the list.
    pub(super) fn is_minimal(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| !entry.is_named() && entry.tag != acl::MASK)
    }

    /// Returns the tag of the entry with the bits of the group.
    fn group_tag(&self) -> u16 {
        if self.entries.iter().any(|entry| entry.tag == acl::MASK) {
            acl::MASK
        } else {
            acl::GROUP_OBJ
        }
    }

    /// Returns the shift of an entry's bits in a mode; none for entries that are not in it.
    fn shift_of(&self, tag: u16) -> Option<u16> {
        match tag {
            acl::USER_OBJ => Some(OWNER_SHIFT),
            acl::OTHER => Some(OTHER_SHIFT),
            tag if tag == self.group_tag() => Some(GROUP_SHIFT),
            _ => None,
        }
    }

    /// Returns the permission bits that correspond to the list.
    pub(super) fn permissions(&self) -> u16 {
        let bits = |entry: &Entry| Some(entry.permissions << self.shift_of(entry.tag)?);
        self.entries
            .iter()
            .filter_map(bits)
            .fold(0, |all, bits| all | bits)
    }

    /// Sets the permission bits, as chmod does to a list.
    pub(super) fn set_permissions(&mut self, permissions: u16) {
        for at in 0..self.entries.len() {
            if let Some(shift) = self.shift_of(self.entries[at].tag) {
                self.entries[at].permissions = permissions >> shift & ALL;
            }
        }
    }

    /// Restricts a default ACL for a new inode with these permissions: each side loses bits that
    /// the other does not have. Returns the remaining permissions.
    pub(super) fn restrict(&mut self, permissions: u16) -> u16 {
        let mut remaining = permissions;
        for at in 0..self.entries.len() {
            let Some(shift) = self.shift_of(self.entries[at].tag) else {
                continue;
            };
            let entry = &mut self.entries[at];
            entry.permissions &= remaining >> shift & ALL;
            remaining = remaining & !(ALL << shift) | entry.permissions << shift;
        }
        remaining
    }
}

#[cfg(test)]
mod tests;
