//! Three JSON values, one result: objects merge by key, lists of named things by their names, all else as a
//! whole. Used where lines clash and the policy allows it.

use std::collections::{BTreeMap, BTreeSet};

use super::json::Json;
use super::lines::Side;

/// The result, and where both sides changed the same value differently.
#[derive(Debug)]
pub struct KeyMerge {
    pub json: Json,
    /// JSON pointers. The value there is that of the favoured side, or ours.
    pub clashes: Vec<String>,
}

impl KeyMerge {
    /// `base` is `None` where both sides made the file.
    pub fn of(base: Option<&Json>, ours: &Json, theirs: &Json, favour: Side) -> Self {
        let mut merging = Merging { favour, clashes: Vec::new() };
        let json = merging.value(base, Some(ours), Some(theirs), "");
        KeyMerge { json: json.unwrap_or_else(|| ours.clone()), clashes: merging.clashes }
    }
}

struct Merging {
    favour: Side,
    clashes: Vec<String>,
}

impl Merging {
    fn value(
        &mut self,
        base: Option<&Json>,
        ours: Option<&Json>,
        theirs: Option<&Json>,
        at: &str,
    ) -> Option<Json> {
        if ours == theirs || base == theirs {
            return ours.cloned();
        }
        if base == ours {
            return theirs.cloned();
        }
        if let (Some(ours), Some(theirs)) = (ours, theirs)
            && let Some(merged) = self.inside(base, ours, theirs, at)
        {
            return Some(merged);
        }
        self.clashes.push(if at.is_empty() { "/".to_owned() } else { at.to_owned() });
        if self.favour == Side::Ours { ours.cloned() } else { theirs.cloned() }
    }

    /// `None` where the two values are not of one kind that has parts with names.
    fn inside(&mut self, base: Option<&Json>, ours: &Json, theirs: &Json, at: &str) -> Option<Json> {
        if let (Json::Object(ours), Json::Object(theirs)) = (ours, theirs) {
            let base = base.and_then(Json::as_object).unwrap_or_default();
            return Some(Json::Object(self.parts(base, ours, theirs, at)));
        }
        let named = |key: &str| {
            let base = base.map_or(Some(Vec::new()), |base| named_by(base, key))?;
            Some((base, named_by(ours, key)?, named_by(theirs, key)?))
        };
        let (base, ours, theirs) = named("id").or_else(|| named("name"))?;
        let parts = self.parts(&base, &ours, &theirs, at);
        Some(Json::Array(parts.into_iter().map(|(_, item)| item).collect()))
    }

    fn parts(
        &mut self,
        base: &[(String, Json)],
        ours: &[(String, Json)],
        theirs: &[(String, Json)],
        at: &str,
    ) -> Vec<(String, Json)> {
        let names = order_of_both(ours, theirs);
        let [base, ours, theirs] = [base, ours, theirs].map(by_name);
        let part = |name: String| {
            let below = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
            let [base, ours, theirs] = [&base, &ours, &theirs].map(|parts| parts.get(name.as_str()).copied());
            let value = self.value(base, ours, theirs, &below);
            value.map(|value| (name, value))
        };
        names.into_iter().filter_map(part).collect()
    }
}

fn by_name(parts: &[(String, Json)]) -> BTreeMap<&str, &Json> {
    parts.iter().map(|(name, value)| (name.as_str(), value)).collect()
}

/// The items of a list by what names each; `None` unless every item has a name of its own.
fn named_by(json: &Json, key: &str) -> Option<Vec<(String, Json)>> {
    let mut names = BTreeSet::new();
    let named = |item: &Json| match item.get(key) {
        Some(Json::Scalar(name)) if names.insert(name.clone()) => Some((name.clone(), item.clone())),
        _ => None,
    };
    json.as_array()?.iter().map(named).collect()
}

/// Our order; what only they have stands after what it follows there.
fn order_of_both(ours: &[(String, Json)], theirs: &[(String, Json)]) -> Vec<String> {
    let known: BTreeSet<&str> = ours.iter().map(|(name, _)| name.as_str()).collect();
    let mut following: BTreeMap<Option<&str>, Vec<String>> = BTreeMap::new();
    let mut last_known = None;
    for (name, _) in theirs {
        if known.contains(name.as_str()) {
            last_known = Some(name.as_str());
        } else {
            following.entry(last_known).or_default().push(name.clone());
        }
    }
    let mut names = following.remove(&None).unwrap_or_default();
    for (name, _) in ours {
        names.push(name.clone());
        names.extend(following.remove(&Some(name.as_str())).unwrap_or_default());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(base: &str, ours: &str, theirs: &str) -> (String, Vec<String>) {
        let [base, ours, theirs] = [base, ours, theirs].map(|text| Json::parse(text.as_bytes()).unwrap());
        let merged = KeyMerge::of(Some(&base), &ours, &theirs, Side::Ours);
        (merged.json.compact(), merged.clashes)
    }

    #[test]
    fn keys_merge_each_by_itself_and_keep_their_order() {
        let (json, clashes) =
            merge(r#"{"z":1,"a":{"x":1}}"#, r#"{"z":2,"a":{"x":1,"ours":1}}"#, r#"{"z":1,"new":0,"a":{}}"#);
        assert_eq!((json.as_str(), clashes.len()), (r#"{"z":2,"new":0,"a":{"ours":1}}"#, 0));
    }

    #[test]
    fn the_same_key_changed_twice_clashes_by_its_name() {
        let (json, clashes) = merge(r#"{"a/b":{"v":1}}"#, r#"{"a/b":{"v":2}}"#, r#"{"a/b":{"v":3}}"#);
        assert_eq!((json.as_str(), clashes), (r#"{"a/b":{"v":2}}"#, vec!["/a~1b/v".to_owned()]));
        assert_eq!(merge(r#"{"a":1}"#, "{}", r#"{"a":2}"#).1, ["/a"], "a deletion against an edit");
    }

    #[test]
    fn lists_merge_by_names_where_every_item_has_one_and_else_as_a_whole() {
        let (json, clashes) =
            merge(r#"[{"id":1,"v":0}]"#, r#"[{"id":1,"v":1}]"#, r#"[{"id":1,"v":0},{"id":2}]"#);
        assert_eq!((json.as_str(), clashes.len()), (r#"[{"id":1,"v":1},{"id":2}]"#, 0));
        assert_eq!(merge("[1]", "[1,2]", "[1,3]").1, ["/"]);
        assert_eq!(merge(r#"[{"id":1}]"#, r#"[{"id":1},{"id":1}]"#, "[]").1, ["/"]);
    }
}
