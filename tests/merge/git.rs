//! Random merges, judged by `git merge-file`: the same bytes where both are clean, a conflict where git has one.

use std::fs;
use std::path::Path;
use std::process::Command;

use watchkeeper::merge::lines::LineMerge;

/// `WK_MERGES=20000` asks for more.
const MERGES: u64 = 400;

/// Numbers that are the same on every machine: SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn seeded(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A text whose lines often repeat, as braces and blank lines do: there a diff has choices.
fn text(random: &mut Random) -> Vec<String> {
    let count = [0, 1, 3, 12, 40, 120][random.below(6) as usize];
    let words = [3, 12, 500][random.below(3) as usize];
    let end = if random.one_in(4) { "\r\n" } else { "\n" };
    (0..count).map(|_| line(random, words, end)).collect()
}

fn line(random: &mut Random, words: u64, end: &str) -> String {
    match random.below(6) {
        0 => end.to_owned(),
        1 => format!("}}{end}"),
        _ => format!("{}line {}{end}", " ".repeat(random.below(3) as usize * 4), random.below(words)),
    }
}

fn edited(random: &mut Random, lines: &[String]) -> Vec<String> {
    let mut lines = lines.to_vec();
    for _ in 0..random.below(5) {
        let at = random.below(lines.len() as u64 + 1) as usize;
        let until = (at + random.below(4) as usize).min(lines.len());
        let fresh: Vec<String> = (0..random.below(4)).map(|_| line(random, 12, "\n")).collect();
        match random.below(4) {
            // Both sides often make the same change.
            0 if at < lines.len() => "the same change\n".clone_into(&mut lines[at]),
            1 => drop(lines.drain(at..until)),
            2 => drop(lines.splice(at..at, fresh)),
            _ => drop(lines.splice(at..until, fresh)),
        }
    }
    if random.one_in(6)
        && let Some(last) = lines.last_mut()
    {
        let kept = last.trim_end_matches(['\r', '\n']).len();
        last.truncate(kept);
    }
    lines
}

/// `None` where git finds a conflict.
fn by_git(dir: &Path, texts: [&[u8]; 3]) -> Option<Vec<u8>> {
    let paths = ["base", "ours", "theirs"].map(|name| dir.join(name));
    for (path, text) in paths.iter().zip(texts) {
        fs::write(path, text).unwrap();
    }
    let mut command = Command::new("git");
    command.args(["merge-file", "-p"]).args([&paths[1], &paths[0], &paths[2]]);
    let output =
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    let code = output.status.code().unwrap();
    assert!(code < 128, "{}", String::from_utf8_lossy(&output.stderr));
    (code == 0).then_some(output.stdout)
}

#[test]
fn random_merges_agree_with_git() {
    if Command::new("git").arg("--version").output().is_err() {
        println!("skipped: git is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut clean = 0;
    let merges = std::env::var("WK_MERGES").ok().and_then(|count| count.parse().ok()).unwrap_or(MERGES);
    for seed in 0..merges {
        let mut random = Random::seeded(seed);
        let base = text(&mut random);
        let ours = edited(&mut random, &base).concat().into_bytes();
        let theirs = edited(&mut random, &base).concat().into_bytes();
        let base = base.concat().into_bytes();
        let expected = by_git(dir.path(), [&base, &ours, &theirs]);
        let found = LineMerge::of(&base, &ours, &theirs).clean();
        let show =
            |text: &Option<Vec<u8>>| text.as_ref().map(|text| String::from_utf8_lossy(text).into_owned());
        assert_eq!(show(&found), show(&expected), "seed {seed}");
        clean += u64::from(found.is_some());
    }
    println!("{merges} merges agree with git, {clean} of them clean");
    assert!(
        clean > merges / 5 && clean < merges * 4 / 5,
        "{clean} clean merges of {merges}: the dice are loaded"
    );
}
