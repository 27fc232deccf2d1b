//! A tree of files as values: paths below a root, what stands at each, and its digest. What reads and writes
//! trees is `work_tree`; here nothing touches a disk.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of a name or of a link's target. JSON spells them as text; what is not UTF-8 becomes `\xNN`, and a
/// backslash is doubled, so that every name comes back as it was.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RawText(Vec<u8>);

impl RawText {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        RawText(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    fn parse(spelled: &str) -> Option<Self> {
        let mut bytes = Vec::with_capacity(spelled.len());
        let mut rest = spelled;
        while let Some(at) = rest.find('\\') {
            bytes.extend_from_slice(&rest.as_bytes()[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('\\') {
                bytes.push(b'\\');
                rest = after;
            } else {
                let digits = rest.strip_prefix('x')?.get(..2)?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[3..];
            }
        }
        bytes.extend_from_slice(rest.as_bytes());
        Some(RawText(bytes))
    }
}

impl fmt::Display for RawText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(&chunk.valid().replace('\\', "\\\\"))?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RawText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Serialize for RawText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RawText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spelled = String::deserialize(deserializer)?;
        RawText::parse(&spelled).ok_or_else(|| serde::de::Error::custom(format!("{spelled:?} is no name")))
    }
}

/// A path below a root: names joined by `/`, none of them empty, `.` or `..`. It cannot lead out of its root
/// by itself; what links on the way do is for those to mind who open it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TreePath(RawText);

impl TreePath {
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
        bytes.split(|byte| *byte == b'/').all(is_name).then_some(TreePath(RawText(bytes)))
    }

    /// `None` where the path is absolute, empty or goes upward.
    pub fn of(path: &Path) -> Option<Self> {
        TreePath::parse(path.as_os_str().as_bytes())
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub fn as_path(&self) -> &Path {
        Path::new(self.0.as_os_str())
    }

    pub fn below(&self, root: &Path) -> PathBuf {
        root.join(self.as_path())
    }

    pub fn join(&self, rest: &TreePath) -> TreePath {
        TreePath(RawText([self.as_bytes(), b"/", rest.as_bytes()].concat()))
    }

    /// What is left of it below another path.
    pub fn rest_below(&self, outer: &TreePath) -> Option<TreePath> {
        let rest = self.as_bytes().strip_prefix(outer.as_bytes())?.strip_prefix(b"/")?;
        TreePath::parse(rest)
    }

    pub fn is_below(&self, outer: &TreePath) -> bool {
        self.rest_below(outer).is_some()
    }

    pub fn parent(&self) -> Option<TreePath> {
        let slash = self.as_bytes().iter().rposition(|byte| *byte == b'/')?;
        Some(TreePath(RawText(self.as_bytes()[..slash].to_vec())))
    }

    /// The last name.
    pub fn name(&self) -> &[u8] {
        self.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawText::deserialize(deserializer)?;
        TreePath::parse(raw.0).ok_or_else(|| serde::de::Error::custom("a path below its root is expected"))
    }
}

/// The SHA-256 of a file's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    pub fn parse(hex: &str) -> Option<Self> {
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
        }
        Some(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(deserializer)?;
        Digest::parse(&hex).ok_or_else(|| serde::de::Error::custom("64 hexadecimal digits are expected"))
    }
}

/// What stands at a path. Pipes, sockets and devices have no place in a tree: whoever walks one tells of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    File {
        /// Permission bits alone.
        mode: u32,
        size: u64,
        sha256: Digest,
    },
    Link {
        target: RawText,
    },
    Directory {
        mode: u32,
    },
}

/// A tree, in the order of its paths: every directory stands before what it holds.
pub type Manifest = BTreeMap<TreePath, Entry>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_survives_its_spelling_in_json() {
        for name in [&b"plain"[..], b"with \\ and \\x41", "\u{e9}\u{202e}".as_bytes(), b"\xff\xfe/a", b"a\nb"]
        {
            let path = TreePath::parse(name).unwrap();
            let spelled = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<TreePath>(&spelled).unwrap(), path, "{spelled}");
        }
    }

    #[test]
    fn a_path_that_leads_out_of_its_root_is_none() {
        for path in ["", "/etc", "a//b", "a/", "./a", "a/../b", "..", "a\0b"] {
            assert_eq!(TreePath::parse(path), None, "{path}");
        }
        assert!(serde_json::from_str::<TreePath>(r#""a/../../etc""#).is_err());
        let path = TreePath::parse("a/b/c").unwrap();
        assert_eq!((path.parent(), path.name()), (TreePath::parse("a/b"), &b"c"[..]));
    }
}
