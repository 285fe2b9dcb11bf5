//! Extended attributes and access control lists of the model: the attributes of a file, and the
//! bytes in which a volume returns them.

use std::collections::BTreeMap;

use layout::acl;
use zerocopy::IntoBytes;

use crate::op::Path;

/// Name of the access ACL.
const LIST: &[u8] = b"system.posix_acl_access";
/// Name of a directory's default ACL.
const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";
/// User ID of the named user in every list.
const NAMED_USER: u32 = 1000;
/// The permissions of the named user and the group, within the mask.
const NAMED_PERMISSIONS: u16 = 0o7;
const GROUP_PERMISSIONS: u16 = 0o5;

/// The attributes of a file: the lengths of the values by name, and the access control lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// Lengths of values by name, without `user.`.
    pub values: BTreeMap<Path, u32>,
    /// True if there is an access control list; its contents follow from the permission bits.
    pub has_list: bool,
    /// Permission bits of the default ACL, if the directory has one.
    pub inherited: Option<u16>,
}

impl Marks {
    /// Returns all attributes in the form in which a volume returns them.
    pub fn told(&self, permissions: u16) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let values = self.values.iter();
        let mut told: BTreeMap<_, _> = values
            .map(|(name, length)| (whole_name(name), value(*length)))
            .collect();
        if self.has_list {
            told.insert(LIST.to_vec(), list(permissions));
        }
        if let Some(inherited) = self.inherited {
            told.insert(DEFAULT_LIST.to_vec(), list(inherited));
        }
        told
    }

    /// Returns the attributes of a new node in a directory with these, and the requested permission
    /// bits that remain.
    pub fn inherit(&self, permissions: u16, is_directory: bool) -> (Self, u16) {
        let Some(inherited) = self.inherited else {
            return (Self::default(), permissions);
        };
        let own = Self {
            values: BTreeMap::new(),
            has_list: true,
            inherited: is_directory.then_some(inherited),
        };
        (own, permissions & inherited)
    }
}

/// Returns the full name of an attribute.
pub fn whole_name(name: &str) -> Vec<u8> {
    [b"user.", name.as_bytes()].concat()
}

/// Returns the name of the access ACL.
pub fn list_name() -> &'static [u8] {
    LIST
}

/// Returns the name of the default ACL.
pub fn default_list_name() -> &'static [u8] {
    DEFAULT_LIST
}

/// Returns the value of a length: the length's lowest byte, repeated.
pub fn value(length: u32) -> Vec<u8> {
    vec![length as u8; length as usize]
}

/// Returns the list that corresponds to permission bits, in the form of programs.
pub fn list(permissions: u16) -> Vec<u8> {
    let mut bytes = acl::VERSION_OF_PROGRAMS.to_le_bytes().to_vec();
    for (tag, bits, id) in [
        (acl::USER_OBJ, permissions >> 6, acl::NO_ID),
        (acl::USER, NAMED_PERMISSIONS, NAMED_USER),
        (acl::GROUP_OBJ, GROUP_PERMISSIONS, acl::NO_ID),
        (acl::MASK, permissions >> 3, acl::NO_ID),
        (acl::OTHER, permissions, acl::NO_ID),
    ] {
        let entry = acl::Entry {
            tag: tag.into(),
            permissions: (bits & 0o7).into(),
            id: id.into(),
        };
        bytes.extend_from_slice(entry.as_bytes());
    }
    bytes
}

/// Formats attributes.
pub fn text(told: &BTreeMap<Vec<u8>, Vec<u8>>) -> String {
    let words = told
        .iter()
        .map(|(name, value)| format!("{} of {} bytes", String::from_utf8_lossy(name), value.len()));
    words.collect::<Vec<_>>().join(", ")
}
