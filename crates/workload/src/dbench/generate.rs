//! Generates a load, as a substitute for a recorded one.
//!
//! The load is a fixed sequence of documents in a few directories. Each document is looked up,
//! created, written in 4 KiB pieces, sometimes flushed, closed, looked up, listed, opened, and read
//! several times at random offsets. Some are renamed, and older ones are removed. The numbers give
//! approximately the recorded load's mix of requests: reads 27 %, opens 17 %, lookups 16 %, closes
//! 13 %, writes 9 %, listings 6 %, removals 3.5 %.

use super::load::{Disposition, Load, Request, Transfer};
use crate::random::Random;

/// Seed of the sequence, which is the same in every run.
const SEED: u64 = 4;
const DIRECTORIES: u64 = 8;
const DOCUMENTS: u64 = 900;
const PIECE: u64 = 4096;
/// Number of documents that exist at a time.
const LIVE: u64 = 300;
const PLACE: &str = "/clients/client1/~dmtmp";

pub(super) fn load() -> Load {
    let mut random = Random::new(SEED, 0);
    let mut requests = vec![
        Request::MakeDirectory("/clients".to_owned()),
        Request::MakeDirectory("/clients/client1".to_owned()),
        Request::MakeDirectory(PLACE.to_owned()),
    ];
    for directory in 0..DIRECTORIES {
        requests.push(Request::MakeDirectory(format!("{PLACE}/D{directory}")));
    }
    for document in 0..DOCUMENTS {
        write(&mut requests, &mut random, document);
        if let Some(old) = document.checked_sub(LIVE) {
            requests.push(Request::Stat(path(old)));
            requests.push(Request::Unlink(path(old)));
        }
    }
    requests.push(Request::RemoveTree("/clients/client1".to_owned()));
    Load::new(requests)
}

fn path(document: u64) -> String {
    let is_renamed = document.is_multiple_of(5);
    let ending = if is_renamed { "DOC" } else { "TMP" };
    format!("{PLACE}/D{}/{document:08}.{ending}", document % DIRECTORIES)
}

/// Adds the requests of one document, from its creation to its last read.
fn write(requests: &mut Vec<Request>, random: &mut Random, document: u64) {
    let directory = format!("{PLACE}/D{}", document % DIRECTORIES);
    let made = format!("{directory}/{document:08}.TMP");
    let path = path(document);
    let mut handle = document * 10;
    let open = |path: &str, disposition, handle| Request::Create {
        path: path.to_owned(),
        is_directory: false,
        disposition,
        handle,
    };
    let pieces = random.between(1, 13);
    requests.push(Request::List(format!("{directory}/*")));
    requests.push(open(&made, Disposition::CreateOrTruncate, handle));
    for piece in 0..pieces {
        requests.push(Request::Write(Transfer {
            handle,
            offset: piece * PIECE,
            length: PIECE as usize,
        }));
    }
    requests.push(Request::StatOpen(handle));
    if document.is_multiple_of(2) {
        requests.push(Request::Flush(handle));
    }
    requests.push(Request::Close(handle));
    if made != path {
        requests.push(Request::Rename(made, path.clone()));
    }
    for _ in 0..8 {
        handle += 1;
        requests.push(Request::Stat(path.clone()));
        requests.push(open(&path, Disposition::Open, handle));
        for _ in 0..random.between(1, 3) {
            requests.push(Request::Read(Transfer {
                handle,
                offset: random.below(pieces) * PIECE,
                length: PIECE as usize,
            }));
        }
        if random.percent(25) {
            requests.push(Request::List(format!("{directory}/*")));
        }
        requests.push(Request::Close(handle));
    }
}
