//! The outline of a plan for people. However large the plan, it stays a page or two: what is left out is
//! counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{Outline, hours_words, policy_words};
use crate::model::agent::PROCESS;
use crate::model::{Batch, Task, TaskKey};

/// How much of each list is shown.
const TASKS_PER_STAGE_MAX: usize = 20;
const STAGES_MAX: usize = 40;
const NAMES_MAX: usize = 6;
const PATH_MAX: usize = 24;
const CONFLICTS_MAX: usize = 20;
/// Widest title, in columns.
const TITLE_WIDTH_MAX: usize = 44;

/// The outline as text.
pub fn text(batch: &Batch) -> String {
    let outline = Outline::of(batch);
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = headline(&mut out, &outline);
    let _ = stages(&mut out, &outline);
    let _ = critical_path(&mut out, &outline);
    let _ = agents(&mut out, batch);
    let _ = conflicts(&mut out, &outline);
    let _ = out_of_reach(&mut out, batch);
    let _ = warnings(&mut out, batch);
    out
}

/// Tasks that can only fail with the grade that is demanded.
fn out_of_reach(out: &mut String, batch: &Batch) -> std::fmt::Result {
    let tasks = super::out_of_reach(batch);
    if tasks.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nCannot reach {}, which is required:", batch.require)?;
    for task in tasks.iter().take(CONFLICTS_MAX) {
        writeln!(out, "  {}: {}", task.label, task.why)?;
    }
    match tasks.len().saturating_sub(CONFLICTS_MAX) {
        0 => Ok(()),
        more => writeln!(out, "  … {more} more"),
    }
}

fn headline(out: &mut String, outline: &Outline<'_>) -> std::fmt::Result {
    let tasks = counted(outline.batch.tasks.len(), "task");
    let stages = counted(outline.stage_count() as usize, "stage");
    let name = &outline.batch.source.name;
    // What was handed over comes without estimates.
    if outline.batch.tasks.iter().all(|task| task.estimated_hours.is_none()) {
        return writeln!(out, "{name}: {tasks} in {stages}");
    }
    let all = hours_words(outline.hours_in_all());
    let least = hours_words(outline.critical.total);
    writeln!(out, "{name}: {tasks} in {stages}; estimated {all} of work, at least {least} from start to end")
}

fn stages(out: &mut String, outline: &Outline<'_>) -> std::fmt::Result {
    let count = outline.stage_count() as usize;
    let mut by_stage: Vec<Vec<&Task>> = vec![Vec::new(); count];
    for task in &outline.batch.tasks {
        by_stage[(task.stage as usize).saturating_sub(1)].push(task);
    }
    let (head, tail) = shown(count, STAGES_MAX);
    let visible = || by_stage[..head].iter().chain(&by_stage[count - tail..]);
    let columns = Columns::of(visible().flat_map(|tasks| tasks.iter().take(TASKS_PER_STAGE_MAX)));
    for (index, tasks) in by_stage.iter().enumerate() {
        if index >= head && index < count - tail {
            if index == head {
                writeln!(out, "\n… {} more stages", count - head - tail)?;
            }
            continue;
        }
        writeln!(out, "\nStage {} ({})", index + 1, counted(tasks.len(), "task"))?;
        for task in tasks.iter().take(TASKS_PER_STAGE_MAX) {
            columns.line(out, task)?;
        }
        if tasks.len() > TASKS_PER_STAGE_MAX {
            writeln!(out, "  … {} more tasks", tasks.len() - TASKS_PER_STAGE_MAX)?;
        }
    }
    Ok(())
}

/// The widths at which tasks line up.
struct Columns {
    key: usize,
    title: usize,
    kind: usize,
    hours: usize,
}

impl Columns {
    fn of<'t>(tasks: impl Iterator<Item = &'t &'t Task>) -> Self {
        let mut columns = Columns { key: 0, title: 0, kind: 0, hours: 0 };
        for task in tasks {
            columns.key = columns.key.max(task.key.as_str().len());
            columns.title = columns.title.max(title_of(task).width().min(TITLE_WIDTH_MAX));
            columns.kind = columns.kind.max(task.kind.word().len());
            columns.hours = columns.hours.max(hours_of(task).len());
        }
        columns
    }

    fn line(&self, out: &mut String, task: &Task) -> std::fmt::Result {
        let title = cut(title_of(task), TITLE_WIDTH_MAX);
        let padding = self.title.saturating_sub(title.width());
        let Columns { key, kind, hours, .. } = *self;
        write!(out, "  {:key$}  {title}{:padding$}  {:kind$}", task.key, "", task.kind)?;
        write!(out, "  {:>hours$}", hours_of(task))?;
        if !task.dependencies.is_empty() {
            write!(out, "  after {}", names(&task.dependencies))?;
        }
        writeln!(out)
    }
}

/// Who does what; nothing where all tasks are for outsiders.
fn agents(out: &mut String, batch: &Batch) -> std::fmt::Result {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for crew in batch.tasks.iter().filter_map(|task| task.crew.as_ref()) {
        *counts.entry((&crew.agent, &crew.launcher)).or_default() += 1;
    }
    let served: usize = counts.values().sum();
    if served == 0 {
        return Ok(());
    }
    let mut parts: Vec<String> = counts
        .iter()
        .map(|((agent, launcher), count)| match *launcher {
            PROCESS => format!("{agent} ({})", counted(*count, "task")),
            launcher => format!("{agent} in {launcher} ({})", counted(*count, "task")),
        })
        .collect();
    let others = batch.tasks.len() - served;
    if others > 0 {
        parts.push(format!("outsiders ({})", counted(others, "task")));
    }
    writeln!(out, "\nAgents: {}", parts.join(", "))
}

