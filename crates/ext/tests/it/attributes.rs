//! Extended attributes and access control lists: the same operations by this crate and by the
//! kernel have the same outcomes, and each reads the attributes that the other wrote.

mod large;
mod sharing;
mod sides;

use ext::options::DataMode;
use ext::volume::SetMode;
use testkit::{Random, privilege};

use crate::cell::{Cell, Journal};
use crate::image::Image;
use crate::oracle::assert_fsck_clean;
use sides::{Op, Side, list};

const IMAGE_BYTES: u64 = 8 << 20;
/// Number of operations between two comparisons.
const ROUND_OPERATIONS: usize = 60;
/// Number of comparisons, after each of which the two sides swap their images.
const ROUNDS: usize = 6;
const SEEDS: u64 = 4;

const PATHS: &[&str] = &[
    "/a", "/b", "/c", "/d", "/d/e", "/d/f", "/g", "/g/h", "/link", "/node",
];
const NAMES: &[&str] = &[
    "user.a",
    "user.b",
    "user.a-name-that-takes-more-than-a-few-bytes-of-an-inode",
    "trusted.t",
    "security.s",
    "system.posix_acl_access",
    "system.posix_acl_default",
    "system.posix_acl_default",
];
const SIZES: &[usize] = &[0, 1, 4, 5, 17, 40, 60, 90, 300, 700, 972, 1000, 4000, 4096];
const LISTS: &[&str] = &[
    "u:6 g:4 o:0",
    "u:7 g:5 o:5",
    "u:7 u1000:5 g:5 m:5 o:1",
    "u:7 u1:0 u2:7 g:0 g5:6 g6:4 m:7 o:0",
    "u:6 g:6 m:4 o:4",
    "u:0 u3:7 g:7 m:0 o:7",
    "u:6 o:4",
];
const MODES: &[u16] = &[0, 0o600, 0o644, 0o666, 0o755, 0o777, 0o2770, 0o4711, 0o1777];

fn next_operation(random: &mut Random, (paths, sizes): Choice) -> Op {
    let path = (*random.pick(paths)).to_owned();
    match random.below(20) {
        0..9 => {
            let name = *random.pick(NAMES);
            let value = if name.starts_with("system.") {
                let text: &str = random.pick::<&str>(LISTS);
                list(text)
            } else {
                // Few different values, so that blocks are shared.
                vec![random.below(3) as u8; *random.pick(sizes)]
            };
            let modes = [
                SetMode::Any,
                SetMode::Any,
                SetMode::Create,
                SetMode::Replace,
            ];
            let is_list = name.starts_with("system.");
            Op::Set {
                path,
                name,
                value,
                mode: if is_list {
                    SetMode::Any
                } else {
                    *random.pick(&modes)
                },
            }
        }
        9..13 => Op::Remove {
            path,
            name: random.pick::<&str>(NAMES),
        },
        13 | 14 => Op::Chmod {
            path,
            mode: *random.pick(MODES),
        },
        15..18 => Op::Make {
            path,
            mode: *random.pick(MODES),
        },
        _ => Op::Delete { path },
    }
}

/// Runs the same operations on both sides, which swap their images after each round.
fn agree(block_bytes: u32, inode_bytes: u32, data: DataMode, seed: u64) {
    let cell = Cell {
        block_bytes,
        journal: Journal::Internal(data),
    };
    let inode_size = inode_bytes.to_string();
    let made = Image::with_arguments(
        "ext3",
        block_bytes,
        IMAGE_BYTES,
        false,
        &["-I", &inode_size],
    );
    let when = format!("{block_bytes}, {inode_bytes}, {data:?}, seed {seed}");
    agree_from(&cell, made, (&when, seed), (PATHS, SIZES));
}

/// Paths and sizes of values.
type Choice = (&'static [&'static str], &'static [usize]);

/// The same from an image on.
fn agree_from(cell: &Cell, made: Image, (when, seed): (&str, u64), choice: Choice) {
    let mut images = [made.copy(), made];
    let mut random = Random::new(seed);
    for round in 0..ROUNDS {
        let when = format!("{when}, round {round}");
        let [ours, theirs] = &images;
        let (volume, mount) = (
            ours.open(cell),
            theirs.mount("rw").expect("the kernel mounts"),
        );
        let (ours, theirs) = (Side::Ours(&volume), Side::Kernel(&mount));
        assert_eq!(
            ours.tree(),
            theirs.tree(),
            "{when}: each reads what the other wrote"
        );
        for number in 0..ROUND_OPERATIONS {
            let op = next_operation(&mut random, choice);
            let expected = theirs.apply(&op);
            assert_eq!(
                ours.apply(&op),
                expected,
                "{when}, operation {number}: {op:?}"
            );
        }
        assert_eq!(ours.tree(), theirs.tree(), "{when}");
        volume.close().expect("close");
        drop(mount);
        images
            .iter()
            .for_each(|image| assert_fsck_clean(image, &when));
        images.reverse();
    }
}

#[test]
fn the_kernel_agrees_on_small_inodes() {
    if privilege::is_granted() {
        for seed in 0..SEEDS {
            agree(1024, 128, DataMode::Ordered, seed);
            agree(4096, 128, DataMode::Journal, seed);
        }
    }
}

#[test]
fn the_kernel_agrees_on_large_inodes() {
    if privilege::is_granted() {
        for seed in 0..SEEDS {
            agree(1024, 256, DataMode::Writeback, seed);
            agree(4096, 256, DataMode::Ordered, seed);
            agree(1024, 512, DataMode::Journal, seed);
        }
    }
}
