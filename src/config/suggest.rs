//! "Did you mean": the known name that a misspelt one is closest to.

/// The candidate closest to `name`, if one is so close that it is likely meant: at most one
/// letter in three is wrong, missing, surplus or swapped.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).min(4);
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance, without regard to case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = i;
        let mut previous = i + 1;
        for (slot, right) in row.iter_mut().skip(1).zip(&b) {
            let cost = usize::from(left != *right);
            let value = (diagonal + cost).min(previous + 1).min(*slot + 1);
            diagonal = *slot;
            *slot = value;
            previous = value;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("maxsmps", "maxsmp", 1),
            ("kitten", "sitting", 3),
            ("QoS", "qos", 0),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn only_likely_names_are_suggested() {
        let names = ["maxsmps", "once", "qos"];
        assert_eq!(closest("maxsmp", names), Some("maxsmps"));
        assert_eq!(closest("onec", names), None, "two of four letters are wrong");
        assert_eq!(closest("frobnicate", names), None);
    }
}
