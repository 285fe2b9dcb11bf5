//! Arrays with failing members.

use core::ops::Range;
use std::sync::Arc;

use block::fault::{Effect, FaultRule, Operations, When};
use block::payload::{payload_from_bytes, payload_to_bytes};
use block::raid::{MirrorDevice, ParityDevice, assemble};
use block::{
    BlockDevice, CacheDevice, DeviceError, FaultDevice, FaultPlan, Geometry, MemoryDevice,
    RaidLevel, Request, Ticket,
};
use layout::SectorNr;

use crate::support::Modelled;

const MEMBER_BYTES: u64 = 256 * 1024;

fn members(count: usize, plan: impl Fn(usize) -> FaultPlan) -> Vec<Arc<FaultDevice>> {
    let member = |number| {
        let memory = Arc::new(MemoryDevice::new(MEMBER_BYTES));
        Arc::new(FaultDevice::new(memory, plan(number)))
    };
    (0..count).map(member).collect()
}

fn devices(members: &[Arc<FaultDevice>]) -> Vec<Arc<dyn BlockDevice>> {
    members
        .iter()
        .map(|member| Arc::clone(member) as _)
        .collect()
}

/// Returns plans in which a member fails its n-th write once, and so leaves the array.
pub(crate) fn fails_write(member: usize, nth: u64, effect: Effect) -> impl Fn(usize) -> FaultPlan {
    move |number| {
        let rule = FaultRule {
            operations: Operations::WRITES,
            when: When::Nth(nth),
            effect,
        };
        let rules = if number == member { vec![rule] } else { vec![] };
        FaultPlan {
            seed: nth,
            rules,
            bad_sectors: vec![],
        }
    }
}

#[test]
fn arrays_survive_the_loss_of_a_member_at_any_time() {
    let levels = [
        (RaidLevel::Raid1, 3),
        (RaidLevel::Raid5, 3),
        (RaidLevel::Raid5, 5),
        (RaidLevel::Raid6, 4),
        (RaidLevel::Raid10, 4),
        (RaidLevel::Raid50, 6),
    ];
    for (level, count) in levels {
        for lost in 0..count {
            for step_of_loss in [0, 7, 40] {
                let members = members(count, |_| FaultPlan::default());
                let array = assemble(level, devices(&members), 4096).expect("an array");
                let mut modelled = Modelled::new(array, lost as u64 * 100 + step_of_loss);
                for step in 0..60 {
                    if step == step_of_loss {
                        members[lost].remove();
                    }
                    modelled.step();
                }
                modelled.compare();
            }
        }
    }
}

/// RAID 6 survives any two members, whenever each is lost.
#[test]
fn arrays_with_two_parities_survive_the_loss_of_two_members() {
    for count in 4..=6 {
        for (lost, other) in (0..count).flat_map(|one| (0..one).map(move |other| (one, other))) {
            for (first, second) in [(0, 0), (7, 7), (3, 40), (40, 3)] {
                let members = members(count, |_| FaultPlan::default());
                let array = assemble(RaidLevel::Raid6, devices(&members), 4096).expect("an array");
                let mut modelled = Modelled::new(array, (lost * 100 + other + second) as u64);
                for step in 0..60 {
                    for (member, step_of_loss) in [(lost, first), (other, second)] {
                        if step == step_of_loss {
                            members[member].remove();
                        }
                    }
                    modelled.step();
                }
                modelled.compare();
            }
        }
    }
}

/// Members that cannot read a sector stay, and the others make up for up to two of them.
#[test]
fn sectors_that_two_members_cannot_read_are_computed() {
    let bad = |member| FaultPlan {
        bad_sectors: Vec::from_iter(
            (member % 2 == 1).then_some(SectorNr::new(5)..SectorNr::new(7)),
        ),
        ..FaultPlan::default()
    };
    let members = members(5, bad);
    let arm = |is_armed| members.iter().for_each(|member| member.set_armed(is_armed));
    arm(false);
    let array = ParityDevice::double(devices(&members), 4096).expect("an array");
    let device: &dyn BlockDevice = &array;
    let bytes: Vec<u8> = (0..60 * 1024_u32).map(|at| (at * 7 / 512) as u8).collect();
    let written = device.write_blocks(0, payload_from_bytes(&bytes, 4096));
    written.expect("memory does not fail");
    arm(true);
    let read = device.read_blocks(0, 15, 4096).expect("two may fail");
    assert!(payload_to_bytes(&read) == bytes);
    let half = payload_from_bytes(&[9; 2048], 512);
    device.write_blocks(2048, half).expect("two may fail");
    let read = device.read_blocks(0, 15, 4096).expect("two may fail");
    let expected = [&bytes[..2048], &[9; 2048], &bytes[4096..]].concat();
    assert!(payload_to_bytes(&read) == expected);
    assert_eq!(array.failed_members(), []);
}

