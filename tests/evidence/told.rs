//! A scene as data, and how its task ended: what the tables of scenes are written in.

use serde_json::Value;

use crate::scene::task;

pub const GRADES: [&str; 3] = ["claimed", "observed", "verified"];

/// What kind of agent the scene shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It says more than it did, and a machine can see that.
    Lie,
    /// It did the wrong thing where the right one was asked for: nobody sees that without a check.
    Unseen,
    Honest,
}

/// How the task comes to its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// A plan whose agents are started, and whose gates are run.
    Plan,
    /// The same without `--verify`.
    PlanWithoutGates,
    /// A dropped spec, for an agent of the settings.
    Spec,
    /// A plan whose agents nobody starts: they only write files.
    Outsider,
    Request,
    Assignments,
}

impl Dialect {
    pub const ALL: [Dialect; 6] = [
        Dialect::Plan,
        Dialect::PlanWithoutGates,
        Dialect::Spec,
        Dialect::Outsider,
        Dialect::Request,
        Dialect::Assignments,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Dialect::Plan => "plan",
            Dialect::PlanWithoutGates => "plan, without `--verify`",
            Dialect::Spec => "dropped spec",
            Dialect::Outsider => "outside agent",
            Dialect::Request => "execution request",
            Dialect::Assignments => "assignments",
        }
    }
}

/// One agent and what it does. `@` is the scene's own directory, in every field, as a path from the root.
pub struct Scene {
    /// Also the key of its task.
    pub name: &'static str,
    /// What the agent does, as a sentence.
    pub tells: &'static str,
    pub dialect: Dialect,
    /// What is there before the batch: a shell's text, run in the scene's directory.
    pub before: &'static str,
    /// Declared files of a plan or spec; of a request `NAME=FILE`, its outputs.
    pub declares: &'static [&'static str],
    /// Gates of a plan; of assignments the one command that checks the whole.
    pub gates: &'static [&'static str],
    /// More fields of phase, spec, entry or success criteria, as JSON.
    pub fields: &'static str,
    /// The coding CLI whose preset starts it.
    pub cli: &'static str,
    /// What the agent does: a shell's text, run in the scene's directory.
    pub act: &'static str,
    /// How it ends under each demanded grade: the grade of a success, or the code of a failure.
    pub ends: [&'static str; 3],
    /// How many attempts a success needs.
    pub attempts: usize,
}

/// What most scenes are: a plan that declares one file, which is there already.
pub const PLAN: Scene = Scene {
    name: "",
    tells: "",
    dialect: Dialect::Plan,
    before: "echo old > a.rs; echo other > b.rs",
    declares: &["@/a.rs"],
    gates: &[],
    fields: "{}",
    cli: "",
    act: "",
    ends: UNTOUCHED,
    attempts: 1,
};
pub const SPEC: Scene = Scene { dialect: Dialect::Spec, ..PLAN };
pub const OUTSIDER: Scene = Scene { dialect: Dialect::Outsider, ..PLAN };
/// An agent that is asked for one output.
pub const REQUEST: Scene =
    Scene { dialect: Dialect::Request, before: "", declares: &["note=note.md"], ..PLAN };
pub const ASSIGNMENTS: Scene = Scene { dialect: Dialect::Assignments, before: "", declares: &[], ..PLAN };

pub const UNTOUCHED: [&str; 3] = ["declared_untouched"; 3];
pub const MISSING: [&str; 3] = ["evidence_missing"; 3];
pub const REPORTED: [&str; 3] = ["agent_reported"; 3];
pub const CLAIMED: [&str; 3] = ["claimed", "below_required", "below_required"];
pub const OBSERVED: [&str; 3] = ["observed", "observed", "below_required"];
pub const VERIFIED: [&str; 3] = ["verified"; 3];

impl Scene {
    /// Where its files are, from the root.
    pub fn place(&self) -> String {
        match self.dialect {
            Dialect::Request => format!("ws/outputs/{}", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// A text of the scene with its directory in it.
    pub fn fill(&self, text: &str) -> String {
        text.replace('@', &self.place())
    }

    pub fn fill_all(&self, texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| self.fill(text)).collect()
    }

    pub fn more_fields(&self) -> serde_json::Map<String, Value> {
        serde_json::from_str(&self.fill(self.fields)).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// How a scene's task ended under one grade.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The grade of a success, or the code of a failure.
    pub end: String,
    attempts: usize,
    /// Its part of the batch result, for whom it surprises.
    story: String,
}

impl Outcome {
    /// From a batch result, by the scene's key.
    pub fn of_task(result: &Value, key: &str) -> Outcome {
        let task = task(result, key);
        let end = match task["status"].as_str() {
            Some("success") => &task["evidence"],
            _ => &task["reason_code"],
        };
        let attempts = task["attempts"].as_array().map_or(0, Vec::len);
        Outcome { end: word(end), attempts, story: tell(task) }
    }

    /// From a batch of its own: the grade of the whole, or why the first of its tasks failed.
    pub fn of_batch(result: &Value) -> Outcome {
        let tasks = result["results"].as_array().expect("a batch result lists its tasks");
        let failed = tasks.iter().find(|task| task["status"] != "success");
        let end = failed.map_or(&result["evidence"], |task| &task["reason_code"]);
        let attempts = tasks.iter().filter_map(|task| task["attempts"].as_array()).map(Vec::len).max();
        let story = tasks.iter().map(tell).collect::<Vec<_>>().join("\n");
        Outcome { end: word(end), attempts: attempts.unwrap_or(0), story }
    }

    /// What is wrong with it, if the scene was to end otherwise.
    pub fn objection(&self, scene: &Scene, demanded: &str) -> Option<String> {
        let at = GRADES.iter().position(|grade| *grade == demanded)?;
        let (wanted, name) = (scene.ends[at], scene.name);
        if self.end != wanted {
            let story = &self.story;
            return Some(format!("{name}, {demanded} demanded: {}, and not {wanted}\n{story}", self.end));
        }
        let is_success = GRADES.contains(&wanted);
        (is_success && self.attempts != scene.attempts).then(|| {
            format!("{name}, {demanded} demanded: {} attempts, and not {}", self.attempts, scene.attempts)
        })
    }
}

fn word(end: &Value) -> String {
    end.as_str().unwrap_or("?").to_owned()
}

fn tell(task: &Value) -> String {
    let findings = task["findings"].as_array().cloned().unwrap_or_default();
    let lines: Vec<String> = findings.iter().map(|one| format!("    {one}")).collect();
    format!("    {}: {} {}\n{}", task["key"], task["status"], task["reason"], lines.join("\n"))
}
