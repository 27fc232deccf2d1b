//! Puts one Markdown text into another without harm to the outline: headings go deeper, and nothing that a
//! text left open swallows what follows. Knows the few constructs that matter for that.

/// Deepest level of a heading.
const LEVELS: usize = 6;

/// A text whose headings stand `levels` deeper.
pub fn demoted(text: &str, levels: usize) -> String {
    let mut result = String::new();
    let mut fence: Option<String> = None;
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let next = lines.get(at + 1).copied().unwrap_or_default();
        at += 1;
        if let Some(open) = &fence {
            if closes(line, open) {
                fence = None;
            }
        } else if let Some(open) = opens(line) {
            fence = Some(open);
        } else if let Some((level, title)) = heading(line) {
            push_heading(&mut result, level + levels, title);
            continue;
        } else if let Some(level) = underline(next).filter(|_| is_paragraph(line)) {
            push_heading(&mut result, level + levels, line.trim());
            at += 1;
            continue;
        }
        result.push_str(line);
        result.push('\n');
    }
    if let Some(open) = fence {
        result.push_str(&format!("{open}\n"));
    }
    if text.rfind("<!--") > text.rfind("-->") {
        result.push_str("-->\n");
    }
    result
}

/// A text as it is, in a fence longer than any in it.
pub fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{text}{end}{fence}\n")
}

/// Words in which nothing is markup.
pub fn escaped(text: &str) -> String {
    let mut result = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' => result.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '&' => {
                result.push('\\');
                result.push(c);
            }
            c => result.push(c),
        }
    }
    result
}

/// Words as code within a line.
pub fn code(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// The part of a line behind an indent that leaves it what it is; four spaces make it code.
fn unindented(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(' ');
    (line.len() - rest.len() < 4).then_some(rest)
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let line = unindented(line)?;
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    let is_heading = (1..=LEVELS).contains(&level) && (title.is_empty() || title.starts_with([' ', '\t']));
    is_heading.then(|| (level, title.trim()))
}

fn underline(line: &str) -> Option<usize> {
    let line = unindented(line)?.trim_end();
    let is_all = |c: char| !line.is_empty() && line.chars().all(|found| found == c);
    if is_all('=') {
        Some(1)
    } else if is_all('-') {
        Some(2)
    } else {
        None
    }
}

/// Whether a line can be the text of an underlined heading.
fn is_paragraph(line: &str) -> bool {
    let is_marked = |rest: &str| rest.starts_with(['>', '-', '*', '+', '|', '<']);
    unindented(line).is_some_and(|rest| !rest.trim().is_empty() && !is_marked(rest))
        && underline(line).is_none()
}

fn opens(line: &str) -> Option<String> {
    let line = unindented(line)?;
    let mark = line.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let info = line.trim_start_matches(mark);
    let length = line.len() - info.len();
    let is_fence = length >= 3 && (mark == '~' || !info.contains('`'));
    is_fence.then(|| mark.to_string().repeat(length))
}

fn closes(line: &str, open: &str) -> bool {
    let line = unindented(line).unwrap_or_default().trim_end();
    line.len() >= open.len() && line.chars().all(|c| open.starts_with(c)) && !line.is_empty()
}

fn push_heading(result: &mut String, level: usize, title: &str) {
    result.push_str(&"#".repeat(level.min(LEVELS)));
    if !title.is_empty() {
        result.push(' ');
        result.push_str(title);
    }
    result.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_both_kinds_go_deeper_and_code_is_left_alone() {
        let text =
            "# One\n\nTwo\n===\n\nThree\n---\n\n```sh\n# no heading\n```\n\n    # code\n#hash\n##### Deep\n";
        let expected = "#### One\n\n#### Two\n\n##### Three\n\n```sh\n# no heading\n```\n\n    # code\n#hash\n###### Deep\n";
        assert_eq!(demoted(text, 3), expected);
    }

    #[test]
    fn what_a_text_left_open_is_closed_behind_it() {
        assert_eq!(demoted("~~~~\n# x\n~~~\n", 3), "~~~~\n# x\n~~~\n~~~~\n");
        assert_eq!(demoted("a <!-- b\n", 3), "a <!-- b\n-->\n");
        assert_eq!(fenced("a ```` b"), "`````\na ```` b\n`````\n");
    }
}
