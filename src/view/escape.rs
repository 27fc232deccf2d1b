//! Text that somebody else wrote, made fit for a terminal: no control characters, no hidden ones, no
//! wider than the place it has. Everything that an agent or a request says passes here before it is printed.

use unicode_width::UnicodeWidthStr;

use crate::model::harmless::is_hazardous;

pub use crate::model::harmless::one_line;

/// Marks the place where text was left out.
pub const ELLIPSIS: char = '…';

/// Zero-width characters per column beyond which a text is cut: some stack hundreds on one letter.
const CHARS_PER_COLUMN_MAX: usize = 8;

/// A log for a terminal: lines and tabs stay, everything else that could move the cursor or hide is spelled
/// out. Bytes that are no text are shown as such.
pub fn shown_bytes(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => clean.push(character),
            '\r' if characters.peek() == Some(&'\n') => {}
            _ if is_hazardous(character) => clean.extend(character.escape_default()),
            _ => clean.push(character),
        }
    }
    clean
}

/// Columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The text in at most `columns` columns, with an ellipsis at its end where it was cut.
pub fn elide(text: &str, columns: usize) -> String {
    if fits(text, columns) {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let mut kept = prefix(text, columns - 1).trim_end().to_owned();
    kept.push(ELLIPSIS);
    kept
}

/// Like `elide`, but keeps both ends: of a path, the file's name says most.
pub fn elide_middle(text: &str, columns: usize) -> String {
    if fits(text, columns) || columns < 8 {
        return elide(text, columns);
    }
    let head = prefix(text, (columns - 1) / 2);
    let tail = suffix(text, columns - 1 - width(head));
    format!("{head}{ELLIPSIS}{tail}")
}

/// The text in exactly `columns` columns.
pub fn fit(text: &str, columns: usize) -> String {
    let mut cell = elide(text, columns);
    let missing = columns.saturating_sub(width(&cell));
    cell.extend(std::iter::repeat_n(' ', missing));
    cell
}

fn fits(text: &str, columns: usize) -> bool {
    // The length in bytes bounds both, so ordinary short texts are decided at once.
    (text.is_ascii() && text.len() <= columns)
        || (text.chars().nth(columns * CHARS_PER_COLUMN_MAX + 1).is_none() && width(text) <= columns)
}

/// The longest beginning that takes at most `columns` columns.
fn prefix(text: &str, columns: usize) -> &str {
    let mut end = 0;
    let ends = text.char_indices().map(|(at, character)| at + character.len_utf8());
    for candidate in ends.take(columns * CHARS_PER_COLUMN_MAX) {
        // The whole beginning is measured: some sequences are narrower than the sum of their parts.
        if width(&text[..candidate]) > columns {
            break;
        }
        end = candidate;
    }
    &text[..end]
}

fn suffix(text: &str, columns: usize) -> &str {
    let mut start = text.len();
    for (candidate, _) in text.char_indices().rev().take(columns * CHARS_PER_COLUMN_MAX) {
        if width(&text[candidate..]) > columns {
            break;
        }
        start = candidate;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_wrote_cannot_command_the_terminal() {
        assert_eq!(one_line("a\x1b[2Jb\x07"), "a\\u{1b}[2Jb\\u{7}");
        assert_eq!(one_line("one\r\ntwo\tthree"), "one two three");
        assert_eq!(one_line("evil\u{202e}txt\u{9b}31m"), "evil\\u{202e}txt\\u{9b}31m");
        assert_eq!(one_line("zero\u{200b}width"), "zero\\u{200b}width");
        assert_eq!(one_line("größe 漢字 ✓"), "größe 漢字 ✓");
    }

    #[test]
    fn elided_text_fits_by_its_width_not_its_length() {
        assert_eq!(elide("plain", 5), "plain");
        assert_eq!(elide("longer", 5), "long…");
        assert_eq!(elide("漢字漢字", 5), "漢字…");
        assert_eq!(elide("漢字漢字", 4), "漢…");
        assert_eq!(width(&fit("漢字漢字", 4)), 4);
        assert_eq!(elide("x", 0), "");
    }

    #[test]
    fn a_path_keeps_its_file_name() {
        let path = ".ce/orchestration/tasks/batch-43/task-2a.json";
        let short = elide_middle(path, 24);
        assert_eq!(short, ".ce/orchest…task-2a.json");
        assert_eq!(width(&short), 24);
    }

    #[test]
    fn stacked_marks_are_cut_though_they_take_no_columns() {
        let stacked = format!("a{}", "\u{301}".repeat(10_000));
        assert!(elide(&stacked, 10).chars().count() < 100);
    }
}
