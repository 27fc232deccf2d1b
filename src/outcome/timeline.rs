//! Who worked when: every attempt of a batch on one time axis, as text that fits a width, and as JSON.

use serde::Serialize;
use serde_json::Value;

use crate::model::clock::{Seconds, WallTime};
use crate::model::handoff::Work;
use crate::model::reason::Reason;
use crate::model::state::{BatchState, TaskState, Try};
use crate::view::escape::{elide, fit, one_line, width};
use crate::view::words::{Word, duration};

use super::task_result::{AttemptResult, attempt_result};

/// Narrower than this no axis can be read.
pub const WIDTH_MIN: usize = 40;
const NAME_COLUMN_MAX: usize = 32;
/// A space and two borders.
const BORDERS: usize = 3;

/// Title and scale.
const HEAD_LINES: usize = 2;

const OFFERED: char = '·';
const WORKED: char = '█';
const WORKED_IN_VAIN: char = '░';

#[derive(Serialize)]
struct Timeline<'a> {
    batch_id: Value,
    started_at: WallTime,
    finished_at: Option<WallTime>,
    tasks: Vec<Lane<'a>>,
    /// What was done for a handed-over batch beside its tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    works: Vec<WorkLane>,
}

#[derive(Serialize)]
struct WorkLane {
    work: &'static str,
    round: Option<u32>,
    began_at: WallTime,
    ended_at: Option<WallTime>,
}

#[derive(Serialize)]
struct Lane<'a> {
    key: &'a str,
    task_id: &'a str,
    phase_name: &'a str,
    stage: u32,
    status: &'static str,
    ended_at: Option<WallTime>,
    attempts: Vec<AttemptResult>,
}

/// The timeline as JSON.
pub fn timeline_json(state: &BatchState) -> Value {
    let timeline = Timeline {
        batch_id: state.batch.id.to_json(),
        started_at: state.accepted_at,
        finished_at: state.finished.map(|(_, at)| at),
        tasks: state.tasks.iter().map(lane).collect(),
        works: works(state).iter().map(work_lane).collect(),
    };
    serde_json::to_value(timeline).unwrap_or(Value::Null)
}

fn works(state: &BatchState) -> &[Work] {
    state.handoff.as_ref().map_or(&[], |handoff| &handoff.works)
}

fn work_lane(work: &Work) -> WorkLane {
    WorkLane { work: work_name(work), round: work.round, began_at: work.began_at, ended_at: work.ended_at }
}

fn work_name(work: &Work) -> &'static str {
    if work.round.is_none() { "prepare" } else { "merge" }
}

fn lane(task: &TaskState) -> Lane<'_> {
    Lane {
        key: task.spec.key.as_str(),
        task_id: &task.spec.task_id,
        phase_name: &task.spec.phase_name,
        stage: task.spec.stage,
        status: Word::of(&task.phase).written(),
        ended_at: task.ended_at,
        attempts: task.tries.iter().map(|one| attempt_result(task, one)).collect(),
    }
}

