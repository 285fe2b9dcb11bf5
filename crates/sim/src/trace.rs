//! [`Trace`]: the running hash of all events of a world.

use rt::Nanos;

/// Odd constants without structure: the fractional bits of the square roots of 2 and 3.
const FIRST_FACTOR: u64 = 0x6a09_e667_f3bc_c909;
const SECOND_FACTOR: u64 = 0xbb67_ae85_84ca_a73b;

/// A kind of event. The numbers are part of the hash.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Event {
    Resume = 1,
    Park = 2,
    Wake = 3,
    Timer = 4,
    Spawn = 5,
    End = 6,
    Choice = 7,
    Cpu = 8,
    Random = 9,
    Device = 10,
    InFlight = 11,
}

/// The running hash.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
}

impl Trace {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            hash: seed ^ SECOND_FACTOR,
        }
    }

    /// Adds an event of a task.
    #[inline]
    pub(crate) fn event(&mut self, event: Event, task: u32, value: u64) {
        let head = u64::from(event as u8) << 32 | u64::from(task);
        self.hash = fold(fold(self.hash ^ head, FIRST_FACTOR) ^ value, SECOND_FACTOR);
    }

    /// Adds an event of a task with its time.
    #[inline]
    pub(crate) fn moment(&mut self, event: Event, task: u32, moment: Nanos) {
        self.event(event, task, moment.get());
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

/// Multiplies to 128 bits and folds the halves together.
#[inline]
fn fold(word: u64, factor: u64) -> u64 {
    let product = u128::from(word) * u128::from(factor);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_value_count() {
        let hash = |events: &[(Event, u32, u64)]| {
            let mut trace = Trace::new(1);
            events
                .iter()
                .for_each(|&(event, task, value)| trace.event(event, task, value));
            trace.hash()
        };
        let (park, wake) = ((Event::Park, 1, 5), (Event::Wake, 1, 5));
        assert_eq!(hash(&[park, wake]), hash(&[park, wake]));
        assert_ne!(hash(&[park, wake]), hash(&[wake, park]));
        assert_ne!(hash(&[park]), hash(&[(Event::Park, 2, 5)]));
        assert_ne!(hash(&[park]), hash(&[(Event::Park, 1, 6)]));
    }
}
