//! Images that recordings of the same beginning left before.
//!
//! The sequences of the complete generator come as families: the same operations, with each choice
//! of sync calls. Up to the first call in which two of them differ, and often after it, they leave
//! the same images. Recovery depends on nothing but the image, so it is recovered once, and then
//! compared with what each sequence has promised.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::mode::DataMode;
use crate::recording::Recording;
use crate::recover::Checked;

/// Maximum number of images that are kept.
const IMAGES_MAX: usize = 16_384;

/// The recovered images of the present beginning, by hash; none outside of families.
#[derive(Clone, Default)]
pub(crate) struct Familiar(Rc<RefCell<Images>>);

#[derive(Default)]
struct Images {
    is_family: bool,
    beginning: Option<Beginning>,
    recovered: BTreeMap<u64, Rc<Checked>>,
}

/// The common properties of recordings whose images are shared.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Beginning {
    /// Hash of the contents of the devices before the recording.
    initial: u64,
    data: DataMode,
    mutant: Option<&'static str>,
}

impl Familiar {
    /// Creates an empty set of images of a family.
    pub(crate) fn of_family() -> Self {
        let images = Images {
            is_family: true,
            ..Images::default()
        };
        Self(Rc::new(RefCell::new(images)))
    }

    /// Forgets the images if a recording has another beginning, or device commands that fail: those
    /// change what a recovery may find.
    pub(super) fn begin(&self, recording: &Recording) {
        let setting = recording.workload.setting;
        let beginning = setting.fault.is_none().then(|| Beginning {
            initial: recording.initial.hash(),
            data: setting.cell.data,
            mutant: setting.mutant,
        });
        let mut images = self.0.borrow_mut();
        let is_other = beginning.is_none() || images.beginning != beginning;
        if is_other || images.recovered.len() > IMAGES_MAX {
            images.recovered.clear();
            images.beginning = beginning;
        }
    }

    pub(super) fn get(&self, hash: u64) -> Option<Rc<Checked>> {
        self.0.borrow().recovered.get(&hash).cloned()
    }

    pub(super) fn add(&self, hash: u64, checked: &Rc<Checked>) {
        let mut images = self.0.borrow_mut();
        if images.is_family {
            images.recovered.insert(hash, Rc::clone(checked));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::explore::{Limits, explore};
    use crate::generator::{Generator, Kind};
    use crate::rule::Rule;
    use crate::setting::CELLS_EXT4;
    use crate::volumes::Volumes;
    use std::rc::Rc;

    /// Explores families of sequences with a broken rule of the engine, each sequence beside those
    /// before it and alone. Returns the broken rules, and the numbers of images recovered.
    fn explore_both(mutant: Option<&'static str>) -> (Vec<Option<Rule>>, u64, u64) {
        let kind = Kind::Exhaustive { length: 1 };
        let generator = Generator::new(kind, vec![CELLS_EXT4[0]], 1);
        let limits = Limits::new(1);
        let mut volumes = Volumes::default();
        volumes.begin_family();
        let (mut beside, mut alone) = (0, 0);
        let mut rules = Vec::new();
        for number in 12..36 {
            let (_, mut workload) = generator.workload(number);
            workload.setting.mutant = mutant;
            let (tally, found) = volumes.explore(&workload, limits);
            let recording = volumes.record(&workload).expect("it can be recorded");
            let (tally_alone, found_alone) = explore(Rc::new(recording), limits);
            let rule = found.map(|found| found.broken.rule);
            let rule_alone = found_alone.map(|found| found.broken.rule);
            assert_eq!(rule, rule_alone, "sequence {number}");
            if rule.is_none() {
                let images = |tally: &crate::findings::Tally| tally.recovered + tally.equal;
                assert_eq!(images(&tally), images(&tally_alone), "sequence {number}");
                assert_eq!(tally.compared, tally_alone.compared, "sequence {number}");
            }
            beside += tally.recovered;
            alone += tally_alone.recovered;
            rules.push(rule);
        }
        (rules, beside, alone)
    }

    #[test]
    fn a_sequence_beside_others_is_judged_as_alone() {
        let (rules, beside, alone) = explore_both(None);
        assert!(rules.iter().all(Option::is_none), "{rules:?}");
        assert!(beside * 3 < alone * 2, "{beside} of {alone} images");
    }

    /// Sequences without sync calls leave the same images as those whose calls promise nothing, and
    /// only what the latter have promised is broken.
    #[test]
    fn an_image_that_broke_no_promise_can_break_that_of_another_sequence() {
        let (rules, ..) = explore_both(Some("fsync/transaction-not-committed"));
        assert!(rules.contains(&None), "{rules:?}");
        assert!(rules.contains(&Some(Rule::F1)), "{rules:?}");
    }
}
