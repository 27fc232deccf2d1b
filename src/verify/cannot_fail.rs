//! Commands that cannot fail, by the text that a shell runs: whatever happens, they end with 0, so they check nothing.
//!
//! Text in, a sentence out. What is more than lists, pipes and groups of commands is taken for a real check.

use std::iter::Peekable;
use std::str::Chars;

/// Words that end well whatever they are given.
const ALWAYS_FINE: [&str; 5] = ["true", ":", "sleep", "set", "export"];
/// Words that only say something.
const ONLY_SAYS: [&str; 2] = ["echo", "printf"];
/// What a pipe may end in, without files of its own: it ends well, and hides how the command before it ended.
const SWALLOWS: [&str; 8] = ["cat", "head", "tail", "sort", "uniq", "wc", "tr", "column"];
/// Programs that run what follows `-c`.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];
/// Words before a command that end as it does.
const WRAPPERS: [&str; 8] = ["env", "command", "builtin", "exec", "nice", "time", "nohup", "eval"];
/// What begins more than a command.
const KEYWORDS: [&str; 9] = ["if", "while", "until", "for", "case", "select", "function", "[[", "coproc"];
/// Groups in groups that are read.
const DEPTH_MAX: usize = 20;

/// What a check's command is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Whether it ends with 0.
    Exit,
    /// Also the number that it prints: then to say something is not nothing.
    Value,
}

/// Why the command says nothing whatever happens, if that is so.
pub fn cannot_fail(command: &[String], asked: Asked) -> Option<String> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let ends_well = match shell_text(&words) {
        Some((text, stops)) => always_ends_well(text, stops, asked),
        None => is_always_fine(&words) || (asked == Asked::Exit && only_says(&words)),
    };
    ends_well.then(|| format!("`{}` cannot fail: it checks nothing", command.join(" ")))
}

/// The text that a shell is to run, and whether it stops at the first failure.
fn shell_text<'a>(words: &[&'a str]) -> Option<(&'a str, bool)> {
    let [program, options @ .., text] = words else { return None };
    let is_shell = SHELLS.contains(&program.rsplit('/').next().unwrap_or_default());
    let takes_text = options.last().is_some_and(|option| option.starts_with('-') && option.ends_with('c'));
    let stops = options.iter().any(|option| is_errexit(option));
    (is_shell && takes_text).then_some((text, stops))
}

fn is_errexit(option: &str) -> bool {
    option == "errexit" || (option.starts_with('-') && !option.starts_with("--") && option.contains('e'))
}

fn always_ends_well(text: &str, stops: bool, asked: Asked) -> bool {
    let Some(list) = read(&mut text.chars().peekable(), None, 0) else { return false };
    let sets = |wanted: fn(&str) -> bool| {
        let is_set = |command: &Command| {
            let words = command.words();
            words.first().is_some_and(|word| word == "set") && words.iter().skip(1).any(|word| wanted(word))
        };
        list.iter().any(|(_, command)| is_set(command))
    };
    let way = Way { stops: stops || sets(is_errexit), pipefail: text.contains("pipefail"), asked };
    !can_fail(&list, way)
}

