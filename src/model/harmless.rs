//! Text that somebody else wrote, without what could deceive its reader: characters that move a cursor, change
//! colours or the reading direction, hide, or begin a line unseen.

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

/// Text as quoted lines. Whatever some reader takes for the end of a line is one: no word can stand outside of the
/// quotation.
pub fn quoted(text: &str) -> String {
    const ENDS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
    let lines = text.replace("\r\n", "\n");
    let mut quoted = String::with_capacity(text.len() + 64);
    for line in lines.trim_end_matches(ENDS).split(ENDS) {
        quoted.push_str("> ");
        quoted.push_str(&one_line(line));
        quoted.push('\n');
    }
    quoted
}

/// Whether a character is spelled out rather than shown.
pub fn is_hazardous(character: char) -> bool {
    character.is_control()
        || matches!(character,
            // Marks and overrides of direction.
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Invisible: soft hyphen, zero-width space, word joiners, byte order mark, tags.
            | '\u{00ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_line_begins_a_quoted_one_and_nothing_deceives() {
        let text = "a\rb\r\nc\u{b}d\u{c}e\u{85}f\u{2028}g\u{2029}h\n\u{1b}[2J\u{202e}i\tj\n";
        assert_eq!(quoted(text), "> a\n> b\n> c\n> d\n> e\n> f\n> g\n> h\n> \\u{1b}[2J\\u{202e}i j\n");
    }
}
