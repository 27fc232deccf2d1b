//! What a checkpoint costs, beside `tar -c | gzip -6` over the same tree, and what a second look at it costs.
//!
//! Both write from processes of their own, turn by turn, and CPU time is what counts: a busy machine disturbs
//! both alike. Nothing here fails because a machine is slow: it reports.

#[path = "../scale/measure.rs"]
mod measure;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use measure::{cpu_of_run, cpu_seconds, median, most_memory_megabytes};
use watchkeeper::model::WallTime;
use watchkeeper::model::tree::{Digest, Entry};
use watchkeeper::work_tree::checkpoint::{self, FILE_BYTES_MAX, Wish};
use watchkeeper::work_tree::undo::{self, Word};
use watchkeeper::work_tree::{
    Checkpoint, Contents, Hand, Scan, Scope, Store, capture, difference, rescan, scan,
};

/// What a merge touches.
const TOUCHED: usize = 100;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--checkpoint", tree, dir] => write_checkpoint(Path::new(tree), Path::new(dir)),
        ["--look-again", tree, dir] => look_again(Path::new(tree), Path::new(dir)),
        arguments => compare(arguments.contains(&"--quick")),
    }
}

/// Our side, in a process of its own.
fn write_checkpoint(tree: &Path, dir: &Path) -> ExitCode {
    let scope = Scope::new(&[tree.to_owned()], &[]).expect("the tree was made");
    let wish = Wish { scope: &scope, created_at: WallTime(0), file_bytes_max: FILE_BYTES_MAX };
    let written = checkpoint::write(dir, &wish, Hand::free(), &mut |_| {});
    let (_, found) = written.expect("there is room for a checkpoint");
    let memory = most_memory_megabytes(std::process::id());
    fs::write(dir.join("memory"), memory.to_string()).expect("a file can be written");
    let spelled = serde_json::to_vec(&found).expect("a scan can be spelled");
    fs::write(dir.join("scan.json"), spelled).expect("a file can be written");
    ExitCode::SUCCESS
}

/// All that a merge of a hundred files asks of this module, step by step: CPU and wall seconds.
fn look_again(tree: &Path, dir: &Path) -> ExitCode {
    let mut steps = Steps::default();
    let spelled = fs::read(dir.join("scan.json")).expect("the scan was written");
    let previous: Scan =
        steps.time("read the last scan from its file", || serde_json::from_slice(&spelled).expect("a scan"));
    let scope = Scope::new(&[tree.to_owned()], &[]).expect("the tree was made");
    let before = steps.time("rescan, nothing changed", || rescan(&scope, &previous).expect("a scan"));
    for file in tree::some_files(tree, TOUCHED) {
        let mut text = fs::read(&file).expect("a file can be read");
        text.extend_from_slice(b"\n// touched\n");
        fs::write(&file, text).expect("a file can be written");
    }
    let objects = dir.join("objects");
    let (after, changes) = steps.time("capture 100 changed files", || {
        let store = Store::open(&objects, Hand::free()).expect("a store can be made");
        let after = capture(&scope, Some(&before), &store).expect("a capture").scan;
        let changes = difference(&before.manifest, &after.manifest);
        (after, changes)
    });
    assert_eq!(changes.len(), TOUCHED, "the touched files changed and no other");
    let checkpoint = steps.time("read the manifest of the checkpoint", || {
        Checkpoint::read(dir).expect("it can be read").expect("it was written")
    });
    steps.time("100 earlier contents from the archive", || {
        let archive = checkpoint.contents(dir).expect("the archive was written");
        for change in &changes {
            let earlier = change.before.as_ref().and_then(digest).expect("a file before");
            archive.read(&earlier).expect("it was kept");
        }
    });
    steps.time("undo of 100 files", || {
        let now = rescan(&scope, &after).expect("a scan");
        let plan = undo::plan(&checkpoint, Some(&after.manifest), &now, &|_| Word::Take)
            .expect("nothing in the way");
        undo::carry_out(dir, &checkpoint, &plan, Hand::free()).expect("an undo");
    });
    let now = rescan(&scope, &after).expect("a scan");
    assert_eq!(difference(&checkpoint.entries, &now.manifest), [], "all is as it was");
    steps.time("scan that reads everything", || scan(&scope).expect("a scan"));
    steps.print();
    ExitCode::SUCCESS
}

