//! Tells whether a clash of lines is about the version of a dependency. Reads single lines of the usual
//! manifests; it names a conflict better, and decides nothing.

use super::lines::Clash;

/// Whether a file of this name lists dependencies.
pub fn is_manifest_name(name: &[u8]) -> bool {
    let is_requirements = name.starts_with(b"requirements") && name.ends_with(b".txt");
    is_requirements || [&b"package.json"[..], b"Cargo.toml", b"pyproject.toml"].contains(&name)
}

/// Dependencies that the two sides want in different versions, as `name: ours, theirs`.
pub fn versions_that_differ(clash: &Clash) -> Vec<String> {
    let theirs: Vec<(String, String)> = clash.theirs.iter().filter_map(|line| wanted(line)).collect();
    let ours = clash.ours.iter().filter_map(|line| wanted(line));
    let differing = ours.filter_map(|(name, version)| {
        let (_, other) = theirs.iter().find(|(other, _)| *other == name)?;
        (*other != version).then(|| format!("{name}: {version}, {other}"))
    });
    differing.collect()
}

/// Name and version in one line: `"name": "^1"`, `name = "1"`, `name = { version = "1" }`, `name==1`, `"name>=1",`.
fn wanted(line: &[u8]) -> Option<(String, String)> {
    let line = std::str::from_utf8(line).ok()?.trim().trim_end_matches(',').trim_end();
    if line.starts_with(['#', '/']) {
        return None;
    }
    if let Some((name, value)) = line.split_once("\":") {
        return pair(name.strip_prefix('"')?, quoted(value)?);
    }
    if let Some((name, value)) = line.split_once(" =") {
        let value = value.strip_prefix('=').unwrap_or(value).trim_start();
        if value.starts_with('{') {
            let (_, after) = value.split_once("version")?;
            return pair(name, quoted(after.trim_start().strip_prefix('=')?)?);
        }
        if value.starts_with('"') {
            return pair(name, quoted(value)?);
        }
    }
    let bare = line.trim_matches(['"', '\'']);
    let at = bare.find(['=', '<', '>', '~', '!'])?;
    pair(&bare[..at], bare[at..].split(';').next()?)
}

fn quoted(text: &str) -> Option<&str> {
    let (_, after) = text.split_once('"')?;
    Some(after.split_once('"')?.0)
}

fn pair(name: &str, version: &str) -> Option<(String, String)> {
    let name = name.trim().trim_matches('"');
    let name = name.split('[').next()?.trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_./@".contains(c));
    let is_version = version.contains(|c: char| c.is_ascii_digit() || c == '*');
    (is_name && is_version).then(|| (name.to_owned(), version.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differing(ours: &str, theirs: &str) -> Vec<String> {
        let lines = |text: &'static str| vec![text.as_bytes()];
        let [ours, theirs] = [ours, theirs].map(|text| lines(text.to_owned().leak()));
        versions_that_differ(&Clash { base_line: 1, base: Vec::new(), ours, theirs })
    }

    #[test]
    fn versions_are_found_in_every_manifest() {
        let pairs = [
            ("  \"react\": \"^17.0.0\",\n", "  \"react\": \"^18.2.0\"\n", "react: ^17.0.0, ^18.2.0"),
            ("serde = \"1.0\"\n", "serde = { version = \"1.1\", features = [] }\n", "serde: 1.0, 1.1"),
            ("requests==2.31\n", "requests>=2.32; python_version > \"3\"\n", "requests: ==2.31, >=2.32"),
            ("  \"flask[async]>=2\",\n", "  \"flask[async]>=3\",\n", "flask: >=2, >=3"),
        ];
        for (ours, theirs, expected) in pairs {
            assert_eq!(differing(ours, theirs), [expected]);
        }
    }

    #[test]
    fn other_lines_are_no_versions() {
        assert!(differing("serde = \"1\"\n", "tokio = \"1\"\n").is_empty());
        assert!(differing("# serde 1\n", "# serde 2\n").is_empty());
        assert!(differing("\"name\": \"left\",\n", "\"name\": \"right\",\n").is_empty());
    }
}
