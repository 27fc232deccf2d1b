//! `spec/evidence.md`: what the scenes came to, as tables that people read.

use std::path::Path;

use crate::told::{GRADES, Kind, Outcome, Scene};

const INTRODUCTION: &str = "# What a green is worth

Each row is an agent that was run through the real binary, three times: with `--require claimed`, which is the default,
`observed` and `verified`. A cell says with which grade the task was green, or by which `reason_code` it failed. The file is
written from what the scenes of `tests/evidence` gave (`WK_BLESS=1 cargo test --test evidence`); the test fails where it
is not so any more.

What the grades mean: `claimed` is the agent's word, exit code 0 included; `observed` means that the content of what the
task declares has changed, or its output appeared, since before its first attempt; `verified` means that besides this a
command which `wk` ran has said so. `protocol.md` explains the codes.
";

const CHAPTERS: [(Kind, &str, &str); 3] = [
    (
        Kind::Lie,
        "Lies",
        "Agents that say more than they did, where a machine can see it. None is ever `observed` or `verified`.",
    ),
    (
        Kind::Unseen,
        "What only a check can see",
        "Agents that wrote something, and the wrong thing. That something changed is all that can be seen of it, so these
are `observed`; a check that fails tells them apart. None is ever `verified`.",
    ),
    (
        Kind::Honest,
        "Honest work",
        "Agents that did what was asked, each in its own way. Each is green with the grade that is its due; what demands more
fails with `below_required`, because nothing that was seen says more.",
    ),
];

pub fn hold_against_file(all: &[(Kind, &Scene)], outcomes: &[[Outcome; 3]]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("spec/evidence.md");
    let text = render(all, outcomes);
    if std::env::var_os("WK_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = stored.lines().zip(text.lines()).find(|(stored, now)| stored != now);
    let how = "run WK_BLESS=1 cargo test --test evidence, and read the difference";
    assert!(stored == text, "spec/evidence.md is stale: {how}\n{differs:#?}");
}

fn render(all: &[(Kind, &Scene)], outcomes: &[[Outcome; 3]]) -> String {
    let mut text = INTRODUCTION.to_owned();
    for (kind, title, about) in CHAPTERS {
        let rows: Vec<(&Scene, &[Outcome; 3])> = all
            .iter()
            .zip(outcomes)
            .filter(|((of, _), _)| *of == kind)
            .map(|((_, scene), outcomes)| (*scene, outcomes))
            .collect();
        text += &format!("\n## {title} ({})\n\n{about}\n\n", rows.len());
        text += "| scene | dialect | `claimed` demanded | `observed` demanded | `verified` demanded |\n|---|---|---|---|---|\n";
        for (scene, outcomes) in &rows {
            let [claimed, observed, verified] = outcomes.each_ref().map(cell);
            let (name, dialect) = (scene.name, spoken(scene));
            text += &format!("| {name} | {dialect} | {claimed} | {observed} | {verified} |\n");
        }
        text.push('\n');
        for (scene, _) in &rows {
            text += &format!("- **{}**: {}\n", scene.name, scene.tells);
        }
    }
    text
}

fn spoken(scene: &Scene) -> String {
    match scene.cli {
        "" => scene.dialect.word().to_owned(),
        cli => format!("{}, `{cli}`", scene.dialect.word()),
    }
}

fn cell(outcome: &Outcome) -> String {
    match GRADES.contains(&outcome.end.as_str()) {
        true => format!("green, {}", outcome.end),
        false => format!("fails, `{}`", outcome.end),
    }
}
