//! Lists that may be larger than memory: some of their pages are in memory, the others in a
//! temporary file. Lists that fit are never written.

mod index;

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::scratch;
pub(crate) use index::Index;

/// Approximate size of a page in bytes.
const PAGE_BYTES: usize = 4096;
const WHAT: &str = "a list of files, in the folder for temporary files (TMPDIR)";

/// An item of a list.
pub(crate) trait Item: Copy + FromBytes + IntoBytes + Immutable {}

impl<T: Copy + FromBytes + IntoBytes + Immutable> Item for T {}

/// A list of items of the same size. An item that was never set is zero; [`Self::split_off`] and
/// [`Self::lengthen`] are not for the same list.
#[derive(Debug)]
pub(crate) struct Paged<T> {
    /// Pages in memory; the place of a page is its number modulo the maximum number of places.
    places: Vec<Option<Page<T>>>,
    /// A power of 2.
    places_max: usize,
    length: usize,
    file: Option<File>,
}

#[derive(Debug)]
struct Page<T> {
    number: usize,
    is_changed: bool,
    items: Vec<T>,
}

impl<T: Item> Paged<T> {
    const PAGE_ITEMS: usize = PAGE_BYTES / size_of::<T>();

    /// Returns an empty list that takes at most approximately this memory.
    pub(crate) fn new(memory_bytes: usize) -> Self {
        Self::zeroed(memory_bytes, 0)
    }

    /// Returns a list of zeroes.
    pub(crate) fn zeroed(memory_bytes: usize, length: usize) -> Self {
        Self {
            places: Vec::new(),
            places_max: (memory_bytes / PAGE_BYTES).max(1).next_power_of_two(),
            length,
            file: None,
        }
    }

    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Makes the list as long as this, with zeroes, if it is shorter.
    pub(crate) fn lengthen(&mut self, length: usize) {
        self.length = self.length.max(length);
    }

    /// Removes items and returns them: the last ones.
    pub(crate) fn split_off(&mut self, index: usize) -> Result<Vec<T>> {
        let mut items = vec![T::new_zeroed(); self.length - index];
        self.read(index, &mut items)?;
        self.length = index;
        Ok(items)
    }

    /// Appends items.
    pub(crate) fn extend(&mut self, items: &[T]) -> Result<()> {
        let mut rest = items;
        while !rest.is_empty() {
            let (page, at) = self.page(self.length)?;
            let count = rest.len().min(Self::PAGE_ITEMS - at);
            page.items[at..at + count].copy_from_slice(&rest[..count]);
            page.is_changed = true;
            rest = &rest[count..];
            self.length += count;
        }
        Ok(())
    }

    /// Appends an item.
    pub(crate) fn push(&mut self, item: T) -> Result<()> {
        self.extend(&[item])
    }

    /// Returns an item.
    pub(crate) fn get(&mut self, index: usize) -> Result<T> {
        assert!(index < self.length, "item {index} of {}", self.length);
        let (page, at) = self.page(index)?;
        Ok(page.items[at])
    }

    /// Returns an item to change it.
    pub(crate) fn get_mut(&mut self, index: usize) -> Result<&mut T> {
        assert!(index < self.length, "item {index} of {}", self.length);
        let (page, at) = self.page(index)?;
        page.is_changed = true;
        Ok(&mut page.items[at])
    }

    /// Reads consecutive items.
    pub(crate) fn read(&mut self, index: usize, into: &mut [T]) -> Result<()> {
        assert!(index + into.len() <= self.length);
        let mut done = 0;
        while done < into.len() {
            let (page, at) = self.page(index + done)?;
            let count = (into.len() - done).min(Self::PAGE_ITEMS - at);
            into[done..done + count].copy_from_slice(&page.items[at..at + count]);
            done += count;
        }
        Ok(())
    }

    /// Returns the page of an item, and the place of the item within it.
    fn page(&mut self, index: usize) -> Result<(&mut Page<T>, usize)> {
        let (number, at) = (index / Self::PAGE_ITEMS, index % Self::PAGE_ITEMS);
        let place = number & (self.places_max - 1);
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        let found = &self.places[place];
        if found.as_ref().is_none_or(|page| page.number != number) {
            let page = self.exchange(place, number).context(WHAT)?;
            self.places[place] = Some(page);
        }
        let page = self.places[place].as_mut();
        Ok((page.context("a page that was just read")?, at))
    }

    /// Takes the page at a place out of memory, and returns another one.
    fn exchange(&mut self, place: usize, number: usize) -> Result<Page<T>> {
        let items = match self.places[place].take() {
            None => vec![T::new_zeroed(); Self::PAGE_ITEMS],
            Some(mut old) => {
                if old.is_changed {
                    let file = match &mut self.file {
                        Some(file) => file,
                        none => none.insert(scratch::file()?),
                    };
                    file.write_all_at(old.items.as_bytes(), Self::offset(old.number))?;
                }
                old.items.fill(T::new_zeroed());
                old.items
            }
        };
        let mut page = Page {
            number,
            is_changed: false,
            items,
        };
        if let Some(file) = &self.file {
            // Pages behind the end of the file were never written.
            let (mut rest, mut offset) = (page.items.as_mut_bytes(), Self::offset(number));
            while !rest.is_empty() {
                match file.read_at(rest, offset)? {
                    0 => break,
                    count => {
                        rest = &mut rest[count..];
                        offset += count as u64;
                    }
                }
            }
        }
        Ok(page)
    }

    fn offset(number: usize) -> u64 {
        (number * Self::PAGE_ITEMS * size_of::<T>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_larger_than_its_memory_keeps_its_items() {
        let mut list = Paged::<[u32; 7]>::new(8 * PAGE_BYTES);
        let item = |number: u32| [number; 7];
        for number in 0..10_000 {
            list.push(item(number)).expect("there is room");
        }
        assert!(list.file.is_some() && list.places.len() == 8);
        for number in (0..10_000_u32).map(|number| number * 7919 % 10_000) {
            let found = list.get(number as usize).expect("it is there");
            assert_eq!(found, item(number));
            *list.get_mut(number as usize).expect("it is there") = item(number + 1);
        }
        for number in (0..10_000_u32).rev() {
            let found = list.get(number as usize).expect("it is there");
            assert_eq!(found, item(number + 1));
        }
    }

    #[test]
    fn bytes_lie_across_pages_and_zeroes_are_not_written() {
        let mut list = Paged::<u8>::new(PAGE_BYTES);
        let bytes: Vec<u8> = (0..20_000_u32).map(|number| number as u8).collect();
        list.extend(&bytes).expect("there is room");
        for (at, length) in [(0, 20_000), (4090, 12), (19_999, 1), (5, 0)] {
            let mut found = vec![0; length];
            list.read(at, &mut found).expect("it is there");
            assert!(found == bytes[at..at + length], "{at}");
        }
        let mut zeroes = Paged::<u64>::zeroed(PAGE_BYTES, 1 << 30);
        assert_eq!(zeroes.get((1 << 30) - 1).expect("it is there"), 0);
        *zeroes.get_mut(1 << 20).expect("it is there") = 5;
        assert_eq!(zeroes.get(1 << 29).expect("it is there"), 0);
        assert_eq!(zeroes.get(1 << 20).expect("it is there"), 5);
        assert_eq!(zeroes.get((1 << 20) + 1).expect("it is there"), 0);
    }
}
