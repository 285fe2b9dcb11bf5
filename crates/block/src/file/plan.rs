//! From a batch to system calls: requests are sorted by place, and adjacent ones of a kind become one operation.

use layout::SectorNr;

use crate::device::{Payload, Request};
use crate::payload::payload_bytes;

/// How far operations grow by merging when several threads share a batch.
pub(super) const MERGED_BYTES_MAX: u64 = 1 << 20;

/// What one or a few system calls do, for one or several requests.
#[derive(Debug)]
pub(super) enum Operation {
    /// Read adjacent parts.
    Read {
        /// The byte offset of the first part.
        offset: u64,
        /// The parts in order.
        parts: Vec<ReadPart>,
    },
    /// Write adjacent parts.
    Write {
        /// The byte offset of the first part.
        offset: u64,
        /// Whether the bytes must be durable afterwards.
        is_forced: bool,
        /// The requests' numbers in the batch and their bytes.
        parts: Vec<(usize, Payload)>,
    },
    /// Make durable what was written.
    Flush {
        /// The request's number in the batch.
        index: usize,
    },
    /// Punch a hole.
    Discard {
        /// The request's number in the batch.
        index: usize,
        /// The byte offset of the hole.
        offset: u64,
        /// Its length in bytes.
        bytes: u64,
    },
}

/// One request to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadPart {
    /// The request's number in the batch.
    pub(super) index: usize,
    /// How many pieces.
    pub(super) blocks: u32,
    /// The size of a piece.
    pub(super) block_bytes: u32,
}

impl ReadPart {
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.block_bytes)
    }
}

/// Makes operations out of a batch; merging stops at `merged_bytes_max`.
pub(super) fn plan(batch: Vec<Request>, merged_bytes_max: u64) -> Vec<Operation> {
    let mut requests: Vec<(usize, Request)> = batch.into_iter().enumerate().collect();
    if requests.len() > 1 {
        requests.sort_by_key(|(_, request)| (request.operation(), request.range().0));
    }
    let mut operations: Vec<Operation> = Vec::with_capacity(requests.len());
    let mut last = Run { end: 0, bytes: 0 };
    for (index, request) in requests {
        let (sector, sectors) = request.range();
        let (offset, bytes) = (sector.byte_offset(), sectors * SectorNr::SIZE);
        let is_near = last.end == offset && last.bytes + bytes <= merged_bytes_max;
        let request = match (is_near, operations.last_mut()) {
            (true, Some(operation)) => join(operation, index, request),
            _ => Some(request),
        };
        match request {
            None => {
                last = Run {
                    end: last.end + bytes,
                    bytes: last.bytes + bytes,
                }
            }
            Some(request) => {
                operations.push(alone(index, request));
                last = Run {
                    end: offset + bytes,
                    bytes,
                };
            }
        }
    }
    operations
}

/// Where the last operation ends and how long it is.
struct Run {
    end: u64,
    bytes: u64,
}

/// Adds a request that begins where the operation ends; gives it back if it is of another kind.
fn join(operation: &mut Operation, index: usize, request: Request) -> Option<Request> {
    match (operation, request) {
        (
            Operation::Read { parts, .. },
            Request::Read {
                blocks,
                block_bytes,
                ..
            },
        ) => {
            parts.push(ReadPart {
                index,
                blocks,
                block_bytes,
            });
            None
        }
        (
            Operation::Write {
                parts, is_forced, ..
            },
            Request::Write {
                payload,
                force_unit_access,
                ..
            },
        ) if *is_forced == force_unit_access => {
            parts.push((index, payload));
            None
        }
        (_, request) => Some(request),
    }
}

fn alone(index: usize, request: Request) -> Operation {
    match request {
        Request::Read {
            sector,
            blocks,
            block_bytes,
        } => Operation::Read {
            offset: sector.byte_offset(),
            parts: vec![ReadPart {
                index,
                blocks,
                block_bytes,
            }],
        },
        Request::Write {
            sector,
            payload,
            force_unit_access,
        } => Operation::Write {
            offset: sector.byte_offset(),
            is_forced: force_unit_access,
            parts: vec![(index, payload)],
        },
        Request::Flush => Operation::Flush { index },
        Request::Discard { sector, sectors } => Operation::Discard {
            index,
            offset: sector.byte_offset(),
            bytes: sectors * SectorNr::SIZE,
        },
    }
}

