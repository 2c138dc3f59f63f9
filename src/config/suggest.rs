//! "Did you mean": the known name that a misspelt one is closest to.

/// The candidate closest to `name`, if one is so close that it is likely meant: at most one
/// letter in three is wrong, missing, surplus or swapped.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).min(4);
    let name = letters(name);
    candidates
        .into_iter()
        .map(|candidate| (letters(candidate), candidate))
        // Files may have long words, and many: most of them are told apart by their length.
        .filter(|(other, _)| other.len().abs_diff(name.len()) <= limit)
        .map(|(other, candidate)| (distance(&name, &other), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn letters(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Levenshtein's distance; two neighbours that changed places count as one mistake.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut above = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, right) in b.iter().enumerate() {
            let one = row[j] + usize::from(left != right);
            let mut value = one.min(next[j] + 1).min(row[j + 1] + 1);
            let is_swap = i > 0 && j > 0 && *left == b[j - 1] && a[i - 1] == *right;
            if let Some(before) = is_swap.then(|| above.get(j - 1)).flatten() {
                value = value.min(before + 1);
            }
            next.push(value);
        }
        above = std::mem::replace(&mut row, next);
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
            ("slef", "self", 1),
            ("ca", "abc", 3),
        ] {
            assert_eq!(distance(&letters(a), &letters(b)), expected, "{a} {b}");
        }
    }

    #[test]
    fn only_likely_names_are_suggested() {
        let names = ["maxsmps", "once", "qos"];
        assert_eq!(closest("maxsmp", names), Some("maxsmps"));
        assert_eq!(closest("onec", names), Some("once"), "swapped letters are one mistake");
        assert_eq!(closest("noec", names), None, "two of four letters are wrong");
        assert_eq!(closest("frobnicate", names), None);
    }
}
