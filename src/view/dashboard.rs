//! The dashboard: a title, a table that lines up, and what wants attention below it.
//!
//! It fits the width and height that it is given. A batch with more tasks than rows shows what runs, then
//! what failed, then what comes next, and counts the rest.

use super::escape::{elide, elide_middle, fit, one_line, width};
use super::handoff::Stage;
use super::snapshot::{Counts, Snapshot, TaskView};
use super::words::{Word, batch_shown, counted, duration, elapsed};

/// Narrower than this no table can be read; it is drawn for this width then.
pub const WIDTH_MIN: usize = 40;
/// Title, two rules, header and its separator.
const FRAME_LINES: usize = 5;
/// Rows that the notes below the table must leave.
const ROWS_MIN: usize = 3;
/// Warnings below the table that are shown one by one.
const WARNINGS_MAX: usize = 3;
/// Before the further lines of one.
const WRAPPED_INDENT: &str = "  ";
const TASK_COLUMN_MIN: usize = 5;
const TASK_COLUMN_MAX: usize = 24;
const STATUS_COLUMN: usize = 11;
/// The seed's own width, kept where the terminal has it, so that short texts do not make the table jump.
const PROGRESS_COLUMN_USUAL: usize = 27;
const TIME_COLUMN_MIN: usize = 4;
/// The borders between the columns: three times a space, a line and a space.
const BORDERS: usize = 9;

/// How the dashboard is to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub width: usize,
    /// Lines in all; `None` shows every task.
    pub height: Option<usize>,
    pub has_colour: bool,
}

impl Look {
    pub fn plain(width: usize) -> Look {
        Look { width, height: None, has_colour: false }
    }
}

struct Columns {
    task: usize,
    progress: usize,
    time: usize,
}

impl Columns {
    fn total(&self) -> usize {
        self.task + STATUS_COLUMN + self.progress + self.time + BORDERS
    }
}

struct Row<'a> {
    task: &'a TaskView,
    key: String,
    progress: String,
    time: String,
}

/// Draws the dashboard; each line ends with a line break.
pub fn dashboard(snapshot: &Snapshot, look: Look) -> String {
    let limit = look.width.max(WIDTH_MIN);
    let mut notes = notes(snapshot, limit);
    // On a terminal of a few lines the table comes first.
    notes.truncate(look.height.map_or(usize::MAX, |height| height.saturating_sub(FRAME_LINES + ROWS_MIN)));
    let (shown, hidden) = choose(snapshot, look.height, notes.len());
    let rows: Vec<Row> = shown.into_iter().map(row).collect();
    let columns = columns(&rows, limit);
    let rule = "═".repeat(columns.total());
    let mut text = String::new();
    let mut line = |content: &str| {
        text.push_str(content.trim_end());
        text.push('\n');
    };
    line(&elide(&title(snapshot), limit));
    line(&rule);
    line(&cells(&columns, "Task", &fit("Status", STATUS_COLUMN), "Progress", "Time"));
    line(&separator(&columns));
    for row in &rows {
        let status = status_cell(row.task, look.has_colour);
        let progress = match row.task.waits_at {
            Some(_) => elide_middle(&row.progress, columns.progress),
            None => elide(&row.progress, columns.progress),
        };
        line(&cells(&columns, &row.key, &status, &progress, &row.time));
    }
    if let Some(counts) = hidden {
        let total = Word::ALL.into_iter().map(|word| counts.of(word)).sum();
        line(&elide(&format!("… and {} more: {}", super::words::grouped(total), counts.told()), limit));
    }
    line(&rule);
    for note in notes {
        line(&elide(&one_line(&note), limit));
    }
    text
}

fn title(snapshot: &Snapshot) -> String {
    let id = one_line(snapshot.batch.as_str());
    let elapsed = elapsed(snapshot.elapsed);
    match snapshot.status {
        Some(status) => format!("Batch {id} {} ({elapsed} elapsed)", batch_shown(status)),
        None if snapshot.is_cancel_asked => format!("Batch {id} Cancelling ({elapsed} elapsed)"),
        None if snapshot.paused_by.is_some() => format!("Batch {id} Paused ({elapsed} elapsed)"),
        None if snapshot.stage == Some(Stage::AwaitingResolution) => {
            format!("Batch {id} Awaits You ({elapsed} elapsed)")
        }
        None => format!("Batch {id} Progress ({elapsed} elapsed)"),
    }
}

