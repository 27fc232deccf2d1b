//! What an agent says that it did. A claim is not a fact: `evidence` says what was checked of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::Attempt;

/// The two things a result can say. Every spelling that the seeds use maps to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimStatus {
    Success,
    #[default]
    Failure,
}

/// A result file's content, valid by construction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Claim {
    /// The name that the result gives its task: key or task id.
    pub task_id: String,
    pub status: ClaimStatus,
    /// Which attempt it speaks for; `None` is legal, and *unfenced* from the second attempt on.
    pub attempt: Option<Attempt>,
    /// The mark of the attempt that its agent was started for, where it says so.
    pub mark: Option<String>,
    pub files_created: Vec<String>,
    pub files_modified: Vec<String>,
    /// What it removed on purpose: absent from its outputs or from the tree, and meant so.
    pub files_deleted: Vec<String>,
    /// Why nothing that the task declares had to be changed, where the agent says so.
    pub no_change_needed: Option<String>,
    pub commits: Vec<Value>,
    pub prps_generated: Vec<Value>,
    pub errors: Vec<String>,
    pub tokens_used: Option<u64>,
    pub elapsed_seconds: Option<f64>,
    /// What the agent counted: lines of code, tests and their like.
    pub metrics: Map<String, Value>,
    /// What it says of the criteria of success, by name: `true`, `false`, or a value.
    pub criteria: Map<String, Value>,
}

/// A path without what says nothing. `..` stays: through a link it may lead anywhere.
fn plain(root: &str, file: &str) -> String {
    let below = file.strip_prefix(root.trim_end_matches('/')).filter(|rest| rest.starts_with('/'));
    let (start, rest) = match below {
        Some(rest) => ("", rest),
        None if file.starts_with('/') => ("/", file),
        None => ("", file),
    };
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.is_empty() { file.to_owned() } else { format!("{start}{}", parts.join("/")) }
}

impl Claim {
    /// The same with every file named from the root, in the one plainest way: whoever compares files of several claims
    /// finds `./src//a.rs`, `src/a.rs` and an absolute path to it to be one file.
    pub fn with_plain_files(mut self, root: &str) -> Claim {
        let lists = [&mut self.files_created, &mut self.files_modified, &mut self.files_deleted];
        for file in lists.into_iter().flatten() {
            *file = plain(root, file);
        }
        self
    }

    /// Every file that the claim says was made or changed.
    pub fn files(&self) -> impl Iterator<Item = &String> {
        self.files_created.iter().chain(&self.files_modified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_plainest_name() {
        let same =
            ["src/a.rs", "./src/a.rs", "src//a.rs", "././src/./a.rs", "/repo/src/a.rs", "/repo//src/a.rs"];
        for file in same {
            assert_eq!(plain("/repo", file), "src/a.rs", "{file}");
        }
        for (file, expected) in [
            ("/other/a.rs", "/other/a.rs"),
            ("/repository/a.rs", "/repository/a.rs"),
            ("src/", "src"),
            ("src/x/../a.rs", "src/x/../a.rs"),
            (".", "."),
            ("", ""),
        ] {
            assert_eq!(plain("/repo", file), expected, "{file}");
        }
    }
}
