//! Random merges of whole trees: whatever agents do, and whatever a person chooses, the receipt accounts for it,
//! and no change gets lost between the lines.

use watchkeeper::merge::{Conflict, ContentStore, Merge, Planned, RealTreeDisk, publish};
use watchkeeper::model::handoff::{Choice, Choices, ConflictResolution, MergeKind};

use crate::git::Random;
use crate::scene::Scene;

/// `WK_MERGES=20000` asks for more.
const MERGES: u64 = 3000;
/// Rounds of questions to a person before a merge counts as endless.
const ROUNDS_MAX: usize = 8;

/// Syncing takes longer than planning.
const PUBLISHED_EVERY: u64 = 50;

const PATHS: &[&str] =
    &["a", "a/b", "a/b/c", "a-b", "B", "b", "c.json", "d.ctxp", "integrated.ctxp", "report.md"];
const STATES: &[&str] = &[
    "1\n2\n3\n4\n5\n",
    "X\n2\n3\n4\n5\n",
    "1\n2\n3\n4\nY\n",
    "1\n2\nZ\n4\n5\n",
    "",
    "\0binary",
    "x!1\n2\n3\n4\n5\n",
    "dir",
    "-> a",
    "-> ../out",
    "{\"v\": 1}",
    "{\"v\": 2, \"w\": 1}",
    "{\"metadata\": {}, \"nodes\": [], \"edges\": []}",
    "{\"metadata\": {}, \"nodes\": [{\"id\": \"n\", \"type\": \"class\", \"attributes\": {\"s\": 1}}], \"edges\": []}",
    "{\"metadata\": {}, \"nodes\": [{\"id\": \"n\", \"type\": \"class\", \"attributes\": {\"s\": 2}}], \"edges\": []}",
];

fn pick<'a, T>(random: &mut Random, from: &'a [T]) -> &'a T {
    &from[random.below(from.len() as u64) as usize]
}

fn state(random: &mut Random) -> Option<&'static str> {
    (!random.one_in(4)).then(|| *pick(random, STATES))
}

fn scene(random: &mut Random) -> Scene {
    let kinds =
        [MergeKind::FileMerge, MergeKind::FileMerge, MergeKind::CtxpackUnion, MergeKind::ReportAggregation];
    let policies =
        [ConflictResolution::Auto, ConflictResolution::ManualReview, ConflictResolution::FailOnConflict];
    let agents = ["ann", "bob", "eve", "fay"];
    let mut scene = Scene::of(*pick(random, &kinds), *pick(random, &policies));
    let listed: Vec<&str> = agents.iter().copied().filter(|_| random.one_in(2)).collect();
    scene = scene.priority(&listed);
    // Most agents begin from the same tree.
    let before: Vec<Option<&str>> = PATHS.iter().map(|_| state(random)).collect();
    for (turn, who) in agents.iter().enumerate() {
        let seen: Vec<&str> = agents[..turn].iter().copied().filter(|_| random.one_in(3)).collect();
        let mut changes = Vec::new();
        for (path, before) in PATHS.iter().zip(&before) {
            if random.one_in(2) {
                let before = if random.one_in(4) { state(random) } else { *before };
                changes.push((*path, before, state(random)));
            }
        }
        scene = scene.agent(who, &seen, &changes);
    }
    scene
}

fn chosen(random: &mut Random, scene: &Scene, conflict: &Conflict) -> Choice {
    let word = pick(random, &conflict.choices);
    Choice::of_word(word).unwrap_or_else(|| {
        let own = if conflict.kind.word() == "not_a_graph" { STATES[12] } else { "7" };
        Choice::Content(scene.contents.keep(own.as_bytes()).unwrap())
    })
}

fn is_published_whole(scene: &Scene, merge: &Merge) {
    let parent = tempfile::tempdir().unwrap();
    let merged = parent.path().join("merged");
    publish(merge, &merged, &scene.contents, &RealTreeDisk).unwrap();
    let found: Vec<_> = walkdir::WalkDir::new(&merged)
        .min_depth(1)
        .into_iter()
        .map(|entry| entry.unwrap().path().strip_prefix(&merged).unwrap().to_owned())
        .collect();
    assert_eq!(found.len(), merge.tree().len());
    assert!(merge.tree().keys().all(|path| found.iter().any(|found| found == path.as_path())));
}

