//! The block of multiple mount protection (`mmp`). It counts as metadata.

use layout::checksum::metadata;
use layout::feature::Incompatible;
use layout::multi_mount::{MAGIC, MultiMountBlock, SEQUENCE_CLEAN};
use zerocopy::FromBytes;

use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// Checks the block, and marks it as metadata.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    if !state.features.incompatible.contains(Incompatible::MMP) {
        return Ok(());
    }
    let block = state.raw.mmp_block.get();
    if !state.geometry.contains(block) || block == state.geometry.first_block {
        let (kind, place) = (ProblemKind::MultiMountBlockInvalid, Location::whole());
        state.report.add_found(kind, place, block);
        return Ok(());
    }
    if !state.metadata.insert(state.geometry.place_of(block)) {
        let (kind, place) = (ProblemKind::MultiMountBlockInvalid, Location::block(block));
        state.problem(kind, place);
    }
    let bytes = state.block(block)?;
    let (raw, _) = MultiMountBlock::read_from_prefix(&bytes).expect("a block holds it");
    let place = Location::block(block);
    if raw.magic.get() != MAGIC {
        state.problem(ProblemKind::MultiMountMagic, place);
        return Ok(());
    }
    if let Some(seed) = state.checksum_seed
        && raw.checksum.get() != metadata::multi_mount(seed, &raw)
    {
        state.problem(ProblemKind::MultiMountChecksum, place);
        return Ok(());
    }
    if raw.sequence.get() != SEQUENCE_CLEAN {
        state.problem(ProblemKind::MultiMountInUse, place);
    }
    Ok(())
}
