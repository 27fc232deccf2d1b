//! Judges a draft as a whole, and makes the plan of it: every rule that holds whatever the dialect.
//!
//! Checks first and all of them, so that a refusal tells everything; only a sound draft becomes tasks.

use std::borrow::Cow;
use std::collections::HashSet;

use super::draft::{Draft, Findings, Item, Phase, Slot};
use super::field::Field;
use super::say::{self, quote};
use super::{FILES_MAX, Plan, dependencies, value};
use crate::format::spec::NO_LINE_REMEDY;
use crate::graph;
use crate::model::batch::FileConflict;
use crate::model::declared::{DeclaredFiles, is_pattern, overlap};
use crate::model::{Gate, Limits, OnFileConflict, Seconds, Settings, Task, TaskKey, containment};

/// How many labels of a cycle are told; the rest is counted.
const CYCLE_LABELS_MAX: usize = 2_000;
/// How often a declared file is held against a pattern: some tens of milliseconds.
const COMPARISONS_MAX: usize = 100_000;

/// Makes a plan of the draft, or leaves the reasons in the findings.
pub(super) fn settle(draft: Draft<'_>, findings: &mut Findings) -> Option<Plan> {
    let Draft { own_id, settings, phases } = draft;
    let keys: Vec<Option<TaskKey>> =
        phases.iter().map(|phase| check_phase(phase, &settings, findings)).collect();
    let dependencies = dependencies::resolve(&phases, findings);
    let order = graph::order(&dependencies);
    let order = order.map_err(|cycles| say_cycles(&cycles, &phases, findings)).ok();
    let conflicts = match &order {
        Some(order) => file_conflicts(&phases, &dependencies, order, &settings, findings),
        None => Vec::new(),
    };
    if !findings.is_sound() {
        return None;
    }
    let (order, keys) = (order?, keys.into_iter().collect::<Option<Vec<TaskKey>>>()?);
    let file_conflicts = conflicts.into_iter().map(|(file, indexes)| {
        let tasks = indexes.into_iter().map(|index| keys[index].clone()).collect();
        FileConflict { file, tasks }
    });
    let file_conflicts = file_conflicts.collect();
    let mut tasks = Vec::with_capacity(phases.len());
    for (index, phase) in phases.into_iter().enumerate() {
        let needs = dependencies[index].iter().map(|&needed| keys[needed].clone()).collect();
        let limits = limits_of(&phase, &settings, findings);
        let (spot, name) = (phase.spot, phase.name().to_owned());
        let mut task =
            task_of(phase, keys[index].clone(), needs, order.stages[index], limits, settings.declared_files);
        // An agent that nobody knows was told of above.
        task.crew = settings.agents.crew_of(&task).ok().flatten();
        if let Some(agent) = settings.agents.without_line(&task) {
            let (name, agent) = (quote(&name), &agent.name);
            let message = format!(
                "Phase '{name}': agent '{agent}' runs a phase's own shell line, and this one has none"
            );
            findings.defect(spot, "no_shell_line", message, NO_LINE_REMEDY);
        }
        tasks.push(task);
    }
    if !findings.is_sound() {
        return None;
    }
    Some(Plan {
        own_id,
        settings,
        tasks,
        file_conflicts,
        warnings: Vec::new(),
        source_name: String::new(),
        handoff: None,
        is_dry_run: false,
        commands: Vec::new(),
    })
}

/// Checks what can be said of one phase alone. Its key, if it has a valid one.
fn check_phase(phase: &Phase<'_>, settings: &Settings, findings: &mut Findings) -> Option<TaskKey> {
    let key = match TaskKey::parse(&phase.label) {
        Ok(key) => Some(key),
        Err(defect) => {
            let message = format!("Phase '{}': id '{}' {defect}", quote(phase.name()), quote(&phase.label));
            findings.defect(phase.spot, "bad_id", message, "use a short label such as 2a");
            None
        }
    };
    if let Some(task_id) = phase.task_id()
        && let Err(defect) = TaskKey::parse(task_id)
        && key.is_some()
    {
        let message = format!("Phase '{}': task_id '{}' {defect}", quote(phase.name()), quote(task_id));
        findings.defect(phase.spot, "bad_id", message, "use a short name such as phase-2a");
    }
    check_required(phase, findings);
    check_agent(phase, settings, findings);
    check_files(phase, findings);
    key
}