#[test]
fn arrays_survive_a_write_that_fails_on_one_member() {
    for effect in [Effect::Fail, Effect::Torn, Effect::Gone] {
        for level in [
            RaidLevel::Raid1,
            RaidLevel::Raid5,
            RaidLevel::Raid6,
            RaidLevel::Raid10,
        ] {
            for nth in [1, 2, 5, 17] {
                let members = members(4, fails_write(1, nth, effect));
                let array = assemble(level, devices(&members), 4096).expect("an array");
                let mut modelled = Modelled::new(array, nth);
                (0..60).for_each(|_| modelled.step());
                modelled.compare();
                assert_eq!(
                    members[1].strikes(),
                    1,
                    "{level} left the member alone afterwards"
                );
            }
        }
    }
}

#[test]
fn what_an_array_cannot_survive_is_an_error() {
    for (level, lost) in [
        (RaidLevel::Raid0, vec![0]),
        (RaidLevel::Raid1, vec![0, 1, 2, 3]),
        (RaidLevel::Raid5, vec![1, 3]),
        (RaidLevel::Raid6, vec![0, 1, 3]),
        (RaidLevel::Raid10, vec![2, 3]),
    ] {
        let members = members(4, |_| FaultPlan::default());
        let array = assemble(level, devices(&members), 4096).expect("an array");
        for member in lost {
            members[member].remove();
        }
        let size = array.geometry().size_bytes;
        let payload = payload_from_bytes(&vec![1; size as usize], 65_536);
        assert_eq!(
            array.write_blocks(0, payload),
            Err(DeviceError::Gone),
            "{level}"
        );
        assert_eq!(array.flush(), Err(DeviceError::Gone), "{level}");
        let read = array.read_blocks(0, (size / 4096) as u32, 4096);
        assert_eq!(read, Err(DeviceError::Gone), "{level}");
    }
}

#[test]
fn too_few_or_odd_members_are_refused() {
    for (level, count) in [
        (RaidLevel::Raid0, 1),
        (RaidLevel::Raid1, 1),
        (RaidLevel::Raid5, 2),
        (RaidLevel::Raid6, 3),
        (RaidLevel::Raid10, 2),
        (RaidLevel::Raid10, 5),
        (RaidLevel::Raid50, 5),
        (RaidLevel::Raid50, 7),
        (RaidLevel::Raid6, 258),
    ] {
        let members = members(count, |_| FaultPlan::default());
        assert!(
            assemble(level, devices(&members), 4096).is_err(),
            "{level} of {count}"
        );
    }
    for chunk in [0, 512, 4096 + 512, 1 << 31, 2 * MEMBER_BYTES] {
        let members = members(4, |_| FaultPlan::default());
        assert!(
            assemble(RaidLevel::Raid5, devices(&members), chunk).is_err(),
            "chunk {chunk}"
        );
    }
}

#[test]
fn the_failed_members_are_known() {
    let members = members(3, fails_write(2, 1, Effect::Fail));
    let mirror = MirrorDevice::new(devices(&members)).expect("an array");
    let device: &dyn BlockDevice = &mirror;
    device
        .write_blocks(0, payload_from_bytes(&[1; 4096], 4096))
        .expect("two members are left");
    assert_eq!(mirror.failed_members(), [2]);
}

/// A write waits for another one in the same stripe, on which a member leaves: what that member has
/// is stale, and does not become parity.
#[test]
fn a_member_that_leaves_during_a_write_is_not_read_by_the_next() {
    const CHUNK: usize = 16 * 1024;
    for level in [RaidLevel::Raid5, RaidLevel::Raid6] {
        let members = members(level.members_min() + 1, fails_write(0, 1, Effect::Fail));
        let array = assemble(level, devices(&members), CHUNK as u64).expect("an array");
        let write = |chunk: usize, byte| {
            array.submit(vec![Request::Write {
                sector: SectorNr::from_byte_offset((chunk * CHUNK) as u64),
                payload: payload_from_bytes(&[byte; 4096], 4096),
                force_unit_access: false,
            }])
        };
        let tickets = [write(0, 1), write(1, 2)];
        let answers = tickets.map(Ticket::wait);
        assert!(answers.iter().flatten().all(Result::is_ok), "{level}");
        for (chunk, byte) in [(0, 1), (1, 2)] {
            let read = array.read_blocks((chunk * CHUNK) as u64, 1, 4096);
            let read = payload_to_bytes(&read.expect("one member has left"));
            assert!(read == [byte; 4096], "{level}: chunk {chunk}");
        }
    }
}