impl Operation {
    /// The same work, one request an operation.
    pub(super) fn split(self) -> Vec<Self> {
        match self {
            Self::Read { mut offset, parts } => parts
                .into_iter()
                .map(|part| {
                    let start = offset;
                    offset += part.bytes();
                    Self::Read {
                        offset: start,
                        parts: vec![part],
                    }
                })
                .collect(),
            Self::Write {
                mut offset,
                is_forced,
                parts,
            } => parts
                .into_iter()
                .map(|part| {
                    let start = offset;
                    offset += payload_bytes(&part.1);
                    Self::Write {
                        offset: start,
                        is_forced,
                        parts: vec![part],
                    }
                })
                .collect(),
            single => vec![single],
        }
    }
}

#[cfg(test)]
mod tests {
    use layout::Block;

    use super::*;

    fn read(sector: u64, blocks: u32) -> Request {
        Request::Read {
            sector: SectorNr::new(sector),
            blocks,
            block_bytes: 512,
        }
    }

    fn write(sector: u64, sectors: usize, force_unit_access: bool) -> Request {
        let payload = vec![Block::zeroed(sectors * 512).into_arc()];
        Request::Write {
            sector: SectorNr::new(sector),
            payload,
            force_unit_access,
        }
    }

    /// Each operation as its name, offset in sectors, and the requests that it does.
    fn shape(operations: &[Operation]) -> Vec<(&'static str, u64, Vec<usize>)> {
        operations
            .iter()
            .map(|operation| match operation {
                Operation::Read { offset, parts } => (
                    "read",
                    offset / 512,
                    parts.iter().map(|part| part.index).collect(),
                ),
                Operation::Write {
                    offset,
                    is_forced,
                    parts,
                } => (
                    if *is_forced { "force" } else { "write" },
                    offset / 512,
                    parts.iter().map(|part| part.0).collect(),
                ),
                Operation::Flush { index } => ("flush", 0, vec![*index]),
                Operation::Discard { index, offset, .. } => ("discard", offset / 512, vec![*index]),
            })
            .collect()
    }

    #[test]
    fn adjacent_requests_of_a_kind_become_one() {
        let batch = vec![
            read(4, 2),
            read(0, 4),
            write(0, 1, false),
            write(1, 1, false),
            read(7, 1),
        ];
        let expected = vec![
            ("read", 0, vec![1, 0]),
            ("read", 7, vec![4]),
            ("write", 0, vec![2, 3]),
        ];
        assert_eq!(shape(&plan(batch, u64::MAX)), expected);
    }

    #[test]
    fn forced_writes_flushes_and_discards_stay_apart() {
        let discard = Request::Discard {
            sector: SectorNr::new(2),
            sectors: 2,
        };
        let batch = vec![
            write(0, 1, false),
            write(1, 1, true),
            Request::Flush,
            discard,
            Request::Flush,
        ];
        let expected = vec![
            ("discard", 2, vec![3]),
            ("flush", 0, vec![2]),
            ("flush", 0, vec![4]),
            ("write", 0, vec![0]),
            ("force", 1, vec![1]),
        ];
        assert_eq!(shape(&plan(batch, u64::MAX)), expected);
    }

    #[test]
    fn merging_stops_at_the_limit_and_splitting_undoes_it() {
        let batch = vec![write(0, 1, false), write(1, 1, false), write(2, 1, false)];
        let operations = plan(batch, 1024);
        assert_eq!(
            shape(&operations),
            vec![("write", 0, vec![0, 1]), ("write", 2, vec![2])]
        );
        let split: Vec<_> = operations.into_iter().flat_map(Operation::split).collect();
        let expected = vec![
            ("write", 0, vec![0]),
            ("write", 1, vec![1]),
            ("write", 2, vec![2]),
        ];
        assert_eq!(shape(&split), expected);
    }
}
