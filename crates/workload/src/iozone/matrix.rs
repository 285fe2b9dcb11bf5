//! The cells of IOzone's automatic mode: sizes double, records double, and large files skip small
//! records.

/// Files larger than this skip records smaller than [`CROSSOVER_RECORD`].
const CROSSOVER_SIZE: u64 = 16 << 20;
const CROSSOVER_RECORD: u64 = 64 << 10;
/// Number of records per request in tests 11 and 12.
pub(super) const VECTOR_RECORDS: usize = 16;

/// A file size and a record size, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) size: u64,
    pub(super) record: usize,
}

/// The limits of the matrix, in bytes.
pub(super) struct Bounds {
    pub(super) size_min: u64,
    pub(super) size_max: u64,
    pub(super) record_min: u64,
    pub(super) record_max: u64,
    pub(super) crossover: bool,
}

impl Cell {
    /// Returns the number of records of the file.
    pub(super) fn records(self) -> u64 {
        self.size / self.record as u64
    }

    /// Returns the size of the largest request in bytes.
    pub(super) fn request_max(self) -> usize {
        self.record * self.vector()
    }

    /// Returns the number of records per request in tests 11 and 12.
    pub(super) fn vector(self) -> usize {
        VECTOR_RECORDS.min(crate::contents::PIECE_BYTES_MAX / self.record)
    }
}

/// Returns all cells in ascending order.
pub(super) fn cells(bounds: &Bounds) -> Vec<Cell> {
    let mut cells = Vec::new();
    for size in doubling(bounds.size_min, bounds.size_max) {
        for record in doubling(bounds.record_min, bounds.record_max.min(size)) {
            let skips = bounds.crossover && size > CROSSOVER_SIZE && record < CROSSOVER_RECORD;
            if !skips {
                let record = record as usize;
                cells.push(Cell { size, record });
            }
        }
    }
    cells
}

fn doubling(from: u64, to: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(from).filter(|from| *from > 0), |size| {
        size.checked_mul(2)
    })
    .take_while(move |size| *size <= to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_of_the_original() {
        let bounds = |size_max, crossover| Bounds {
            size_min: 64 << 10,
            size_max,
            record_min: 4 << 10,
            record_max: 16 << 20,
            crossover,
        };
        // `-g 3G` tests at most 2 GiB: 81 pairs up to 16 MiB, and 7 sizes of 9 records.
        let cells = cells(&bounds(3 << 30, true));
        assert_eq!(cells.len(), 144);
        assert_eq!(cells.last().map(|cell| cell.size), Some(2 << 30));
        assert_eq!(super::cells(&bounds(16 << 20, true)).len(), 81);
        assert_eq!(super::cells(&bounds(32 << 20, false)).len(), 81 + 13);
    }
}
