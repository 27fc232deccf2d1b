//! File names as people list them in a plan: with commas or `and`, in backticks or links, with remarks, verbs and
//! line numbers around them.

use super::value::{is_none, plain, without_remark};

/// What people write before a name: `Create: src/a.rs`.
const VERBS: &[&str] = &[
    "create", "created", "creates", "modify", "modified", "modifies", "new", "update", "updated", "edit",
    "add", "added", "change", "changed", "test", "tests", "delete", "remove", "rename", "extend", "write",
    "touch",
];

/// The file names in a text: separated by commas, in backticks or not, with or without a remark.
pub(super) fn file_names<'a>(text: &'a str, mut found: impl FnMut(&'a str)) {
    let text = text.trim();
    let is_array = !text.contains("](");
    let text =
        text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).filter(|_| is_array).unwrap_or(text);
    if is_none(text) {
        return;
    }
    let mut rest = without_verb(text);
    if in_prose(rest) {
        // "Create `a.rs` and call it from `b.rs`": what is in backticks is meant.
        return rest.split('`').skip(1).step_by(2).filter(|name| looks_like_path(name)).for_each(found);
    }
    while !rest.is_empty() {
        let (name, after) = first_file_name(without_verb(rest));
        if !name.is_empty() {
            found(without_line(name));
        }
        rest = after.trim_start();
    }
}

/// Backticks come after words that are no path.
fn in_prose(text: &str) -> bool {
    let Some(tick) = text.find('`').filter(|tick| *tick > 0) else { return false };
    let before = &text[..tick];
    let is_wordy =
        before.trim().split(' ').all(|word| !looks_like_path(word) && !word.contains([',', '[', '*']));
    is_wordy && text.matches('`').count() >= 2
}

fn looks_like_path(text: &str) -> bool {
    !text.is_empty() && !text.contains(' ') && text.trim_end_matches(['.', ',', ':']).contains(['/', '.'])
}

/// `Create: src/a.rs` is `src/a.rs`.
fn without_verb(text: &str) -> &str {
    let Some((verb, rest)) = text.split_once(':') else { return text };
    let verb = plain(verb).trim_end_matches(':');
    match VERBS.iter().any(|known| verb.eq_ignore_ascii_case(known)) {
        true => rest.trim_start_matches(['*', '_']).trim_start(),
        false => text,
    }
}

/// `src/a.rs:10-20` is `src/a.rs`.
fn without_line(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((file, lines)) if !lines.is_empty() && !file.is_empty() => {
            let is_lines = lines.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            if is_lines { file } else { name }
        }
        _ => name,
    }
}

/// The first name, and what follows its comma. Within a remark a comma separates nothing.
fn first_file_name(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let bare = text.trim_start_matches("**");
    if let Some((name, after)) = link(bare) {
        return (name, following(after));
    }
    if let Some(quoted) = bare.strip_prefix('`')
        && let Some(end) = quoted.find('`')
    {
        return (&quoted[..end], following(&quoted[end + 1..]));
    }
    let mut depth = 0_usize;
    let end = text.bytes().position(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        matches!(byte, b',' | b';') && depth == 0
    });
    let (name, after) = match end {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, ""),
    };
    if let Some((first, second)) = [" and ", " & ", " + "].iter().find_map(|word| name.split_once(word))
        && looks_like_path(first.trim())
        && looks_like_path(second.trim_start().split(' ').next().unwrap_or(""))
    {
        let start = text.len() - text[first.len()..].len();
        let joint = name.len() - second.len();
        return (plain(&text[..start]), &text[joint..]);
    }
    let name = without_remark(name);
    let dash = name
        .contains(' ')
        .then(|| [" - ", " – ", " — ", " → ", ": "].iter().find_map(|dash| name.split_once(dash)));
    let (name, is_remarked) = match dash.flatten() {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    (plain(without_remark(name)), if is_remarked { "" } else { after })
}

/// `[name](target)`
fn link(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = rest.split_once(')')?;
    Some((plain(name), after))
}

/// What follows a quoted name and its comma. Anything else there is a remark on the file, commas and all.
fn following(after: &str) -> &str {
    let after = after.trim_start_matches("**").trim_start();
    let after = match after.strip_prefix('(').and_then(|remark| remark.split_once(')')) {
        Some((_, after)) => after.trim_start(),
        None => after,
    };
    for separator in [",", ";", "and ", "& ", "+ "] {
        if let Some(rest) = after.strip_prefix(separator) {
            return rest.trim_start().strip_prefix("and ").unwrap_or(rest);
        }
    }
    if after.starts_with('`') { after } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_come_with_backticks_and_remarks() {
        let names = |text| {
            let mut names = Vec::new();
            file_names(text, |name| names.push(name));
            names
        };
        assert_eq!(names("a.rs, b.rs"), ["a.rs", "b.rs"]);
        assert_eq!(names("`a.rs`, `b.rs`"), ["a.rs", "b.rs"]);
        assert_eq!(names("`a.rs` (new), b.rs (changed, twice), c.rs"), ["a.rs", "b.rs", "c.rs"]);
        assert_eq!(names("`a.rs` - adds this, that and more"), ["a.rs"]);
        assert_eq!(names("a.rs — adds this, that and more"), ["a.rs"]);
        assert_eq!(names("**`a.rs`** (new)"), ["a.rs"]);
        assert_eq!(names("[\"a.rs\", 'b.rs']"), ["a.rs", "b.rs"]);
        assert_eq!(names("src/a.rs and src/b.rs, c.rs"), ["src/a.rs", "src/b.rs", "c.rs"]);
        assert_eq!(names("`a.rs` and `b.rs`"), ["a.rs", "b.rs"]);
        assert_eq!(names("Create: `a.rs`"), ["a.rs"]);
        assert_eq!(names("**Modify**: src/a.rs:10-20"), ["src/a.rs"]);
        assert_eq!(names("Create `a.rs` and call it from `src/b`"), ["a.rs", "src/b"]);
        assert_eq!(names("[`a.css`](a.css), [b.css](b.css)"), ["a.css", "b.css"]);
        assert_eq!(names("src/a.rs: adds this, that"), ["src/a.rs"]);
        assert_eq!(names("None"), [""; 0]);
        assert_eq!(names("my notes.txt,"), ["my notes.txt"]);
    }
}
