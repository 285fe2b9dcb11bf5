//! Seeded random sequences in all 21 cells: remounted at random, then read by all readers.

use layout::InodeNr;
use testkit::{Random, privilege};

use crate::cell::{self, Cell, Journal};
use crate::image::Image;
use crate::model::Model;
use crate::oracle;
use crate::script::{Script, values};
use crate::tree::assert_same;

/// Number of operations in a sequence, if their number is asked for.
const OPERATIONS: u32 = 500;
/// The same in the default tests, which have many cells.
const OPERATIONS_DEFAULT: u32 = 120;
/// Number of sequences in each cell, in the default tests. `JEXT_TEST_SEQUENCES` overrides it.
const SEQUENCES: u64 = 1;
/// Average number of operations between remounts.
const REMOUNT_ONE_IN: u64 = 120;
/// Memory of a volume with little of it, in bytes.
const BUDGET_BYTES: u64 = 512 << 10;
/// Size of the volumes in bytes: small, so that they fill up now and then.
pub const VOLUME_BYTES: u64 = 24 << 20;

/// Returns the number of sequences in each cell.
pub fn sequences() -> u64 {
    match std::env::var("JEXT_TEST_SEQUENCES") {
        Ok(count) => count.parse().expect("JEXT_TEST_SEQUENCES is a number"),
        Err(_) => SEQUENCES,
    }
}

/// Returns the number of operations in a sequence.
fn operations() -> u32 {
    match std::env::var_os("JEXT_TEST_SEQUENCES") {
        Some(_) => OPERATIONS,
        None => OPERATIONS_DEFAULT,
    }
}

/// Runs the sequences of a cell; `JEXT_TEST_SEED` repeats one sequence.
fn run_cell(cell: Cell) {
    // mke2fs accepts only a block device for an external journal.
    if matches!(cell.journal, Journal::External(_)) && !privilege::is_granted() {
        return;
    }
    if let Ok(seed) = std::env::var("JEXT_TEST_SEED") {
        return run_sequence(cell, seed.parse().expect("JEXT_TEST_SEED is a number"));
    }
    for seed in 0..sequences() {
        run_sequence(cell, seed);
    }
}

fn run_sequence(cell: Cell, seed: u64) {
    run_on(&Image::by_mke2fs(cell, VOLUME_BYTES), cell, seed, &|_| {});
}

/// A moment at which an image changes hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The engine opens it next.
    Engine,
    /// Others read it next.
    Others,
}

/// Runs a sequence on an image. `turn` is called when the image changes hands.
pub fn run_on(image: &Image, cell: Cell, seed: u64, turn: &dyn Fn(Turn)) {
    println!("cell: {cell}; seed {seed}");
    let mut random = Random::new(seed ^ u64::from(cell.block_bytes) << 32);
    // Half of them have so little memory that files are read again.
    let is_tight = random.below(2) == 0;
    let open = || match is_tight {
        true => image.open_within(&cell, BUDGET_BYTES),
        false => image.open(&cell),
    };
    let mut volume = open();
    let has_values = volume.superblock().has_ea_inode();
    let is_small = volume.superblock().has_inline_data();
    let lost_found = volume
        .lookup(InodeNr::ROOT, b"lost+found")
        .expect("lost+found");
    let mut model = Model::new(lost_found);
    for _ in 0..operations() {
        if random.below(REMOUNT_ONE_IN) == 0 {
            volume.close().expect("close");
            assert_all_agree(image, &cell, &model, "after a remount", turn);
            volume = open();
        }
        let block_bytes = cell.block_bytes;
        Script {
            volume: &volume,
            model: &mut model,
            random: &mut random,
            block_bytes,
            has_values,
            is_small,
        }
        .step();
    }
    volume.close().expect("close");
    assert_all_agree(image, &cell, &model, "at the end", turn);
}

/// Asserts that `e2fsck` finds nothing, and that the volume itself, the kernel and `ext4-view` read
/// the contents of the model.
fn assert_all_agree(image: &Image, cell: &Cell, model: &Model, when: &str, turn: &dyn Fn(Turn)) {
    turn(Turn::Others);
    oracle::assert_fsck_clean(image, when);
    let expected = model.tree();
    if oracle::has_view(image) {
        assert_same(&expected, &oracle::view_tree(image), "ext4-view");
    }
    if let Some(tree) = oracle::kernel_tree(image) {
        assert_same(&expected, &tree, "the kernel");
        values::assert_by_kernel(image, model);
    }
    turn(Turn::Engine);
    let volume = image.open(cell);
    assert_same(&expected, &image.own_tree(&volume), "the volume itself");
    values::assert_on_volume(&volume, model);
    volume.close().expect("close");
}

/// One test for each block size and place of the journal, so that they run in parallel.
macro_rules! cells {
    ($($name:ident: $index:expr;)*) => {
        $(
            #[test]
            fn $name() {
                run_cell(cell::all()[$index]);
            }
        )*
    };
}

cells! {
    blocks_1k_no_journal: 0;
    blocks_1k_internal_ordered: 1;
    blocks_1k_internal_writeback: 2;
    blocks_1k_internal_journal: 3;
    blocks_1k_external_ordered: 4;
    blocks_1k_external_writeback: 5;
    blocks_1k_external_journal: 6;
    blocks_2k_no_journal: 7;
    blocks_2k_internal_ordered: 8;
    blocks_2k_internal_writeback: 9;
    blocks_2k_internal_journal: 10;
    blocks_2k_external_ordered: 11;
    blocks_2k_external_writeback: 12;
    blocks_2k_external_journal: 13;
    blocks_4k_no_journal: 14;
    blocks_4k_internal_ordered: 15;
    blocks_4k_internal_writeback: 16;
    blocks_4k_internal_journal: 17;
    blocks_4k_external_ordered: 18;
    blocks_4k_external_writeback: 19;
    blocks_4k_external_journal: 20;
}
