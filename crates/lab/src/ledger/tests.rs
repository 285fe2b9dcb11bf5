//! Ledgers compared with files that were changed on purpose.

use workload::directory::DirectoryTarget;
use workload::{OpenFlags, Target};

use super::*;

/// A folder with files, and their ledger.
struct Kept {
    folder: tempfile::TempDir,
    target: DirectoryTarget,
    ledger: Ledger,
}

fn seconds(count: u64) -> Nanos {
    Nanos::from_secs(count)
}

impl Kept {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let target = DirectoryTarget::new(folder.path()).expect("it is there");
        Self {
            folder,
            target,
            ledger: Ledger::default(),
        }
    }

    /// Writes bytes to a file and to the ledger.
    fn write(&mut self, path: &str, offset: u64, data: &[u8], at: Nanos) {
        let file = self
            .target
            .open(path, OpenFlags::WRITE.create())
            .expect("it works");
        self.target.pwrite(&file, data, offset).expect("it works");
        self.target.close(file).expect("it works");
        let number = self.ledger.opened(path);
        let write = Write {
            offset,
            data,
            at,
            is_synchronous: false,
        };
        self.ledger.wrote(number, &write);
    }

    /// Changes a file behind the back of the ledger.
    fn spoil(&self, path: &str, offset: u64, data: &[u8]) {
        let file = self.target.open(path, OpenFlags::WRITE).expect("it works");
        self.target.pwrite(&file, data, offset).expect("it works");
        self.target.close(file).expect("it works");
    }

    fn loss(&self, cut: Nanos) -> Loss {
        self.ledger
            .judge(&self.target, cut)
            .expect("it can be read")
    }
}

#[test]
fn what_is_as_it_was_left_is_no_loss() {
    let mut kept = Kept::new();
    kept.write("a", 0, &[1; 10_000], seconds(1));
    kept.write("a", 4096, &[2; 100], seconds(2));
    kept.write("/b", 5000, b"after a hole", seconds(3));
    let loss = kept.loss(seconds(4));
    assert_eq!((loss.files, loss.lost_files, loss.lost_bytes), (2, 0, 0));
    // The page that was overwritten in part counts with its new bytes only.
    let written = 10_000 - 4096 + 100 + 12;
    assert_eq!(
        loss.recent.map(|recent| recent.written),
        [12, written, written]
    );
    assert_eq!(kept.ledger.bytes_written(), 10_112);
}

#[test]
fn each_kind_of_damage_is_told_from_the_others() {
    let mut kept = Kept::new();
    kept.write("gone", 0, &[1; 4096], seconds(10));
    kept.write("short", 0, &[2; 8192], seconds(20));
    kept.write("zero", 0, &[3; 4096], seconds(30));
    kept.write("old", 0, &[4; 4096], seconds(35));
    kept.write("old", 0, &[5; 4096], seconds(36));
    kept.write("foreign", 0, &[6; 4096], seconds(39));
    std::fs::remove_file(kept.folder.path().join("gone")).expect("it was there");
    kept.target.truncate("short", 4096).expect("it works");
    kept.spoil("zero", 0, &[0; 4096]);
    kept.spoil("old", 0, &[4; 4096]);
    kept.spoil("foreign", 7, &[9; 1]);
    let loss = kept.loss(seconds(40));
    let page = 4096;
    let expected = Loss {
        files: 5,
        lost_files: 5,
        torn_files: 4,
        lost_bytes: 5 * page,
        wrong_bytes: 3 * page,
        zero_bytes: page,
        old_bytes: page,
        synced_lost_bytes: 0,
        age_max: seconds(30),
        returned_files: 0,
        recent: [(1, 1), (2, 2), (6, 5)].map(|(written, lost)| loss::Recent {
            written: written * page,
            lost: lost * page,
        }),
    };
    assert_eq!(loss, expected);
    assert_eq!(loss.foreign_bytes(), page);
}

#[test]
fn what_was_synced_was_promised() {
    let mut kept = Kept::new();
    for (name, at) in [("a", 1), ("b", 1), ("c", 3), ("d", 5)] {
        kept.write(name, 0, &[1; 100], seconds(at));
    }
    let file = kept.ledger.file("c").expect("it was opened");
    kept.ledger.synced(file, seconds(4));
    kept.ledger.synced_all(seconds(2));
    for name in ["a", "c", "d"] {
        kept.target.truncate(name, 0).expect("it works");
    }
    let loss = kept.loss(seconds(9));
    assert_eq!(
        (loss.lost_bytes, loss.synced_lost_bytes),
        (300, 200),
        "a and c"
    );
}

#[test]
fn names_follow_renames_and_removals() {
    let mut kept = Kept::new();
    for folder in ["x", "x/y"] {
        kept.target.mkdir(folder).expect("it works");
    }
    kept.write("x/y/a", 0, &[1; 10], seconds(1));
    kept.write("x/yz", 0, &[2; 10], seconds(1));
    kept.write("b", 0, &[3; 10], seconds(1));
    kept.target.link("b", "c").expect("it works");
    kept.ledger.linked("b", "c");
    for (old, new) in [("x/y", "z"), ("b", "x/yz")] {
        kept.target.rename(old, new).expect("it works");
        kept.ledger.renamed(old, new);
    }
    assert_eq!(kept.loss(seconds(2)).lost_files, 0);
    assert_eq!(
        kept.ledger.file("z/a").map(|file| kept.ledger.size(file)),
        Some(10)
    );
    assert_eq!(kept.ledger.file("c"), kept.ledger.file("x/yz"));
    kept.ledger.unlinked("z/a");
    let loss = kept.loss(seconds(2));
    assert_eq!(
        (loss.files, loss.returned_files),
        (1, 1),
        "it is still there"
    );
    kept.ledger.may_appear("z/a");
    assert_eq!(kept.loss(seconds(2)).returned_files, 0);
    kept.target.rename("x/yz", "b").expect("it works");
    std::fs::remove_file(kept.folder.path().join("c")).expect("it was there");
    let loss = kept.loss(seconds(2));
    assert_eq!(
        (loss.files, loss.lost_files),
        (1, 0),
        "its rename is undone"
    );
}

#[test]
fn a_file_in_doubt_is_not_judged() {
    let mut kept = Kept::new();
    kept.write("a", 0, &[1; 10], seconds(1));
    kept.target.truncate("a", 0).expect("it works");
    let file = kept.ledger.file("a");
    kept.ledger.doubt(file);
    assert_eq!(kept.loss(seconds(2)), Loss::default());
    kept.ledger.settle(file);
    assert_eq!(kept.loss(seconds(2)).lost_bytes, 10);
}
