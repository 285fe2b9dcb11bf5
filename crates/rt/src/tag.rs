//! [`tag`]: one word per thread.

use std::cell::Cell;

use crate::world;

thread_local! {
    static TAG: Cell<u64> = const { Cell::new(0) };
}

/// Returns the calling thread's tag: 0 until it is replaced.
#[inline]
pub fn tag() -> u64 {
    match world::current() {
        Some(world) => world.tag(),
        None => TAG.get(),
    }
}

/// Replaces the calling thread's tag and returns the old one. A new thread starts with 0, not with
/// its parent's tag.
#[inline]
pub fn replace_tag(tag: u64) -> u64 {
    match world::current() {
        Some(world) => world.replace_tag(tag),
        None => TAG.replace(tag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_its_own() {
        assert_eq!(replace_tag(7), 0);
        assert_eq!(crate::spawn("other", || replace_tag(9)).join(), Ok(0));
        assert_eq!(tag(), 7);
        assert_eq!(replace_tag(0), 7);
    }
}
