//! Conversion of a batch to system calls: requests are sorted by offset, and adjacent ones of a
//! kind become one operation.

use layout::SectorNr;

use crate::device::Request;
use crate::payload::{Payload, payload_bytes};

/// Maximum size of a merged operation if several threads share a batch.
pub(super) const MERGED_BYTES_MAX: u64 = 1 << 20;

/// An operation: one or a few system calls for one or several requests.
#[derive(Debug)]
pub(super) enum Operation {
    /// Reads adjacent parts.
    Read {
        /// Byte offset of the first part.
        offset: u64,
        /// Parts in order.
        parts: Vec<ReadPart>,
    },
    /// Writes adjacent parts.
    Write {
        /// Byte offset of the first part.
        offset: u64,
        /// True if the data must be durable on completion.
        is_forced: bool,
        /// Index in the batch and data of each request.
        parts: Vec<(usize, Payload)>,
    },
    /// Flushes all writes.
    Flush {
        /// Index of the request in the batch.
        index: usize,
    },
    /// Punches a hole.
    Discard {
        /// Index of the request in the batch.
        index: usize,
        /// Byte offset of the hole.
        offset: u64,
        /// Length of the hole in bytes.
        bytes: u64,
    },
}

/// A read request.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadPart {
    /// Index of the request in the batch.
    pub(super) index: usize,
    /// Number of pieces.
    pub(super) blocks: u32,
    /// Size of a piece in bytes.
    pub(super) block_bytes: u32,
}

impl ReadPart {
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.block_bytes)
    }
}

/// Converts a batch to operations; merging stops at `merged_bytes_max`.
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

/// The end and the length of the last operation.
struct Run {
    end: u64,
    bytes: u64,
}

/// Adds a request that starts at the end of the operation. Returns it if it is of another kind.
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
    /// Returns the same work with one request per operation.
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

    /// Returns each operation as its name, its offset in sectors, and its requests.
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