/// How a list is run, and what is asked of it.
#[derive(Clone, Copy)]
struct Way {
    stops: bool,
    pipefail: bool,
    asked: Asked,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Joint {
    Then,
    And,
    Or,
    Pipe,
}

#[derive(Debug)]
enum Command {
    Simple { words: Vec<String>, in_background: bool },
    Group(Vec<(Joint, Command)>),
}

impl Command {
    fn words(&self) -> &[String] {
        match self {
            Command::Simple { words, .. } => words,
            Command::Group(_) => &[],
        }
    }
}

/// Whether the last status of a list, or a stop on the way to it, can be another than 0.
fn can_fail(list: &[(Joint, Command)], way: Way) -> bool {
    let (mut fails, mut failed_before, mut did_work) = (false, false, false);
    // A pipe binds before everything else.
    for pipe in list.chunk_by(|_, (joint, _)| *joint == Joint::Pipe) {
        let (mut own, mut is_piped_to) = (false, false);
        for (_, command) in pipe {
            let alone = fails_alone(command, is_piped_to, did_work, way);
            own = alone || (way.pipefail && own);
            did_work |= alone;
            is_piped_to = true;
        }
        failed_before |= pipe.len() == 1 && may_exit(&pipe[0].1);
        fails = match pipe[0].0 {
            // By itself it repeats the status before it.
            _ if pipe[0].1.words() == ["exit"] => fails,
            Joint::Then | Joint::Pipe => {
                failed_before |= way.stops && fails;
                own
            }
            Joint::And => fails || own,
            Joint::Or => fails && own,
        };
    }
    fails || failed_before
}

/// Whether one command can fail. What only says something may be a value, unless it hides how a check ended.
fn fails_alone(command: &Command, is_piped_to: bool, did_work: bool, way: Way) -> bool {
    let words: Vec<&str> = match command {
        Command::Group(list) => return can_fail(list, way),
        Command::Simple { in_background: true, .. } => return false,
        Command::Simple { words, .. } => words.iter().map(String::as_str).collect(),
    };
    let tells_value = way.asked == Asked::Value && (!did_work || words.iter().any(|word| word.contains('$')));
    match words.as_slice() {
        words if only_says(words) => tells_value,
        ["tee", ..] if is_piped_to => false,
        [program, options @ ..] if is_piped_to && SWALLOWS.contains(program) => options
            .iter()
            .any(|option| !option.starts_with('-') && option.parse::<u64>().is_err() && *program != "tr"),
        words => match shell_text(words) {
            Some((text, stops)) => !always_ends_well(text, stops, way.asked),
            None => !is_always_fine(words),
        },
    }
}

/// Whether it can end the whole text with another status than 0.
fn may_exit(command: &Command) -> bool {
    match command {
        Command::Group(list) => list.iter().any(|(_, inner)| may_exit(inner)),
        Command::Simple { words, .. } => {
            let status = words.get(1).map(String::as_str);
            words.first().is_some_and(|word| ["exit", "return"].contains(&word.as_str()))
                && status.is_some_and(|status| status != "0")
        }
    }
}

fn only_says(words: &[&str]) -> bool {
    words.first().is_some_and(|word| ONLY_SAYS.contains(word))
}

fn is_always_fine(words: &[&str]) -> bool {
    let is_assignment = |word: &&&str| word.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
    let (assigned, words) = words.split_at(words.iter().take_while(is_assignment).count());
    let name = |program: &str| program.rsplit('/').next().unwrap_or_default().to_owned();
    match words {
        // What is assigned may be what a command prints: then its status counts.
        [] => !assigned.iter().any(|word| word.contains("$(") || word.contains('`')),
        ["exit"] | ["exit", "0"] | ["!", "false"] => true,
        ["test" | "[", literals @ ..] => is_always_true(literals),
        [wrapper, rest @ ..] if WRAPPERS.contains(&name(wrapper).as_str()) => is_always_fine(rest),
        [timeout, _, rest @ ..] if name(timeout) == "timeout" => is_always_fine(rest),
        [python, "-c", "pass" | "exit()" | "exit(0)"] => name(python).starts_with("python"),
        [program, ..] => {
            let is_plain =
                !program.contains('/') || program.starts_with("/bin/") || program.starts_with("/usr/bin/");
            is_plain && ALWAYS_FINE.contains(&name(program).as_str())
        }
    }
}

/// What `test` compares where nothing is a variable: `1`, `1 = 1`.
fn is_always_true(words: &[&str]) -> bool {
    let words = words.strip_suffix(&["]"]).unwrap_or(words);
    let is_literal = |word: &str| !word.is_empty() && !word.contains(['$', '`']);
    match words {
        [one] | ["-n", one] => is_literal(one),
        [left, "=" | "==" | "-eq" | "-le" | "-ge", right] => is_literal(left) && left == right,
        _ => false,
    }
}

type Text<'a, 'b> = &'a mut Peekable<Chars<'b>>;

/// Reads commands up to the end of their group. `None` where it is more than lists, pipes and groups.
fn read(text: Text<'_, '_>, end: Option<char>, depth: usize) -> Option<Vec<(Joint, Command)>> {
    let mut list = Vec::new();
    let mut joint = Joint::Then;
    let mut open = Open::default();
    if depth > DEPTH_MAX {
        return None;
    }
    while let Some(char) = text.next() {
        match char {
            '\'' => {
                open.word.get_or_insert_default().extend(text.by_ref().take_while(|inner| *inner != '\''));
            }
            '"' => quoted(text, open.word.get_or_insert_default())?,
            '\\' => open.word.get_or_insert_default().extend(text.next().filter(|next| *next != '\n')),
            '`' => {
                text.by_ref().take_while(|inner| *inner != '`').for_each(drop);
                open.word.get_or_insert_default().push('$');
            }
            '$' => substitution(text, open.word.get_or_insert_default())?,
            '>' | '<' => redirection(text, char, &mut open)?,
            '#' if open.word.is_none() => while text.next_if(|inner| *inner != '\n').is_some() {},
            '(' if open.is_empty() => open.group = Some(read(text, Some(')'), depth + 1)?),
            '{' if open.is_empty() && text.peek().is_some_and(|next| next.is_whitespace()) => {
                open.group = Some(read(text, Some('}'), depth + 1)?);
            }
            '}' if end == Some('}') && open.is_empty() => return Some(list),
            ')' if end == Some(')') => {
                open.end(&mut list, joint, false)?;
                return Some(list);
            }
            '(' | ')' => return None,
            '&' if text.next_if_eq(&'>').is_some() => redirection(text, '>', &mut open)?,
            '&' | '|' | ';' | '\n' => {
                let is_double = text.next_if(|next| *next == char && char != '\n').is_some();
                if char == '|' {
                    text.next_if_eq(&'&');
                }
                let is_more = open.end(&mut list, joint, char == '&' && !is_double)?;
                let next = match (char, is_double) {
                    ('&', true) => Joint::And,
                    ('|', true) => Joint::Or,
                    ('|', false) => Joint::Pipe,
                    _ => Joint::Then,
                };
                // A line may be broken after `&&`, `||` and `|`.
                if is_more || next != Joint::Then {
                    joint = next;
                }
            }
            space if space.is_whitespace() => open.end_word(),
            other => open.word.get_or_insert_default().push(other),
        }
    }
    open.end(&mut list, joint, false)?;
    end.is_none().then_some(list)
}

/// The command that is being read.
#[derive(Default)]
struct Open {
    words: Vec<String>,
    word: Option<String>,
    group: Option<Vec<(Joint, Command)>>,
    /// The next word is a file that it is redirected to.
    skips_word: bool,
}

impl Open {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.word.is_none() && self.group.is_none()
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.skips_word)
        {
            self.words.push(word);
        }
    }

    /// Adds it to the list, if there is any. `None` where it begins more than a command.
    fn end(&mut self, list: &mut Vec<(Joint, Command)>, joint: Joint, in_background: bool) -> Option<bool> {
        self.end_word();
        let Open { words, group, .. } = std::mem::take(self);
        if words.first().is_some_and(|word| KEYWORDS.contains(&word.as_str()))
            || (group.is_some() && !words.is_empty())
        {
            return None;
        }
        let is_any = group.is_some() || !words.is_empty();
        match group {
            Some(_) if in_background => list.push((joint, Command::Group(Vec::new()))),
            Some(inner) => list.push((joint, Command::Group(inner))),
            None if is_any => list.push((joint, Command::Simple { words, in_background })),
            None => {}
        }
        Some(is_any)
    }
}