/// How a merge ends, with a person who answers at random. An error is for people.
fn ends_ready(seed: u64) -> Result<bool, String> {
    let mut random = Random::seeded(seed);
    let scene = scene(&mut random);
    let mut resolutions = Choices::new();
    let mut asked = Vec::new();
    for _ in 0..ROUNDS_MAX {
        match scene.plan(&resolutions) {
            Ok(Planned::Conflicted(conflicted)) => {
                for conflict in &conflicted.report.conflicts {
                    let resolution = chosen(&mut random, &scene, conflict);
                    asked.push(format!(
                        "{} {} {}: {resolution:?}",
                        conflict.id,
                        conflict.path,
                        conflict.kind.word()
                    ));
                    if resolutions.insert(conflict.id.clone(), resolution).is_some() {
                        return Err(format!("seed {seed}: {} was settled already", conflict.id));
                    }
                }
            }
            Ok(Planned::Ready(merge)) => {
                if seed.is_multiple_of(PUBLISHED_EVERY) {
                    is_published_whole(&scene, &merge);
                }
                return Ok(true);
            }
            Ok(Planned::Invalid(invalid)) => {
                let has_error = invalid.findings.iter().any(|finding| finding.is_error);
                return if has_error {
                    Ok(false)
                } else {
                    Err(format!("seed {seed}: invalid without an error"))
                };
            }
            Err(error) => return Err(format!("seed {seed}: {error}; asked before:\n{}", asked.join("\n"))),
        }
    }
    Err(format!("seed {seed}: a person is asked for ever"))
}

#[test]
fn every_merge_ends_with_a_receipt_that_holds() {
    let merges = std::env::var("WK_MERGES").ok().and_then(|count| count.parse().ok()).unwrap_or(MERGES);
    let ends: Vec<Result<bool, String>> = (0..merges).map(ends_ready).collect();
    let wrong: Vec<&String> = ends.iter().filter_map(|end| end.as_ref().err()).collect();
    assert!(
        wrong.is_empty(),
        "{} merges went wrong, of them {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(5)]
    );
    let ready = ends.iter().filter(|end| **end == Ok(true)).count();
    println!("{merges} merges: {ready} ready, {} invalid", ends.len() - ready);
    assert!(ready as u64 > merges / 4);
}

/// Four agents write lines of their own into one file, one of them may rename it; all those lines are in what merges.
#[test]
fn no_line_of_any_agent_gets_lost_in_a_clean_merge() {
    let mut clean = 0;
    for seed in 0..1000 {
        let mut random = Random::seeded(seed);
        let base: Vec<String> = (0..60).map(|number| format!("line {}\n", number % 7)).collect();
        let mut scene = Scene::files();
        let renamer = random.below(8);
        let mut written = Vec::new();
        for (turn, who) in ["ann", "bob", "eve", "fay"].into_iter().enumerate() {
            let before = base.concat();
            if turn as u64 == renamer {
                scene = scene.agent(who, &[], &[("f", Some(&before), None), ("g", None, Some(&before))]);
                continue;
            }
            let mut lines = base.clone();
            for count in 0..=random.below(2) {
                let own = format!("{who} {count}\n");
                lines.insert(random.below(lines.len() as u64) as usize, own.clone());
                written.push(own);
            }
            scene = scene.agent(who, &[], &[("f", Some(&before), Some(&lines.concat()))]);
        }
        if let Planned::Ready(merge) = scene.plan(&Choices::new()).unwrap() {
            clean += 1;
            let tree = scene.tree(&merge);
            let text = &tree[if renamer < 4 { "g" } else { "f" }];
            assert_eq!((tree.len(), text.lines().count()), (1, base.len() + written.len()), "seed {seed}");
            assert!(written.iter().all(|line| text.contains(line.as_str())), "seed {seed}: {text}");
        }
    }
    println!("1000 merges, {clean} of them clean");
    assert!(clean > 200, "{clean} clean merges prove little");
}
