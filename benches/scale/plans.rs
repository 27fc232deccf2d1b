//! Plans of any size, in each spelling, and the same graph as a build file.

use std::fmt::Write;

/// A graph of tasks, numbered from 1: what each one depends on.
pub struct Graph(Vec<Vec<usize>>);

/// How many tasks of the layer before each task of a layered graph depends on, at most.
const DEPENDENCIES_EACH: usize = 3;

impl Graph {
    /// No dependencies at all.
    pub fn wide(tasks: usize) -> Graph {
        Graph(vec![Vec::new(); tasks])
    }

    /// One task, and all others behind it.
    pub fn behind_one(tasks: usize) -> Graph {
        Graph((0..tasks).map(|task| if task == 0 { Vec::new() } else { vec![1] }).collect())
    }

    /// So many layers of equal width; each task depends on three of the layer before.
    pub fn layered(tasks: usize, layers: usize) -> Graph {
        let width = (tasks / layers).max(1);
        let mut random = Random(1);
        let dependencies = |task: usize| {
            let layer = task / width;
            if layer == 0 {
                return Vec::new();
            }
            let mut chosen: Vec<usize> =
                (0..DEPENDENCIES_EACH).map(|_| (layer - 1) * width + random.below(width) + 1).collect();
            chosen.sort_unstable();
            chosen.dedup();
            chosen
        };
        Graph((0..tasks).map(dependencies).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &Vec<usize>)> {
        self.0.iter().enumerate().map(|(index, dependencies)| (index + 1, dependencies))
    }

    /// As a plan in Markdown, each task with a file of its own.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (number, dependencies) in self.numbered() {
            let names = joined(dependencies, ", ", |it| format!("Phase {it}"));
            let names = if names.is_empty() { "None" } else { &names };
            let _ = write!(
                text,
                "### Phase {number}: Work item {number}\n\n**Goal**: Do the work of item {number}\n\
                 **Estimated Hours**: 0.5\n**Complexity**: low\n**Files Modified**: out/f{number}.txt\n\
                 **Dependencies**: {names}\n\n"
            );
        }
        text
    }

    /// As a plan in JSON, each task with a file of its own.
    pub fn json_with_files(&self) -> String {
        self.json_with(|number| format!(",\"files_modified\":[\"out/f{number}.txt\"]"))
    }

    /// As a plan in JSON whose tasks touch no files.
    pub fn json(&self) -> String {
        self.json_with(|_| ",\"files_modified\":[]".to_owned())
    }

    fn json_with(&self, more: impl Fn(usize) -> String) -> String {
        let phases = self.numbered().map(|(number, dependencies)| {
            let names = joined(dependencies, ",", |it| format!("\"{it}\""));
            format!(
                "{{\"id\":\"{number}\",\"name\":\"Work item {number}\",\"goal\":\"Do the work of item {number}\",\
                 \"estimated_hours\":0.5,\"complexity\":\"low\"{},\"dependencies\":[{names}]}}",
                more(number)
            )
        });
        format!("{{\"batch_id\": 7, \"phases\": [\n{}\n]}}\n", phases.collect::<Vec<_>>().join(",\n"))
    }

    /// As a build file for ninja.
    pub fn ninja(&self) -> String {
        let mut text = String::from("rule run\n  command = true $in > $out\n");
        for (number, dependencies) in self.numbered() {
            let files = joined(dependencies, " ", |it| format!("out/f{it}.txt"));
            let _ = writeln!(text, "build out/f{number}.txt: run {files}");
        }
        text
    }
}

fn joined(numbers: &[usize], between: &str, spell: impl Fn(usize) -> String) -> String {
    numbers.iter().map(|number| spell(*number)).collect::<Vec<_>>().join(between)
}

/// The same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}
