//! The names in a directory, sorted. If there are very many, sorted runs of them go to a temporary
//! file and are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use rustix::fs::RawDir;

use crate::scratch;

/// Approximate memory of the names that are sorted at a time, in bytes, and of the next names of a
/// run.
const SORTED_BYTES: usize = 2 << 20;
const RUN_BUFFER_BYTES: usize = 8 << 10;
const WHAT: &str = "the names in a directory, in the folder for temporary files (TMPDIR)";

/// Names in one string, each with its zero byte.
#[derive(Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    runs: Option<Runs>,
}

/// Sorted names in a file.
struct Runs {
    file: File,
    /// Ends of the runs.
    ends: Vec<u64>,
}

impl Names {
    /// Reads the names in a directory and sorts them.
    pub(super) fn read(&mut self, directory: &OwnedFd, buffer: &mut Vec<u8>) -> Result<()> {
        self.clear();
        self.runs = None;
        let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                self.add(name, SORTED_BYTES).context(WHAT)?;
            }
        }
        self.sort();
        match self.runs {
            Some(_) => self.write_run().context(WHAT),
            None => Ok(()),
        }
    }

    /// Calls `see` with each name in byte order.
    pub(super) fn each(&self, see: &mut dyn FnMut(&CStr) -> Result<()>) -> Result<()> {
        let Some(runs) = &self.runs else {
            let mut starts = self.starts.iter();
            return starts.try_for_each(|start| see(name_at(&self.bytes, *start)));
        };
        let mut readers = runs.readers();
        let mut firsts = BinaryHeap::new();
        for (number, reader) in readers.iter_mut().enumerate() {
            let name = next_name(reader).context(WHAT)?;
            firsts.extend(name.map(|name| Reverse((name, number))));
        }
        while let Some(Reverse((name, number))) = firsts.pop() {
            see(&name)?;
            let name = next_name(&mut readers[number]).context(WHAT)?;
            firsts.extend(name.map(|name| Reverse((name, number))));
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }

    fn add(&mut self, name: &CStr, sorted_bytes: usize) -> Result<()> {
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
        if self.bytes.len() + size_of_val(&self.starts[..]) < sorted_bytes {
            return Ok(());
        }
        self.sort();
        self.write_run()
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.starts
            .sort_unstable_by_key(|start| name_at(bytes, *start));
    }

    fn write_run(&mut self) -> Result<()> {
        let runs = match &mut self.runs {
            Some(runs) => runs,
            none => none.insert(Runs {
                file: scratch::file()?,
                ends: Vec::new(),
            }),
        };
        let mut run = Vec::with_capacity(self.bytes.len());
        for start in &self.starts {
            run.extend_from_slice(name_at(&self.bytes, *start).to_bytes_with_nul());
        }
        let at = runs.ends.last().copied().unwrap_or_default();
        runs.file.write_all_at(&run, at)?;
        runs.ends.push(at + run.len() as u64);
        self.clear();
        Ok(())
    }
}

impl Runs {
    fn readers(&self) -> Vec<BufReader<Run<'_>>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let runs = starts.zip(&self.ends).map(|(at, end)| Run {
            file: &self.file,
            at,
            end: *end,
        });
        runs.map(|run| BufReader::with_capacity(RUN_BUFFER_BYTES, run))
            .collect()
    }
}

/// A run that is being read.
struct Run<'r> {
    file: &'r File,
    at: u64,
    end: u64,
}

impl Read for Run<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let wanted = left.min(into.len());
        let count = self.file.read_at(&mut into[..wanted], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

fn next_name(reader: &mut impl BufRead) -> Result<Option<CString>> {
    let mut name = Vec::new();
    reader.read_until(0, &mut name)?;
    match name.is_empty() {
        true => Ok(None),
        false => Ok(Some(CString::from_vec_with_nul(name)?)),
    }
}

fn name_at(bytes: &[u8], start: usize) -> &CStr {
    CStr::from_bytes_until_nul(&bytes[start..]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_names_are_merged() {
        let mut names = Names::default();
        let number = |number: u32| number.wrapping_mul(2_654_435_761) % 100_000;
        let name = |number: u32| CString::new(format!("{number}")).expect("no zero byte");
        let mut wanted: Vec<CString> = (0..10_000).map(|at| name(number(at))).collect();
        for name in &wanted {
            names.add(name, 3000).expect("there is room");
        }
        names.sort();
        names.write_run().expect("there is room");
        let runs = names.runs.as_ref().expect("more than one run");
        assert!(runs.ends.len() > 20);
        wanted.sort();
        let mut found = Vec::new();
        let each = names.each(&mut |name| {
            found.push(name.to_owned());
            Ok(())
        });
        each.expect("they are there");
        assert!(found == wanted);
    }
}
