//! Names of encrypted directories, without the key: bytes of any value, which are shown in the form
//! of [`layout::encryption`].
//!
//! The form has the hash of the name that an index has, or would have; zeroes in a directory that
//! stays linear. A name is found only in the form in which it is listed, so that it has one.

use layout::encryption::{NoKeyName, no_key_name};
use layout::hash::{HashVersion, dx_hash};
use layout::inode_flags::InodeFlags;

use super::search::Search;
use super::{Place, block_name, future_hash, htree, linear, place_of_stored};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::error::Result;

/// The form in which the names of a directory are shown.
pub(super) enum Shown {
    /// As they are.
    Stored,
    /// Without a key, with this hash.
    NoKey(Option<HashVersion>),
}

impl Shown {
    /// Returns the form of a directory.
    pub(super) fn of(core: &Core, directory: &Inode, state: &InodeState) -> Result<Self> {
        if !state.flags.contains(InodeFlags::ENCRYPT) {
            return Ok(Self::Stored);
        }
        let tree = htree::open(core, directory, state)?;
        let hash = tree.map(|tree| tree.version());
        Ok(Self::NoKey(hash.or_else(|| future_hash(core, state))))
    }

    /// Returns the form of a name.
    pub(super) fn name(&self, core: &Core, stored: Vec<u8>) -> Vec<u8> {
        let Self::NoKey(version) = self else {
            return stored;
        };
        if stored == b"." || stored == b".." {
            return stored;
        }
        let (major, minor) = version.map_or((0, 0), |version| {
            let hash = dx_hash(version, core.superblock.hash_seed, &stored);
            (hash.major, hash.minor)
        });
        no_key_name(major, minor, &stored)
    }
}

/// Finds a name in the form in which it is shown.
pub(super) fn find(
    core: &Core,
    directory: &Inode,
    state: &InodeState,
    name: &[u8],
    search: &mut Search,
) -> Result<Option<Place>> {
    let Some(sought) = NoKeyName::decode(name) else {
        return Ok(None);
    };
    let found = match sought.whole() {
        Some(stored) => place_of_stored(core, directory, state, stored, search)?,
        None => {
            let is_it = |stored: &[u8]| sought.matches(stored);
            linear::find_by(core, directory, state, &is_it, search)?
        }
    };
    let Some(place) = found else {
        return Ok(None);
    };
    let stored = block_name(core, directory, state, place)?;
    let shown = Shown::of(core, directory, state)?;
    Ok((shown.name(core, stored) == name).then_some(place))
}
