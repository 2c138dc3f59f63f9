//! The numbers of a parallel ports generalized fat tree: `h;m1,…;w1,…;p1,…`.
//!
//! h is the number of levels of switches. A switch of level l has m children, a node of the level
//! below it has w parents, and p parallel cables to each of them. Level 1 are the leaf switches, whose
//! children are hosts.

use super::levels::Levels;
use crate::fabric::{Fabric, SwitchId};
use crate::notes::counted;
use std::fmt;
use std::str::FromStr;

/// The numbers of one level of switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Level {
    children: usize,
    parents: usize,
    cables: usize,
}

impl Level {
    fn of(levels: &Levels, level: u32) -> Self {
        let mut found = Self { children: 0, parents: 1, cables: 1 };
        for switch in levels.switches().filter(|&switch| levels.of(switch) == level) {
            found.children = found.children.max(children(levels, switch));
            for child in &levels.down[switch.index()] {
                found.parents = found.parents.max(levels.up[child.to.index()].len());
                found.cables = found.cables.max(child.ports.len());
            }
        }
        found
    }
}

/// The numbers by level, those of the leaf switches first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Structure(Vec<Level>);

impl Structure {
    /// The largest numbers of a tree.
    pub(super) fn of(levels: &Levels) -> Self {
        Self((0..=levels.highest).map(|level| Level::of(levels, level)).collect())
    }

    /// One number of all levels, separated by commas.
    fn list(&self, number: fn(&Level) -> usize) -> String {
        self.0.iter().map(|level| number(level).to_string()).collect::<Vec<_>>().join(",")
    }

    /// Tells what exceeds these numbers in a tree with the numbers `found`, or does not reach them. A
    /// damaged tree fits as long as one switch of each level is whole.
    pub(super) fn admits(
        &self,
        found: &Self,
        levels: &Levels,
        fabric: &Fabric,
    ) -> Result<(), String> {
        let wanted_levels = self.0.len();
        let found_levels = found.0.len();
        if wanted_levels != found_levels {
            return Err(format!(
                "pqft_structure has {wanted_levels} levels of switches, the fabric {found_levels}"
            ));
        }
        for ((wanted, found), level) in self.0.iter().zip(&found.0).zip(0..) {
            let numbers = [
                ("children", wanted.children, found.children),
                ("parents of each child", wanted.parents, found.parents),
                ("cables to each child", wanted.cables, found.cables),
            ];
            let Some((what, wanted, found)) =
                numbers.into_iter().find(|(_, wanted, found)| wanted != found)
            else {
                continue;
            };
            let own = levels.switches().filter(|&switch| levels.of(switch) == level);
            let name = own
                .max_by_key(|switch| children(levels, *switch))
                .map(|switch| fabric.switch(switch).name().to_string());
            return Err(format!(
                "pqft_structure has {wanted} {what} at level {}, the fabric {found}, such as at \
                 \"{}\"",
                level + 1,
                name.unwrap_or_default()
            ));
        }
        Ok(())
    }

    /// The switches that have less of something than the largest of their level: the tree is damaged, or
    /// a quasi fat tree that is no parallel ports generalized one.
    pub(super) fn uneven(&self, levels: &Levels, fabric: &Fabric) -> Option<String> {
        let uneven: Vec<SwitchId> = levels
            .switches()
            .filter(|switch| {
                let level = levels.of(*switch) as usize;
                let largest = self.0[level];
                let down = &levels.down[switch.index()];
                let parents = self.0.get(level + 1).map_or(0, |above| above.parents);
                children(levels, *switch) < largest.children
                    || down.iter().any(|child| child.ports.len() < largest.cables)
                    || levels.up[switch.index()].len() < parents
            })
            .collect();
        let first = fabric.switch(*uneven.first()?).name().to_string();
        let have = if uneven.len() == 1 { "has" } else { "have" };
        let count = counted(uneven.len(), "switch", "switches");
        Some(format!(
            "{count} {have} fewer children, parents or cables than others of the level, such as \
             \"{first}\": hosts that send in turn to all others may share cables"
        ))
    }
}

/// The hosts of a leaf switch, or the switches below another one.
fn children(levels: &Levels, switch: SwitchId) -> usize {
    match levels.of(switch) {
        0 => levels.hosts[switch.index()].len(),
        _ => levels.down[switch.index()].len(),
    }
}

impl FromStr for Structure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(';').collect();
        let [height, lists @ ..] = &parts[..] else { return Err("it is empty".to_owned()) };
        let height = factor(height)?;
        let lists: Vec<Vec<usize>> = lists
            .iter()
            .map(|list| list.split(',').map(factor).collect())
            .collect::<Result<_, String>>()?;
        let [children, parents, cables] = &lists[..] else {
            return Err("expected LEVELS;CHILDREN,...;PARENTS,...;CABLES,...".to_owned());
        };
        if lists.iter().any(|list| list.len() != height) {
            return Err(format!("each list must have {height} numbers, one for each level"));
        }
        let levels = children.iter().zip(parents).zip(cables);
        let levels =
            levels.map(|((&children, &parents), &cables)| Level { children, parents, cables });
        Ok(Self(levels.collect()))
    }
}

fn factor(word: &str) -> Result<usize, String> {
    let number = word.trim().parse::<usize>().ok().filter(|&number| number > 0);
    number.ok_or_else(|| format!("'{}' is not a number from 1 on", word.trim()))
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children = self.list(|level| level.children);
        let parents = self.list(|level| level.parents);
        let cables = self.list(|level| level.cables);
        write!(f, "{};{children};{parents};{cables}", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structure_is_read_and_written() {
        let text = "3;4,4,8;1,4,2;1,1,2";
        let read: Structure = text.parse().expect("a structure");
        assert_eq!(read.to_string(), text);
        assert_eq!(
            " 1 ; 18 ; 1 ; 1 ".parse::<Structure>().map(|it| it.to_string()).as_deref(),
            Ok("1;18;1;1")
        );
        for (text, problem) in [
            ("", "'' is not a number from 1 on"),
            ("2;3,0;1,1;1,1", "'0' is not a number"),
            ("2;3,4;1;1,1", "each list must have 2 numbers"),
            ("2;3,4;1,1", "expected LEVELS;"),
        ] {
            let found = text.parse::<Structure>().expect_err("a mistake");
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
