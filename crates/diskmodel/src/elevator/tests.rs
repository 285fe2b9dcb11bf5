//! Order, merging and bounds of the elevators.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn queue(kind: Elevator) -> HostQueue<u32> {
    HostQueue::new(kind.into())
}

/// Adds pieces of one class: (start, end), numbered from `first` on. Returns the number of merges.
fn fill(queue: &mut HostQueue<u32>, now: u64, class: Class, ranges: &[(u64, u64)]) -> usize {
    let mut merged = 0;
    for (number, (start, end)) in ranges.iter().enumerate() {
        match queue.merge(class, *start, *end, number as u32) {
            Ok(()) => merged += 1,
            Err(piece) => queue.add(now, class, *start, *end, piece),
        }
    }
    merged
}

fn drain(queue: &mut HostQueue<u32>, now: u64) -> Vec<(u64, u64)> {
    core::iter::from_fn(|| queue.take(now))
        .map(|request| (request.start, request.end))
        .collect()
}

#[test]
fn neighbours_merge_at_both_ends_and_over_gaps() {
    for kind in [
        Elevator::Linux24,
        Elevator::Cscan,
        Elevator::Deadline,
        Elevator::Noop,
    ] {
        let mut queue = queue(kind);
        let ranges = [(100, 108), (116, 124), (108, 116), (92, 100), (200, 208)];
        assert_eq!(fill(&mut queue, 0, Class::Write, &ranges), 2);
        assert_eq!(fill(&mut queue, 0, Class::Read, &[(124, 132)]), 0);
        assert_eq!(fill(&mut queue, 0, Class::Through, &[(208, 216)]), 0);
        let taken: Vec<_> = core::iter::from_fn(|| queue.take(0)).collect();
        let joined = taken
            .iter()
            .find(|request| request.start == 92)
            .expect("it was merged");
        assert_eq!(joined.end, 124);
        let mut pieces = joined.pieces.clone();
        pieces.sort_unstable();
        assert_eq!(pieces, [0, 1, 2, 3]);
        assert_eq!(taken.len(), 4, "{kind}");
        assert_eq!(queue.len(), 0);
        assert!(queue.by_start.is_empty() && queue.by_end.is_empty());
    }
}

#[test]
fn merging_stops_at_the_longest_request() {
    for (kind, longest) in [(Elevator::Linux24, 248), (Elevator::Deadline, 1024)] {
        let mut queue = queue(kind);
        let ranges: Vec<_> = (0..200).map(|page| (page * 8, page * 8 + 8)).collect();
        fill(&mut queue, 0, Class::Read, &ranges);
        let taken = drain(&mut queue, 0);
        assert_eq!(taken[0], (0, longest));
        assert_eq!(taken.last().map(|(_, end)| *end), Some(1600));
    }
}

#[test]
fn cscan_sweeps_upwards_and_wraps() {
    let mut queue = queue(Elevator::Cscan);
    fill(
        &mut queue,
        0,
        Class::Read,
        &[(500, 501), (100, 101), (300, 301)],
    );
    assert_eq!(queue.take(0).map(|request| request.start), Some(100));
    assert_eq!(queue.take(0).map(|request| request.start), Some(300));
    fill(
        &mut queue,
        0,
        Class::Write,
        &[(50, 51), (400, 401), (301, 302)],
    );
    assert_eq!(
        drain(&mut queue, 0),
        [(301, 302), (400, 401), (500, 501), (50, 51)]
    );
}

/// The list of the kernel, case by case.
#[test]
fn linux24_places_requests_by_a_scan_from_the_tail() {
    let request = |start: u64| (start, start + 8);
    for (first, then, expect) in [
        // Ascending order.
        (vec![500, 100, 300], vec![], vec![500, 100, 300]),
        (vec![100, 300, 500], vec![200], vec![100, 200, 300, 500]),
        // Before the head means behind the tail.
        (vec![100, 300], vec![50], vec![100, 300, 50]),
        // Around the start of the next sweep.
        (vec![100, 300, 50], vec![400], vec![100, 300, 400, 50]),
        (vec![100, 300, 50], vec![20], vec![100, 300, 20, 50]),
        // In the next sweep.
        (
            vec![300, 400, 50, 150],
            vec![120],
            vec![300, 400, 50, 120, 150],
        ),
    ] {
        let mut queue = queue(Elevator::Linux24);
        let ranges: Vec<_> = first.iter().chain(&then).copied().map(request).collect();
        fill(&mut queue, 0, Class::Write, &ranges);
        let starts: Vec<u64> = drain(&mut queue, 0)
            .into_iter()
            .map(|(start, _)| start)
            .collect();
        assert_eq!(starts, expect, "{first:?} {then:?}");
    }
}

#[test]
fn linux24_places_nothing_before_a_request_that_was_passed_too_often() {
    for (class, latency) in [
        (Class::Read, linux24::READ_LATENCY),
        (Class::Write, linux24::WRITE_LATENCY),
    ] {
        let (low, high, new) = ((0, 8), (900_000, 900_008), (500, 508));
        for (passed, expect) in [(latency - 1, [low, new, high]), (latency, [low, high, new])] {
            let mut queue = queue(Elevator::Linux24);
            fill(&mut queue, 0, class, &[low, high]);
            queue.arrivals = passed;
            fill(&mut queue, 0, Class::Through, &[new]);
            assert_eq!(drain(&mut queue, 0), expect, "{class:?} {passed}");
        }
        let mut queue = queue(Elevator::Linux24);
        fill(&mut queue, 0, class, &[low, high]);
        queue.arrivals = 2 * latency;
        assert_eq!(fill(&mut queue, 0, class, &[(8, 16)]), 1, "it still merges");
    }
}

