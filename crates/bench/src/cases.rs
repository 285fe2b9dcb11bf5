//! The cases.

mod contents;
mod names;
mod whole;

use anyhow::Result;
use ext::Volume;

use crate::case::{Body, Case, Left};
use crate::rig::{Rig, Setup};

/// Number of operations of most bodies.
const OPERATIONS: u64 = 64;

/// Returns all cases.
pub fn all() -> Vec<Case> {
    let mut cases = names::cases();
    cases.extend(contents::cases());
    cases.extend(whole::cases());
    cases
}

/// Returns a case that repeats an operation on a volume with some files.
fn repeated<T: 'static>(
    operation: &str,
    setup: Setup,
    prepare: impl Fn(Setup) -> Result<(Rig, T)> + 'static,
    step: impl Fn(&Rig, &T, u64) -> Result<()> + Copy + 'static,
) -> Case {
    Case::new(format!("{operation}/{setup}"), OPERATIONS, move |_| {
        let (rig, state) = prepare(setup)?;
        let body: Body = Box::new(move || {
            for number in 0..OPERATIONS {
                step(&rig, &state, number)?;
            }
            Ok(Box::new((rig, state)) as Left)
        });
        Ok(body)
    })
}

/// Returns a body that does one thing with a volume.
fn once(volume: Volume, operation: impl FnOnce(&Volume) -> Result<()> + 'static) -> Body {
    Box::new(move || {
        operation(&volume)?;
        Ok(Box::new(volume) as Left)
    })
}
