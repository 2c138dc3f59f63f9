//! Corrections for misspelt names.

/// Most typing errors in a name for which a correction is suggested.
const MAX_ERRORS: usize = 4;

/// The candidate closest to `name`, without regard to case, if at most one letter in three is
/// wrong, missing, surplus or swapped with its neighbour.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    let limit = (length / 3).min(MAX_ERRORS);
    candidates
        .into_iter()
        // Files may contain long words. Their distance takes quadratic time, their length does not.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= limit)
        .map(|candidate| (strsim::osa_distance(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The end of a message that suggests the candidate closest to `name`; empty if none is close.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    closest(name, candidates).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_close_names_are_suggested() {
        let names = ["maxsmps", "once", "qos"];
        assert_eq!(closest("maxsmp", names), Some("maxsmps"));
        assert_eq!(closest("onec", names), Some("once"), "swapped letters are one error");
        assert_eq!(closest("noec", names), None, "two of four letters are wrong");
        assert_eq!(closest("QOS", names), Some("qos"));
        assert_eq!(closest("frobnicate", names), None);
    }
}