#[test]
fn linux24_lets_a_read_wait_for_few_writes() {
    let bounded = |bomb_max| Queueing {
        bomb_max,
        ..Queueing::default()
    };
    let small: Vec<_> = (1..=9)
        .map(|number| (number * 100, number * 100 + 8))
        .collect();
    let large: Vec<_> = (1..=9)
        .map(|number| (number * 1000, number * 1000 + 128))
        .collect();
    for (bomb_max, writes, read, expect) in [
        (0, &small, 950, 9),
        (6, &small, 950, 6),
        // Its sorted place comes first.
        (6, &small, 350, 3),
        // A write of 128 sectors weighs 3.
        (6, &large, 9_500, 2),
    ] {
        let mut queue = HostQueue::new(bounded(bomb_max));
        fill(&mut queue, 0, Class::Write, writes);
        fill(&mut queue, 0, Class::Read, &[(read, read + 8)]);
        let order = drain(&mut queue, 0);
        let place = order.iter().position(|(start, _)| *start == read);
        assert_eq!(place, Some(expect), "{bomb_max} {read}");
    }
}

#[test]
fn a_queue_has_half_a_request_for_each_half_mebibyte() {
    for (mebibytes, requests) in [(8, 32), (64, 56), (256, 248), (512, 496), (1_024, 512)] {
        let found = Queueing::requests_of_memory(mebibytes << 20);
        assert_eq!(found, requests, "{mebibytes}");
    }
}

#[test]
fn cscan_lets_no_request_be_passed_for_ever() {
    let mut queue = queue(Elevator::Cscan);
    fill(
        &mut queue,
        0,
        Class::Read,
        &[(0, 1), (1_000_000_000, 1_000_000_001)],
    );
    assert_eq!(queue.take(0).map(|request| request.start), Some(0));
    let mut served = 0;
    for number in 1..20_000_u64 {
        let start = number * 10;
        fill(
            &mut queue,
            0,
            Class::Read,
            &[(start, start + 1), (start + 5, start + 6)],
        );
        for _ in 0..2 {
            let request = queue.take(0).expect("there are two at least");
            served += 1;
            if request.start == 1_000_000_000 {
                assert!((8_191..8_300).contains(&served), "{served}");
                return;
            }
        }
    }
    panic!("it was passed for ever");
}

#[test]
fn queues_are_bounded_by_direction_and_wake_in_batches() {
    let long = Queueing {
        requests_max: 4_096,
        ..Queueing::default()
    };
    for (queueing, requests_max) in [
        (Elevator::Linux24.into(), 64),
        (Elevator::Cscan.into(), 64),
        (Elevator::Deadline.into(), 128),
        (Elevator::Noop.into(), 128),
        (long, 4_096),
    ] {
        let kind = queueing.elevator;
        let mut queue = HostQueue::new(queueing);
        let ranges: Vec<_> = (0..requests_max)
            .map(|number| (number * 100, number * 100 + 8))
            .collect();
        let (last, others) = ranges.split_last().expect("it is not empty");
        fill(&mut queue, 0, Class::Write, others);
        assert!(queue.has_room(Class::Write), "{kind}");
        fill(&mut queue, 0, Class::Write, &[*last]);
        assert!(!queue.has_room(Class::Write), "{kind}");
        assert!(!queue.has_room(Class::Through), "{kind}");
        assert!(queue.has_room(Class::Read), "{kind}");
        assert_eq!(queue.merge(Class::Write, 8, 16, 7), Ok(()));
        let batch = match kind {
            Elevator::Linux24 | Elevator::Cscan => requests_max / 2,
            Elevator::Deadline | Elevator::Noop => 32,
        };
        for _ in 1..batch {
            queue.take(0);
        }
        assert!(!queue.has_room_for_waiters(), "{kind}");
        queue.take(0);
        assert!(queue.has_room_for_waiters(), "{kind}");
    }
}

#[test]
fn deadline_batches_reads_first_and_does_not_starve_writes() {
    let mut queue = queue(Elevator::Deadline);
    let spaced = |from: u64| {
        (from..from + 60)
            .map(|n| (n * 100, n * 100 + 8))
            .collect::<Vec<_>>()
    };
    fill(&mut queue, 0, Class::Read, &spaced(1000));
    fill(&mut queue, 0, Class::Write, &spaced(0));
    let classes: Vec<_> = (0..64)
        .filter_map(|_| queue.take(0))
        .map(|r| r.class)
        .collect();
    let expected = [Class::Read, Class::Read, Class::Write, Class::Read];
    for (batch, class) in classes.chunks(16).zip(expected) {
        assert!(batch.iter().all(|taken| *taken == class), "{classes:?}");
    }
}

#[test]
fn deadline_serves_expired_requests_first() {
    let mut queue = queue(Elevator::Deadline);
    fill(&mut queue, 0, Class::Read, &[(900_000, 900_001)]);
    let near: Vec<_> = (0..40).map(|n| (n * 10, n * 10 + 1)).collect();
    fill(&mut queue, SECOND / 4, Class::Read, &near);
    for _ in 0..16 {
        assert!(
            queue
                .take(SECOND / 4)
                .is_some_and(|request| request.start < 900_000)
        );
    }
    assert_eq!(
        queue.take(SECOND / 2).map(|request| request.start),
        Some(900_000)
    );
    assert_eq!(
        queue.take(SECOND / 2).map(|request| request.start),
        Some(160)
    );
}

#[test]
fn noop_keeps_the_order() {
    let mut queue = queue(Elevator::Noop);
    fill(
        &mut queue,
        0,
        Class::Read,
        &[(500, 501), (100, 101), (300, 301), (101, 102)],
    );
    assert_eq!(drain(&mut queue, 0), [(500, 501), (100, 102), (300, 301)]);
}
