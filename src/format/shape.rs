//! What a JSON file looks like, said once: the same description checks input (`check`) and becomes a
//! JSON Schema (`schema`).
//!
//! A shape knows one object and its fields. Rules between fields belong to the file's own module.

/// Longest string, in bytes: the size of a whole spec.
pub const STRING_BYTES_MAX: usize = 1 << 20;
/// Most items of an array: above it a list is a mistake, and reporting on it would be one too.
pub const ITEMS_MAX: usize = 100_000;
/// Longest span that a file may ask for, in seconds: a year. More is a slip of units.
pub const SPAN_MOST: f64 = 31_536_000.0;

/// The description of a JSON object.
#[derive(Debug)]
pub struct Shape {
    /// As `wk schema` calls it.
    pub name: &'static str,
    pub title: &'static str,
    pub fields: &'static [Field],
    pub unknown: Unknown,
}

/// One field of a shape.
#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    pub need: Need,
    pub about: &'static str,
}

/// Whether a field must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Required,
    Optional,
    /// Optional, and `null` means the same as absent.
    Nullable,
}

/// What happens with fields that the shape does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// A defect that suggests the nearest known name.
    Refuse,
    KeepWithWarning,
    KeepSilently,
}

/// A word of the protocol, and the others that mean it.
pub type Synonyms = (&'static str, &'static [&'static str]);

/// The protocol's own words.
pub fn own_words(words: &[Synonyms]) -> Vec<&'static str> {
    words.iter().map(|(own, _)| *own).collect()
}

/// The protocol's own word for what somebody wrote.
pub fn understood(words: &[Synonyms], text: &str) -> Option<&'static str> {
    let text = text.trim().to_lowercase();
    let means = |(own, others): &&Synonyms| *own == text || others.contains(&text.as_str());
    words.iter().find(means).map(|(own, _)| *own)
}

/// What a field may hold.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Text,
    /// Text with something besides white space in it.
    FilledText,
    /// A text by the rule of task keys.
    Id,
    /// A whole number; `2.0` is taken for `2`, with a warning.
    Integer {
        least: i64,
        most: i64,
    },
    /// A whole number in its own spelling: `2.0` is refused.
    Count {
        least: i64,
    },
    Number {
        least: f64,
    },
    /// Seconds, with a fraction where somebody needs one.
    Span {
        least: f64,
    },
    Boolean,
    /// A time in RFC 3339.
    Time,
    /// A time that is shown and never used: anything else is a warning.
    ShownTime,
    Texts,
    Ids,
    /// Paths that a request declares, by the rule of containment.
    Paths,
    /// Files that a result names. Absolute ones are judged where the root is known.
    Files,
    /// What went wrong: texts, or objects with a `message`.
    Messages,
    /// A program with its arguments.
    Command,
    List,
    OneOf(&'static [&'static str]),
    /// The same in any case of letters; beside each word what else is read as it.
    Loosely(&'static [Synonyms]),
    Object(&'static Shape),
    Objects(&'static Shape),
    /// An array whose every item is of one kind.
    Items(&'static Kind),
    /// An object under names of the writer's choice, whose every value is of one kind.
    Each(&'static Kind),
    Map,
    Any,
    /// Any of several kinds that differ in their JSON type.
    Either(&'static [Kind]),
}

impl Shape {
    pub fn knows(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }
}

impl Kind {
    /// Lists for which `null` is an empty list wherever they are not required.
    pub fn is_list(self) -> bool {
        matches!(
            self,
            Kind::Texts
                | Kind::Ids
                | Kind::Paths
                | Kind::Files
                | Kind::Messages
                | Kind::List
                | Kind::Objects(_)
                | Kind::Items(_)
        )
    }

    /// What the value must be, for messages: "must be …".
    pub fn expected(self) -> String {
        match self {
            Kind::Text => "a string".to_owned(),
            Kind::FilledText => "a non-empty string".to_owned(),
            Kind::Id => "an id".to_owned(),
            Kind::Integer { least, most: i64::MAX } | Kind::Count { least } => {
                format!("a whole number, at least {least}")
            }
            Kind::Integer { least, most } => format!("a whole number from {least} to {most}"),
            Kind::Number { least } => format!("a number, at least {least}"),
            Kind::Span { least } => format!("a number of seconds from {least} to {SPAN_MOST}"),
            Kind::Boolean => "true or false".to_owned(),
            Kind::Time | Kind::ShownTime => "a time in RFC 3339".to_owned(),
            Kind::Texts => "an array of strings".to_owned(),
            Kind::Ids => "an array of ids".to_owned(),
            Kind::Paths | Kind::Files => "an array of file paths".to_owned(),
            Kind::Messages => "an array of strings or of objects with a 'message'".to_owned(),
            Kind::Command => "an array of strings: a program and its arguments".to_owned(),
            Kind::List => "an array".to_owned(),
            Kind::OneOf(words) => format!("one of {}", words.join(", ")),
            Kind::Loosely(words) => format!("one of {}", own_words(words).join(", ")),
            Kind::Object(_) | Kind::Map => "an object".to_owned(),
            Kind::Objects(_) => "an array of objects".to_owned(),
            Kind::Items(kind) => format!("an array in which each item is {}", kind.expected()),
            Kind::Each(kind) => format!("an object in which each value is {}", kind.expected()),
            Kind::Any => "anything".to_owned(),
            Kind::Either(kinds) => kinds.iter().map(|kind| kind.expected()).collect::<Vec<_>>().join(", or "),
        }
    }
}

/// Shorthands that make the tables of fields readable.
pub const fn required(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, need: Need::Required, about }
}

pub const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, need: Need::Optional, about }
}

pub const fn nullable(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, need: Need::Nullable, about }
}
