//! Images of file systems, created by e2fsprogs in a temporary folder.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use layout::extent;
use layout::group::{self, GroupDescriptor};
use layout::inode::{self, Inode, InodeFlags};
use layout::superblock::{self, Superblock};
use tempfile::TempDir;
use zerocopy::{FromBytes, IntoBytes};

/// Runs a tool with `input` as its standard input, and returns its output. Its exit code must be
/// one of `good`.
pub(crate) fn run(tool: &str, args: &[&str], input: &[u8], good: &[i32]) -> Vec<u8> {
    let mut stdin = tempfile::tempfile().unwrap();
    stdin.write_all(input).unwrap();
    stdin.rewind().unwrap();
    let mut command = Command::new(tool);
    command
        .args(args)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .stdin(stdin);
    let output = command.output().unwrap_or_else(|error| {
        panic!("{tool} cannot be run ({error}): install it with `apt-get install e2fsprogs`")
    });
    assert!(
        output
            .status
            .code()
            .is_some_and(|code| good.contains(&code)),
        "{tool} {args:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// An image of a file system in a folder of its own.
pub(crate) struct Image {
    folder: TempDir,
}

impl Image {
    /// Creates an image with `mke2fs` and these options.
    pub(crate) fn make(mebibytes: u64, options: &str) -> Self {
        let image = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        File::create(image.path())
            .unwrap()
            .set_len(mebibytes << 20)
            .unwrap();
        let path = image.path_text();
        let mut args: Vec<&str> = vec!["-q", "-F"];
        args.extend(options.split_whitespace());
        args.push(&path);
        run("mke2fs", &args, b"", &[0]);
        image
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    pub(crate) fn path_text(&self) -> String {
        self.path().into_os_string().into_string().unwrap()
    }

    /// Creates a file with these contents beside the image, and returns its path.
    pub(crate) fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// Runs debugfs commands on the image, read-write.
    pub(crate) fn debugfs(&self, commands: &str) -> String {
        let path = self.path_text();
        let args = ["-w", "-f", "-", &path];
        String::from_utf8(run("debugfs", &args, commands.as_bytes(), &[0])).unwrap()
    }

    /// Returns the output of dumpe2fs.
    pub(crate) fn facts(&self) -> Facts {
        let path = self.path_text();
        let text = run("dumpe2fs", &["-h", &path], b"", &[0]);
        Facts(String::from_utf8(text).unwrap())
    }

    /// Reads the image into memory.
    pub(crate) fn read(&self) -> Volume {
        Volume::read(&self.path())
    }
}

/// The output of dumpe2fs: lines of `name: value`.
pub(crate) struct Facts(String);

impl Facts {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key == name).then(|| value.trim())
        })
    }

    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name)
            .unwrap_or_else(|| panic!("dumpe2fs says nothing about {name:?}:\n{}", self.0))
    }

    /// Returns the number at the start of a value: decimal, or hexadecimal after 0x.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        let word = self.text(name).split_whitespace().next().unwrap();
        match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => word.parse().unwrap(),
        }
    }

    /// Asserts that a value is this text.
    #[track_caller]
    pub(crate) fn check_text(&self, name: &str, ours: &str) {
        assert_eq!(self.text(name), ours, "{name}");
    }

    /// Asserts that a value is this number.
    #[track_caller]
    pub(crate) fn check_number(&self, name: &str, ours: impl Into<u64>) {
        assert_eq!(self.number(name), ours.into(), "{name}");
    }

    /// Asserts that a value is this number, or absent if the number is 0.
    #[track_caller]
    pub(crate) fn check_optional(&self, name: &str, ours: impl Into<u64>) {
        let theirs = self.get(name).map_or(0, |_| self.number(name));
        assert_eq!(theirs, ours.into(), "{name}");
    }
}

/// A file system in memory, read only.
pub(crate) struct Volume {
    bytes: Vec<u8>,
    pub(crate) superblock: Superblock,
}

