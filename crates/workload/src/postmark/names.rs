//! Locations and names of files: `LOCATION/sSUBDIRECTORY/NUMBER`.
//!
//! With several threads the thread's number precedes the file's, `3.17`, so that threads share
//! directories but not names.

use std::fmt::Write;

use super::parameters::Parameters;
use super::pool::Slot;
use super::random::Mt19937;

/// Names of one thread's files.
#[derive(Debug, Clone)]
pub(super) struct Names {
    // With a slash at the end, or empty.
    prefixes: Vec<String>,
    weights: Vec<u32>,
    // Either 0 or at least 2.
    subdirectories: u32,
    thread: Option<u32>,
}

impl Names {
    pub(super) fn new(parameters: &Parameters, thread: Option<u32>) -> Self {
        let prefix = |path: &str| match path.trim_end_matches('/') {
            "" if path.starts_with('/') => "/".to_owned(),
            "" => String::new(),
            trimmed => format!("{trimmed}/"),
        };
        let mut prefixes: Vec<String> = parameters
            .locations
            .iter()
            .map(|location| prefix(&location.path))
            .collect();
        if prefixes.is_empty() {
            prefixes.push(String::new());
        }
        let weights = parameters
            .locations
            .iter()
            .map(|location| location.weight)
            .collect();
        let subdirectories = if parameters.subdirectories < 2 {
            0
        } else {
            parameters.subdirectories
        };
        Self {
            prefixes,
            weights,
            subdirectories,
            thread,
        }
    }

    /// Draws a location and a subdirectory; omits the draw if there is no choice.
    pub(super) fn draw(&self, random: &mut Mt19937) -> (u32, u32) {
        let mut location = 0;
        if self.weights.len() >= 2 {
            let mut drawn = random.below(self.weights.iter().sum());
            while drawn >= self.weights[location as usize] {
                drawn -= self.weights[location as usize];
                location += 1;
            }
        }
        (location, random.below(self.subdirectories))
    }

    /// Replaces `path` with the path of a file.
    pub(super) fn path_of(&self, slot: &Slot, path: &mut String) {
        path.clear();
        path.push_str(&self.prefixes[slot.location as usize]);
        let written = self
            .subdirectory(slot.subdirectory, path)
            .and_then(|()| match self.thread {
                Some(thread) => write!(path, "{thread}.{}", slot.number),
                None => write!(path, "{}", slot.number),
            });
        written.expect("writing to a string does not fail");
    }

    fn subdirectory(&self, subdirectory: u32, path: &mut String) -> std::fmt::Result {
        if self.subdirectories == 0 {
            Ok(())
        } else {
            write!(path, "s{subdirectory}/")
        }
    }

    /// Returns the paths of all subdirectories, location by location.
    pub(super) fn subdirectories(&self) -> impl Iterator<Item = String> + '_ {
        let of = |prefix| (0..self.subdirectories).map(move |n| format!("{prefix}s{n}"));
        self.prefixes.iter().flat_map(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postmark::parameters::Location;

    fn names(locations: &[(&str, u32)], subdirectories: u32, thread: Option<u32>) -> Names {
        let location = |(path, weight): &(&str, u32)| Location {
            path: (*path).to_owned(),
            weight: *weight,
        };
        let locations = locations.iter().map(location).collect();
        Names::new(
            &Parameters {
                locations,
                subdirectories,
                ..Parameters::default()
            },
            thread,
        )
    }

    #[test]
    fn paths() {
        for (locations, subdirectories, thread, expected) in [
            (&[][..], 0, None, "17"),
            (&[], 1, None, "17"),
            (&[], 3, None, "s2/17"),
            (&[("/", 1)], 0, None, "/17"),
            (&[("a/", 1)], 3, None, "a/s2/17"),
            (&[("a", 1)], 0, Some(4), "a/4.17"),
        ] {
            let mut path = "something older".to_owned();
            let slot = Slot {
                number: 17,
                location: 0,
                subdirectory: 2,
                size: 1,
            };
            names(locations, subdirectories, thread).path_of(&slot, &mut path);
            assert_eq!(path, expected);
        }
        let all: Vec<String> = names(&[("a", 1), ("b", 1)], 2, None)
            .subdirectories()
            .collect();
        assert_eq!(all, ["a/s0", "a/s1", "b/s0", "b/s1"]);
    }

    /// Choices of the original for its first forty files: locations w, m and t with weights 2, 3
    /// and 1, seed 42, default sizes (observed with `strace`).
    #[test]
    fn weighted_locations_of_the_original() {
        let names = names(&[("w", 2), ("m", 3), ("t", 1)], 0, None);
        let mut random = Mt19937::new(42);
        for _ in 0..20_000 {
            random.below(95);
        }
        let mut chosen = String::new();
        for _ in 0..40 {
            let (location, _) = names.draw(&mut random);
            chosen.push_str(names.prefixes[location as usize].trim_end_matches('/'));
            random.below(9500);
        }
        assert_eq!(chosen, "wwwttmtmwmwwwmwmwtwmmmmwwmwmtwwmwmmmmmtt");
    }
}
