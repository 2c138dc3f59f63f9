//! Combines the SL to VL mappings of a node into Sets.
//!
//! A switch has a mapping for each pair of input and output ports; a 36-port switch takes over a
//! thousand Sets. Switches with OptimizedSLtoVLMappingProgramming (IBA vol. 1, 14.2.5.8) accept one
//! mapping for all inputs of an output, or for all inputs and outputs, which takes few Sets if the
//! mappings are equal. Where most inputs of an output have the same mapping, it is written for all of
//! them, and then the exceptions: until these are written, packets that meet them take a wrong VL, so this
//! is for switches that forward none yet. Sets may be reordered, so no two Sets that are sent together may
//! cover the same pair; the exceptions are sent when all others are answered.

use crate::ids::PortNum;
use crate::wire::attr::tables::SlToVl;

/// A planned mapping: input port, output port, mapping.
type Row = (u8, u8, SlToVl);

/// Attribute modifier bits: the mapping applies to all output ports, or to all input ports.
const ALL_OUTPUTS: u32 = 0x1_0000;
const ALL_INPUTS: u32 = 0x2_0000;

/// A Set and the rows that it covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::apply) struct Write {
    /// The first covered row, and the number of rows.
    pub first: usize,
    pub count: usize,
    /// The port to address.
    pub port: PortNum,
    pub modifier: u32,
    pub map: SlToVl,
    /// True if it must follow the others, one of which covers its row as well.
    pub is_exception: bool,
}

/// How the mappings of a node are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::apply) enum Combine {
    /// A Set for each mapping.
    Nothing,
    /// One Set for mappings that are alike.
    Alike,
    /// One Set for an output, then one for each input with another mapping, where this takes fewer.
    Mostly,
}

/// The attribute modifier of a single row.
pub(in crate::apply) fn modifier(&(input, output, _): &Row, is_switch: bool) -> u32 {
    if is_switch { u32::from(input) << 8 | u32::from(output) } else { 0 }
}

/// The attribute modifiers of all Sets that may write a row.
pub(in crate::apply) fn modifiers(row: &Row, is_switch: bool) -> impl Iterator<Item = u32> + use<> {
    let combined = [
        ALL_INPUTS | u32::from(row.1),
        ALL_OUTPUTS | u32::from(row.0) << 8,
        ALL_INPUTS | ALL_OUTPUTS,
    ];
    let combined = combined.into_iter().take(if is_switch { combined.len() } else { 0 });
    std::iter::once(modifier(row, is_switch)).chain(combined)
}

/// The Sets for `rows`, which are grouped by output port.
pub(in crate::apply) fn writes(rows: &[Row], is_switch: bool, combine: Combine) -> Vec<Write> {
    if !is_switch || combine == Combine::Nothing {
        return (0..rows.len()).map(|index| single(rows, index, is_switch)).collect();
    }
    // Port 0 is written separately, because not all switches include it in "all outputs".
    let outer = rows.iter().position(|row| row.1 != 0).unwrap_or(rows.len());
    let mut writes: Vec<Write> = (0..outer).map(|index| single(rows, index, true)).collect();
    let rest = &rows[outer..];
    let mut first = outer;
    let groups: Vec<&[Row]> = rest.chunk_by(|a, b| a.1 == b.1).collect();
    if groups.len() > 1 && is_one_map(rest) {
        writes.push(Write { count: rest.len(), ..many(rest[0], first, ALL_INPUTS | ALL_OUTPUTS) });
        return writes;
    }
    for group in groups {
        let (common, count) = most_common(group);
        let is_alike = count == group.len();
        if count > 1 && (is_alike || combine == Combine::Mostly) {
            let name = ALL_INPUTS | u32::from(group[0].1);
            let all = Write { count: group.len(), ..many(group[0], first, name) };
            writes.push(Write { map: common, ..all });
            let others = (first..first + group.len()).filter(|&index| rows[index].2 != common);
            writes.extend(
                others.map(|index| Write { is_exception: true, ..single(rows, index, true) }),
            );
        } else {
            writes.extend((first..first + group.len()).map(|index| single(rows, index, true)));
        }
        first += group.len();
    }
    writes
}