fn critical_path(out: &mut String, outline: &Outline<'_>) -> std::fmt::Result {
    let path = &outline.critical.tasks;
    if path.is_empty() {
        return Ok(());
    }
    let (head, tail) = shown(path.len(), PATH_MAX);
    let mut labels: Vec<&str> = path.iter().map(|&index| outline.batch.tasks[index].label()).collect();
    let elided = format!("{} more", path.len() - head - tail);
    if head + tail < path.len() {
        labels.splice(head..path.len() - tail, [elided.as_str()]);
    }
    let total = match outline.critical.total {
        0.0 => String::new(),
        total => format!(" ({})", hours_words(total)),
    };
    writeln!(out, "\nCritical path{total}: {}", labels.join(" → "))
}

fn conflicts(out: &mut String, outline: &Outline<'_>) -> std::fmt::Result {
    let conflicts = &outline.batch.file_conflicts;
    if conflicts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nFile conflicts ({})", policy_words(outline.batch.on_file_conflict))?;
    for conflict in conflicts.iter().take(CONFLICTS_MAX) {
        writeln!(out, "  {}: {}", conflict.file, names(&conflict.tasks))?;
    }
    if conflicts.len() > CONFLICTS_MAX {
        writeln!(out, "  … {} more files", conflicts.len() - CONFLICTS_MAX)?;
    }
    Ok(())
}

fn warnings(out: &mut String, batch: &Batch) -> std::fmt::Result {
    // The conflicts have their own block; saying them twice would bury the rest.
    let said: Vec<String> = batch
        .file_conflicts
        .iter()
        .take(CONFLICTS_MAX)
        .map(|conflict| format!(" modify {};", conflict.file))
        .collect();
    let is_said = |warning: &str| said.iter().any(|phrase| warning.contains(phrase));
    let told: Vec<&String> = batch.warnings.iter().filter(|warning| !is_said(warning)).collect();
    if told.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nWarnings")?;
    told.iter().try_for_each(|warning| writeln!(out, "  {warning}"))
}

/// How many of a long list to show from its head, and from its tail.
fn shown(count: usize, most: usize) -> (usize, usize) {
    if count <= most { (count, 0) } else { (most * 3 / 4, most / 4) }
}

fn names(keys: &[TaskKey]) -> String {
    let mut names: Vec<&str> = keys.iter().take(NAMES_MAX).map(TaskKey::as_str).collect();
    let more = format!("{} more", keys.len().saturating_sub(NAMES_MAX));
    if keys.len() > NAMES_MAX {
        names.push(&more);
    }
    names.join(", ")
}

/// What follows the label.
fn title_of(task: &Task) -> &str {
    task.phase_name.split_once(':').map_or("", |(_, title)| title.trim())
}

fn hours_of(task: &Task) -> String {
    task.estimated_hours.map(hours_words).unwrap_or_default()
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The text within so many columns.
fn cut(text: &str, columns: usize) -> std::borrow::Cow<'_, str> {
    if text.width() <= columns {
        return text.into();
    }
    let mut width = 0;
    let fits = |c: &char| {
        width += c.width().unwrap_or(0);
        width < columns
    };
    text.chars().take_while(fits).chain(['…']).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{batch_of, phase, seed_batch};
    use super::*;

    #[test]
    fn the_outline_shows_stages_path_conflicts_and_warnings() {
        let expected = "\
plan.md: 5 tasks in 4 stages; estimated 12.5 h of work, at least 11 h from start to end

Stage 1 (1 task)
  1   Foundation          executor     8 h

Stage 2 (2 tasks)
  2a  Analyzer            executor  30 min  after 1
  2b  Tests \"fast\" <all>  executor     2 h  after 1

Stage 3 (1 task)
  3a  Review it           reviewer     1 h  after 2a

Stage 4 (1 task)
  4   Integration         executor     1 h  after 3a, 2b

Critical path (11 h): Phase 1 → Phase 2b → Phase 4

File conflicts (these will run one after the other)
  .ce/config.yml: 2a, 2b

Warnings
  Phase 'Foundation' will be ended after 12.5% of its estimate (8 h, timeout 3600s)
  Phase 'Tests \"fast\" <all>' will be ended after 50% of its estimate (2 h, timeout 3600s)
";
        assert_eq!(text(&seed_batch()), expected);
    }

    #[test]
    fn a_large_plan_stays_a_page_and_counts_what_it_leaves_out() {
        let wide =
            (0..500).map(|n| phase(&n.to_string(), &format!("Task {n}"), "1", &format!("f{n}"), "None"));
        let told = text(&batch_of(wide.collect()));
        assert!(told.contains("\n  … 480 more tasks\n") && told.lines().count() < 40, "{told}");
        let needs = |n: usize| if n == 0 { "None".to_owned() } else { (n - 1).to_string() };
        let deep =
            (0..500).map(|n| phase(&n.to_string(), &format!("Task {n}"), "1", &format!("f{n}"), &needs(n)));
        let told = text(&batch_of(deep.collect()));
        assert!(told.contains("\n… 460 more stages\n") && told.contains(" → 476 more → "), "{told}");
    }
}
