//! The state of each inode, in pages that are allocated once one of their inodes is in use.

use std::ops::{Index, IndexMut, RangeInclusive};

/// Number of inodes in a page, which takes 4 KiB.
const PAGE_INODES: usize = 512;

/// The state of an inode after the inode tables were read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InodeState {
    /// Number of entries that refer to it.
    pub(crate) references: u32,
    /// Link count on disk.
    pub(crate) links: u16,
    /// Type code of directory entries; 0 if the inode is free, [`InodeState::BAD`] if it is in use
    /// without a valid type.
    pub(crate) file_type: u8,
    pub(crate) usage: Usage,
}

/// The use of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    Free,
    /// In use, without a block map.
    Used,
    /// In use; its block map was read.
    Mapped,
    /// In a bad block: it counts as in use, and its contents are unknown.
    Lost,
}

/// The states of all inodes, by number.
pub(crate) struct InodeStates {
    pages: Vec<Option<Box<[InodeState; PAGE_INODES]>>>,
}

const FREE: InodeState = InodeState {
    references: 0,
    links: 0,
    file_type: 0,
    usage: Usage::Free,
};

impl InodeState {
    /// File type of an inode in use with an invalid mode.
    pub(crate) const BAD: u8 = 0xFF;
    /// An inode in a bad block, which counts as in use.
    pub(crate) const LOST: Self = Self {
        references: 0,
        links: 0,
        file_type: Self::BAD,
        usage: Usage::Lost,
    };

    /// True if the inode counts as in use.
    pub(crate) fn is_used(&self) -> bool {
        self.usage != Usage::Free
    }
}

impl InodeStates {
    /// Creates the states of free inodes.
    pub(crate) fn new(inode_count: u32) -> Self {
        let count = (inode_count as usize + 1).div_ceil(PAGE_INODES);
        Self {
            pages: vec![None; count],
        }
    }

    /// Iterates over the inodes of a range that may be in use.
    pub(crate) fn known(
        &self,
        numbers: RangeInclusive<u32>,
    ) -> impl Iterator<Item = (u32, &InodeState)> {
        let (first, last) = (*numbers.start() as usize, *numbers.end() as usize);
        let pages = self.pages.iter().enumerate();
        let pages = pages.take(last / PAGE_INODES + 1).skip(first / PAGE_INODES);
        let pages = pages.filter_map(|(page, states)| Some((page, states.as_ref()?)));
        let states = pages.flat_map(|(page, states)| {
            let states = states.iter().enumerate();
            states.map(move |(index, state)| ((page * PAGE_INODES + index) as u32, state))
        });
        states.filter(move |(number, _)| numbers.contains(number))
    }
}

impl Index<u32> for InodeStates {
    type Output = InodeState;

    #[inline]
    fn index(&self, number: u32) -> &InodeState {
        let number = number as usize;
        match &self.pages[number / PAGE_INODES] {
            Some(page) => &page[number % PAGE_INODES],
            None => &FREE,
        }
    }
}

impl IndexMut<u32> for InodeStates {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut InodeState {
        let number = number as usize;
        let page = &mut self.pages[number / PAGE_INODES];
        &mut page.get_or_insert_with(|| Box::new([FREE; PAGE_INODES]))[number % PAGE_INODES]
    }
}