fn quoted(text: Text<'_, '_>, word: &mut String) -> Option<()> {
    loop {
        match text.next()? {
            '"' => return Some(()),
            '\\' => word.extend(text.next()),
            '$' => substitution(text, word)?,
            other => word.push(other),
        }
    }
}

/// What comes after `$` stands for something that nobody knows before.
fn substitution(text: Text<'_, '_>, word: &mut String) -> Option<()> {
    word.push('$');
    let close = match text.peek() {
        Some('(') => ')',
        Some('{') => '}',
        _ => return Some(()),
    };
    let open = text.next()?;
    if open == '(' {
        // What a command prints, and with it how that command ends.
        word.push(open);
    }
    let mut depth = 1;
    while depth > 0 {
        let char = text.next()?;
        depth += usize::from(char == open);
        depth -= usize::from(char == close);
    }
    Some(())
}

/// `> log`, `2>&1`, `< input`; where the text itself is the input, it is more than we read.
fn redirection(text: Text<'_, '_>, char: char, open: &mut Open) -> Option<()> {
    if char == '<' && text.peek() == Some(&'<') {
        return None;
    }
    // `2` in `2>&1` is no word of the command.
    if open.word.as_ref().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
        open.word = None;
    }
    open.end_word();
    while text.next_if(|next| ['>', '&', '|'].contains(next)).is_some() {}
    while text.next_if(|next| *next == ' ').is_some() {}
    open.skips_word = true;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(text: &str, asked: Asked) -> bool {
        let shell = ["sh", "-c", text].map(str::to_owned);
        cannot_fail(&shell, asked).is_none()
    }

    #[test]
    fn a_command_that_cannot_fail_checks_nothing() {
        for empty in [
            "true",
            ":",
            "exit 0",
            "exit",
            "make test; echo done",
            "make test || true",
            "make test; exit 0",
            "pytest | true",
            "true && true",
            "cd src; true",
            "# pytest",
            "",
            "/bin/true",
            "/usr/bin/env true",
            "timeout 5 true",
            "nohup true",
            "eval true",
            "test -n x",
            "python3 -c pass",
            "true || exit",
            "A=1 true",
            "make test\n:",
            "make test > log 2>&1 || true",
            "make test &> log; true",
            "make test | tee log",
            "make test 2>&1 | tail -5",
            "make test &",
            "(make test; true)",
            "{ make test; } || :",
            "sh -c 'make test || true'",
            "$PY -m pytest || true",
            "test 1 = 1",
            "[ 1 ]",
            "! false",
            "true || make test",
            "make test ||\n true",
            "echo \"$(make test)\"",
            "echo all tests pass",
            "set -x; make test; true",
            "make a && make b || true",
            "bash -c ':' && true",
        ] {
            assert!(!checks(empty, Asked::Exit), "{empty:?}");
        }
        for real in [
            "make test",
            "true && make test",
            "make test && echo done",
            "cd src && make",
            "test -f a",
            "./true",
            "exit 1",
            "grep -q x a || exit 1",
            "if true; then false; fi",
            "false || make test",
            "make test > log 2>&1",
            "make test | grep -q ok",
            "set -e; make test; echo done",
            "set -o pipefail; make test | tee log",
            "make test || exit 1; echo done",
            "test -f a || { echo missing; exit 1; }; echo fine",
            "(cd src && make)",
            "test \"$(cat a)\" = x",
            "[ \"$A\" = \"$A\" ]",
            "diff <(a) b",
            "cat <<END\nEND",
            "make a & make b",
            "sort a | uniq -c | diff - b",
            "test -f a && cat a | head -1",
            "make test; exit",
            "make test; exit $?",
            "! grep -q TODO a",
            "test -n \"$X\" && true",
            "make test || exit",
            "timeout 5 make test",
            "out=$(make test)",
            "set -e; out=$(make test); echo \"$out\"",
            "cat a | head -1 | grep x",
        ] {
            assert!(checks(real, Asked::Exit), "{real:?}");
        }
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let is_empty = |command: &[&str]| cannot_fail(&words(command), Asked::Exit).is_some();
        assert!(is_empty(&["/usr/bin/true"]) && is_empty(&["env", "true"]) && is_empty(&["bash", "-c", ":"]));
        assert!(!is_empty(&["cargo", "test"]) && !is_empty(&["bash", "-ec", "make test; echo done"]));
    }

    #[test]
    fn where_a_value_is_asked_for_to_print_it_is_something() {
        for real in ["echo 92.5", "echo $(make coverage)", "c=$(make coverage); echo $c", "make coverage"] {
            assert!(checks(real, Asked::Value), "{real:?}");
        }
        for empty in ["make coverage; echo 92.5", "true", "make coverage || true"] {
            assert!(!checks(empty, Asked::Value), "{empty:?}");
        }
    }
}