impl Volume {
    fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let at = superblock::OFFSET as usize;
        let (superblock, _) = Superblock::read_from_prefix(&bytes[at..]).unwrap();
        Self { bytes, superblock }
    }

    pub(crate) fn block_size(&self) -> usize {
        self.superblock.block_size().unwrap() as usize
    }

    pub(crate) fn block(&self, nr: u64) -> &[u8] {
        let size = self.block_size();
        &self.bytes[nr as usize * size..][..size]
    }

    /// Returns the size of a group descriptor in bytes.
    pub(crate) fn descriptor_size(&self) -> usize {
        match self.superblock.descriptor_size.get() {
            0 => group::SIZE,
            size => usize::from(size),
        }
    }

    /// Returns the bytes of a group's descriptor.
    pub(crate) fn descriptor(&self, nr: u32) -> &[u8] {
        let table = (self.superblock.first_data_block.get() as usize + 1) * self.block_size();
        let size = self.descriptor_size();
        &self.bytes[table + nr as usize * size..][..size]
    }

    /// Returns the bytes of an inode in its table, its extra part included.
    pub(crate) fn inode_bytes(&self, nr: u32) -> &[u8] {
        let per_group = self.superblock.inodes_per_group.get();
        let (group, index) = ((nr - 1) / per_group, (nr - 1) % per_group);
        let (descriptor, _) = GroupDescriptor::ref_from_prefix(self.descriptor(group)).unwrap();
        let table = descriptor.inode_table_low.get() as usize * self.block_size();
        let size = usize::from(self.superblock.inode_size());
        &self.bytes[table + index as usize * size..][..size]
    }

    pub(crate) fn inode(&self, nr: u32) -> Inode {
        Inode::read_from_prefix(self.inode_bytes(nr)).unwrap().0
    }

    /// Maps a file block to a device block, for small files and shallow trees.
    pub(crate) fn map(&self, file: &Inode, nr: u64) -> u64 {
        if file.flags().contains(InodeFlags::EXTENTS) {
            return map_extents(file, nr);
        }
        let words = file.map();
        let per_block = (self.block_size() / inode::POINTER_SIZE) as u64;
        let direct = inode::DIRECT_BLOCKS as u64;
        let word = |block: u32, index: u64| {
            let bytes = &self.block(u64::from(block))[index as usize * inode::POINTER_SIZE..];
            u32::from_le_bytes(bytes[..4].try_into().unwrap())
        };
        if nr < direct {
            return u64::from(words[nr as usize]);
        }
        if nr < direct + per_block {
            return u64::from(word(words[inode::INDIRECT_SLOT], nr - direct));
        }
        let nr = nr - direct - per_block;
        let indirect = word(words[inode::DOUBLE_INDIRECT_SLOT], nr / per_block);
        u64::from(word(indirect, nr % per_block))
    }

    /// Returns a block of a file.
    pub(crate) fn file_block(&self, file: &Inode, nr: u64) -> &[u8] {
        self.block(self.map(file, nr))
    }
}

/// Maps a block through an extent tree that fits in the inode.
fn map_extents(file: &Inode, nr: u64) -> u64 {
    let bytes = file.map_words.as_bytes();
    let (header, rest) = extent::Header::ref_from_prefix(bytes).unwrap();
    assert_eq!(header.magic.get(), extent::MAGIC);
    assert_eq!(header.depth.get(), 0);
    let count = usize::from(header.entry_count.get());
    let (extents, _) = <[extent::Extent]>::ref_from_prefix_with_elems(rest, count).unwrap();
    let extent = extents
        .iter()
        .rev()
        .find(|extent| u64::from(extent.file_block.get()) <= nr)
        .unwrap();
    let within = nr - u64::from(extent.file_block.get());
    assert!(within < u64::from(extent.length.get()));
    let high = u64::from(extent.start_high.get()) << 32;
    high + u64::from(extent.start_low.get()) + within
}
