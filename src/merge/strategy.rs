//! What a request's `merge_strategy` means where two agents disagree; its words are the model's.

use crate::model::handoff::{ConflictResolution, MergeStrategy};

impl MergeStrategy {
    pub fn is_auto(&self) -> bool {
        self.conflict_resolution == ConflictResolution::Auto
    }

    /// Whether the first of two sides wins by priority. `None` where priority has no say: the policy is not
    /// `auto`, somebody is not listed, or a side stands on both sides of the other.
    pub fn first_wins(&self, first: &[String], second: &[String]) -> Option<bool> {
        if !self.is_auto() {
            return None;
        }
        let places = |agents: &[String]| -> Option<Vec<usize>> {
            let place = |agent: &String| self.priority.iter().position(|listed| listed == agent);
            agents.iter().map(place).collect()
        };
        let (first, second) = (places(first)?, places(second)?);
        if first.iter().max()? < second.iter().min()? {
            Some(true)
        } else if second.iter().max()? < first.iter().min()? {
            Some(false)
        } else {
            None
        }
    }
}

/// Which merge this is, for the papers that it leaves. Both are given: the merge reads no clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occasion {
    pub execution_id: String,
    /// RFC 3339.
    pub at: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_speaks_only_where_every_agent_is_listed_on_one_side() {
        let strategy: MergeStrategy = serde_json::from_str(
            r#"{"type": "file_merge", "conflict_resolution": "auto", "priority": ["a", "b", "c"]}"#,
        )
        .unwrap();
        let wins = |first: &[&str], second: &[&str]| {
            let named = |agents: &[&str]| agents.iter().map(|agent| (*agent).to_owned()).collect::<Vec<_>>();
            strategy.first_wins(&named(first), &named(second))
        };
        assert_eq!(wins(&["a"], &["b"]), Some(true));
        assert_eq!(wins(&["b", "c"], &["a"]), Some(false));
        assert_eq!(wins(&["a", "c"], &["b"]), None, "b stands between them");
        assert_eq!(wins(&["a"], &["stranger"]), None);
        let manual = MergeStrategy { conflict_resolution: ConflictResolution::ManualReview, ..strategy };
        assert_eq!(manual.first_wins(&["a".to_owned()], &["b".to_owned()]), None);
    }
}
