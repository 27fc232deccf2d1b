//! `wk agent exec TASK -- COMMAND…`: a whole agent in one line. Beats while the command runs, and delivers the result by
//! how it ended. What it writes is what `wk agent beat` and `wk agent done` write.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::agent::{BeatVerb, DoneVerb, Place};
use super::{Desk, Exit, Outcome, Trouble, terminal};
use crate::agent::foreground::{Ended, Foreground};
use crate::agent::veil::Veil;
use crate::bus::layout;
use crate::bus::outsider::{self, Offer};
use crate::format::json;

/// The longest time between two beats: an attempt that is over should not be worked on much longer.
const BEAT_LONGEST_MS: u64 = 10_000;
const BEAT_SHORTEST_MS: u64 = 50;

/// Runs a command for a task: beats while it runs, and reports how it ended.
///
/// Exit code 0 is success; anything else is a failure, with the command's last lines as the reason. The command finds
/// its task in WK_BATCH, WK_TASK, WK_ATTEMPT, WK_ROOT and WK_SPEC, the spec's path, and may call `wk agent beat` and
/// `wk agent done` without a name: a result of its own counts instead. It has no terminal to read from. When the
/// attempt is over, because of a limit or because you ended it, the command is ended too.
///
/// Ends with 0 if the command succeeded, with 1 if it failed or its attempt was over.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  wk agent exec 43/2a#1 -- make check\n  wk agent exec \"$task\" --modified src/analyzer.rs -- ./work.sh"
)]
pub struct Exec {
    /// BATCH/TASK#ATTEMPT as `next` printed it, BATCH/TASK, or TASK where that is clear
    task: String,
    /// A file that the command creates; may be given several times
    #[arg(long, value_name = "FILE")]
    created: Vec<String>,
    /// A file that it modifies; may be given several times
    #[arg(long, value_name = "FILE")]
    modified: Vec<String>,
    /// A file that it removes on purpose; may be given several times
    #[arg(long, value_name = "FILE")]
    deleted: Vec<String>,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Exec {
    pub fn run(self, desk: &Desk) -> Outcome {
        let offer = find_offer(desk, &self.task)?;
        let name = format!("{}/{}#{}", offer.batch, offer.key, offer.attempt);
        let veil = Veil::new(&desk.settings);
        let mut over = None;
        let mut beat = |progress: Option<String>| {
            let progress = Some(progress.map_or_else(|| "started".to_owned(), |line| veil.text(&line)));
            match (BeatVerb { task: Some(name.clone()), progress, ..BeatVerb::default() }).run(desk) {
                Ok(_) => true,
                Err(trouble) if trouble.exit == Exit::Failure => {
                    over = Some(trouble);
                    false
                }
                // The disk may be well again at the next beat; the work need not suffer.
                Err(trouble) => {
                    terminal::tell(&format!("warning: no beat: {}", trouble.text));
                    true
                }
            }
        };
        let foreground = Foreground {
            command: &self.command,
            environment: environment(desk, &offer),
            every: beat_interval(desk, &offer),
            kill_grace: Duration::from_millis(desk.settings.kill_grace.millis()),
        };
        let ended = foreground.run(&mut beat);
        if let Some(trouble) = over
            && !outsider::has_delivered(&desk.disk(), &desk.layout, &offer)?
        {
            return Err(trouble.hint("the command was ended"));
        }
        let errors = match &ended {
            Ok(ended) => errors_of(&self.command, ended, &veil),
            Err(error) => vec![format!("{}: cannot be started: {error}", shown(&self.command))],
        };
        let was_interrupted = ended.as_ref().is_ok_and(|ended| ended.interrupted.is_some());
        self.report(desk, &offer, name, errors, was_interrupted)
    }

    fn report(
        self,
        desk: &Desk,
        offer: &Offer,
        name: String,
        errors: Vec<String>,
        was_interrupted: bool,
    ) -> Outcome {
        let failure = errors.first().cloned();
        if outsider::has_delivered(&desk.disk(), &desk.layout, offer)? {
            log::info!("{name}: the command delivered its result itself");
        } else {
            let is_success = failure.is_none();
            // What a failed command did not get to is no claim.
            let claimed = |files: Vec<String>| if is_success { files } else { Vec::new() };
            DoneVerb {
                task: Some(name.clone()),
                status: Some(if is_success { "success" } else { "failed" }.to_owned()),
                created: claimed(self.created),
                modified: claimed(self.modified),
                deleted: claimed(self.deleted),
                error: errors,
                ..DoneVerb::default()
            }
            .run(desk)?;
        }
        match failure {
            None => Ok(Exit::Done),
            Some(_) if was_interrupted => Ok(Exit::Interrupted),
            Some(failure) => Err(Trouble::new(Exit::Failure, format!("task {name} failed: {failure}")).hint(
                format!("`wk why {}` tells what follows from it", name.split('#').next().unwrap_or(&name)),
            )),
        }
    }
}

/// The attempt that is out: what is said from now on is said for it alone.
fn find_offer(desk: &Desk, name: &str) -> Result<Offer, Trouble> {
    let place = Place::find(desk, name, None)?;
    let batch = place.paths.dir().file_name().and_then(layout::batch_of_directory);
    let offered = match batch {
        Some(Ok(batch)) => outsider::read_offer(&desk.disk(), &batch, &place.paths, &place.key)?,
        _ => None,
    };
    let is_meant = |offer: &Offer| place.attempt.is_none_or(|said| said == offer.attempt);
    offered.filter(is_meant).ok_or_else(|| {
        Trouble::new(Exit::Failure, format!("task {name} is not offered to agents from outside"))
            .hint("`wk agent next` takes a task that is; `wk status` shows what runs")
    })
}

/// A third of the longest silence that the task allows.
fn beat_interval(desk: &Desk, offer: &Offer) -> Duration {
    let spec = json::parse_object(&offer.spec).unwrap_or_default();
    let silence = spec.get("heartbeat_timeout_seconds").and_then(serde_json::Value::as_f64);
    let silence_ms =
        silence.map_or(desk.settings.heartbeat_timeout.millis(), |seconds| (seconds * 1000.0) as u64);
    Duration::from_millis((silence_ms / 3).clamp(BEAT_SHORTEST_MS, BEAT_LONGEST_MS))
}

fn environment(desk: &Desk, offer: &Offer) -> Vec<(&'static str, OsString)> {
    let spec = std::path::absolute(&offer.spec_path).unwrap_or_else(|_| offer.spec_path.clone());
    let root: PathBuf = desk.layout.root().to_owned();
    vec![
        ("WK_BATCH", offer.batch.as_str().into()),
        ("WK_TASK", offer.key.as_str().into()),
        ("WK_ATTEMPT", offer.attempt.to_string().into()),
        ("WK_ROOT", root.into()),
        ("WK_SPEC", spec.into()),
    ]
}

/// Empty if all is well; else how it ended, and what it said last.
fn errors_of(command: &[OsString], ended: &Ended, veil: &Veil) -> Vec<String> {
    let Some(failure) = ended.failure() else { return Vec::new() };
    let said = ended.last_lines.iter().map(|line| veil.text(line));
    std::iter::once(format!("{}: {failure}", veil.text(&shown(command)))).chain(said).collect()
}

fn shown(command: &[OsString]) -> String {
    const CHARS_MAX: usize = 80;
    let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let line = words.join(" ").replace('\n', " ");
    match line.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
