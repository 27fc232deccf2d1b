//! A field whose value may still go on in the next lines.
//!
//! Collects text and list items without a judgement on either; `fill` makes values of them.

use std::borrow::Cow;

use super::line::Line;
use crate::intake::draft::{Item, Spot};
use crate::intake::field::{Field, Shape};

/// Whose value is being collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner<'a> {
    Known(Field),
    /// A field by a name that is not its own.
    Synonym(Field, &'a str),
    Extra(&'a str),
}

/// What opened a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenedBy {
    /// A line with its name.
    Line,
    /// A heading of its own, so blank lines and paragraphs belong to it.
    Heading,
    /// No name: the section that the phase stands in did.
    Section,
}

#[derive(Debug)]
pub(super) struct OpenField<'a> {
    pub(super) owner: Owner<'a>,
    pub(super) line: u32,
    /// The column of its bullet, where it is itself a list item.
    pub(super) bullet: Option<usize>,
    pub(super) opened_by: OpenedBy,
    pub(super) text: Cow<'a, str>,
    pub(super) items: Vec<Item<'a>>,
    pub(super) item_indent: usize,
    /// The lines of code that follow are gates.
    pub(super) holds_commands: bool,
    /// A blank line has been seen since the last part of the value.
    pub(super) gap: bool,
}

impl<'a> OpenField<'a> {
    pub(super) fn new(owner: Owner<'a>, line: u32, bullet: Option<usize>, text: &'a str) -> Self {
        let text = Cow::Borrowed(text);
        Self {
            owner,
            line,
            bullet,
            opened_by: OpenedBy::Line,
            holds_commands: false,
            text,
            items: Vec::new(),
            item_indent: 0,
            gap: false,
        }
    }

    pub(super) fn section(owner: Owner<'a>, line: u32) -> Self {
        Self { opened_by: OpenedBy::Heading, ..Self::new(owner, line, None, "") }
    }

    pub(super) fn is_section(&self) -> bool {
        self.opened_by != OpenedBy::Line
    }

    fn shape(&self) -> Shape {
        match self.owner {
            Owner::Known(field) | Owner::Synonym(field, _) => field.shape(),
            Owner::Extra(_) => Shape::Sentences,
        }
    }

    /// Is its value a list that has begun, or can only be one?
    pub(super) fn is_a_list(&self) -> bool {
        !self.items.is_empty() || (self.text.is_empty() && self.shape() != Shape::Text)
    }

    pub(super) fn is_told_in_sentences(&self) -> bool {
        self.shape() == Shape::Sentences
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.items.is_empty()
    }

    /// Takes a heading below its own. Among sentences it is one of them; among names it is none.
    pub(super) fn nested_heading(&mut self, number: u32, title: &'a str) {
        self.gap = false;
        if matches!(self.owner, Owner::Extra(_)) && self.items.is_empty() {
            match self.text.is_empty() {
                true => self.text = Cow::Borrowed(title),
                false => push(&mut self.text, "\n\n", title),
            }
        } else if self.is_told_in_sentences() {
            self.item_indent = 0;
            self.items.push(Item { text: Cow::Borrowed(title), spot: Spot::Line(number) });
        }
    }

    pub(super) fn blank(&mut self) {
        self.gap = !self.text.is_empty() || !self.items.is_empty();
    }

    /// Takes a list item. False if the field cannot have one here: then it is over.
    pub(super) fn item(&mut self, line: &Line<'a>, text: &'a str) -> bool {
        let spot = Spot::Line(line.number);
        // As far out as the field's own bullet: its sibling.
        if self.bullet.is_some_and(|bullet| line.indent <= bullet) {
            return false;
        }
        if self.items.is_empty() {
            let is_more = self.shape() == Shape::Sentences && (self.is_section() || !self.gap);
            if !self.text.is_empty() && !is_more {
                return false;
            }
            self.item_indent = line.indent;
        } else if line.indent > self.item_indent + 1 && self.shape() == Shape::Sentences {
            self.more_of_item("\n  ", line.text);
            return true;
        }
        self.gap = false;
        self.items.push(Item { text: Cow::Borrowed(text), spot });
        true
    }

    /// Takes a line of prose. False if it belongs to something else.
    pub(super) fn prose(&mut self, line: &Line<'a>) -> bool {
        if !self.items.is_empty() {
            if self.gap && line.indent < self.item_indent.max(1) + 1 {
                return false;
            }
            self.gap = false;
            self.more_of_item(" ", line.text);
        } else if self.text.is_empty() {
            self.text = Cow::Borrowed(line.text);
        } else if !self.gap {
            // In a section that is kept as it is, a table stays a table.
            let is_kept = self.is_section() && matches!(self.owner, Owner::Extra(_));
            push(&mut self.text, if is_kept { "\n" } else { " " }, line.text);
        } else if self.is_section() && self.shape() != Shape::Names {
            self.gap = false;
            push(&mut self.text, "\n\n", line.text);
        } else {
            return false;
        }
        true
    }

    /// Takes the line that begins or ends code. Among names it is not one.
    pub(super) fn fence(&mut self, line: &Line<'a>) {
        let is_gates = matches!(
            self.owner,
            Owner::Known(Field::ValidationGates) | Owner::Synonym(Field::ValidationGates, _)
        );
        let language = line.text.trim_start_matches(['`', '~']).trim();
        let is_shell = ["", "sh", "bash", "shell", "console", "zsh"].contains(&language);
        if self.holds_commands {
            self.holds_commands = false;
        } else if is_gates && is_shell && self.text.is_empty() {
            self.holds_commands = true;
        } else if self.shape() != Shape::Names {
            self.code(line, line.text);
        }
    }

    /// Takes a line of code. Names stand one to a line; in sentences code keeps its lines.
    pub(super) fn code(&mut self, line: &Line<'a>, raw: &'a str) {
        if self.holds_commands {
            self.command(line);
        } else if self.shape() == Shape::Names {
            if !line.text.is_empty() && self.text.is_empty() {
                self.items.push(Item { text: Cow::Borrowed(line.text), spot: Spot::Line(line.number) });
            }
        } else if !self.items.is_empty() {
            self.more_of_item("\n", raw);
        } else if self.text.is_empty() {
            self.text = Cow::Borrowed(raw);
        } else if !self.gap || self.is_section() {
            push(&mut self.text, "\n", raw);
        }
    }

    /// Takes a line of shell among gates: a gate of its own, and a command if it is whole.
    fn command(&mut self, line: &Line<'a>) {
        let text = line.text.strip_prefix("$ ").unwrap_or(line.text);
        if text.is_empty() || text.starts_with('#') {
            return;
        }
        let is_whole = !text.ends_with('\\') && !text.contains('`');
        let text = if is_whole { format!("`{text}`").into() } else { Cow::Borrowed(text) };
        self.items.push(Item { text, spot: Spot::Line(line.number) });
    }

    fn more_of_item(&mut self, between: &str, text: &str) {
        if let Some(last) = self.items.last_mut() {
            push(&mut last.text, between, text);
        }
    }
}

fn push(to: &mut Cow<'_, str>, between: &str, text: &str) {
    let to = to.to_mut();
    to.push_str(between);
    to.push_str(text);
}
