//! What stands behind a keyword: names, numbers, ranges, tables.

use super::port_names::{port_name, within_quotes};
use super::read::Said;
use super::{NodeKinds, PortChoice, PortName, PortRange, Weight};
use crate::config::piece::Piece;
use crate::config::value::{self, at_most, quoted};

/// Entries of a VL arbitration table (IBA vol. 1, 14.2.5.9: two blocks of 32).
const MOST_ARBITRATION: usize = 64;

/// Names of port groups, and where they stand.
pub(super) type Names<'a> = Vec<(String, Piece<'a>)>;

/// What stands behind a keyword.
pub(super) struct Value<'a, 'p> {
    /// The keyword.
    pub at: Piece<'a>,
    /// The value, a part for each line.
    pub parts: &'p [Piece<'a>],
}

impl<'a> Value<'a, '_> {
    /// The words as they stand.
    pub(super) fn words(&self) -> Option<String> {
        self.parts.first().map(|part| part.text().trim_matches('"').to_owned())
    }

    /// What stands between commas that are not within quotes.
    fn items(&self, said: &mut Said<'_>) -> Vec<Piece<'a>> {
        let items: Vec<_> = self
            .parts
            .iter()
            .flat_map(|part| unquoted_items(*part))
            .filter(|item| !item.is_empty())
            .collect();
        if items.is_empty() {
            said.wrong(self.at, format!("`{}` without a value", self.at.text()));
        }
        items
    }

    /// The only item.
    fn single(&self, said: &mut Said<'_>) -> Option<Piece<'a>> {
        let items = self.items(said);
        if let Some(second) = items.get(1) {
            said.wrong(*second, format!("`{}` has a single value", self.at.text()));
            return None;
        }
        items.first().copied()
    }

    pub(super) fn name(&self, said: &mut Said<'_>) -> Option<(String, Piece<'a>)> {
        self.single(said).map(|item| (plain(item.text()), item))
    }

    pub(super) fn names(&self, said: &mut Said<'_>) -> Names<'a> {
        self.items(said).into_iter().map(|item| (plain(item.text()), item)).collect()
    }

    /// A value that `judge` knows.
    pub(super) fn judged(
        &self,
        said: &mut Said<'_>,
        judge: impl Fn(&str) -> Result<u8, String>,
    ) -> Option<u8> {
        let item = self.single(said)?;
        judge(item.text()).map_err(|message| said.wrong(item, message)).ok()
    }

    /// A rate. The proposal's example has 1, which is no code: less than the slowest link.
    pub(super) fn rate(&self, said: &mut Said<'_>) -> Option<u8> {
        const SLOWEST: u8 = 2;
        let item = self.single(said)?;
        if item.text() == "1" {
            said.odd(item, "1 is no rate: the slowest, 2 (2.5Gbps), counts");
            return Some(SLOWEST);
        }
        self.judged(said, value::rate)
    }

    pub(super) fn number(&self, what: &str, most: u64, said: &mut Said<'_>) -> Option<u64> {
        let item = self.single(said)?;
        at_most(item.text(), what, most).map_err(|message| said.wrong(item, message)).ok()
    }

    pub(super) fn numbers(
        &self,
        what: &str,
        most: u64,
        said: &mut Said<'_>,
    ) -> Vec<(u64, Piece<'a>)> {
        let mut numbers = Vec::new();
        for item in self.items(said) {
            match at_most(item.text(), what, most) {
                Ok(number) => numbers.push((number, item)),
                Err(message) => said.wrong(item, message),
            }
        }
        numbers
    }

    /// Numbers and ranges of them.
    pub(super) fn ranges(&self, what: &str, most: u64, said: &mut Said<'_>) -> Vec<(u64, u64)> {
        let placed = self.placed_ranges(what, most, said);
        placed.into_iter().map(|(range, _)| range).collect()
    }

    fn placed_ranges(
        &self,
        what: &str,
        most: u64,
        said: &mut Said<'_>,
    ) -> Vec<((u64, u64), Piece<'a>)> {
        let mut ranges = Vec::new();
        for item in self.items(said) {
            let (first, second) = item.split_once('-');
            let bound = |at: Piece<'_>, said: &mut Said<'_>| {
                at_most(at.text(), what, most).map_err(|message| said.wrong(at, message)).ok()
            };
            let Some(low) = bound(first.trim(), said) else { continue };
            let high = second.map_or(Some(low), |second| bound(second.trim(), said));
            let Some(high) = high else { continue };
            if low > high {
                let message = format!("`{}` ends before it begins", item.text());
                said.wrong(item, message);
            } else {
                ranges.push(((low, high), item));
            }
        }
        ranges
    }

    /// P_Keys without their membership bit.
    pub(super) fn pkeys(&self, said: &mut Said<'_>) -> Vec<(u64, u64)> {
        const NUMBER: u64 = 0x7FFF;
        let ranges = self.ranges("a P_Key", 0xFFFF, said);
        ranges
            .into_iter()
            .map(|(first, last)| {
                let (first, last) = (first & NUMBER, last & NUMBER);
                (first.min(last), first.max(last))
            })
            .collect()
    }

    pub(super) fn arbitration(&self, said: &mut Said<'_>) -> Option<Vec<Weight>> {
        let mut entries = Vec::new();
        for item in self.items(said) {
            let (vl, weight) = item.split_once(':');
            let Some(weight) = weight else {
                said.wrong(item, format!("{} is not VL:weight", quoted(item.text())));
                continue;
            };
            let vl = at_most(vl.trim().text(), "a VL", 14);
            match (vl, at_most(weight.trim().text(), "a weight", 255)) {
                (Ok(vl), Ok(weight)) => {
                    let at = item.into();
                    entries.push(Weight { vl: vl as u8, weight: weight as u8, at });
                }
                (Err(message), _) | (_, Err(message)) => said.wrong(item, message),
            }
        }
        if entries.len() > MOST_ARBITRATION {
            let message =
                format!("{} entries: a table has at most {MOST_ARBITRATION}", entries.len());
            said.wrong(self.at, message);
            return None;
        }
        Some(entries)
    }

    pub(super) fn port_choice(&self, said: &mut Said<'_>) -> PortChoice {
        if let [part] = self.parts
            && part.text() == "*"
        {
            return PortChoice::All;
        }
        let ranges = self.placed_ranges("a port number", 254, said).into_iter();
        let placed = ranges.map(|((first, last), item)| PortRange {
            first: first as u8,
            last: last as u8,
            at: item.into(),
        });
        PortChoice::These(placed.collect())
    }

    pub(super) fn node_kinds(&self, kinds: &mut NodeKinds, said: &mut Said<'_>) {
        for item in self.items(said) {
            match item.text().to_ascii_uppercase().as_str() {
                "CA" => kinds.ca = true,
                "SWITCH" => kinds.switch = true,
                "ROUTER" => kinds.router = true,
                "SELF" => kinds.own = true,
                "ALL" => {
                    *kinds = NodeKinds { ca: true, switch: true, router: true, own: kinds.own };
                }
                _ => {
                    let found = quoted(item.text());
                    said.wrong(
                        item,
                        format!("a node type is CA, SWITCH, ROUTER, ALL or SELF, not {found}"),
                    );
                }
            }
        }
    }

    pub(super) fn port_names(&self, said: &mut Said<'_>) -> Vec<PortName> {
        let mut names = Vec::new();
        for item in self.items(said) {
            for text in within_quotes(item.text()) {
                match port_name(&text) {
                    Ok(name) => names.push(name),
                    Err(message) => said.wrong(item, message),
                }
            }
        }
        names
    }
}

/// The items of a list; commas within quotes do not count. Quotes may be those of a text
/// processor.
fn unquoted_items(part: Piece<'_>) -> Vec<Piece<'_>> {
    let mut items = Vec::new();
    let mut rest = part;
    loop {
        let mut quoted = false;
        let comma = rest.text().char_indices().find(|(_, c)| {
            quoted ^= is_quote(*c);
            *c == ',' && !quoted
        });
        let Some((at, _)) = comma else { break };
        let (item, behind) = rest.split_at(at);
        items.push(item.trim());
        rest = behind.split_at(1).1;
    }
    items.push(rest.trim());
    items
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\u{201c}' | '\u{201d}')
}

/// A name without quotes, blanks made one.
pub(super) fn plain(text: &str) -> String {
    let text: String = text.chars().filter(|c| !is_quote(*c)).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