/// The tasks to show and, where they are not all, how many of each word are not.
fn choose(snapshot: &Snapshot, height: Option<usize>, notes: usize) -> (Vec<&TaskView>, Option<Counts>) {
    let space = height.map_or(usize::MAX, |height| height.saturating_sub(FRAME_LINES + notes));
    if snapshot.tasks.len() <= space {
        return (snapshot.tasks.iter().collect(), None);
    }
    let mut order: Vec<&TaskView> = snapshot.tasks.iter().collect();
    order.sort_by_key(|task| urgency(task));
    // One line is for the count of the rest.
    let hidden = order.split_off(space.saturating_sub(1).min(order.len()));
    let mut counts = Counts::default();
    hidden.iter().for_each(|task| counts.add(task.word));
    (order, Some(counts))
}

/// Smaller is shown first; within one number the plan's order stays.
fn urgency(task: &TaskView) -> u8 {
    match task.word {
        Word::Awaiting => 0,
        Word::InProgress => 1,
        Word::Failed => 2,
        Word::Queued if task.waits_at.is_some() || task.retry_in.is_some() => 3,
        Word::Cancelled | Word::Blocked => 4,
        Word::Queued => 5,
        Word::Completed => 6,
    }
}

fn row(task: &TaskView) -> Row<'_> {
    let time = match (task.elapsed, task.word) {
        (Some(span), _) => duration(span),
        (None, Word::Queued) => "0m".to_owned(),
        (None, _) => "-".to_owned(),
    };
    Row { task, key: one_line(&task.key), progress: one_line(&task.line()), time }
}

fn columns(rows: &[Row], limit: usize) -> Columns {
    let widest =
        |least: usize, measure: fn(&Row) -> usize| rows.iter().map(measure).max().unwrap_or(0).max(least);
    // A quarter of a narrow terminal at most: what a task is doing matters more than its whole name.
    let task = widest(TASK_COLUMN_MIN, |row| width(&row.key))
        .min(TASK_COLUMN_MAX)
        .min((limit / 4).max(TASK_COLUMN_MIN));
    let time = widest(TIME_COLUMN_MIN, |row| width(&row.time));
    let slack = limit.saturating_sub(task + STATUS_COLUMN + time + BORDERS);
    let progress = widest(PROGRESS_COLUMN_USUAL, |row| width(&row.progress)).min(slack);
    Columns { task, progress, time }
}

fn cells(columns: &Columns, task: &str, status: &str, progress: &str, time: &str) -> String {
    format!("{} │ {status} │ {} │ {time}", fit(task, columns.task), fit(progress, columns.progress))
}

fn separator(columns: &Columns) -> String {
    let bar = |width: usize| "─".repeat(width);
    format!(
        "{}┼{}┼{}┼{}",
        bar(columns.task + 1),
        bar(STATUS_COLUMN + 2),
        bar(columns.progress + 2),
        bar(columns.time + 1)
    )
}

fn status_cell(task: &TaskView, has_colour: bool) -> String {
    let cell = fit(task.word.shown(), STATUS_COLUMN);
    if !has_colour {
        return cell;
    }
    let colour = match task.word {
        Word::InProgress if task.is_stuck => "33",
        Word::InProgress => "36",
        Word::Awaiting => "35",
        Word::Completed => "32",
        Word::Failed => "31",
        Word::Blocked | Word::Cancelled => "33",
        Word::Queued => "2",
    };
    format!("\x1b[{colour}m{cell}\x1b[0m")
}

/// What wants attention, each in one line; a warning has as many as it needs.
fn notes(snapshot: &Snapshot, limit: usize) -> Vec<String> {
    let mut notes: Vec<String> = snapshot.stage_note.iter().cloned().collect();
    if let Some(by) = &snapshot.paused_by {
        notes.push(format!(
            "{by} paused it: nothing further begins, what runs goes on; `wk resume {}` lets it go on",
            snapshot.batch
        ));
    }
    let waiting = snapshot.waiting_for_outsiders().count();
    if waiting > 0 {
        let verb = if waiting == 1 { "waits" } else { "wait" };
        notes.push(format!(
            "{} {verb} for an agent: start one on the spec shown, or name one in settings",
            counted(waiting, "task")
        ));
    }
    if snapshot.late > 0 {
        notes.push(format!("{} put aside: too late", counted(snapshot.late, "result")));
    }
    let warnings: Vec<&String> = snapshot.batch_warnings.iter().chain(&snapshot.live_warnings).collect();
    let shown = if warnings.len() > WARNINGS_MAX { WARNINGS_MAX - 1 } else { warnings.len() };
    notes.extend(warnings[..shown].iter().flat_map(|warning| wrapped(&format!("warning: {warning}"), limit)));
    if warnings.len() > shown {
        notes.push(format!("and {}", counted(warnings.len() - shown, "further warning")));
    }
    notes
}