/// A failed write with a dropped ticket must remove its member too, so that it is not read.
#[test]
fn members_that_fail_detached_writes_leave_too() {
    for level in [RaidLevel::Raid1, RaidLevel::Raid5] {
        let members = members(3, fails_write(0, 1, Effect::Fail));
        let array = assemble(level, devices(&members), 4096).expect("an array");
        let payload = payload_from_bytes(&vec![7; 65_536], 4096);
        let sector = SectorNr::new(0);
        drop(array.submit(vec![Request::Write {
            sector,
            payload,
            force_unit_access: false,
        }]));
        assert_eq!(array.take_detached_error(), None, "{level} makes up for it");
        let read = array.read_blocks(0, 16, 4096).expect("the others have it");
        assert!(
            payload_to_bytes(&read).iter().all(|byte| *byte == 7),
            "{level}"
        );
    }
}

#[test]
fn errors_of_detached_writes_that_nothing_makes_up_for_are_kept() {
    for level in [RaidLevel::Raid0, RaidLevel::Raid5] {
        let rule = FaultRule {
            operations: Operations::WRITES,
            when: When::Always,
            effect: Effect::Fail,
        };
        let plan = |_| FaultPlan {
            seed: 0,
            rules: vec![rule],
            bad_sectors: vec![],
        };
        let array = assemble(level, devices(&members(3, plan)), 4096).expect("an array");
        let payload = payload_from_bytes(&vec![7; 65_536], 4096);
        let sector = SectorNr::new(0);
        drop(array.submit(vec![Request::Write {
            sector,
            payload,
            force_unit_access: false,
        }]));
        assert!(
            matches!(
                array.take_detached_error(),
                Some(DeviceError::Failed { .. })
            ),
            "{level}"
        );
    }
}

/// A discard is advice: a member of a mirror that does not follow it stays.
#[test]
fn a_member_that_does_not_discard_stays_in_the_mirror() {
    let plan = |member| FaultPlan {
        rules: Vec::from_iter((member == 0).then_some(FaultRule {
            operations: Operations::DISCARDS,
            when: When::Always,
            effect: Effect::Fail,
        })),
        ..FaultPlan::default()
    };
    let mirror = MirrorDevice::new(devices(&members(2, plan))).expect("a mirror");
    let device: &dyn BlockDevice = &mirror;
    let range = 0..4096;
    let discarded = device.discard(std::slice::from_ref(&range));
    assert!(
        matches!(discarded, Err(DeviceError::Failed { .. })),
        "{discarded:?}"
    );
    assert_eq!(mirror.failed_members(), []);
}

/// A member that is gone leaves before those that have no room: the write is refused, and all data
/// is still there.
#[test]
fn members_without_room_stay_if_another_one_is_gone() {
    for level in [RaidLevel::Raid5, RaidLevel::Raid6] {
        let count = level.members_min();
        for gone in 0..count {
            let effect = |member| match member {
                member if member == gone => Effect::Gone,
                _ => Effect::NoSpace,
            };
            let plan = |member| FaultPlan {
                seed: 0,
                rules: vec![FaultRule {
                    operations: Operations::WRITES,
                    when: When::Always,
                    effect: effect(member),
                }],
                bad_sectors: vec![],
            };
            let members = members(count, plan);
            let arm = |is_armed| members.iter().for_each(|member| member.set_armed(is_armed));
            arm(false);
            let array = assemble(level, devices(&members), 4096).expect("an array");
            let write = |byte| array.write_blocks(0, payload_from_bytes(&[byte; 8192], 4096));
            write(1).expect("there is room");
            arm(true);
            let refused = write(2);
            let is_refused = matches!(refused, Err(DeviceError::NoSpace { .. }));
            assert!(is_refused, "{level} without {gone}: {refused:?}");
            arm(false);
            let read = array.read_blocks(0, 2, 4096).expect("one has left");
            assert!(
                payload_to_bytes(&read) == [1; 8192],
                "{level} without {gone}"
            );
            write(3).expect("there is room again");
        }
    }
}

