//! `wk status [BATCH]`: the dashboard, now or following.

use clap::Args;

use super::follow::{Followed, Interrupt, Progress, follow, snapshot_of};
use super::{Desk, Exit, Outcome, Trouble, locate, terminal};
use crate::bus::lease::Lease;
use crate::bus::{RealDisk, misplaced};
use crate::view::dashboard::dashboard;
use crate::view::snapshot::Snapshot;
use crate::watcher::afterwards;

/// Shows the dashboard.
#[derive(Args)]
#[command(after_help = "Examples:\n  wk status\n  wk status 43 --follow\n  wk status --json")]
pub struct Status {
    /// Which batch; without it all that are under way, else the last one
    batch: Option<String>,
    /// Goes on until the batch ends
    #[arg(long, short)]
    follow: bool,
}

impl Status {
    pub fn run(self, desk: &Desk) -> Outcome {
        if self.follow {
            return self.follow(desk);
        }
        let found = match &self.batch {
            Some(name) => vec![locate::batch(desk, name)?],
            None => match locate::active(desk)? {
                none if none.is_empty() => locate::archived(desk)?.pop().into_iter().collect(),
                some => some,
            },
        };
        let disk = RealDisk::default();
        let mut shown = Vec::new();
        let mut broken = Vec::new();
        let is_waiting = found.iter().any(|one| !one.is_archived);
        for mut one in found {
            match one.load(&disk) {
                Ok((state, _)) => {
                    let snapshot = snapshot_of(&one, &state);
                    shown.push((one, snapshot));
                }
                Err(trouble) => broken.push((one.id.to_string(), trouble)),
            }
        }
        let ignored = misplaced::ignored_in_tasks(&disk, &desk.layout);
        if desk.json {
            let batches: Vec<_> = shown.iter().map(|(one, snapshot)| as_json(one, snapshot)).collect();
            let broken: Vec<_> = broken
                .iter()
                .map(|(id, why)| serde_json::json!({ "batch_id": id, "error": why.text }))
                .collect();
            super::print_json(&serde_json::json!({
                "watched_by": Lease::holder(&desk.layout), "batches": batches, "broken": broken, "ignored": ignored,
            }));
            return Ok(Exit::Done);
        }
        if shown.is_empty() && broken.is_empty() {
            terminal::print("Nothing has been run on this bus yet.\n");
        }
        for (one, snapshot) in &shown {
            terminal::print(&dashboard(snapshot, terminal::look()));
            one.told_undone().iter().for_each(|told| terminal::print(&format!("{told}\n")));
        }
        for (id, why) in &broken {
            terminal::tell_trouble(&format!("batch {id}: {}", why.text), &why.hints);
        }
        for ignored in &ignored {
            terminal::tell(&format!("warning: {ignored}"));
        }
        if is_waiting && Lease::holder(&desk.layout).is_none() {
            terminal::tell("hint: no watcher runs on this bus; `wk watch` goes on with it");
        }
        Ok(broken.first().map_or(Exit::Done, |(_, why)| why.exit))
    }

    fn follow(self, desk: &Desk) -> Outcome {
        let found = locate::batch_or_only(desk, self.batch.as_deref())?;
        let interrupt = Interrupt::listen(None)?;
        let mut progress = Progress::new(desk, false);
        match follow(desk, &found, &mut progress, &interrupt)? {
            Followed::Ended(status) => {
                if desk.json {
                    let mut found = locate::batch(desk, found.id.as_str())?;
                    let (state, _) = found.load(&RealDisk::default())?;
                    super::print_json(&snapshot_of(&found, &state).to_json());
                }
                Ok(Exit::Batch(status))
            }
            Followed::Interrupted => Ok(Exit::Interrupted),
            Followed::Removed => {
                Err(Trouble::new(Exit::Disk, format!("batch {} was removed while it ran", found.id)))
            }
            Followed::Unwatched => Err(Trouble::new(Exit::Failure, "no watcher runs on this bus any more")
                .hint("`wk watch` goes on with the batch")),
        }
    }
}

fn as_json(found: &locate::Found, snapshot: &Snapshot) -> serde_json::Value {
    let mut value = snapshot.to_json();
    if let Some(at) = afterwards::undone_at(&found.paths) {
        value["undone_at"] = at.rfc3339().into();
    }
    value
}
