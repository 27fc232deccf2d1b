//! What the tasks of a request are given: each is there, or a task before it makes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::draft::{Given, TaskDraft};
use super::outputs::tell_apart;
use super::paths::{self, Lying};
use super::workspace::objection_to_tree;
use super::{Reading, Words};
use crate::format::{join, shortened};
use crate::graph;
use crate::intake::surroundings::{Entry, EntryKind};
use crate::model::handoff::CODEBASE;

/// Reads `{name: path}`. Whether each exists is judged when all outputs are known.
pub(super) fn read(
    value: Option<&Value>,
    place: &str,
    workspace: Option<&Path>,
    reading: &mut Reading<'_>,
) -> Vec<Given> {
    let Some(Value::Object(named)) = value else { return Vec::new() };
    let mut inputs = Vec::with_capacity(named.len());
    for (name, text) in named.iter().filter_map(|(name, path)| Some((name, path.as_str()?))) {
        let place = join(place, name);
        if !reading.is_fit_to_show(name, &place) {
            continue;
        }
        if let Some(path) = one(text, &place, workspace, reading) {
            if name == CODEBASE
                && let Some(why) = objection_to_tree(&path, reading.around)
            {
                let message = format!("{} {why}, and agents may write in a codebase", path.display());
                reading.report.refuse("bad_codebase", &place, message, "name the directory of the project");
                continue;
            }
            inputs.push(Given { place, name: name.clone(), path });
        }
    }
    tell_apart(&inputs, "WK_INPUT_", reading);
    inputs
}

/// One path that is read. Relative ones are below the workspace.
pub(super) fn one(
    text: &str,
    place: &str,
    workspace: Option<&Path>,
    reading: &mut Reading<'_>,
) -> Option<PathBuf> {
    if text.trim().is_empty() {
        return None;
    }
    let path = match paths::read(text, Some(workspace.unwrap_or(Path::new("/")))) {
        Ok(path) => path,
        Err(why) => {
            let message = format!("{:?} {why}", shortened(text));
            reading.report.refuse("bad_path", place, message, "write the whole path, from '/' on");
            return None;
        }
    };
    let workspace = workspace?;
    let full = paths::output_in_full(&path, workspace).or_else(|| {
        let full = paths::input_in_full(&path, workspace).filter(|_| !reading.exists(&path))?;
        reading.exists(&full).then_some(full)
    });
    if let Some(full) = full {
        reading.report.warn(place, format!("{:?} is read as {}", shortened(text), full.display()));
        return Some(full);
    }
    Some(path)
}

/// Judges every input, now that all outputs are known.
pub(super) fn check(
    tasks: &[TaskDraft],
    dependencies: &[Vec<usize>],
    words: Words,
    reading: &mut Reading<'_>,
) {
    let mut makers: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
    for (index, task) in tasks.iter().enumerate() {
        for output in &task.outputs {
            makers.entry(&output.path).or_default().push(index);
        }
    }
    let mut kinship = Kinship::of(dependencies);
    for (reader, task) in tasks.iter().enumerate() {
        for input in task.inputs.iter().chain(&task.context) {
            let related = related(&input.path, &makers);
            let others: Vec<(usize, Lying)> =
                related.into_iter().filter(|(maker, _)| *maker != reader).collect();
            let kin = if others.is_empty() { Some(Kin::default()) } else { kinship.of_task(reader) };
            let Some(kin) = kin else {
                let message =
                    format!("{} and their dependencies are too many to check the inputs", words.many);
                return reading.report.refuse("too_many_dependencies", "", message, "split the request");
            };
            Reader { input, makers: &others, kin: &kin, tasks, words }.check(reading);
        }
    }
}

/// Who makes something that the path is, is in, or holds.
fn related(path: &Path, makers: &BTreeMap<&Path, Vec<usize>>) -> Vec<(usize, Lying)> {
    let around = path.ancestors().filter_map(|dir| Some((dir, makers.get(dir)?)));
    let from_here = makers.range(path..).take_while(|(made, _)| made.starts_with(path));
    let below = from_here.filter(|(made, _)| **made != path).map(|(made, who)| (*made, who));
    let all = around.chain(below);
    all.flat_map(|(made, who)| who.iter().map(move |&index| (index, paths::lying(path, made)))).collect()
}

/// Whom a task waits for, and who waits for it.
#[derive(Default)]
struct Kin {
    before: Vec<bool>,
    after: Vec<bool>,
}

/// Finds kin, within a budget that all tasks share: a request may come from anywhere.
struct Kinship<'g> {
    dependencies: &'g [Vec<usize>],
    dependents: Vec<Vec<usize>>,
    cost: usize,
    looks_left: usize,
}

impl<'g> Kinship<'g> {
    /// How many tasks and dependencies may be looked at: some tens of milliseconds.
    const LOOKS_MAX: usize = 50_000_000;

    fn of(dependencies: &'g [Vec<usize>]) -> Self {
        let mut dependents = vec![Vec::new(); dependencies.len()];
        for (task, needs) in dependencies.iter().enumerate() {
            needs.iter().for_each(|&needed: &usize| dependents[needed].push(task));
        }
        let cost = 2 * (dependencies.len() + dependencies.iter().map(Vec::len).sum::<usize>());
        Kinship { dependencies, dependents, cost, looks_left: Self::LOOKS_MAX }
    }

    /// `None` if the budget is used up.
    fn of_task(&mut self, task: usize) -> Option<Kin> {
        self.looks_left = self.looks_left.checked_sub(self.cost)?;
        let before = graph::all_before(self.dependencies, task);
        Some(Kin { before, after: graph::all_before(&self.dependents, task) })
    }
}

/// One input, with everybody else who makes something there.
struct Reader<'t> {
    input: &'t Given,
    makers: &'t [(usize, Lying)],
    kin: &'t Kin,
    tasks: &'t [TaskDraft],
    words: Words,
}

impl Reader<'_> {
    fn check(&self, reading: &mut Reading<'_>) {
        let Given { place, path, .. } = self.input;
        let (shown, one) = (path.display(), self.words.one.to_lowercase());
        let is_no_file = |entry: &Entry| entry.kind == EntryKind::Other && !entry.is_link;
        if reading.around.entry(path).as_ref().is_some_and(is_no_file) {
            // Whoever reads one may wait for ever, or never come to an end.
            let message = format!("{shown} is a pipe, a socket or a device");
            return reading.report.refuse("input_no_file", place, message, "name a file or a directory");
        }
        let exists = reading.exists(path);
        let is_made_before = self.makers.iter().any(|(maker, _)| self.kin.before[*maker]);
        for (maker, lying) in self.makers {
            if self.kin.before[*maker] || self.kin.after[*maker] {
                continue;
            }
            let name = &self.tasks[*maker].name;
            // A directory that is there is not made by whoever writes somewhere in it.
            if *lying == Lying::Around && (exists || is_made_before) {
                let message = format!("{shown} may change while it is read: {one} '{name}' writes in it");
                reading.report.warn(place, message);
                continue;
            }
            let message = format!("{shown} is made by {one} '{name}', and nothing says to wait for it");
            let remedy = format!("add the dependency: \"dependencies\": [{name:?}]");
            return reading.report.refuse("missing_dependency", place, message, remedy);
        }
        if !exists && !is_made_before {
            let message = format!("{shown} does not exist, and nothing before it makes it");
            let remedy = "put it there, correct the path, or let it depend on whoever makes it";
            reading.report.refuse("input_missing", place, message, remedy);
        }
    }
}