/// A full host refuses writes of a whole stripe, which can be tried again; or of a part of it in an
/// array without one member, whose contents then cannot be computed any more: the write fails.
#[test]
fn a_write_of_a_stripe_is_refused_as_a_whole_or_fails() {
    const CHUNK: usize = 16 * 1024;
    let (parity, lost) = (2, 1);
    for has_lost in [false, true] {
        for refuses_all in [false, true] {
            let effect = |member| match member {
                member if member == lost => Effect::Gone,
                _ => Effect::NoSpace,
            };
            let plan = |member| FaultPlan {
                seed: 0,
                rules: vec![FaultRule {
                    operations: Operations::ALL,
                    when: When::Always,
                    effect: effect(member),
                }],
                bad_sectors: vec![],
            };
            let members = members(3, plan);
            let arm = |armed: &[usize]| {
                let all = members.iter().enumerate();
                all.for_each(|(number, member)| member.set_armed(armed.contains(&number)));
            };
            arm(&[]);
            let array = ParityDevice::new(devices(&members), CHUNK as u64).expect("an array");
            let device: &dyn BlockDevice = &array;
            let write = |chunk: u64, byte| {
                let payload = payload_from_bytes(&[byte; CHUNK], 4096);
                device.write_blocks(chunk * CHUNK as u64, payload)
            };
            let read = |chunk: u64| {
                let blocks = device.read_blocks(chunk * CHUNK as u64, 1, CHUNK as u32);
                payload_to_bytes(&blocks.expect("it can be read"))
            };
            write(0, 1).expect("there is room");
            write(1, 2).expect("there is room");
            let gone: &[usize] = if has_lost { &[lost] } else { &[] };
            arm(gone);
            assert!(read(1) == [2; CHUNK]);
            let refusing: &[usize] = if refuses_all { &[0, parity] } else { &[parity] };
            arm(&[refusing, gone].concat());
            let written = write(0, 3);
            arm(gone);
            let what = format!("{has_lost}, {refuses_all}: {written:?}");
            if refuses_all {
                assert!(
                    matches!(written, Err(DeviceError::NoSpace { .. })),
                    "{what}"
                );
                assert_eq!(
                    array.failed_members(),
                    Vec::from_iter(has_lost.then_some(lost)),
                    "{what}"
                );
                assert!(read(0) == [1; CHUNK] && read(1) == [2; CHUNK], "{what}");
                write(0, 3).expect("there is room again");
            } else if has_lost {
                assert!(matches!(written, Err(DeviceError::Failed { .. })), "{what}");
                let lost = device.read_blocks(CHUNK as u64, 1, CHUNK as u32);
                assert!(matches!(lost, Err(DeviceError::Failed { .. })), "{what}");
                continue;
            } else {
                assert_eq!(written, Ok(()), "the parity's member leaves");
            }
            assert!(read(0) == [3; CHUNK] && read(1) == [2; CHUNK], "{what}");
        }
    }
}

/// A member that has another user, and refuses writes to what is not reserved.
struct Thin {
    memory: MemoryDevice,
    reserved: rt::Mutex<Vec<Range<u64>>>,
}

impl BlockDevice for Thin {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let (device, reserved) = (self.name(), self.reserved.lock());
        for request in batch.iter().filter(|request| request.is_write()) {
            let (sector, sectors) = request.range();
            let (from, to) = (sector.byte_offset(), sector.byte_offset() + sectors * 512);
            if !reserved
                .iter()
                .any(|range| range.start <= from && to <= range.end)
            {
                return Ticket::ready(vec![Err(DeviceError::NoSpace { device }); batch.len()]);
            }
        }
        self.memory.submit(batch)
    }

    fn name(&self) -> String {
        "thin".to_owned()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.reserved.lock().extend(ranges.iter().cloned());
        Ok(())
    }

    fn intruder(&self) -> Option<String> {
        Some("somebody".to_owned())
    }
}

/// Arrays and caches reserve space on the devices below, and name other users of these.
#[test]
fn devices_on_others_reserve_there_and_name_other_users() {
    let thin = || -> Arc<dyn BlockDevice> {
        Arc::new(Thin {
            memory: MemoryDevice::new(MEMBER_BYTES),
            reserved: rt::Mutex::default(),
        })
    };
    let mut arrays: Vec<Arc<dyn BlockDevice>> = vec![Arc::new(CacheDevice::new(thin(), 0))];
    arrays.extend(RaidLevel::ALL.map(|level| {
        let members = (0..level.members_min().max(4)).map(|_| thin()).collect();
        assemble(level, members, 16 * 1024).expect("an array")
    }));
    for array in arrays {
        let name = array.name();
        assert_eq!(array.intruder(), Some("somebody".to_owned()), "{name}");
        let payload = || payload_from_bytes(&[7; 60 * 1024], 4096);
        let refused = array.write_blocks(40 * 1024, payload());
        let refused = refused.and_then(|()| array.flush());
        assert!(
            matches!(refused, Err(DeviceError::NoSpace { .. })),
            "{name}: {refused:?}"
        );
        let range = 40 * 1024..100 * 1024;
        array
            .reserve(std::slice::from_ref(&range))
            .expect("there is room");
        array.write_blocks(range.start, payload()).expect(&name);
        array.flush().expect(&name);
        let read = array.read_blocks(range.start, 15, 4096).expect(&name);
        assert!(payload_to_bytes(&read) == [7; 60 * 1024], "{name}");
    }
}
