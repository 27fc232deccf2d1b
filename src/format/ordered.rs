//! Writes JSON objects whose fields stay in the order in which a reader looks for them.
//!
//! A `serde_json::Map` sorts its keys; what we publish is read by people, so it must not be one.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// An object under construction.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    fields: Vec<(String, Value)>,
}

impl Ordered {
    pub(super) fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.push((name.to_owned(), value.into()));
    }

    pub(super) fn put_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// Two spaces a level, and a newline at the end.
    pub(super) fn pretty(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A number without a needless fraction: `3600`, not `3600.0`.
pub(super) fn number(value: f64) -> Value {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT_MAX { (value as i64).into() } else { value.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_whole_numbers_their_spelling() {
        let mut object = Ordered::default();
        object.put("z", number(3600.0));
        object.put("a", number(0.5));
        object.put_some("none", None::<u64>);
        assert_eq!(object.pretty(), b"{\n  \"z\": 3600,\n  \"a\": 0.5\n}\n");
    }
}