fn digest(entry: &Entry) -> Option<Digest> {
    match entry {
        Entry::File { sha256, .. } => Some(*sha256),
        _ => None,
    }
}

#[derive(Default)]
struct Steps(Vec<(&'static str, f64, f64)>);

impl Steps {
    fn time<T>(&mut self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let (cpu, wall) = (cpu_seconds(std::process::id()), std::time::Instant::now());
        let done = work();
        let cpu = cpu_seconds(std::process::id()) - cpu;
        self.0.push((name, cpu, wall.elapsed().as_secs_f64()));
        done
    }

    fn print(&self) {
        println!("| after the checkpoint | CPU s | wall s |");
        println!("|---|---:|---:|");
        for (name, cpu, wall) in &self.0 {
            println!("| {name} | {cpu:.3} | {wall:.3} |");
        }
        let merge = &self.0[2..5];
        let sum = |pick: fn(&(&str, f64, f64)) -> f64| merge.iter().map(pick).sum::<f64>();
        println!(
            "| **third to fifth row: what a merge of 100 files asks for** (target with the merge: < 1 s) | {:.3} | {:.3} |",
            sum(|step| step.1),
            sum(|step| step.2)
        );
    }
}

fn compare(is_quick: bool) -> ExitCode {
    let (files, rounds) = if is_quick { (5_000, 1) } else { (50_000, 3) };
    let scratch = tempfile::tempdir().expect("a directory can be made");
    let scratch_path = scratch.path().canonicalize().expect("it was made");
    let tree = scratch_path.join("tree");
    let bytes = tree::make(&tree, files);
    let packed = scratch_path.join("packed.tar.gz");
    let (mut ours, mut theirs, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    let (mut our_wall, mut their_wall) = (Vec::new(), Vec::new());
    let mut dir = PathBuf::new();
    for round in 0..rounds {
        dir = scratch_path.join(format!("checkpoint-{round}"));
        let began = std::time::Instant::now();
        ours.extend(cpu_of_run(Command::new(this_program()).arg("--checkpoint").arg(&tree).arg(&dir)));
        our_wall.push(began.elapsed().as_secs_f64());
        memory.push(read_number(&dir.join("memory")));
        let mut tar = Command::new("sh");
        tar.args(["-c", "tar -c -C \"$1\" . | gzip -6 > \"$2\"", "sh"]).arg(&tree).arg(&packed);
        let began = std::time::Instant::now();
        theirs.extend(cpu_of_run(&mut tar));
        their_wall.push(began.elapsed().as_secs_f64());
    }
    let size = |path: PathBuf| fs::metadata(path).map_or(0, |data| data.len()) as f64 / 1e6;
    let archive = size(dir.join("checkpoint.tar.gz"));
    let whole = archive + size(dir.join("manifest.json"));
    let (ours, theirs, reference) = (median(ours), median(theirs), size(packed));
    let (our_wall, their_wall) = (median(our_wall), median(their_wall));
    println!("| {files} files, {:.0} MB | checkpoint | tar, gzip -6 | ratio | target |", bytes as f64 / 1e6);
    println!("|---|---:|---:|---:|---|");
    println!("| CPU seconds | {ours:.2} | {theirs:.2} | {:.2} | ≤ 2 |", ours / theirs);
    println!("| wall seconds | {our_wall:.2} | {their_wall:.2} | {:.2} | |", our_wall / their_wall);
    println!("| archive, MB | {archive:.1} | {reference:.1} | {:.3} | |", archive / reference);
    println!("| archive and manifest, MB | {whole:.1} | {reference:.1} | {:.3} | ≤ 1.1 |", whole / reference);
    println!("| most memory, MB | {:.0} | | | < 100 |", median(memory));
    println!();
    let again = Command::new(this_program()).arg("--look-again").arg(&tree).arg(&dir).status();
    if again.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read_number(path: &Path) -> f64 {
    fs::read_to_string(path).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program's own path")
}
