//! Values of fields: names, numbers, ranges, tables.

use super::policy::{NodeKinds, PortChoice, PortName, PortRange, VlArbEntry};
use super::port_names::{port_name, split_quoted};
use super::quotes::{self, unquoted};
use super::section::Names;
use crate::config::diagnostic::Diagnostics;
use crate::config::literal::{self, at_most, quoted};
use crate::config::span::Span;

/// Entries of a VL arbitration table (IBA vol. 1, 14.2.5.9: two blocks of 32).
const MAX_VLARB_ENTRIES: usize = 64;

/// The value of a field.
pub(super) struct FieldValue<'a, 'p> {
    /// The keyword.
    pub at: Span<'a>,
    /// The value, one part for each line.
    pub parts: &'p [Span<'a>],
}

impl<'a> FieldValue<'a, '_> {
    /// The text of the first line without outer quotes; `None` if there is no value.
    pub(super) fn words(&self) -> Option<String> {
        self.parts.first().map(|part| part.text().trim_matches('"').to_owned())
    }

    /// The items between commas; reports an error if there are none.
    fn items(&self, diagnostics: &mut Diagnostics<'_>) -> Vec<Span<'a>> {
        let items: Vec<_> = self
            .parts
            .iter()
            .flat_map(|part| quotes::items(*part))
            .filter(|item| !item.is_empty())
            .collect();
        if items.is_empty() {
            diagnostics.error(self.at, format!("`{}` has no value", self.at.text()));
        }
        items
    }

    /// The only item.
    fn single(&self, diagnostics: &mut Diagnostics<'_>) -> Option<Span<'a>> {
        let items = self.items(diagnostics);
        if let Some(second) = items.get(1) {
            diagnostics.error(*second, format!("`{}` takes only one value", self.at.text()));
            return None;
        }
        items.first().copied()
    }

    pub(super) fn name(&self, diagnostics: &mut Diagnostics<'_>) -> Option<(String, Span<'a>)> {
        self.single(diagnostics).map(|item| (unquoted(item.text()), item))
    }

    pub(super) fn names(&self, diagnostics: &mut Diagnostics<'_>) -> Names<'a> {
        self.items(diagnostics).into_iter().map(|item| (unquoted(item.text()), item)).collect()
    }

    /// The only item, converted by `parse`.
    pub(super) fn parsed(
        &self,
        diagnostics: &mut Diagnostics<'_>,
        parse: impl Fn(&str) -> Result<u8, String>,
    ) -> Option<u8> {
        let item = self.single(diagnostics)?;
        parse(item.text()).map_err(|message| diagnostics.error(item, message)).ok()
    }

    /// A rate code. The example of the 2007 proposal has 1, which is no rate code; the lowest rate
    /// replaces it.
    pub(super) fn rate(&self, diagnostics: &mut Diagnostics<'_>) -> Option<u8> {
        const LOWEST_RATE: u8 = 2; // 2.5 Gb/s
        let item = self.single(diagnostics)?;
        if item.text() == "1" {
            diagnostics
                .warning(item, "1 is not a rate code; 2 (2.5Gbps), the lowest rate, is used");
            return Some(LOWEST_RATE);
        }
        self.parsed(diagnostics, literal::rate)
    }

    pub(super) fn number(
        &self,
        what: &str,
        max: u64,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<u64> {
        let item = self.single(diagnostics)?;
        at_most(item.text(), what, max).map_err(|message| diagnostics.error(item, message)).ok()
    }

    pub(super) fn numbers(
        &self,
        what: &str,
        max: u64,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Vec<(u64, Span<'a>)> {
        let mut numbers = Vec::new();
        for item in self.items(diagnostics) {
            match at_most(item.text(), what, max) {
                Ok(number) => numbers.push((number, item)),
                Err(message) => diagnostics.error(item, message),
            }
        }
        numbers
    }

    /// Numbers and ranges of them.
    pub(super) fn ranges(
        &self,
        what: &str,
        max: u64,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Vec<(u64, u64)> {
        let placed = self.placed_ranges(what, max, diagnostics);
        placed.into_iter().map(|(range, _)| range).collect()
    }

    fn placed_ranges(
        &self,
        what: &str,
        max: u64,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Vec<((u64, u64), Span<'a>)> {
        let mut ranges = Vec::new();
        let mut items = self.items(diagnostics).into_iter().peekable();
        while let Some(item) = items.next() {
            let (first, mut second) = item.split_once('-');
            // A range may be broken over the end of a line, before or after its dash.
            let is_open = second.is_none_or(|second| second.trim().is_empty());
            let next = items.next_if(|next| {
                let begins_with_dash = next.text().starts_with('-');
                is_open && next.line != item.line && begins_with_dash == second.is_none()
            });
            if let Some(next) = next {
                second = Some(next.split_once('-').1.unwrap_or(next));
            }
            let Some(low) = bound(first.trim(), diagnostics, max, what) else { continue };
            let high =
                second.map_or(Some(low), |second| bound(second.trim(), diagnostics, max, what));
            let Some(high) = high else { continue };
            if low > high {
                let message = format!("the range `{}` ends before it begins", item.text());
                diagnostics.error(item, message);
            } else {
                ranges.push(((low, high), item));
            }
        }
        ranges
    }

    /// P_Keys without their membership bit.
    pub(super) fn pkeys(&self, diagnostics: &mut Diagnostics<'_>) -> Vec<(u64, u64)> {
        const BASE_VALUE: u64 = 0x7FFF;
        let ranges = self.ranges("a P_Key", 0xFFFF, diagnostics);
        ranges
            .into_iter()
            .map(|(first, last)| {
                let first = first & BASE_VALUE;
                let last = last & BASE_VALUE;
                (first.min(last), first.max(last))
            })
            .collect()
    }

    pub(super) fn arbitration(&self, diagnostics: &mut Diagnostics<'_>) -> Option<Vec<VlArbEntry>> {
        let mut entries = Vec::new();
        for item in self.items(diagnostics) {
            let (vl, weight) = item.split_once(':');
            let Some(weight) = weight else {
                diagnostics.error(item, format!("{} is not VL:weight", quoted(item.text())));
                continue;
            };
            let vl = at_most(vl.trim().text(), "a VL", 14);
            match (vl, at_most(weight.trim().text(), "a weight", 255)) {
                (Ok(vl), Ok(weight)) => {
                    let at = item.into();
                    entries.push(VlArbEntry { vl: vl as u8, weight: weight as u8, at });
                }
                (Err(message), _) | (_, Err(message)) => diagnostics.error(item, message),
            }
        }
        if entries.len() > MAX_VLARB_ENTRIES {
            let message =
                format!("{} entries: a table has at most {MAX_VLARB_ENTRIES}", entries.len());
            diagnostics.error(self.at, message);
            return None;
        }
        Some(entries)
    }

    pub(super) fn port_choice(&self, diagnostics: &mut Diagnostics<'_>) -> PortChoice {
        if let [part] = self.parts
            && part.text() == "*"
        {
            return PortChoice::All;
        }
        let ranges = self.placed_ranges("a port number", 254, diagnostics).into_iter();
        let placed = ranges.map(|((first, last), item)| PortRange {
            first: first as u8,
            last: last as u8,
            at: item.into(),
        });
        PortChoice::Ranges(placed.collect())
    }

    pub(super) fn node_kinds(&self, kinds: &mut NodeKinds, diagnostics: &mut Diagnostics<'_>) {
        for item in self.items(diagnostics) {
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
                    diagnostics.error(
                        item,
                        format!("a node type is CA, SWITCH, ROUTER, ALL or SELF, not {found}"),
                    );
                }
            }
        }
    }

    pub(super) fn port_names(&self, diagnostics: &mut Diagnostics<'_>) -> Vec<PortName> {
        let mut names = Vec::new();
        for item in self.items(diagnostics) {
            for text in split_quoted(&unquoted(item.text())) {
                match port_name(&text) {
                    Ok(name) => names.push(name),
                    Err(message) => diagnostics.error(item, message),
                }
            }
        }
        names
    }
}

fn bound(at: Span<'_>, diagnostics: &mut Diagnostics<'_>, max: u64, what: &str) -> Option<u64> {
    at_most(at.text(), what, max).map_err(|message| diagnostics.error(at, message)).ok()
}
