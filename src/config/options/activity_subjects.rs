//! The subjects of the activity report (`activity_report_subjects`).

use super::value::{Value, ValueFormat};
use crate::config::suggest;

/// A set of subjects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ActivitySubjects(u8);

/// The words of opensm.conf, with their subjects.
const SUBJECTS: [(&str, ActivitySubjects); 4] = [
    ("mc", ActivitySubjects::MULTICAST),
    ("prtn", ActivitySubjects::PARTITIONS),
    ("virt", ActivitySubjects::VIRTUALIZATION),
    ("routing", ActivitySubjects::ROUTING),
];
const ALL: &str = "all";
const NOTHING: &str = "none";

impl ActivitySubjects {
    pub const NONE: Self = Self(0);
    pub const MULTICAST: Self = Self(1);
    pub const PARTITIONS: Self = Self(2);
    pub const VIRTUALIZATION: Self = Self(4);
    pub const ROUTING: Self = Self(8);

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if the sets have a subject in common.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The set as a number.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set of a number that [`Self::bits`] returned.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0xF)
    }

    /// The subjects of a list, and its unknown words.
    fn read(text: &str) -> (Self, Vec<&str>) {
        let mut subjects = Self::NONE;
        let mut unknown = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let named = SUBJECTS.iter().find(|(name, _)| *name == word);
            match named {
                Some((_, subject)) => subjects = subjects.and(*subject),
                None if word == ALL => {
                    subjects = SUBJECTS.iter().fold(subjects, |all, (_, it)| all.and(*it));
                }
                None if word == NOTHING => {}
                None => unknown.push(word),
            }
        }
        (subjects, unknown)
    }
}

impl Value for ActivitySubjects {
    fn assign(&mut self, text: &str, _: ValueFormat) -> Result<(), String> {
        let (subjects, unknown) = Self::read(text);
        if let Some(word) = unknown.first() {
            let names = SUBJECTS.iter().map(|(name, _)| *name).chain([ALL, NOTHING]);
            let hint = suggest::did_you_mean(word, names);
            return Err(format!("'{word}' is no subject{hint}"));
        }
        *self = subjects;
        Ok(())
    }

    /// Uses the known subjects of the list.
    fn repair(&mut self, text: &str, _: ValueFormat) -> bool {
        *self = Self::read(text).0;
        true
    }

    fn lines(&self, _: ValueFormat) -> Vec<String> {
        let named = SUBJECTS.iter().filter(|(_, subject)| self.meets(*subject));
        let names: Vec<&str> = named.map(|(name, _)| *name).collect();
        vec![match names.len() {
            0 => NOTHING.to_owned(),
            count if count == SUBJECTS.len() => ALL.to_owned(),
            _ => names.join(","),
        }]
    }

    fn expects(_: ValueFormat) -> String {
        "subjects separated by commas: mc, prtn, virt, routing, all or none".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_subjects_is_read_and_written() {
        for (text, written) in [
            ("mc", "mc"),
            ("routing , prtn", "prtn,routing"),
            ("all", "all"),
            ("mc,prtn,virt,routing", "all"),
            ("none", "none"),
            ("none,virt", "virt"),
        ] {
            let mut subjects = ActivitySubjects::NONE;
            subjects.assign(text, ValueFormat::PLAIN).expect("valid");
            assert_eq!(subjects.lines(ValueFormat::PLAIN), [written], "{text}");
            assert_eq!(ActivitySubjects::from_bits(subjects.bits()), subjects);
        }
    }

    #[test]
    fn the_known_subjects_of_a_list_are_kept() {
        let mut subjects = ActivitySubjects::VIRTUALIZATION;
        let problem = subjects.assign("mc,routin", ValueFormat::PLAIN).expect_err("a typing error");
        assert_eq!(problem, "'routin' is no subject; did you mean `routing`?");
        assert_eq!(subjects, ActivitySubjects::VIRTUALIZATION);
        assert!(subjects.repair("mc,routin", ValueFormat::PLAIN));
        assert_eq!(subjects, ActivitySubjects::MULTICAST);
    }
}
