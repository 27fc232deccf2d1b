//! Plays every recorded output of a coding CLI in `testdata/transcripts/`, with what it must come to
//! beside it.
//!
//! `WK_BLESS=1 cargo test --test transcripts` writes the expectations anew; read the difference before it
//! is committed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use watchkeeper::format::transcript::{Spoken, Transcript, Update};
use watchkeeper::model::preset::{Dialect, PRESETS};

const HOW_TO_BLESS: &str = "run WK_BLESS=1 cargo test --test transcripts, and read what it wrote";

/// Every recording with its dialect, which is the name of its folder.
fn recordings() -> Vec<(PathBuf, Dialect, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/transcripts");
    let mut found = Vec::new();
    for dialect in Dialect::ALL {
        let Ok(entries) = fs::read_dir(folder.join(dialect.word())) else { continue };
        let paths = entries.map(|entry| entry.unwrap().path());
        for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")) {
            let bytes = fs::read(&path).unwrap();
            found.push((path, dialect, bytes));
        }
    }
    found.sort();
    found
}

/// The output in pieces of so many bytes: every update, and the end.
fn play(dialect: Dialect, bytes: &[u8], piece: usize) -> (Vec<Update>, Spoken) {
    let mut transcript = Transcript::new(dialect);
    let updates = bytes.chunks(piece).filter_map(|piece| transcript.push(piece)).collect();
    (updates, transcript.finish())
}

/// What a recording comes to, with the lines of progress in their order.
fn told(updates: &[Update], spoken: &Spoken) -> Value {
    let mut progress: Vec<&str> = updates.iter().filter_map(|update| update.progress.as_deref()).collect();
    progress.dedup();
    json!({
        "progress": progress,
        "final_message": spoken.final_message,
        "tokens_used": spoken.tokens_used,
        // Sums of floats differ in their last digits from what people write down.
        "cost_usd": spoken.cost_usd.map(|cost| (cost * 1e6).round() / 1e6),
        "turns": spoken.turns,
        "session_id": spoken.session_id,
        "failure": spoken.failure,
        "warnings": spoken.warnings,
    })
}

/// The output is known to be a failure, to end too early, or to be something else altogether.
fn is_doubted(spoken: &Spoken) -> bool {
    let doubts = ["the output ends before its result", "nothing in the output is of the dialect"];
    let has_doubt = |warning: &String| doubts.iter().any(|doubt| warning.starts_with(doubt));
    spoken.failure.is_some() || spoken.warnings.iter().any(has_doubt)
}

#[test]
fn every_recording_comes_to_what_stands_beside_it() {
    let bless = std::env::var_os("WK_BLESS").is_some();
    for (path, dialect, bytes) in recordings() {
        let (updates, spoken) = play(dialect, &bytes, 1);
        let told = told(&updates, &spoken);
        let beside = path.with_extension("expected.json");
        if bless {
            fs::write(&beside, format!("{told:#}\n")).unwrap();
            continue;
        }
        let text = fs::read_to_string(&beside).unwrap_or_default();
        let expected: Value = serde_json::from_str(&text).unwrap_or_default();
        assert!(told == expected, "{}: {HOW_TO_BLESS}\n{told:#}", path.display());
    }
}

#[test]
fn every_expectation_has_its_recording_and_every_preset_its_dialect() {
    let recordings = recordings();
    let expected: BTreeSet<PathBuf> =
        recordings.iter().map(|(path, ..)| path.with_extension("expected.json")).collect();
    let folders: BTreeSet<&Path> = recordings.iter().filter_map(|(path, ..)| path.parent()).collect();
    for entry in folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()) {
        let path = entry.unwrap().path();
        let is_expectation = path.to_string_lossy().ends_with(".expected.json");
        assert!(!is_expectation || expected.contains(&path), "{}: its recording is gone", path.display());
    }
    for preset in PRESETS.iter().filter(|preset| preset.dialect != Dialect::Plain) {
        let count = recordings.iter().filter(|(_, dialect, _)| *dialect == preset.dialect).count();
        assert!(count >= 5, "{} has {count} recordings", preset.name);
    }
}

#[test]
fn the_end_is_the_same_wherever_the_output_is_cut_into_pieces() {
    for (path, dialect, bytes) in recordings() {
        let (_, whole) = play(dialect, &bytes, bytes.len().max(1));
        for piece in [1, 7, 4096] {
            let (updates, spoken) = play(dialect, &bytes, piece);
            assert_eq!(spoken, whole, "{} in pieces of {piece}", path.display());
            assert!(updates.is_sorted_by_key(|update| update.tokens_used), "{}", path.display());
            assert!(updates.is_sorted_by_key(|update| update.cost_usd), "{}", path.display());
        }
    }
}

#[test]
fn an_output_that_stops_anywhere_is_never_taken_for_a_finished_one() {
    for (path, dialect, bytes) in recordings() {
        let whole = play(dialect, &bytes, bytes.len()).1;
        let last_line = bytes.trim_ascii_end().iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        for end in (0..last_line).step_by(37) {
            let spoken = play(dialect, &bytes[..end], 4096).1;
            assert!(is_doubted(&spoken), "{} up to byte {end}: {spoken:?}", path.display());
            assert!(spoken.tokens_used <= whole.tokens_used, "{} up to byte {end}", path.display());
        }
    }
}

#[test]
fn a_recording_in_another_dialect_claims_no_success() {
    for (path, spoken_in, bytes) in recordings() {
        for dialect in
            Dialect::ALL.into_iter().filter(|dialect| ![spoken_in, Dialect::Plain].contains(dialect))
        {
            let spoken = play(dialect, &bytes, 4096).1;
            assert!(is_doubted(&spoken), "{} as {dialect}: {spoken:?}", path.display());
        }
    }
}