/// The timeline as text, at most `width` columns wide (and never narrower than can be read). `wall` is
/// where a batch that still runs ends for now.
pub fn timeline_text(state: &BatchState, wall: WallTime, columns: usize) -> String {
    let limit = columns.max(WIDTH_MIN);
    let names: Vec<String> = state.tasks.iter().map(|task| one_line(task.spec.label())).collect();
    let work_names = works(state).iter().map(|work| width(work_name(work)));
    let widest = names.iter().map(|name| width(name)).chain(work_names).max().unwrap_or(0);
    let name_column = widest.min(NAME_COLUMN_MAX).min(limit / 3);
    let axis = Axis {
        begin: state.accepted_at,
        end: last_moment(state, wall),
        cells: limit - name_column - BORDERS,
    };
    let mut lines = vec![
        elide(&format!("Batch {} Timeline ({})", state.batch.id, duration(axis.span())), limit),
        format!("{} {}", fit("", name_column), axis.scale()),
    ];
    for (task, name) in state.tasks.iter().zip(&names) {
        lines.push(format!("{} │{}│", fit(name, name_column), axis.draw(task)));
    }
    // Preparation stands above the tasks, as it comes before them, and the rounds of merging below.
    for work in works(state) {
        let line = format!("{} │{}│", fit(work_name(work), name_column), axis.draw_work(work));
        let at = if work.round.is_none() { HEAD_LINES } else { lines.len() };
        lines.insert(at, line);
    }
    lines.push(elide(
        &format!("{OFFERED} offered  {WORKED} worked  {WORKED_IN_VAIN} in vain  ✓ done  ✗ failed  ⊘ blocked"),
        limit,
    ));
    let mut text = lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

fn last_moment(state: &BatchState, wall: WallTime) -> WallTime {
    if !state.is_settled() {
        return wall.max(state.accepted_at);
    }
    let worked = works(state).iter().map(|work| work.ended_at.unwrap_or(wall));
    let last_end = state.tasks.iter().filter_map(|task| task.ended_at).chain(worked).max();
    last_end.unwrap_or(state.accepted_at).max(state.accepted_at)
}

/// Maps moments to cells.
struct Axis {
    begin: WallTime,
    end: WallTime,
    cells: usize,
}

impl Axis {
    fn span(&self) -> Seconds {
        Seconds(self.end.seconds_since(self.begin))
    }

    /// The beginning on the left, the end on the right.
    fn scale(&self) -> String {
        let end = format!("+{}", duration(self.span()));
        let gap = (self.cells + 2).saturating_sub(width("0s") + width(&end));
        format!("0s{}{end}", " ".repeat(gap))
    }

    fn cell(&self, at: WallTime) -> usize {
        let total = (self.end.0 - self.begin.0).max(1) as f64;
        let part = (at.0 - self.begin.0).max(0) as f64 / total;
        ((part * self.cells as f64) as usize).min(self.cells - 1)
    }

    fn draw(&self, task: &TaskState) -> String {
        let mut cells = vec![' '; self.cells];
        for one in &task.tries {
            self.draw_try(&mut cells, task, one);
        }
        if let Some(at) = task.ended_at.filter(|_| task.tries.is_empty()) {
            cells[self.cell(at)] = Word::of(&task.phase).glyph();
        }
        cells.into_iter().collect()
    }

    fn draw_work(&self, work: &Work) -> String {
        let mut cells = vec![' '; self.cells];
        let end = self.cell(work.ended_at.unwrap_or(self.end));
        cells[self.cell(work.began_at).min(end)..=end].fill(WORKED);
        cells.into_iter().collect()
    }

    fn draw_try(&self, cells: &mut [char], task: &TaskState, one: &Try) {
        let ended = one.ended_at.or(task.ended_at);
        let end = self.cell(ended.unwrap_or(self.end));
        let began = one.started.as_ref().map(|(at, _)| self.cell(*at));
        // Wall clocks are set back now and then: an end may read earlier than its beginning.
        cells[self.cell(one.offered_at).min(end)..=end].fill(OFFERED);
        if let Some(began) = began {
            let ink = if one.failed_because.is_some() { WORKED_IN_VAIN } else { WORKED };
            cells[began.min(end)..=end].fill(ink);
        }
        let is_over = ended.is_some();
        cells[end] = match &one.failed_because {
            Some(Reason::Cancelled { .. }) => Word::Cancelled.glyph(),
            Some(_) => Word::Failed.glyph(),
            None if is_over => Word::of(&task.phase).glyph(),
            None => cells[end],
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::Event;
    use crate::view::scene::{Scene, handed_over, merged_well, wall};

    fn scene() -> Scene {
        Scene::of(
            "1; 2a<-1; 3<-2a; 4",
            "0 offer 1\n10 start 1\n50 collect 1 claimed\n50 succeed 1
             50 offer 2a\n50 start 2a\n75 fail 2a silent retry\n78 offer 2a\n80 start 2a\n100 fail 2a silent
             100 block 3 2a\n0 offer 4\n0 start 4\n100 fail 4 timeout\n100 finish partial_success",
        )
    }

    #[test]
    fn attempts_stand_where_they_happened() {
        let text = timeline_text(&scene().state, wall(500.0), 51);
        let expected = "\
Batch 43 Timeline (1m 40s)
         0s                                 +1m 40s
Phase 1  │····████████████████✓                   │
Phase 2a │                    ░░░░░░░░░░✗·░░░░░░░✗│
Phase 3  │                                       ⊘│
Phase 4  │░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░✗│
· offered  █ worked  ░ in vain  ✓ done  ✗ failed…
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn preparation_and_merge_have_lanes_of_their_own() {
        let mut scene =
            Scene::with("1", handed_over, "0 preparing\n20 prepared\n20 done 1 observed\n80 merging 1");
        scene.happen(100.0, Event::Merged { round: 1, outcome: Box::new(merged_well()) });
        let text = timeline_text(&scene.state, wall(500.0), 50);
        let expected = "\
Batch 43 Timeline (1m 40s)
        0s                                 +1m 40s
prepare │█████████                               │
Phase 1 │        ████████████████████████✓       │
merge   │                                ████████│
· offered  █ worked  ░ in vain  ✓ done  ✗ failed…
";
        assert_eq!(text, expected, "\n{text}");
        let json = timeline_json(&scene.state);
        assert_eq!(json["works"][1]["round"], 1);
        assert_eq!(json["works"][0]["ended_at"], "2025-11-10T14:30:20.000Z");
    }

    #[test]
    fn a_timeline_fits_any_width() {
        let mut batch = crate::view::scene::batch("1; 2<-1");
        batch.tasks[0].phase_name = "漢字の名前がとても長い段階: x".into();
        let running = Scene::with("1", |given| *given = batch, "0 offer 1\n1 start 1");
        for limit in [40, 80, 200] {
            for scene in [&running, &scene()] {
                let text = timeline_text(&scene.state, wall(30.0), limit);
                assert!(text.lines().all(|line| width(line) <= limit), "{limit}\n{text}");
                let lanes: Vec<usize> = text.lines().filter(|line| line.ends_with('│')).map(width).collect();
                assert!(lanes.iter().all(|lane| *lane == limit), "{limit}\n{text}");
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_back_breaks_no_lane() {
        let scene = Scene::of("1", "50 offer 1\n60 start 1\n20 fail 1 silent");
        assert!(timeline_text(&scene.state, wall(0.0), 40).contains('✗'));
    }

    #[test]
    fn the_json_has_every_attempt() {
        let json = timeline_json(&scene().state);
        assert_eq!(json["tasks"][1]["attempts"][1]["reason_code"], "no_heartbeat");
        assert_eq!(json["tasks"][2]["status"], "blocked");
        assert_eq!(json["finished_at"], "2025-11-10T14:31:40.000Z");
    }
}
