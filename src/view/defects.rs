//! How the defects of a request are shown to a person: the first ones in detail, the rest counted by kind.

use super::words::grouped;
use crate::model::Defect;

/// A person corrects these first. Programs get all of them: `--json`, and the reason beside a refused file.
const DETAILED_MAX: usize = 10;

/// The defects to show in detail, and one line for all others.
pub fn detailed(defects: &[Defect]) -> (&[Defect], Option<String>) {
    if defects.len() <= DETAILED_MAX {
        return (defects, None);
    }
    let (shown, rest) = defects.split_at(DETAILED_MAX);
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for defect in rest {
        match kinds.iter_mut().find(|(rule, _)| *rule == defect.rule) {
            Some((_, count)) => *count += 1,
            None => kinds.push((&defect.rule, 1)),
        }
    }
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let kinds: Vec<String> =
        kinds.iter().map(|(rule, count)| format!("{} {rule}", grouped(*count))).collect();
    (shown, Some(format!("and {} more: {}", grouped(rest.len()), kinds.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Place;

    #[test]
    fn ten_defects_are_detailed_and_the_rest_counted_by_kind() {
        let defect = |rule: &str| Defect::new(rule, Place::File, "m".to_owned(), "r");
        let mut defects = vec![defect("missing_field"); 12];
        defects.push(defect("bad_id"));
        let (shown, rest) = detailed(&defects);
        assert_eq!(shown.len(), 10);
        assert_eq!(rest.as_deref(), Some("and 3 more: 2 missing_field, 1 bad_id"));
        assert_eq!(detailed(&defects[..10]), (&defects[..10], None));
    }
}
