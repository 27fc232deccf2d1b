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
    Extra(&'a str),
}

#[derive(Debug)]
pub(super) struct OpenField<'a> {
    pub(super) owner: Owner<'a>,
    pub(super) line: u32,
    /// The column of its bullet, where it is itself a list item.
    pub(super) bullet: Option<usize>,
    /// It stands as a heading of its own, so blank lines and paragraphs belong to it.
    pub(super) is_section: bool,
    pub(super) text: Cow<'a, str>,
    pub(super) items: Vec<Item<'a>>,
    item_indent: usize,
    /// A blank line has been seen since the last part of the value.
    gap: bool,
}

impl<'a> OpenField<'a> {
    pub(super) fn new(owner: Owner<'a>, line: u32, bullet: Option<usize>, text: &'a str) -> Self {
        let text = Cow::Borrowed(text);
        Self { owner, line, bullet, is_section: false, text, items: Vec::new(), item_indent: 0, gap: false }
    }

    pub(super) fn section(owner: Owner<'a>, line: u32) -> Self {
        Self { is_section: true, ..Self::new(owner, line, None, "") }
    }

    fn shape(&self) -> Shape {
        match self.owner {
            Owner::Known(field) => field.shape(),
            Owner::Extra(_) => Shape::Sentences,
        }
    }

    /// Is its value a list that has begun, or can only be one?
    pub(super) fn is_a_list(&self) -> bool {
        !self.items.is_empty() || (self.text.is_empty() && self.shape() != Shape::Text)
    }

    pub(super) fn blank(&mut self) {
        self.gap = !self.text.is_empty() || !self.items.is_empty();
    }

    /// Takes a list item. False if the field cannot have one here: then it is over.
    pub(super) fn item(&mut self, line: &Line<'a>, text: &'a str) -> bool {
        let spot = Spot::Line(line.number);
        if self.items.is_empty() {
            let is_more = self.shape() == Shape::Sentences && (self.is_section || !self.gap);
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
            let is_kept = self.is_section && matches!(self.owner, Owner::Extra(_));
            push(&mut self.text, if is_kept { "\n" } else { " " }, line.text);
        } else if self.is_section && self.shape() != Shape::Names {
            self.gap = false;
            push(&mut self.text, "\n\n", line.text);
        } else {
            return false;
        }
        true
    }

    /// Takes the line that begins or ends code. Among names it is not one.
    pub(super) fn fence(&mut self, line: &Line<'a>) {
        let is_beside = self.text.is_empty() && self.items.is_empty();
        if self.shape() != Shape::Names && !is_beside {
            self.code(line, line.text);
        }
    }

    /// Takes a line of code. Names stand one to a line; in sentences code keeps its lines.
    pub(super) fn code(&mut self, line: &Line<'a>, raw: &'a str) {
        if self.shape() == Shape::Names {
            if !line.text.is_empty() && self.text.is_empty() {
                self.items.push(Item { text: Cow::Borrowed(line.text), spot: Spot::Line(line.number) });
            }
        } else if !self.items.is_empty() {
            self.more_of_item("\n", raw);
        } else if self.text.is_empty() {
            self.text = Cow::Borrowed(raw);
        } else if !self.gap || self.is_section {
            push(&mut self.text, "\n", raw);
        }
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
