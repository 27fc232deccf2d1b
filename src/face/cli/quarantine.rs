//! `wk quarantine list|show|retry`: what was refused, why, and another try with it. What is refused is never changed here:
//! you correct the file, and it goes back to where it was dropped.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Desk, Exit, Outcome, Trouble, terminal};
use crate::bus::disk::BusError;
use crate::bus::quarantine::{self, Refused};
use crate::bus::{Disk, Durability};
use crate::view::words::counted;

/// Lists what was refused, shows why, and gives it another try.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk quarantine list\n  wk quarantine show 3\n  wk quarantine retry 3       (after you have corrected the file)"
)]
pub struct Quarantine {
    #[command(subcommand)]
    verb: QuarantineVerb,
}

#[derive(Subcommand)]
enum QuarantineVerb {
    /// Lists refused files, each with its number and the first defect
    List,
    /// Shows all defects of a refused file, and where it lies
    Show {
        /// Its number, as `list` prints it
        number: u64,
    },
    /// Puts refused files back to where they were dropped, for the watcher to look at again
    Retry {
        /// Their numbers
        #[arg(required = true)]
        numbers: Vec<u64>,
    },
}

impl Quarantine {
    pub fn run(self, desk: &Desk) -> Outcome {
        let refused = quarantine::list(&desk.disk(), &desk.layout)?;
        match self.verb {
            QuarantineVerb::List => list(desk, &refused),
            QuarantineVerb::Show { number } => show(desk, find(&refused, number)?),
            QuarantineVerb::Retry { numbers } => {
                let all: Result<Vec<&Refused>, Trouble> =
                    numbers.iter().map(|number| find(&refused, *number)).collect();
                all?.into_iter().try_for_each(|one| retry(desk, one))?;
                Ok(Exit::Done)
            }
        }
    }
}

fn find(refused: &[Refused], number: u64) -> Result<&Refused, Trouble> {
    refused.iter().find(|one| one.number == number).ok_or_else(|| {
        Trouble::new(Exit::BadRequest, format!("there is no file {number} in quarantine"))
            .hint("`wk quarantine list` shows what there is")
    })
}

fn list(desk: &Desk, refused: &[Refused]) -> Outcome {
    if desk.json {
        super::print_json(&refused.iter().map(as_json).collect());
        return Ok(Exit::Done);
    }
    if refused.is_empty() {
        terminal::print("Nothing was refused on this bus.\n");
    }
    for one in refused {
        let first =
            one.defects.first().map_or_else(|| "no reason lies beside it".to_owned(), ToString::to_string);
        let more = match one.defects.len() {
            0 | 1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let at = one.at.map_or(String::new(), |at| format!(" at {}", at.rfc3339_seconds()));
        terminal::print(&format!("{}  {}{at}: {first}{more}\n", one.number, one.file));
    }
    Ok(Exit::Done)
}

fn show(desk: &Desk, one: &Refused) -> Outcome {
    if desk.json {
        super::print_json(&as_json(one));
        return Ok(Exit::Done);
    }
    terminal::print(&format!("{} was refused: {}\n", one.file, counted(one.defects.len(), "defect")));
    for defect in &one.defects {
        terminal::print(&format!("  {defect}\n    {}\n", defect.remedy));
    }
    terminal::print(&format!("It lies in {}\n", one.path.display()));
    terminal::print(&format!("Next: correct it there, then `wk quarantine retry {}`\n", one.number));
    Ok(Exit::Done)
}

/// Moves a file back. Nothing that lies there now is replaced.
fn retry(desk: &Desk, one: &Refused) -> Result<(), Trouble> {
    let disk = desk.disk();
    let refuse = |text: String| Trouble::new(Exit::Failure, format!("{}: {text}", one.file));
    let origin = desk.layout.bus().join(&one.file);
    let parent = origin.parent().map_or_else(PathBuf::new, std::path::Path::to_owned);
    if !one.is_from_the_bus() || disk.look(&parent).map_err(BusError::of("look at", &parent))?.is_none() {
        return Err(refuse(format!("{} is not there any more", parent.display()))
            .hint("its batch has ended; drop the file into inbox/ or into another batch by hand"));
    }
    if disk.look(&origin).map_err(BusError::of("look at", &origin))?.is_some() {
        return Err(refuse("another file lies there now".to_owned())
            .hint("wait until the watcher has taken it, or move it away"));
    }
    disk.rename(&one.path, &origin, Durability::Synced).map_err(BusError::of("move", &one.path))?;
    let reason = crate::bus::layout::reason_beside(&one.path);
    // Ours, and no longer true.
    if let Err(error) = disk.remove_file(&reason) {
        log::debug!("{}: {error}", reason.display());
    }
    if !desk.json {
        terminal::print(&format!("{} lies where it was dropped; the watcher looks at it again\n", one.file));
    }
    Ok(())
}

fn as_json(one: &Refused) -> serde_json::Value {
    serde_json::json!({
        "number": one.number, "file": one.file, "path": one.path, "refused_at": one.at, "defects": one.defects,
    })
}
