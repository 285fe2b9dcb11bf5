//! Impossible cells of the matrix, with the messages of the programs that refuse them.

use ext::{MountOptions, Volume};
use testkit::{Shutdown, privilege};

use super::content::Content;
use super::log_format::{self, LogFormat, OLD, PLAIN, V1, V2, V3};
use super::{readers, writers};
use crate::image::Image;

/// An impossible cell, the message of the refusal, and a function that provokes it.
type Row = (&'static str, &'static str, fn() -> String);

const ROWS: &[Row] = &[
    (
        "debugfs writes no log that wraps",
        "No space left on device while writing journal",
        || writers::by_debugfs(&blank(PLAIN), PLAIN, Content::Wrapped),
    ),
    (
        "debugfs takes revoke blocks into checksums v1, which are over all others: its log is damaged to e2fsck",
        "Journal transaction 2 was corrupt, replay was aborted.",
        || readers::e2fsck(&["-fy"], &debugfs_v1_with_revokes()).1,
    ),
    ("to the kernel", "error loading journal", || {
        refusal_of_kernel(&debugfs_v1_with_revokes(), "ro")
    }),
    ("and to the engine", "checksum does not match", || {
        refusal_of_engine(&debugfs_v1_with_revokes())
    }),
    (
        "debugfs writes checksums v2 and v3 only for a volume with checksums of metadata; v1 otherwise",
        "features: journal_checksum;",
        || {
            let image = blank(PLAIN);
            writers::by_debugfs(&image, V3, Content::Plain);
            features(&image)
        },
    ),
    (
        "the kernel writes no revokes into a log of version 1: it takes only data=journal there",
        "Journal does not support requested data journaling mode",
        || refusal_of_kernel(&blank(OLD), "data=ordered"),
    ),
    (
        "the kernel takes no external log of version 1, which cannot name its user",
        "External journal has more than one user (unsupported) - 0",
        || refusal_of_kernel(&writers::blank(OLD, true, false), "data=journal"),
    ),
    (
        "the kernel takes checksums v2 away from a log",
        "features: ;",
        || features(&written_by_kernel(V2, false)),
    ),
    (
        "and v3, without checksums of metadata",
        "features: ;",
        || features(&written_by_kernel(V3, false)),
    ),
    (
        "with them, it makes v3 of v2",
        "features: journal_checksum_v3;",
        || features(&written_by_kernel(V2, true)),
    ),
];

fn blank(format: LogFormat) -> Image {
    writers::blank(format, false, false)
}

fn debugfs_v1_with_revokes() -> Image {
    let image = blank(V1);
    writers::by_debugfs(&image, V1, Content::Revokes);
    image
}

fn written_by_kernel(format: LogFormat, has_metadata_checksums: bool) -> Image {
    let image = writers::blank(format, false, has_metadata_checksums);
    writers::by_kernel(&image, PLAIN, Content::Plain, Shutdown::FlushesLog);
    image
}

fn features(image: &Image) -> String {
    format!("features: {};", log_format::features(image).join(","))
}

fn refusal_of_kernel(image: &Image, options: &str) -> String {
    match image.mount(options) {
        Ok(_) => "it is mounted".to_owned(),
        Err(why) => why,
    }
}

fn refusal_of_engine(image: &Image) -> String {
    let options = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let before = std::fs::read(&image.path).expect("the image is there");
    match Volume::open(image.device(), None, options) {
        Ok(_) => "it is open".to_owned(),
        Err(why) => {
            let after = std::fs::read(&image.path).expect("the image is there");
            assert!(before == after, "what is refused is not touched");
            why.to_string()
        }
    }
}

#[test]
fn what_cannot_be_is_said() {
    if !privilege::is_granted() {
        return;
    }
    for (what, reason, hear) in ROWS {
        let said = hear();
        assert!(said.contains(reason), "{what}: {said}");
    }
}
