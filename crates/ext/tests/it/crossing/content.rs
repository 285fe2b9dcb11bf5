//! Operations on a file system that give its log a particular content, by the engine and by the
//! kernel alike.

use ext::Volume;
use ext::options::DataMode;
use jbd2::recovery::Inspection;
use layout::journal::MAGIC_BYTES;
use testkit::Mount;

/// The content of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Images of metadata.
    Plain,
    /// A log whose end lies before its start.
    Wrapped,
    /// Revoke records, and blocks that are reused with another meaning.
    Revokes,
    /// Data in the log that starts with the journal's magic number.
    Escapes,
}

pub const ALL: &[Content] = &[
    Content::Plain,
    Content::Wrapped,
    Content::Revokes,
    Content::Escapes,
];

/// An implementation that works on a file system.
pub trait Hands {
    /// Creates a file, or replaces its contents.
    fn write(&self, path: &str, bytes: &[u8]);
    fn make_directory(&self, path: &str);
    fn remove(&self, path: &str);
    fn remove_directory(&self, path: &str);
    fn sync(&self);
}

impl Hands for Volume {
    fn write(&self, path: &str, bytes: &[u8]) {
        self.write_file(path, bytes).expect("write");
    }

    fn make_directory(&self, path: &str) {
        self.create_directory(path).expect("mkdir");
    }

    fn remove(&self, path: &str) {
        self.remove_file(path).expect("unlink");
    }

    fn remove_directory(&self, path: &str) {
        self.remove_directory_at(path).expect("rmdir");
    }

    fn sync(&self) {
        Volume::sync(self).expect("sync");
    }
}

impl Hands for Mount {
    fn write(&self, path: &str, bytes: &[u8]) {
        std::fs::write(self.at(path), bytes).expect("write");
    }

    fn make_directory(&self, path: &str) {
        std::fs::create_dir(self.at(path)).expect("mkdir");
    }

    fn remove(&self, path: &str) {
        std::fs::remove_file(self.at(path)).expect("unlink");
    }

    fn remove_directory(&self, path: &str) {
        std::fs::remove_dir(self.at(path)).expect("rmdir");
    }

    fn sync(&self) {
        Mount::sync(self);
    }
}

impl Content {
    /// Returns the data mode in which a log gets this content.
    pub fn data_mode(self) -> DataMode {
        match self {
            Self::Plain | Self::Revokes => DataMode::Ordered,
            Self::Wrapped | Self::Escapes => DataMode::Journal,
        }
    }

    /// Performs the operations; at the end everything is durable.
    pub fn make(self, hands: &dyn Hands, block_bytes: u32) {
        hands.make_directory("/base");
        hands.write("/base/first", &[1; 5000]);
        hands.sync();
        match self {
            Self::Plain => make_plain(hands),
            Self::Wrapped => make_wrapped(hands, block_bytes),
            Self::Revokes => make_revokes(hands, block_bytes),
            Self::Escapes => make_escapes(hands, block_bytes),
        }
        hands.sync();
    }

    /// Asserts that a log has this content.
    pub fn assert_in(self, log: &Inspection, what: &str) {
        let end = log.end.as_ref().expect("the log is dirty");
        assert!(!end.is_damaged, "{what}: {end:?}");
        assert!(!log.transactions.is_empty(), "{what}: nothing to replay");
        let is_wrapped = is_wrapped(log);
        let mut blocks = log.transactions.iter().flat_map(|it| &it.blocks);
        match self {
            Self::Plain => assert!(!is_wrapped, "{what}: the log is wrapped"),
            Self::Wrapped => assert!(is_wrapped, "{what}: the log is not wrapped"),
            Self::Revokes => {
                let mut all = log.transactions.iter();
                assert!(all.any(|it| !it.revokes.is_empty()), "{what}: no revoke");
            }
            Self::Escapes => {
                assert!(blocks.any(|it| it.is_escaped), "{what}: nothing is escaped");
            }
        }
    }
}

/// Returns true if a transaction of a log lies before its first one.
pub fn is_wrapped(log: &Inspection) -> bool {
    log.start
        .is_some_and(|start| log.transactions.iter().any(|it| it.commit_block < start))
}

fn make_plain(hands: &dyn Hands) {
    for number in 0..12 {
        hands.write(
            &format!("/file{number}"),
            &vec![number; 700 * usize::from(number)],
        );
        hands.make_directory(&format!("/directory{number}"));
        if number % 4 == 3 {
            hands.sync();
            hands.remove(&format!("/file{number}"));
        }
    }
}

/// Writes the same file through the log until it exceeds a log of 1024 blocks.
fn make_wrapped(hands: &dyn Hands, block_bytes: u32) {
    for round in 0..9 {
        hands.write("/large", &vec![round; 140 * block_bytes as usize]);
        hands.sync();
    }
}

/// Creates and removes directories of several blocks, whose blocks become files while the log still
/// has their images.
fn make_revokes(hands: &dyn Hands, block_bytes: u32) {
    let names: Vec<String> = (0..block_bytes / 64)
        .map(|number| format!("/many/{number:0100}"))
        .collect();
    hands.make_directory("/many");
    for name in &names {
        hands.write(name, b"");
    }
    hands.sync();
    for name in &names {
        hands.remove(name);
    }
    hands.remove_directory("/many");
    hands.sync();
    hands.write("/many", &vec![0xA5; 20 * block_bytes as usize]);
}

fn make_escapes(hands: &dyn Hands, block_bytes: u32) {
    let mut bytes = vec![0x3C; 20 * block_bytes as usize];
    for block in bytes.chunks_mut(block_bytes as usize).step_by(2) {
        block[..4].copy_from_slice(&MAGIC_BYTES);
    }
    hands.write("/magic", &bytes);
    hands.sync();
    bytes.rotate_left(block_bytes as usize);
    hands.write("/more", &bytes);
}
