//! What is generated from the definitions: JSON Schemas, shell completions, the manual page.

use clap::Args;
use clap_complete::Shell;

use super::{Exit, Outcome, Trouble, terminal};
use crate::format::schema;
use crate::model::settings::nearest;

/// Prints a JSON Schema, or lists them.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk schema\n  wk schema task-spec\n  wk schema result > result.schema.json"
)]
pub struct Schema {
    /// Which file's schema; without it the names are listed
    name: Option<String>,
}

impl Schema {
    pub fn run(self) -> Outcome {
        let all = schema::all();
        let Some(name) = self.name else {
            for (name, schema) in &all {
                let title = schema.get("title").and_then(|title| title.as_str()).unwrap_or_default();
                terminal::print(&format!("{name:<18} {title}\n"));
            }
            return Ok(Exit::Done);
        };
        if let Some((_, schema)) = all.iter().find(|(known, _)| *known == name) {
            super::print_json(schema);
            return Ok(Exit::Done);
        }
        let trouble = Trouble::new(Exit::BadRequest, format!("there is no schema '{name}'"));
        Err(match nearest(&name, all.iter().map(|(known, _)| *known)) {
            Some(near) => trouble.hint(format!("did you mean '{near}'?")),
            None => trouble.hint("`wk schema` lists them"),
        })
    }
}

/// Prints a shell's completions.
#[derive(Args)]
#[command(after_help = "Example:\n  wk completions bash > /etc/bash_completion.d/wk")]
pub struct Completions {
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "wk", &mut script);
        terminal::print(&String::from_utf8_lossy(&script));
        Ok(Exit::Done)
    }
}

/// Prints the manual page.
#[derive(Args)]
#[command(after_help = "Example:\n  wk man | man -l -")]
pub struct Man {}

impl Man {
    pub fn run(self) -> Outcome {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(super::command()).render(&mut page);
        rendered.map_err(|error| Trouble::new(Exit::Failure, error.to_string()))?;
        terminal::print(&String::from_utf8_lossy(&page));
        Ok(Exit::Done)
    }
}
