//! Names as messages show them: whatever a terminal would act on, or a reader would not see, is spelled out.

use crate::model::tree::{RawText, TreePath};

/// A path of a manifest, with the slash in front that it lacks.
pub fn path(path: &TreePath) -> String {
    clean(&format!("/{path}"))
}

pub fn text(raw: &RawText) -> String {
    clean(&raw.to_string())
}

fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || turns_or_hides(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Marks of direction and of no width.
fn turns_or_hides(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_speak_to_the_terminal() {
        let hostile = TreePath::parse("a\x1b[2J\nb\u{202e}gpj.exe \u{e9}").unwrap();
        assert_eq!(path(&hostile), "/a\\u{1b}[2J\\nb\\u{202e}gpj.exe \u{e9}");
    }
}
