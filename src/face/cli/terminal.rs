//! Where text meets the terminal: printing that survives a closed pipe, and a dashboard that redraws itself.

use std::io::{self, IsTerminal, Write};

use crate::view::dashboard::Look;

/// Prints to standard output. A reader that has gone away is no error of ours.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// Prints to standard error.
pub fn tell(text: &str) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{text}");
}

/// Tells what went wrong, as `error: …` and `hint: …`.
pub fn tell_trouble(text: &str, hints: &[String]) {
    tell(&format!("error: {text}"));
    for hint in hints {
        tell(&format!("hint: {hint}"));
    }
}

/// Whether people look at standard output.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether another program can have the terminal for its own.
pub fn can_be_taken_over() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// How a dashboard fits the present terminal.
pub fn look() -> Look {
    const WIDTH_WITHOUT_TERMINAL: usize = 80;
    // Two lines stay free for the prompt and for what comes below.
    const LINES_KEPT_FREE: usize = 2;
    match terminal_size::terminal_size() {
        Some((width, height)) if is_terminal() => Look {
            width: usize::from(width.0),
            height: Some(usize::from(height.0).saturating_sub(LINES_KEPT_FREE).max(10)),
            has_colour: std::env::var_os("NO_COLOR").is_none(),
        },
        _ => Look::plain(WIDTH_WITHOUT_TERMINAL),
    }
}

/// A block of lines that is drawn over itself.
#[derive(Default)]
pub struct Canvas {
    drawn: usize,
}

impl Canvas {
    /// Replaces what was drawn last.
    pub fn draw(&mut self, text: &str) {
        let mut screen = String::with_capacity(text.len() + 64);
        if self.drawn > 0 {
            screen.push_str(&format!("\x1b[{}A\r", self.drawn));
        }
        for line in text.lines() {
            screen.push_str(line);
            screen.push_str("\x1b[K\n");
        }
        screen.push_str("\x1b[J");
        self.drawn = text.lines().count();
        print(&screen);
    }

    /// Leaves what was drawn and goes on below it.
    pub fn leave(&mut self) {
        self.drawn = 0;
    }
}