fn check_required(phase: &Phase<'_>, findings: &mut Findings) {
    let required = [
        (Field::Goal, phase.goal.is_absent()),
        (Field::Complexity, phase.complexity.is_absent()),
        (Field::EstimatedHours, phase.estimated_hours.is_absent()),
        (Field::FilesModified, phase.files_modified.is_absent()),
        (Field::Dependencies, phase.dependencies.is_absent()),
    ];
    for (field, is_absent) in required {
        if is_absent {
            say::missing_field(findings, phase, field);
        }
    }
    for (field, slot) in [(Field::Goal, &phase.goal), (Field::Complexity, &phase.complexity)] {
        if let Slot::Given(text, spot) = slot
            && text.trim().is_empty()
        {
            let message = format!("Phase '{}': {} is empty", quote(phase.name()), field.word());
            findings.defect(*spot, "empty_field", message, "fill it in");
        }
    }
}

fn check_agent(phase: &Phase<'_>, settings: &Settings, findings: &mut Findings) {
    let Some(rare) = phase.rare() else { return };
    let name = quote(phase.name());
    if let Some(agent) = &rare.agent
        && let Err(unknown) = settings.agents.known(agent)
    {
        let remedy = match &unknown.nearest {
            Some(near) => format!("did you mean '{near}'? `wk init` shows how settings name agents"),
            None => "name it in settings as [agents.NAME], or take a preset".to_owned(),
        };
        findings.defect(phase.spot, "unknown_agent", format!("Phase '{name}': {unknown}"), &remedy);
    }
    let words = rare.command.iter().flatten().chain(&rare.shell);
    if words.into_iter().any(|word| word.contains('\0')) {
        let message = format!("Phase '{name}': its command contains a NUL, which no program can be given");
        findings.defect(phase.spot, "bad_command", message, "remove it");
    }
    if rare.command.is_some() && rare.shell.is_some() {
        let message = format!("Phase '{name}' has both a command and a shell line");
        findings.defect(phase.spot, "bad_command", message, "keep one of them");
    }
}

fn check_files(phase: &Phase<'_>, findings: &mut Findings) {
    let Slot::Given(files, spot) = &phase.files_modified else {
        return;
    };
    if files.len() > FILES_MAX {
        let message = format!(
            "Phase '{}' has {} files_modified; at most {FILES_MAX}",
            quote(phase.name()),
            files.len()
        );
        findings.defect(*spot, "too_many_files", message, "name the directory's files in several phases");
        return;
    }
    for file in files {
        if value::is_open(&file.text) || value::is_about_files(&file.text) {
            let name = quote(phase.name());
            let message = format!("Phase '{name}': files_modified '{}' names no file", quote(&file.text));
            let remedy = "name each file, a directory (`src/`) or a pattern (`src/**/*.rs`), or write None";
            findings.defect(file.spot, "path_not_contained", message, remedy);
            continue;
        }
        if let Err(rule) = containment::check_path(&file.text) {
            let message =
                format!("Phase '{}': files_modified '{}' {rule}", quote(phase.name()), quote(&file.text));
            findings.defect(file.spot, "path_not_contained", message, "name a file inside the work tree");
        }
    }
}

