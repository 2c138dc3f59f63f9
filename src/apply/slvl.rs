//! Combines the SL to VL mappings of a node into Sets.
//!
//! A switch has a mapping for each pair of input and output ports; a 36-port switch takes over a
//! thousand Sets. Switches with OptimizedSLtoVLMappingProgramming (IBA vol. 1, 14.2.5.8) accept one
//! mapping for all inputs of an output, or for all inputs and outputs, which takes few Sets if the
//! mappings are equal. Sets of one phase may be reordered, so no two Sets may cover the same pair.

use crate::ids::PortNum;
use crate::wire::attr::tables::SlToVl;

/// A planned mapping: input port, output port, mapping.
type Row = (u8, u8, SlToVl);

/// Attribute modifier bits: the mapping applies to all output ports, or to all input ports.
const ALL_OUTPUTS: u32 = 0x1_0000;
const ALL_INPUTS: u32 = 0x2_0000;

/// A Set and the rows that it covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Write {
    /// The first covered row, and the number of rows.
    pub first: usize,
    pub count: usize,
    /// The port to address.
    pub port: PortNum,
    pub modifier: u32,
    pub map: SlToVl,
}

/// The attribute modifier of a single row.
pub(super) fn modifier(&(input, output, _): &Row, is_switch: bool) -> u32 {
    if is_switch { u32::from(input) << 8 | u32::from(output) } else { 0 }
}

/// The attribute modifiers of all Sets that may write a row.
pub(super) fn modifiers(row: &Row, is_switch: bool) -> impl Iterator<Item = u32> + use<> {
    let combined = [
        ALL_INPUTS | u32::from(row.1),
        ALL_OUTPUTS | u32::from(row.0) << 8,
        ALL_INPUTS | ALL_OUTPUTS,
    ];
    let combined = combined.into_iter().take(if is_switch { combined.len() } else { 0 });
    std::iter::once(modifier(row, is_switch)).chain(combined)
}

/// The Sets for `rows`, which are grouped by output port.
pub(super) fn writes(rows: &[Row], is_switch: bool, optimized: bool) -> Vec<Write> {
    if !(is_switch && optimized) {
        return (0..rows.len()).map(|index| single(rows, index, is_switch)).collect();
    }
    // Port 0 is written separately, because not all switches include it in "all outputs".
    let outer = rows.iter().position(|row| row.1 != 0).unwrap_or(rows.len());
    let mut writes: Vec<Write> = (0..outer).map(|index| single(rows, index, true)).collect();
    let rest = &rows[outer..];
    let mut first = outer;
    let groups: Vec<&[Row]> = rest.chunk_by(|a, b| a.1 == b.1).collect();
    let is_one = |rows: &[Row]| rows.windows(2).all(|pair| pair[0].2 == pair[1].2);
    if groups.len() > 1 && is_one(rest) {
        writes.push(Write { count: rest.len(), ..many(rest[0], first, ALL_INPUTS | ALL_OUTPUTS) });
        return writes;
    }
    for group in groups {
        if group.len() > 1 && is_one(group) {
            let name = ALL_INPUTS | u32::from(group[0].1);
            writes.push(Write { count: group.len(), ..many(group[0], first, name) });
        } else {
            writes.extend((first..first + group.len()).map(|index| single(rows, index, true)));
        }
        first += group.len();
    }
    writes
}

fn single(rows: &[Row], index: usize, is_switch: bool) -> Write {
    let row = &rows[index];
    let port = if is_switch { PortNum::ZERO } else { PortNum(row.1) };
    Write { first: index, count: 1, port, modifier: modifier(row, is_switch), map: row.2 }
}

fn many(row: Row, first: usize, modifier: u32) -> Write {
    Write { first, count: 1, port: PortNum::ZERO, modifier, map: row.2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SlToVl = SlToVl([0; 8]);
    const B: SlToVl = SlToVl([1; 8]);

    fn names(rows: &[Row], is_switch: bool, optimized: bool) -> Vec<(u32, usize, usize)> {
        let writes = writes(rows, is_switch, optimized);
        let covered: usize = writes.iter().map(|write| write.count).sum();
        assert_eq!(covered, rows.len(), "every row is in one Set");
        writes.iter().map(|write| (write.modifier, write.first, write.count)).collect()
    }

    #[test]
    fn rows_have_the_modifiers_of_all_sets_that_may_write_them() {
        for outputs in [&[(1, [A; 3]), (2, [A; 3])][..], &[(1, [A; 3]), (2, [B; 3])]] {
            let rows: Vec<Row> = outputs
                .iter()
                .flat_map(|&(output, maps)| (0..).zip(maps).map(move |(i, map)| (i, output, map)))
                .collect();
            for optimized in [false, true] {
                for write in writes(&rows, true, optimized) {
                    let mut covered = rows.iter().skip(write.first).take(write.count);
                    assert!(covered.all(|row| modifiers(row, true).any(|m| m == write.modifier)));
                }
            }
        }
        assert_eq!(modifiers(&(0, 1, A), false).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn mappings_that_are_alike_are_written_together() {
        let table = |outputs: &[(u8, [SlToVl; 3])]| -> Vec<Row> {
            let rows = outputs.iter().flat_map(|&(output, maps)| {
                (0..).zip(maps).map(move |(input, map)| (input, output, map))
            });
            rows.collect()
        };
        let alike = table(&[(1, [A; 3]), (2, [A; 3])]);
        assert_eq!(names(&alike, true, false).len(), 6);
        assert_eq!(names(&alike, true, true), [(0x3_0000, 0, 6)]);
        let mixed = table(&[(0, [A; 3]), (1, [B; 3]), (2, [A, B, A])]);
        assert_eq!(
            names(&mixed, true, true),
            [
                (0x000, 0, 1),
                (0x100, 1, 1),
                (0x200, 2, 1),
                (0x2_0001, 3, 3),
                (0x002, 6, 1),
                (0x102, 7, 1),
                (0x202, 8, 1),
            ]
        );
        let ports = [(0, 1, A), (0, 2, A)];
        assert_eq!(names(&ports, false, true), [(0, 0, 1), (0, 1, 1)]);
        assert_eq!(names(&[], true, true), []);
    }
}