/// A text in lines that fit, broken between words.
fn wrapped(text: &str, limit: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let shown = elide_middle(word, limit.saturating_sub(WRAPPED_INDENT.len()));
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(&shown) <= limit => {
                line.push(' ');
                line.push_str(&shown);
            }
            Some(_) => lines.push(format!("{WRAPPED_INDENT}{shown}")),
            None => lines.push(shown),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::Event;
    use crate::view::scene::{Scene, conflicted, handed_over, tick, wall};
    use crate::view::snapshot::{Live, LiveTask};

    fn drawn(scene: &Scene, live: &Live, seconds: f64, look: Look) -> String {
        dashboard(&Snapshot::of(&scene.state, live, tick(seconds), wall(seconds)), look)
    }

    fn progress(texts: &[(usize, &str)]) -> Live {
        let mut live = Live::default();
        for (ix, text) in texts {
            let task = LiveTask { progress: Some((*text).to_owned()), ..LiveTask::default() };
            live.tasks.insert(*ix, task);
        }
        live
    }

    /// Every border stands in the same columns, and nothing is wider than the terminal.
    fn check_lines_up(text: &str, limit: usize) {
        let borders = |line: &str| -> Vec<usize> {
            let is_border = |c: char| matches!(c, '│' | '┼');
            line.char_indices().filter(|(_, c)| is_border(*c)).map(|(at, _)| width(&line[..at])).collect()
        };
        let rows: Vec<Vec<usize>> = text.lines().map(borders).filter(|found| found.len() == 3).collect();
        assert!(rows.len() > 2 && rows.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
        assert!(text.lines().all(|line| width(line) <= limit), "wider than {limit}:\n{text}");
    }

    #[test]
    fn the_dashboard_is_drawn_as_the_plan_dialect_draws_it() {
        let scene = Scene::of("1; 2a; 2b<-2a; 3<-2b", "0 offer 1\n720 start 1\n0 offer 2a\n780 start 2a");
        let live = progress(&[(0, "Step 3 of 5: Creating temps"), (1, "Analyzing dependencies")]);
        let expected = "\
Batch 43 Progress (15min elapsed)
════════════════════════════════════════════════════════
Task  │ Status      │ Progress                    │ Time
──────┼─────────────┼─────────────────────────────┼─────
1     │ IN_PROGRESS │ Step 3 of 5: Creating temps │ 3m
2a    │ IN_PROGRESS │ Analyzing dependencies      │ 2m
2b    │ QUEUED      │ Waiting for Phase 2a        │ 0m
3     │ QUEUED      │ Waiting for Phase 2b        │ 0m
════════════════════════════════════════════════════════
";
        assert_eq!(drawn(&scene, &live, 900.0, Look::plain(80)), expected);
    }

    #[test]
    fn the_table_lines_up_at_any_width_and_in_any_script() {
        let scene = Scene::of(
            "1; a-very-long-key-that-nobody-would-want-to-type-twice; 3<-1; 4",
            "0 offer 1
             0 start 1
             0 offer a-very-long-key-that-nobody-would-want-to-type-twice
             0 start a-very-long-key-that-nobody-would-want-to-type-twice
             0 offer 4
             0 start 4
             50 fail 4 broken",
        );
        let live = progress(&[
            (0, "分析中 👩‍🔬 é\u{301}: ステップ 2/5 を実行しています"),
            (1, "evil\x1b[2J\u{202e}\nnext"),
        ]);
        for limit in [40, 80, 200] {
            let text = drawn(&scene, &live, 4000.0, Look::plain(limit));
            check_lines_up(&text, limit);
            assert!(!text.contains('\x1b') && !text.contains('\u{202e}'));
        }
        check_lines_up(&drawn(&scene, &live, 4000.0, Look::plain(10)), WIDTH_MIN);
    }

    #[test]
    fn an_offered_task_says_where_its_spec_lies() {
        let scene = Scene::of("1", "0 offer 1");
        let mut live = Live::default();
        let path = ".ce/orchestration/tasks/batch-43/task-1.json";
        live.tasks.insert(0, LiveTask { spec_path: Some(path.into()), ..LiveTask::default() });
        let wide = drawn(&scene, &live, 5.0, Look::plain(120));
        assert!(wide.contains(&format!("no agent yet: {path}")), "{wide}");
        assert!(wide.contains("1 task waits for an agent"), "{wide}");
        let narrow = drawn(&scene, &live, 5.0, Look::plain(60));
        assert!(narrow.contains("…") && narrow.contains("task-1.json"), "{narrow}");
    }

    #[test]
    fn ten_thousand_tasks_fit_the_terminal_with_what_runs_and_fails_on_top() {
        let graph: Vec<String> = (0..10_000).map(|n| format!("t{n}")).collect();
        let scene = Scene::of(
            &graph.join(";"),
            "0 done t1 claimed
             0 offer t5000
             0 start t5000
             0 offer t9000
             9 fail t9000 silent",
        );
        for height in [6, 8, 24, 50] {
            let look = Look { width: 80, height: Some(height), has_colour: false };
            let text = drawn(&scene, &Live::default(), 60.0, look);
            assert_eq!(text.lines().count(), height, "{text}");
        }
        let look = Look { width: 80, height: Some(24), has_colour: false };
        let text = drawn(&scene, &Live::default(), 60.0, look);
        let rows: Vec<&str> = text.lines().skip(4).collect();
        assert!(rows[0].starts_with("t5000") && rows[1].starts_with("t9000"), "{text}");
        assert!(text.contains("… and 9,982 more: 9,981 queued, 1 completed"), "{text}");
    }

    #[test]
    fn colour_comes_only_when_asked_and_moves_no_border() {
        let scene = Scene::of("1; 2", "0 done 1 claimed\n0 offer 2\n0 start 2");
        let plain = drawn(&scene, &Live::default(), 70.0, Look::plain(80));
        let look = Look { has_colour: true, ..Look::plain(80) };
        let coloured = drawn(&scene, &Live::default(), 70.0, look);
        assert!(!plain.contains('\x1b') && coloured.contains("\x1b[32mCOMPLETED"));
        let codes = ["\x1b[32m", "\x1b[36m", "\x1b[0m"];
        let stripped = codes.iter().fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(stripped, plain);
    }

    #[test]
    fn a_handed_over_batch_says_in_one_line_what_is_done_beside_its_tasks() {
        let mut scene = Scene::with("1", handed_over, "0 preparing");
        let text = drawn(&scene, &Live::default(), 1.0, Look::plain(80));
        assert!(text.contains("QUEUED      │ Waiting for the workspace"), "{text}");
        assert!(text.contains("\nPreparing the workspace: no agent begins before it stands\n"), "{text}");
        scene.play("1 prepared\n1 done 1 observed\n61 merging 1");
        let text = drawn(&scene, &Live::default(), 61.0, Look::plain(80));
        assert!(text.ends_with("═\nMerging what the agents made\n"), "{text}");
        scene.happen(62.0, Event::Merged { round: 1, outcome: Box::new(conflicted()) });
        let text = drawn(&scene, &Live::default(), 62.0, Look::plain(80));
        assert!(text.starts_with("Batch 43 Awaits You"), "{text}");
        assert!(text.ends_with("1 conflict waits for you: code/app.py; wk resolve 43\n"), "{text}");
    }

    #[test]
    fn attempts_and_reasons_are_in_the_table() {
        let scene = Scene::of(
            "1; 2<-1; 3",
            "0 offer 1\n0 fail 1 silent retry\n4 offer 1\n5 start 1
             0 offer 3\n0 start 3\n9 fail 3 timeout",
        );
        let text = drawn(&scene, &progress(&[(0, "Step 1")]), 60.0, Look::plain(80));
        assert!(text.contains("attempt 2 of 3 · Step 1"), "{text}");
        assert!(text.contains("FAILED      │ exceeded 3600s timeout"), "{text}");
    }
}
