//! Operations of several steps: a crash may come between the steps, and nowhere else.
//!
//! The scripts here have transactions closed in the middle of operations, and once were taken for
//! violations.

use std::collections::BTreeSet;

use crash::history::History;
use crash::model::Kind;
use crash::replay::{ReplayId, replay};
use layout::Tid;

fn parse(id: &str) -> ReplayId {
    id.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Checks that nothing is broken at the cut, nor by the order of requests.
fn check(id: &str) {
    let shown = replay(&parse(id)).unwrap();
    if let Some(broken) = shown.broken {
        panic!("{broken}\njext replay '{id}'");
    }
}

/// Data at the end of the volume is on its way while a transaction without it is committed.
#[test]
fn data_of_the_next_transaction() {
    check(
        "crash2:ordered,external,commit=1000,random=7:4:create(f);append(f,4);create(g);append(g,4);write(f,0,4);\
         write(g,0,4);write(f,1,2);sync;write(g,1,2);write(f,0,4):60-kept",
    );
}

/// The log is so short that opening commits what finishing an orphan did: what recovery came to is
/// what was there before that.
#[test]
fn an_orphan_is_committed_while_the_volume_is_opened() {
    check(
        "crash2:writeback,external,log=131,free=25,fault=write.1.24+:2:mkdir(d00);mkdir(d10);mkdir(d00/f1);create(d00/f3);\
         rmdir(d00/f1);create(d10/f2);write(d10/f2,0,11);rename(d10/f2,d00/f1);unlink(d00/f1);mkdir(d10/f0);\
         append(d00/f3,12);unlink(d00/f3);rmdir(d10/f0);create(d10/f0):104-lost",
    );
}

/// A page whose write has failed, and whose transaction was committed without it, is on its way
/// once more when the commit record of the next one is issued: only the sync call that has it
/// written waits for it.
#[test]
fn a_failed_page_is_written_again_during_a_commit() {
    check(
        "crash2:ordered,internal,fua=0,writer=3825,lanes=2,fault=write.0.2184-2185,random=3645386349998238944:2+2:\
         mkdir(d00);mkdir(d10);create(d00/f0);append(d00/f0,3);syncdir(d00);sync;unlink(d00/f0);symlink(d10/f0,d10/f1);\
         create(d10/f2);append(d10/f2,8);sync;write-direct(d10/f2,10,2);symlink(d00/f2,d00/f1);sync+mkdir(d01);mkdir(d11);\
         syncdir(d01);create(d01/f2);create(d11/f2);append(d01/f2,11);create(d11/f1);create(d01/f3);unlink(d11/f1);\
         fdatasync(d11/f2);write(d11/f2,3,3);write(d01/f3,0,6);link(d11/f2,d11/f0);write-sync(d11/f0,0,4):115-kept",
    );
}

/// A range within an inode is zeroed when it is punched, though no block is freed.
#[test]
fn a_hole_within_an_inode_is_punched() {
    check(
        "crash2:inline,writeback,external:1:mkdir(d10);create(d10/f3);truncate(d10/f3,40);punch(d10/f3,0,4);\
         create(d10/f4);chmod(d10/f3,600):56-lost",
    );
}

/// Contents leave their inode when a range is inserted before them, and their block is overwritten.
#[test]
fn contents_that_left_their_inode_move_on() {
    check(
        "crash2:inline,ordered,internal,log=259,tid=4294967280,writer=78,lanes=2,sync=2,fault=flush.0.5,\
         pct=16740154570429442617:1+0:mkdir(d00);create(d00/f2);truncate(d00/f2,53);insert(d00/f2,0,6);write(d00/f2,6,4)+:\
         49-kept",
    );
}

/// A range for which there was no space promises nothing on a synchronous volume, though a part of
/// it has blocks.
#[test]
fn a_range_without_space_on_a_synchronous_volume() {
    check(
        "crash2:ordered,external,log=131,commit=610,writer=1054,free=37,lanes=3,sync=2,fault=write.0.10,\
         pct=13242066288822903643:2+2+2:mkdir(d00);mkdir(d10);create(d10/f0);write(d10/f0,3,1);create(d00/f0);append(d00/f0,10);\
         create(d10/f2);setfacl-default(d10,617);create(d10/f1);append(d10/f2,10);allocate(d10/f2,11,4)+mkdir(d01);mkdir(d11);\
         create(d01/f2);create(d11/f3);write(d01/f2,1,10);setxattr(d11/f3,a-longer-name,200)+mkdir(d02);mkdir(d12);\
         create(d12/f3);write-dsync(d12/f3,2,2);append(d12/f3,3);append(d12/f3,12):210-lost",
    );
}

/// A directory that could not be moved over a file that could not be removed is not there to be
/// synced.
#[test]
fn a_directory_that_could_not_be_moved_is_synced() {
    check(
        "crash2:ordered,internal,allocated=1,fault=read.0.2-3:3:mkdir(d0);create(d0/f0);mkdir(d0/f1);unlink(d0/f0);\
         rename(d0/f1,d0/f0);syncdir(d0/f0):",
    );
}

/// Three milliseconds after its interval a commit need not have ended where threads lose their
/// processor.
#[test]
fn a_commit_takes_the_time_for_which_threads_wait() {
    check(
        "crash2:ordered,internal,allocated=1,fua=0,commit=997,writer=3021,random=14880650156791063670:1:mkdir(d00);\
         create(d00/f0);create(d00/f2):7-lost",
    );
}

/// The page in which a truncation made zeroes of the end cannot be written, and half of it is old:
/// as `data_err=ignore` says, that may show when the file grows again.
#[test]
fn the_end_of_a_truncated_file_could_not_be_written() {
    check(
        "crash2:ordered,internal,fault=write.0.2130-2131:3:mkdir(d0);create(d0/f0);append(d0/f0,4);truncate(d0/f0,700);\
         allocate(d0/f0,3,3):17-kept,0.2131=0",
    );
}

/// The shortest log that the engine takes is long enough for what is made in a directory that hands
/// down a list.
#[test]
fn lists_are_inherited_on_the_shortest_log() {
    for ops in ["create(d/f);unlink(d/f)", "mkdir(d/f);rmdir(d/f)"] {
        check(&format!(
            "crash2:writeback,internal,log=131:1:mkdir(d);setfacl-default(d,407);{ops}:2-kept"
        ));
    }
}

/// A block that two appends share is written again for the second one, while the transaction of the
/// first is committed: the first one's part of it is there already.
#[test]
fn a_block_of_two_transactions() {
    check(
        "crash2:ordered,internal,log=224,commit=1000,lanes=2,random=6403084078788366198:2+2:mkdir(d00);mkdir(d10);\
         create(d00/f0);write(d00/f0,0,4);append(d00/f0,11);append(d00/f0,23);truncate(d00/f0,5400);append(d00/f0,18);\
         unlink(d00/f0);create(d00/f0);truncate(d00/f0,0);append(d00/f0,23);append(d00/f0,23);unlink(d00/f0)+mkdir(d01);\
         mkdir(d11);sync;sync;sync;sync;sync;sync;sync;sync;sync;sync;sync:162-kept",
    );
}

/// A truncation cuts off what a transaction that is being committed has written: the data was
/// written all the same, but with an external journal the file system's device was not flushed
/// before the commit record.
#[test]
fn a_cut_off_page_is_durable_before_the_commit_record() {
    for event in 39..46 {
        check(&format!(
            "crash2:ordered,external,commit=1000,random=7:2:create(f);append(f,12);truncate(f,0);append(f,4);\
             truncate(f,6000);write(f,6,2);truncate(f,2500);append(f,2):{event}-lost"
        ));
    }
}

/// The blocks of a deleted file are discarded after the commit that freed them, and the next commit
/// does not wait until the discard is durable.
#[test]
fn no_commit_waits_for_a_discard() {
    check(
        "crash2:ordered,external,tid=4294967295,free=20,sync=1,csum=1,discard=1:1:mkdir(d00);\
         create(d00/f0);unlink(d00/f0);create(d00/f0);write(d00/f0,0,10);unlink(d00/f0);\
         create(d00/f1):60-kept",
    );
}

/// Schedules in which an append and the commits race: in some of them one comes between its blocks.
const RACES: std::ops::RangeInclusive<u32> = 1..=20;

/// Creates the workload of an append that races with commits, cut at an event.
fn race(schedule: u32, event: u32) -> String {
    format!(
        "crash2:ordered,external,commit=1000,free=24,random={schedule}:2:mkdir(d);create(d/f);create(d/g);\
         unlink(d/f);sync;unlink(d/g);rmdir(d);create(h);append(h,30);fsync(h):{event}-kept"
    )
}

/// The beginning of a write is in one transaction and its end in the next.
#[test]
fn beginnings_of_writes() {
    for event in 50..60 {
        RACES.for_each(|schedule| check(&race(schedule, event)));
    }
    check(
        "crash2:ordered,external,commit=1000,free=24,random=7:1:create(f);append(f,28);write(f,600,2);sync;\
         truncate(f,0);sync;create(g);append(g,36);fsync(g);unlink(g);sync:74-kept",
    );
}

/// In data=writeback a new block shows what lay there: here the directory that it was.
#[test]
fn an_old_directory_in_a_new_file() {
    check(
        "crash2:writeback,internal,commit=1000,free=24,random=7:1:mkdir(d);create(d/f);sync;unlink(d/f);rmdir(d);sync;\
         create(g);append(g,20);fsync(g);write(g,0,4);fdatasync(g):63-kept",
    );
}

/// Returns the sizes that a file may have if a transaction is the last that was committed.
fn sizes(history: &History, name: &str, last: Tid) -> BTreeSet<Option<u64>> {
    let size = |stage: crash::history::Stage| {
        let tree = stage.part.as_ref().unwrap_or(&history.states[stage.state]);
        tree.find(name).map(|id| match &tree.node(id).kind {
            Kind::File { size, .. } => *size,
            _ => panic!("/{name} is a file"),
        })
    };
    history
        .stages_at(last, false)
        .into_iter()
        .map(size)
        .collect()
}

/// An append of 15 blocks in two transactions: with the first of them there is the file up to the
/// end of any block; before, nothing of it; with the second, all.
#[test]
fn a_write_is_cut_at_blocks() {
    let mut splits = 0;
    for schedule in RACES {
        let shown = replay(&parse(&race(schedule, 55))).unwrap();
        let history = History::of(&shown.recording, 0).unwrap();
        let sizes: Vec<_> = (1..=20)
            .map(|tid| sizes(&history, "h", Tid::new(tid)))
            .collect();
        let all = BTreeSet::from([Some(15 * 1024)]);
        let first = sizes.iter().position(|sizes| sizes.contains(&Some(1024)));
        let Some(first) = first else {
            continue;
        };
        splits += 1;
        assert!(sizes[first - 1].is_subset(&BTreeSet::from([None, Some(0)])));
        assert_eq!(
            sizes[first],
            (0..=15).map(|blocks| Some(blocks * 1024)).collect()
        );
        assert_eq!(sizes[first + 1], all);
    }
    assert!(splits > 0, "no append was split by a commit");
}

/// A read that fails while a directory is made leaves nothing of it behind: its block was taken
/// before the inode's own block of the table was read, and not given back.
#[test]
fn a_failed_read_leaves_no_block_of_a_new_directory() {
    check(
        "crash2:journal,external,log=224,free=26,fault=read.0.9+:2:mkdir(d00);mkdir(d10);mkdir(d00/f2);mkdir(d10/f1);\
         mkdir(d10/f2):19-kept",
    );
}

/// A directory can have the flag of journaled data, too: it stood where a file should have been,
/// since the exchange of the two had failed.
#[test]
fn a_directory_takes_the_flag_of_journaled_data() {
    check(
        "crash2:journal,external,log=131,free=69,fault=read.0.9+:2:mkdir(d00);mkdir(d10);mkdir(d00/f1);mkdir(d00/f3);\
         create(d10/f1);exchange(d00/f1,d10/f1);chattr(-j,d00/f1):",
    );
}

/// A link that a failed read prevents is not made because its name is there: the rename that was to
/// take it away had failed before.
#[test]
fn a_name_that_was_there_before_is_no_sign_of_a_link() {
    check(
        "crash2:ordered,external,fault=read.0.5+:4:mkdir(d0);mkdir(d1);create(d0/f0);create(d1/f0);rename(d0/f0,d0/f1);\
         link(d1/f0,d0/f0):",
    );
}

/// At an abort of the journal, the volume is read-only before any call fails because of it: a
/// client whose call had failed for that reason found a volume that could still be written to,
/// repeated the call, and got the error that the name exists.
#[test]
fn a_volume_is_read_only_before_a_call_fails_for_that() {
    check(
        "crash2:writeback,internal,log=224,tid=4294967280,writer=59,lanes=3,sync=2,fault=flush.0.1,\
         random=12883064528855477222:2+2+2:mkdir(d00);mkdir(d10);create(d10/f1)+mkdir(d01);mkdir(d11)+mkdir(d02);mkdir(d12);\
         create(d12/f1):13-lost",
    );
}

/// An operation that is refused because an earlier one had no space is not tried again, as if a
/// device had failed.
#[test]
fn only_what_a_device_fails_is_tried_again() {
    check(
        "crash2:writeback,internal,log=224,free=25,fault=write.0.29:2:mkdir(d00);mkdir(d10);mkdir(d10/f3);create(d10/f2);\
         mkdir(d10/f0);mkdir(d00/f3);unlink(d10/f2);create(d00/f2);mkdir(d10/f2);create(d00/f1);write(d00/f1,0,5);\
         append(d00/f2,1);write(d00/f1,7,5);unlink(d00/f2);write(d00/f1,12,11);append(d00/f1,11);mkdir(d00/f2);\
         rmdir(d00/f2):0-lost",
    );
}

/// The rest of a sector after a truncation belongs to the truncation, not to the write before it.
#[test]
fn a_cut_off_sector_is_the_truncations() {
    check(
        "crash2:ordered,external,log=224,commit=1000,lanes=3,random=13659247299840809785:2+2+2:mkdir(d00);mkdir(d10);\
         create(d00/f0);truncate(d00/f0,0);append(d00/f0,9);syncdir(d10);truncate(d00/f0,0);syncdir(d10);sync;syncdir(d00);\
         syncdir(d10);truncate(d00/f0,0);write(d00/f0,0,4);truncate(d00/f0,0);append(d00/f0,4);truncate(d00/f0,300)+mkdir(d01);\
         mkdir(d11);sync;create(d01/f0);syncdir(d11);append(d01/f0,16);truncate(d01/f0,4200);append(d01/f0,15);syncdir(d11);\
         truncate(d01/f0,14956);sync;write(d01/f0,5,4);write(d01/f0,17,4);truncate(d01/f0,7200);truncate(d01/f0,3900);\
         syncdir(d11)+mkdir(d02);mkdir(d12);sync;syncdir(d12);sync;create(d02/f0);append(d02/f0,1);truncate(d02/f0,0);\
         append(d02/f0,13);truncate(d02/f0,2400);truncate(d02/f0,600);syncdir(d12);syncdir(d12);syncdir(d02);create(d12/f2);\
         sync:235-kept",
    );
}

/// Pages of which a truncation left twelve bytes, and nothing but zeroes, could not be written:
/// their file is told, though the bytes do not say whose they are.
#[test]
fn what_does_not_say_whose_it_is_is_somebodys() {
    check(
        "crash2:writeback,internal,log=224,writer=405,lanes=2,sync=2,fault=torn.0.14:0+1:+mkdir(d01);create(d01/f2);\
         write(d01/f2,0,7);truncate(d01/f2,1036):0-lost",
    );
    check(
        "crash2:writeback,external,log=224,tid=4294967280,commit=2000,fault=write.0.1+:1:mkdir(d00);create(d00/f3);\
         write(d00/f3,3,8);truncate(d00/f3,1135):30-kept",
    );
}

/// Journaled data that went home and was then deleted: nothing needs it there, and no commit has to
/// wait for it.
#[test]
fn deleted_journaled_data_need_not_be_durable() {
    check(
        "crash2:ordered,external,tid=4294967280,writer=2173,free=21,sync=2,csum=3,wide=1:2:mkdir(d00);mkdir(d10);\
         create(d00/f0);chattr(+j,d00/f0);truncate(d00/f0,1500);write(d00/f0,0,8);fdatasync(d00/f0);sync;unlink(d00/f0);\
         mkdir(d10/f0):330-kept",
    );
}

/// Work that a device had stopped is finished when the volume is closed: the blocks behind the end
/// of a file that was cut off, and a file that was replaced.
#[test]
fn a_closed_volume_has_no_orphans() {
    for id in [
        "crash2:ordered,internal,fault=read.0.6:3:mkdir(d0);create(d0/f0);append(d0/f0,4);truncate(d0/f0,700):32-kept",
        "crash2:ordered,external,fault=read.0.7x2:5:mkdir(d0);mkdir(d1);mkdir(d2);create(d0/f0);create(d1/f0);\
         rename(d0/f0,d1/f0):30-kept",
        "crash2:ordered,internal,fault=read.0.5x2:3:mkdir(d0);mkdir(d1);create(d0/f0);unlink(d0/f0):30-kept",
    ] {
        check(id);
    }
}

/// A synchronous operation fails, and is there when it is tried again: nothing is promised of it.
#[test]
fn what_was_done_in_vain_is_not_promised() {
    check(
        "crash2:writeback,external,writer=638,lanes=2,sync=2,fault=write.1.9x2,random=10215519905820097268:2+2:\
         mkdir(d00);mkdir(d10);create(d10/f2);unlink(d10/f2);create(d10/f0)+mkdir(d01);mkdir(d11);syncdir(d01);\
         create(d11/f3);sync:43-lost",
    );
}

/// A new directory is taken back in the transaction that made it: while that was being closed,
/// giving its block back began another one, and an inode without a name stayed.
#[test]
fn a_new_directory_is_taken_back_in_one_transaction() {
    check(
        "crash2:journal,external,log=224,commit=3000,writer=3697,free=42,lanes=2,fault=read.0.9,random=18214976348529093554:2+2:\
         mkdir(d00);mkdir(d10);mkdir(d00/f3)+mkdir(d01);mkdir(d11);create(d11/f1):15-kept",
    );
}

/// A sync call finds a page in flight that another one writes, and that write fails: the call has
/// not made it durable, and says so.
#[test]
fn a_sync_tells_of_pages_that_another_one_could_not_write() {
    check(
        "crash2:writeback,internal,commit=5000,lanes=3,fault=write.0.2162-2167,random=18081631459723380916:2+2+1:mkdir(d00);\
         mkdir(d10);create(d00/f2);sync;write-dsync(d00/f2,2,4);sync;create(d10/f3);append(d00/f2,6);rename(d10/f3,d10/f0);\
         rename(d00/f2,d00/f3);mknod(char.78.352,d00/f1);chown(d00/f1,493535948,231);sync+mkdir(d01);mkdir(d11);\
         create(d01/f2);mkdir(d11/f3);syncdir(d11);mknod(char.168.345,d11/f1);fsync(d01/f2);truncate(d01/f2,2876);\
         fsync(d01/f2);create(d01/f3);append(d01/f2,5);rename(d01/f2,d11/f1);sync+mkdir(d02);create(d02/f2);\
         append(d02/f2,9):107-lost",
    );
}

/// A write past the cache that failed may have reached the device all the same.
#[test]
fn a_failed_direct_write_may_have_landed() {
    check(
        "crash2:writeback,external,fua=0,log=224,commit=4027,fault=write.0.2+:1:mkdir(d10);create(d10/f1);write(d10/f1,2,5);\
         rename(d10/f1,d10/f2);append(d10/f2,10);append(d10/f2,10);write-dsync(d10/f2,2,2);create(d10/f1);unlink(d10/f1);\
         link(d10/f2,d10/f1);write-direct(d10/f1,14,2):36-kept",
    );
}

/// If a file could not be made, the next operation may put a device in its place: a node without
/// contents can be synced, too.
#[test]
fn devices_can_be_synced() {
    check(
        "crash2:ordered,external,commit=870,lanes=2,fault=read.0.8+,random=18247220431524356938:2+2:mkdir(d00);mkdir(d10);\
         symlink(d10/f2,d10/f0);create(d00/f1);rename(d00/f1,d10/f2);unlink(d10/f0);mknod(char.92.412,d00/f1);\
         exchange(d00/f1,d10/f2);fsync(d00/f1)+mkdir(d01);mkdir(d11):",
    );
}

/// A failed deletion of an orphan is noted in the log, and the cut leaves the note nowhere else.
#[test]
fn an_error_is_noted_in_the_log_only() {
    check(
        "crash2:ordered,internal,fault=read.0.22-23:5:mkdir(d0);mkdir(d1);create(d0/f1);create(d1/f1);append(d1/f1,4);\
         rename(d0/f1,d1/f1):17-kept",
    );
}

/// A volume that is closed without room for its log writes nothing home that the log, which is
/// kept, would undo.
#[test]
fn a_volume_is_closed_without_room_for_its_log() {
    for cut in ["", "87-kept", "88-kept"] {
        check(&format!(
            "crash2:ordered,external,allocated=1,log=131,free=68,fault=full.1.6+:2:mkdir(d00);mkdir(d10);mkdir(d10/f2);\
             rmdir(d10/f2);mkdir(d00/f1);rmdir(d00/f1):{cut}"
        ));
    }
}

/// The daemon's write of the journal's superblock fails while the volume is closed: the close
/// fails, too, and the volume still has to be replayed.
#[test]
fn a_volume_whose_log_aborts_at_the_close_is_not_clean() {
    check(
        "crash2:ordered,external,log=131,tid=4294967280,commit=3031,fault=write.1.30,random=7001330751740312518:2:\
         mkdir(d00);mkdir(d10);syncdir(d00);create(d10/f0);sync;unlink(d10/f0);create(d00/f2);syncdir(d10);\
         write(d00/f2,0,12);create(d10/f3);create(d00/f0);setfacl-default(d00,404);write(d10/f3,1,9);sync;sync;\
         setxattr(d00/f2,a-longer-name,60);sync;create(d00/f1);setxattr(d00/f2,a-longer-name,60);append(d00/f1,9);\
         utimes(d10/f3,530491283);syncdir(d00);fsync(d10/f3);create(d00/f3);create(d10/f2);fsync(d00/f3);\
         fdatasync(d00/f2):174-kept",
    );
}

/// A write of the superblock is torn while a volume is opened, which releases it then.
#[test]
fn a_failed_open_releases_a_volume_that_needs_recovery() {
    check(
        "crash2:mmp,ordered,internal,delalloc=0,log=259,writer=3014,fault=torn.0.1,pct=1933466631559841295:0::13-kept,0.2=0",
    );
}

/// The block of multiple mount protection cannot be read until the lease ends.
#[test]
fn a_protection_that_cannot_be_renewed_ends_all_changes() {
    check(
        "crash2:mmp,ordered,internal,log=259,lanes=2,fault=read.0.140-141:0+2:+mkdir(d01);mkdir(d11);mkdir(d11/f0);\
         create(d01/f2);write-dsync(d01/f2,0,6);create(d11/f2);mkdir(d01/f0);unlink(d01/f2);create(d11/f1);sync;\
         syncdir(d11);syncdir(d01);utimes(d11/f1,772560588):",
    );
}

/// Nothing else can be read until the end either: the volume shows what is cached.
#[test]
fn a_protection_that_cannot_be_renewed_on_a_device_that_is_never_read_again() {
    check(
        "crash2:mmp,writeback,external,delalloc=0,lanes=3,fault=read.0.9+,pct=15853745397723708335:0+1+2:+mkdir(d01)\
         +mkdir(d02);mkdir(d12);create(d12/f3);syncdir(d12);create(d02/f3);append(d02/f3,8);sync;fdatasync(d12/f3);\
         write(d12/f3,0,9);syncdir(d02);create(d12/f1);fdatasync(d02/f3);fsync(d02/f3):",
    );
}

/// Contents cannot be written where they move to. The call has that error, and they stay.
#[test]
fn contents_that_could_not_leave_their_inode() {
    check(
        "crash2:inline,writeback,internal,delalloc=0,fua=0,log=259,tid=4294967280,writer=2132,free=25,fault=torn.0.1,\
         random=10133495903733577064:1:mkdir(d00);create(d00/f3);write(d00/f3,0,1);zero(d00/f3,3,10):",
    );
}

/// A file without data grows out of its inode and has a block then, which is written in place.
#[test]
fn contents_that_left_their_inode_are_written_in_place() {
    check(
        "crash2:inline,ordered,internal,delalloc=0:1:mkdir(d);create(d/f);truncate(d/f,194);truncate(d/f,1947);sync;\
         write(d/f,0,94);sync:",
    );
}

/// A checkpoint fails, and then a directory is synced whose changes a fast commit has made durable.
#[test]
fn a_sync_after_a_fast_commit_and_a_failed_checkpoint() {
    check(
        "crash2:ext4,writeback,internal,fast,log=259,commit=2000,writer=1092,lanes=3,sync=2,fault=write.0.204-205,\
         random=14331994359044186424:2+0+0:mkdir(d00);mkdir(d10);create(d00/f3);fdatasync(d00/f3);create(d10/f1);\
         syncdir(d10)++:",
    );
}

/// Blocks move in a file that has none, since it could not be appended to.
#[test]
fn a_move_within_a_file_that_was_not_written() {
    check(
        "crash2:inline,ordered,internal,fua=0,writer=143,sync=2,fault=write.0.3x2:1:mkdir(d00);create(d00/f1);\
         append(d00/f1,2);append(d00/f1,2);insert(d00/f1,2,8):13-kept",
    );
}

/// Data that moves out of an inode is written while the transaction that has it within the inode is
/// committed: it belongs to the next one. A first try to move it has failed.
#[test]
fn contents_leave_their_inode_during_a_commit() {
    check(
        "crash2:inline,ordered,external,delalloc=0,writer=1177,lanes=2,abort=1,fault=torn.0.11,random=14033746409947366121:2+2:\
         mkdir(d00);mkdir(d10);create(d00/f1);create(d10/f0);create(d10/f1);append(d10/f1,1);syncdir(d10);syncdir(d10);\
         punch(d00/f1,2,5);write(d10/f1,3,2)+mkdir(d01);mkdir(d11);create(d11/f0);create(d01/f0);create(d11/f1);\
         fsync(d11/f0);write(d11/f1,0,2);syncdir(d01);unlink(d11/f1);create(d11/f1):73-kept",
    );
}

/// The names are changed when the commit that has to follow finds no room on the journal's device.
/// A client that does not look would rename the whiteout that it has left.
#[test]
fn a_whiteout_that_could_not_be_committed_is_not_repeated() {
    check(
        "crash2:inline,writeback,external,log=259,free=49,fault=full.1.5x40:2:mkdir(d00);mkdir(d10);mkdir(d10/f2);\
         chattr(+D,d10);create(d00/f0);rename(d00/f0,d00/f3);whiteout(d10/f2,d00/f0):",
    );
}

/// The value of an attribute lies in an inode of its own, and that inode is damaged.
#[test]
fn an_attribute_hangs_on_the_inode_of_its_value() {
    check(
        "crash2:quota,writeback,external,delalloc=0,log=307,restart=1:2:mkdir(d00);mkdir(d10);create(d00/f0);create(d10/f0);\
         create(d00/f1);setxattr(d00/f0,a,1000);append(d10/f0,18);create(d10/f1);write(d00/f1,0,24);chattr(-j,d10/f1):\
         35-kept,0.3=0,0.4=0,0.5=0,0.10=0,0.11=0,0.23=0,0.133=0,0.140=0,0.143=0",
    );
}
