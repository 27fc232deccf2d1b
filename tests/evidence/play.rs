//! Plays the scenes: all of one dialect and one demanded grade are one batch, on a bus of their own.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::crew::Stage;
use crate::play_handed;
use crate::told::{Dialect, GRADES, Kind, Outcome, Scene};

/// Batches that are played at the same time.
const SIDE_BY_SIDE: usize = 3;
const SETTINGS: &[&str] = &["heartbeat_timeout_seconds=80"];

/// Before what an agent does: where it is, and the words by which it reports.
const PRELUDE: &str = r#"cd "$WK_ROOT/@" || exit 9
# result STATUS OUTPUT [MORE FIELDS]
result() { printf '{"task_id":"%s","status":"%s","output":%s%s}' "$WK_TASK" "$1" "$2" "${3:+,$3}" > "$WK_RESULT"; }
"#;

/// In the place of a coding CLI: it does what the scene of its task says.
const STAND_IN: &str = "#!/bin/sh\ncat > /dev/null\nexec sh \"$WK_ROOT/acts/$WK_TASK.sh\"\n";

/// What one call of `wk` plays: the places of its scenes in the list of all.
struct Job {
    dialect: Dialect,
    grade: usize,
    scenes: Vec<usize>,
}

/// How every scene ended under each grade.
pub fn all(all: &[(Kind, &'static Scene)]) -> Vec<[Outcome; 3]> {
    let jobs = jobs(all);
    let next = AtomicUsize::new(0);
    let ended = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let work = || {
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let scenes: Vec<&Scene> = job.scenes.iter().map(|at| all[*at].1).collect();
                let outcomes = play(job.dialect, GRADES[job.grade], &scenes);
                let told = job.scenes.iter().map(|at| (*at, job.grade)).zip(outcomes);
                ended.lock().unwrap().extend(told);
            }
        };
        for worker in (0..SIDE_BY_SIDE).map(|_| scope.spawn(work)).collect::<Vec<_>>() {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    let ended = ended.into_inner().unwrap();
    let of = |at: usize, grade: usize| {
        let is_it = |((scene, demanded), _): &&((usize, usize), Outcome)| (*scene, *demanded) == (at, grade);
        ended.iter().find(is_it).expect("every scene was played").1.clone()
    };
    (0..all.len()).map(|at| [of(at, 0), of(at, 1), of(at, 2)]).collect()
}

fn jobs(all: &[(Kind, &'static Scene)]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for dialect in Dialect::ALL {
        let scenes = all.iter().enumerate().filter(|(_, (_, scene))| scene.dialect == dialect);
        let scenes: Vec<usize> = scenes.map(|(at, _)| at).collect();
        // What checks the whole is one for a batch.
        let size = if dialect == Dialect::Assignments { 1 } else { scenes.len().max(1) };
        for part in scenes.chunks(size) {
            jobs.extend((0..GRADES.len()).map(|grade| Job { dialect, grade, scenes: part.to_vec() }));
        }
    }
    jobs
}

fn play(dialect: Dialect, grade: &str, scenes: &[&Scene]) -> Vec<Outcome> {
    let stage = prepare(scenes);
    match dialect {
        Dialect::Plan => {
            make_repository(&stage);
            run_plan(&stage, scenes, grade, &["--verify"])
        }
        Dialect::PlanWithoutGates => run_plan(&stage, scenes, grade, &[]),
        Dialect::Spec => drop_specs(&stage, scenes, grade),
        Dialect::Outsider => be_outsiders(&stage, scenes, grade),
        Dialect::Request => play_handed::request(&stage, scenes, grade),
        Dialect::Assignments => play_handed::assignments(&stage, scenes[0], grade),
    }
}

/// A bus, and what is there before the batch.
fn prepare(scenes: &[&Scene]) -> Stage {
    let stage = Stage::new();
    for folder in ["acts", "bin", "transcripts"] {
        std::fs::create_dir(stage.file(folder)).unwrap();
    }
    stage.script("act.sh", "exec sh \"$WK_ROOT/acts/$WK_TASK.sh\"\n");
    stage.settings("[agents.actor]\ncommand = [\"sh\", \"act.sh\"]");
    stage.settings("[criteria]\nbranch_coverage = { shell = \"echo TOTAL 12%\" }");
    let mut clis: Vec<&str> = scenes.iter().map(|scene| scene.cli).filter(|cli| !cli.is_empty()).collect();
    clis.sort_unstable();
    clis.dedup();
    for cli in clis {
        stage.program(&format!("bin/{cli}"), STAND_IN);
        for story in ["plain", "refusal"] {
            let recorded = format!("testdata/transcripts/{cli}/{story}.jsonl");
            let played = stage.file(&format!("transcripts/{cli}-{story}.jsonl"));
            std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(recorded), played).unwrap();
        }
    }
    for scene in scenes {
        let act = format!("{PRELUDE}{}", scene.act);
        std::fs::write(stage.file(&format!("acts/{}.sh", scene.name)), scene.fill(&act)).unwrap();
        std::fs::create_dir_all(stage.file(&scene.place())).unwrap();
        if !scene.before.is_empty() {
            let made = shell(&stage.file(&scene.place()), &scene.fill(scene.before)).status().unwrap();
            assert!(made.success(), "{}: what is there before", scene.name);
        }
    }
    let path = format!("{}:{}", stage.file("bin").display(), std::env::var("PATH").unwrap());
    stage.with("PATH", &path)
}

/// A repository with one commit, for scenes that name commits.
fn make_repository(stage: &Stage) {
    let text = "git init -q; git add act.sh; git -c user.name=a -c user.email=a commit -q -m first";
    assert!(shell(stage.root(), text).status().unwrap().success(), "git makes a commit");
}

fn shell(dir: &Path, text: &str) -> Command {
    let mut command = Command::new("sh");
    command.current_dir(dir).args(["-e", "-c", text]);
    command
}

/// The phase of a scene, without who does it.
fn phase(scene: &Scene) -> Value {
    let mut phase = json!({
        "id": scene.name, "name": format!("Phase {}: {}", scene.name, scene.name), "goal": scene.tells,
        "complexity": "low", "estimated_hours": 0.1, "dependencies": [],
        "files_modified": scene.fill_all(scene.declares), "validation_gates": scene.fill_all(scene.gates),
    });
    for (field, value) in scene.more_fields() {
        phase[field] = value;
    }
    phase
}

fn write_plan(stage: &Stage, phases: &[Value]) -> String {
    let plan = json!({"batch_id": 7, "max_retries": 0, "phases": phases});
    let path = stage.file("plan.json");
    std::fs::write(&path, plan.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn run_plan(stage: &Stage, scenes: &[&Scene], grade: &str, more: &[&str]) -> Vec<Outcome> {
    let with_agent = |scene: &&Scene| {
        let mut phase = phase(scene);
        match scene.cli {
            "" => phase["command"] = json!(["sh", "act.sh"]),
            cli => phase["agent"] = json!(cli),
        }
        phase
    };
    let plan = write_plan(stage, &scenes.iter().map(with_agent).collect::<Vec<_>>());
    let verb: Vec<&str> =
        ["run", &plan, "-q", "--require", grade].into_iter().chain(more.iter().copied()).collect();
    let ran = stage.go(&verb, SETTINGS).ends();
    assert!(matches!(ran.code, Some(0 | 1 | 3)), "{}\n{}", ran.out, ran.err);
    of_tasks(&stage.ended("7"), scenes)
}

fn of_tasks(result: &Value, scenes: &[&Scene]) -> Vec<Outcome> {
    scenes.iter().map(|scene| Outcome::of_task(result, scene.name)).collect()
}

fn drop_specs(stage: &Stage, scenes: &[&Scene], grade: &str) -> Vec<Outcome> {
    for scene in scenes {
        let mut spec = json!({
            "task_id": scene.name, "goal": scene.tells, "agent": "actor", "max_retries": 0,
            "files_modified": scene.fill_all(scene.declares),
        });
        for (field, value) in scene.more_fields() {
            spec[field] = value;
        }
        stage.drop_spec_text("7", scene.name, &spec.to_string());
    }
    let require = format!("require={grade}");
    let settings: Vec<&str> = SETTINGS.iter().copied().chain([require.as_str()]).collect();
    stage.go(&["watch", "--exit-when-idle"], &settings).ends().exits(0);
    of_tasks(&stage.ended("7"), scenes)
}

/// Nobody is started: whoever works sees the spec, and writes files.
fn be_outsiders(stage: &Stage, scenes: &[&Scene], grade: &str) -> Vec<Outcome> {
    let plan = write_plan(stage, &scenes.iter().map(|scene| phase(scene)).collect::<Vec<_>>());
    let run = stage.go(&["run", &plan, "-q", "--require", grade], SETTINGS);
    let mut done: Vec<u32> = scenes.iter().map(|_| 0).collect();
    stage.wait_for("every outsider has done its part", || {
        for (scene, done) in scenes.iter().zip(&mut done) {
            let agent = stage.agent(&format!("7/{}", scene.name));
            let spec: Option<Value> =
                std::fs::read(agent.spec()).ok().and_then(|spec| serde_json::from_slice(&spec).ok());
            let attempt = spec.and_then(|spec| spec["attempt"].as_u64()).unwrap_or(0) as u32;
            if attempt > *done {
                *done = attempt;
                let mut command = shell(stage.root(), &format!(". ./acts/{}.sh", scene.name));
                command.env("WK_ROOT", stage.root()).env("WK_TASK", scene.name);
                command.env("WK_ATTEMPT", attempt.to_string()).env("WK_RESULT", agent.result());
                assert!(command.status().unwrap().success(), "{}", scene.name);
            }
        }
        run.has_ended().then_some(())
    });
    assert!(matches!(run.ends().code, Some(0 | 1 | 3)));
    of_tasks(&stage.ended("7"), scenes)
}