fn is_one_map(rows: &[Row]) -> bool {
    rows.windows(2).all(|pair| pair[0].2 == pair[1].2)
}

/// The mapping that most of the rows have, and how many have it.
fn most_common(rows: &[Row]) -> (SlToVl, usize) {
    let mut best = (rows[0].2, count_of_map(rows, rows[0].2));
    for row in rows {
        // Mostly there are one or two mappings.
        if row.2 != best.0 && count_of_map(rows, row.2) > best.1 {
            best = (row.2, count_of_map(rows, row.2));
        }
    }
    best
}

fn count_of_map(rows: &[(u8, u8, SlToVl)], map: SlToVl) -> usize {
    rows.iter().filter(|row| row.2 == map).count()
}

fn single(rows: &[Row], index: usize, is_switch: bool) -> Write {
    let row = &rows[index];
    let port = if is_switch { PortNum::ZERO } else { PortNum(row.1) };
    let modifier = modifier(row, is_switch);
    Write { first: index, count: 1, port, modifier, map: row.2, is_exception: false }
}

fn many(row: Row, first: usize, modifier: u32) -> Write {
    Write { first, count: 1, port: PortNum::ZERO, modifier, map: row.2, is_exception: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SlToVl = SlToVl([0; 8]);
    const B: SlToVl = SlToVl([1; 8]);

    fn names(rows: &[Row], is_switch: bool, combine: Combine) -> Vec<(u32, usize, usize)> {
        let writes = writes(rows, is_switch, combine);
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
            for combine in [Combine::Nothing, Combine::Alike, Combine::Mostly] {
                for write in writes(&rows, true, combine) {
                    let mut covered = rows.iter().skip(write.first).take(write.count);
                    assert!(covered.all(|row| modifiers(row, true).any(|m| m == write.modifier)));
                }
            }
        }
        assert_eq!(modifiers(&(0, 1, A), false).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn mappings_that_are_alike_are_written_together() {
        let alike = table(&[(1, [A; 3]), (2, [A; 3])]);
        assert_eq!(names(&alike, true, Combine::Nothing).len(), 6);
        assert_eq!(names(&alike, true, Combine::Alike), [(0x3_0000, 0, 6)]);
        let mixed = table(&[(0, [A; 3]), (1, [B; 3]), (2, [A, B, A])]);
        assert_eq!(
            names(&mixed, true, Combine::Alike),
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
        assert_eq!(names(&ports, false, Combine::Mostly), [(0, 0, 1), (0, 1, 1)]);
        assert_eq!(names(&[], true, Combine::Mostly), []);
    }

    fn table(outputs: &[(u8, [SlToVl; 3])]) -> Vec<(u8, u8, SlToVl)> {
        let rows = outputs.iter().flat_map(|&(output, maps)| {
            (0..).zip(maps).map(move |(input, map)| (input, output, map))
        });
        rows.collect()
    }

    #[test]
    fn exceptions_follow_the_mapping_of_most_inputs() {
        let maps = [A, B, A, A, B, A];
        let mut rows: Vec<Row> = (0..).zip(maps).map(|(input, map)| (input, 1, map)).collect();
        rows.extend((0..).zip([B, B, A]).map(|(input, map)| (input, 2, map)));
        let found = writes(&rows, true, Combine::Mostly);
        let found: Vec<_> = found.iter().map(|w| (w.modifier, w.map, w.is_exception)).collect();
        let expected = [
            (0x2_0001, A, false),
            (0x101, B, true),
            (0x401, B, true),
            (0x2_0002, B, false),
            (0x202, A, true),
        ];
        assert_eq!(found, expected);
        // What a switch holds after all of them.
        let mut held = [[A; 6]; 3];
        for (modifier, map, _) in found {
            let output = (modifier & 0xFF) as usize;
            match modifier >> 16 {
                2 => held[output] = [map; 6],
                _ => held[output][(modifier >> 8 & 0xFF) as usize] = map,
            }
        }
        assert!(rows.iter().all(|row| held[usize::from(row.1)][usize::from(row.0)] == row.2));
    }
}