fn say_cycles(cycles: &[Vec<usize>], phases: &[Phase<'_>], findings: &mut Findings) {
    for cycle in cycles {
        let mut path = String::new();
        for &index in cycle.iter().take(CYCLE_LABELS_MAX) {
            path.push_str("Phase ");
            path.push_str(&quote(&phases[index].label));
            path.push_str(" → ");
        }
        if cycle.len() > CYCLE_LABELS_MAX {
            path.push_str(&format!("{} more → ", cycle.len() - CYCLE_LABELS_MAX));
        }
        let first = &phases[cycle[0]];
        let message = format!("Circular dependency: {path}Phase {}", quote(&first.label));
        let spot = match &first.dependencies {
            Slot::Given(_, spot) => *spot,
            Slot::Absent | Slot::Refused => first.spot,
        };
        findings.defect(
            spot,
            "circular_dependency",
            message,
            "each waits for the next; take one of these dependencies out",
        );
    }
}

fn file_conflicts(
    phases: &[Phase<'_>],
    dependencies: &[Vec<usize>],
    order: &graph::Order,
    settings: &Settings,
    findings: &mut Findings,
) -> Vec<(String, Vec<usize>)> {
    let no_files = Vec::new();
    let spellings: Vec<(usize, Cow<'_, str>)> = phases
        .iter()
        .enumerate()
        .flat_map(|(index, phase)| {
            let files = if let Slot::Given(files, _) = &phase.files_modified { files } else { &no_files };
            files.iter().map(move |file| (index, containment::plain_spelling(&file.text)))
        })
        .collect();
    let within = places_around(&spellings);
    let files = within.iter().map(|(index, file)| (*index, *file));
    let shared = graph::file_conflicts(dependencies, order, files);
    for conflict in &shared {
        say_conflict(conflict, phases, settings.on_file_conflict, findings);
    }
    shared.into_iter().map(|shared| (shared.file.to_owned(), shared.tasks)).collect()
}

/// Everything that is declared, and once more under the name of each declared directory or pattern that it lies in.
fn places_around<'f>(declared: &'f [(usize, Cow<'_, str>)]) -> Vec<(usize, &'f str)> {
    let names: HashSet<&str> = declared.iter().map(|(_, file)| file.as_ref()).collect();
    let mut patterns: Vec<&str> = names.iter().copied().filter(|name| is_pattern(name)).collect();
    patterns.sort_unstable();
    // Beyond that the watcher finds out as they come.
    patterns.truncate(COMPARISONS_MAX / declared.len().max(1));
    let mut places = Vec::with_capacity(declared.len());
    for (index, file) in declared {
        places.push((*index, file.as_ref()));
        let outer = file.match_indices('/').filter_map(|(at, _)| names.get(&file[..at]));
        places.extend(outer.map(|outer| (*index, *outer)));
        let meets = patterns.iter().filter(|pattern| *pattern != file && overlap(pattern, file));
        places.extend(meets.map(|pattern| (*index, *pattern)));
    }
    places
}

/// In the seed's words: `Phase 2a and Phase 2b both modify .ce/config.yml`.
fn say_conflict(
    shared: &graph::SharedFile<'_>,
    phases: &[Phase<'_>],
    policy: OnFileConflict,
    findings: &mut Findings,
) {
    const NAMED_MAX: usize = 8;
    let labels: Vec<String> =
        shared.tasks.iter().take(NAMED_MAX).map(|&index| format!("Phase {}", phases[index].label)).collect();
    let file = quote(shared.file);
    let who = match (labels.as_slice(), shared.tasks.len()) {
        ([first, second], 2) => format!("{first} and {second} both modify {file}"),
        (_, count) if count <= NAMED_MAX => format!("{} all modify {file}", labels.join(", ")),
        (_, count) => format!("{} and {} more all modify {file}", labels.join(", "), count - NAMED_MAX),
    };
    let spot = phases[shared.tasks[1]].spot;
    match policy {
        OnFileConflict::Refuse => {
            let remedy = "let one depend on the other, or set on_file_conflict to serialise";
            findings.defect(spot, "file_conflict", format!("{who}, and nothing orders them"), remedy);
        }
        OnFileConflict::Serialise => {
            findings.warning(spot, format!("{who}; they will run one after the other"));
        }
        OnFileConflict::Warn => findings.warning(spot, format!("{who}; they may run at the same time")),
    }
}

fn limits_of(phase: &Phase<'_>, settings: &Settings, findings: &mut Findings) -> Limits {
    let own = phase.rare().map(|rare| rare.limits).unwrap_or_default();
    let limits = Limits {
        timeout: own.timeout.map_or(settings.timeout, Seconds),
        heartbeat_timeout: own.heartbeat_timeout.map_or(settings.heartbeat_timeout, Seconds),
        heartbeat_interval: settings.heartbeat_interval,
        start_timeout: own.start_timeout.map_or(settings.start_timeout_or_default(), Seconds),
        start_timeout_was_set: own.start_timeout.is_some() || settings.start_timeout.is_some(),
        max_retries: own.max_retries.unwrap_or(settings.max_retries),
        stuck_after: own.stuck_after.map_or(settings.stuck_after, Seconds),
    };
    if let Slot::Given(hours, spot) = phase.estimated_hours
        && hours * 3600.0 > limits.timeout.0
    {
        let share = (limits.timeout.0 / (hours * 3600.0) * 1000.0).round() / 10.0;
        let name = quote(phase.name());
        let message = format!(
            "Phase '{name}' will be ended after {share}% of its estimate ({hours} h, timeout {})",
            limits.timeout
        );
        findings.warning(spot, message);
    }
    warn_of_short_span(phase, "heartbeat_timeout_seconds", own.heartbeat_timeout, &limits, findings);
    warn_of_short_span(phase, "stuck_after_seconds", own.stuck_after, &limits, findings);
    limits
}

/// Two beats must fit in, or a single late one decides.
fn warn_of_short_span(
    phase: &Phase<'_>,
    what: &str,
    own: Option<f64>,
    limits: &Limits,
    findings: &mut Findings,
) {
    let two_beats = 2.0 * limits.heartbeat_interval.0;
    if let Some(span) = own.filter(|span| *span < two_beats) {
        let name = quote(phase.name());
        let message = format!(
            "Phase '{name}': {what} {} is less than two beats ({})",
            Seconds(span),
            Seconds(two_beats)
        );
        findings.warning(phase.spot, message);
    }
}

fn task_of(
    mut phase: Phase<'_>,
    key: TaskKey,
    dependencies: Vec<TaskKey>,
    stage: u32,
    limits: Limits,
    policy: Option<DeclaredFiles>,
) -> Task {
    let rare = phase.take_rare();
    let label = &phase.label;
    let kind = rare.kind.unwrap_or_else(|| value::task_type_of(&phase.title));
    let plain = |item: Item<'_>| containment::plain_spelling(&item.text).into_owned();
    Task {
        task_id: rare.task_id.unwrap_or_else(|| ["phase-", label].concat()),
        phase_name: match phase.title.is_empty() {
            true => ["Phase ", label].concat(),
            false => ["Phase ", label, ": ", &phase.title].concat(),
        },
        kind,
        files_deleted: rare.files_deleted.into_iter().map(plain).collect(),
        declared_files: rare.declared_files.or(policy).unwrap_or_else(|| DeclaredFiles::of_type(kind)),
        key,
        goal: phase.goal.given().map(trimmed).unwrap_or_default(),
        steps: phase.steps.into_iter().map(Cow::into_owned).collect(),
        complexity: phase.complexity.given().map(trimmed).unwrap_or_default(),
        files_modified: file_list(phase.files_modified),
        estimated_hours: phase.estimated_hours.given(),
        dependencies,
        stage,
        validation_gates: phase
            .validation_gates
            .into_iter()
            .map(|text| Gate::of(text.into_owned()))
            .collect(),
        conflict_notes: rare.conflict_notes.map(Cow::into_owned).filter(|notes| !value::is_none(notes)),
        agent: rare.agent.map(Cow::into_owned),
        command: rare.command,
        shell: rare.shell,
        crew: None,
        limits,
        assignment: None,
        extra: rare.extra,
    }
}

fn trimmed(text: Cow<'_, str>) -> String {
    match text.trim().len() == text.len() {
        true => text.into_owned(),
        false => text.trim().to_owned(),
    }
}

/// The files, each once.
fn file_list(files: Slot<Vec<Item<'_>>>) -> Vec<String> {
    let files = files.given().unwrap_or_default();
    let mut list: Vec<String> = Vec::with_capacity(files.len());
    if files.len() < 16 {
        for file in files {
            let spelling = containment::plain_spelling(&file.text);
            if !list.iter().any(|known| *known == spelling) {
                list.push(spelling.into_owned());
            }
        }
        return list;
    }
    let mut known = HashSet::with_capacity(files.len());
    for file in files {
        let spelling = containment::plain_spelling(&file.text).into_owned();
        if known.insert(spelling.clone()) {
            list.push(spelling);
        }
    }
    list
}
