//! The batches of a seed: graphs, limits, and the way in which each comes to the bus.

use serde_json::{Value, json};
use watchkeeper::model::{Seconds, Settings};

use super::fault::{Fault, Menu};
use super::random::Random;

/// How a batch comes to the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Handed to the watcher.
    ByHand,
    /// Dropped into the inbox.
    Inbox,
    /// Specs dropped into a directory of their own.
    Specs,
    /// One spec, straight into `tasks/`.
    Loose,
}

#[derive(Debug, Clone)]
pub struct PlannedTask {
    pub key: String,
    pub task_id: String,
    pub dependencies: Vec<usize>,
    /// In an open batch: a dependency whose spec never comes.
    pub waits_in_vain: bool,
    pub files: Vec<String>,
    pub max_retries: u32,
    /// When its spec is dropped, in an open batch.
    pub dropped_at: u64,
}

#[derive(Debug, Clone)]
pub struct PlannedBatch {
    pub id: String,
    pub way: Way,
    pub asked_at: u64,
    pub tasks: Vec<PlannedTask>,
    pub parallel_limit: Option<u32>,
}

impl PlannedBatch {
    pub fn task(&self, key: &str) -> Option<usize> {
        self.tasks.iter().position(|task| task.key == key)
    }

    /// As a plan in JSON.
    pub fn request(&self) -> Vec<u8> {
        let phases: Vec<Value> = self
            .tasks
            .iter()
            .map(|task| {
                let needs = task.dependencies.iter().map(|on| format!("Phase {}", self.tasks[*on].key));
                json!({
                    "name": format!("Phase {0}: Work {0}", task.key), "goal": "Do it", "complexity": "low",
                    "estimated_hours": 1, "files_modified": task.files,
                    "dependencies": needs.collect::<Vec<_>>(), "max_retries": task.max_retries,
                })
            })
            .collect();
        let mut plan = json!({"batch_id": self.id, "phases": phases});
        if let Some(limit) = self.parallel_limit {
            plan["parallel_limit"] = limit.into();
        }
        serde_json::to_vec(&plan).unwrap()
    }

    /// One task as a spec that anyone may drop.
    pub fn spec(&self, task: usize) -> Vec<u8> {
        let task = &self.tasks[task];
        let mut needs: Vec<String> = task.dependencies.iter().map(|on| self.tasks[*on].key.clone()).collect();
        if task.waits_in_vain {
            needs.push("never-dropped".to_owned());
        }
        let spec = json!({
            "task_id": task.task_id, "goal": "Do it", "files_modified": task.files,
            "dependencies": needs, "max_retries": task.max_retries,
        });
        serde_json::to_vec(&spec).unwrap()
    }
}

/// Everything about a seed that no fault changes.
#[derive(Debug, Clone)]
pub struct Story {
    pub settings: Settings,
    pub batches: Vec<PlannedBatch>,
}

impl Story {
    pub fn of(seed: u64, menu: &Menu, is_calm: bool) -> Story {
        let mut random = Random::stream(seed, "story", 0);
        let settings = settings(&mut random, menu, is_calm);
        let count = if random.chance(20) { 2 } else { 1 };
        let batches = (0..count).map(|number| batch(&mut random, &settings, number, is_calm)).collect();
        Story { settings, batches }
    }
}

fn settings(random: &mut Random, menu: &Menu, is_calm: bool) -> Settings {
    let heartbeat = if is_calm { 600.0 } else { random.between(4, 8) as f64 };
    let waits_for_start = !is_calm && (menu.has(Fault::NeverStarts) || random.chance(30));
    let mut settings = Settings {
        heartbeat_timeout: Seconds(heartbeat),
        heartbeat_interval: Seconds(heartbeat / 4.0),
        start_timeout: waits_for_start.then_some(Seconds(heartbeat + 2.0)),
        timeout: Seconds(if is_calm { 3600.0 } else { random.between(25, 60) as f64 }),
        close_after: Seconds(random.between(3, 6) as f64),
        settle: Seconds(random.between(1, 3) as f64 / 2.0),
        scan_interval: Seconds(random.between(2, 4) as f64 / 4.0),
        ..Settings::default()
    };
    settings.backoff.first = Seconds(0.3);
    settings.backoff.longest = Seconds(3.0);
    if !is_calm && random.chance(5) {
        settings.batch_timeout = Some(Seconds(random.between(20, 90) as f64));
    }
    if !is_calm && random.chance(5) {
        settings.stage_timeout = Some(Seconds(random.between(10, 60) as f64));
    }
    settings
}

fn batch(random: &mut Random, settings: &Settings, number: usize, is_calm: bool) -> PlannedBatch {
    // The order in which dropped specs join is the order in which they are seen: no two runs agree on it.
    let way = match random.below(if is_calm { 7 } else { 10 }) {
        0..3 => Way::ByHand,
        3..7 => Way::Inbox,
        7..9 => Way::Specs,
        _ => Way::Loose,
    };
    let size = match way {
        Way::Loose => 1,
        _ => (random.between(1, 16) + random.below(9)) as usize,
    };
    let gap = settings.close_after.millis() / 3;
    let mut dropped_at = random.below(2_000);
    let tasks: Vec<PlannedTask> = (0..size)
        .map(|ix| {
            dropped_at += if random.chance(30) { random.below(gap) } else { 0 };
            let wanted = if random.chance(40) { 0 } else { random.between(1, 3) };
            let mut dependencies: Vec<usize> =
                (0..wanted.min(ix as u64)).map(|_| random.below(ix as u64) as usize).collect();
            dependencies.sort_unstable();
            dependencies.dedup();
            let files = if random.chance(15) {
                vec![format!("shared-{number}-{}", random.below(3))]
            } else {
                Vec::new()
            };
            let (key, task_id) = match way {
                Way::Loose => (format!("alone{number}"), format!("alone{number}")),
                Way::Specs => (format!("{}", ix + 1), format!("job-{}", ix + 1)),
                _ => (format!("{}", ix + 1), format!("phase-{}", ix + 1)),
            };
            PlannedTask {
                key,
                task_id,
                dependencies,
                waits_in_vain: way == Way::Specs && ix > 0 && random.chance(3),
                files,
                max_retries: if is_calm { 2 } else { random.below(4) as u32 },
                dropped_at,
            }
        })
        .collect();
    let parallel_limit =
        (matches!(way, Way::ByHand | Way::Inbox) && random.chance(25)).then(|| random.between(1, 4) as u32);
    let id = match way {
        Way::Loose => format!("loose-alone{number}"),
        _ => format!("{}", 40 + number),
    };
    PlannedBatch { id, way, asked_at: random.below(3_000), tasks, parallel_limit }
}
