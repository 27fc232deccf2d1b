//! Text that somebody else wrote, made fit for a terminal: no control characters, no hidden ones, no
//! wider than the place it has. Everything that an agent or a request says passes here before it is printed.

use unicode_width::UnicodeWidthStr;

/// Marks the place where text was left out.
pub const ELLIPSIS: char = '…';

/// Zero-width characters per column beyond which a text is cut: some stack hundreds on one letter.
const CHARS_PER_COLUMN_MAX: usize = 8;

/// One line of harmless text: line breaks and tabs become spaces, everything that could move the
/// cursor, change colours or the reading direction, or hide, is spelled out.
pub fn one_line(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut previous = None;
    for character in text.chars() {
        match character {
            // A Windows line end is one break, not two.
            '\n' if previous == Some('\r') => {}
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => clean.push(' '),
            _ if is_hazardous(character) => clean.extend(character.escape_default()),
            _ => clean.push(character),
        }
        previous = Some(character);
    }
    clean
}

fn is_hazardous(character: char) -> bool {
    character.is_control()
        || matches!(character,
            // Marks and overrides of direction.
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Invisible: soft hyphen, zero-width space, word joiners, byte order mark, tags.
            | '\u{00ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
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
