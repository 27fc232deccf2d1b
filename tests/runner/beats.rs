//! The runner's heartbeat.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use watchkeeper::model::Seconds;

use super::stage::{Stage, different_beats, eventually};

/// A task that ends before this needs no beat.
const FIRST_BEAT_AFTER_SECONDS: f64 = 0.25;

/// File times come from a clock that moves this seldom at most.
const FILE_CLOCK: Duration = Duration::from_millis(20);

#[test]
fn a_sleeping_agent_is_beaten_for() {
    let stage = Stage::new(&["sleep", "60"]);
    let running = stage.spawn();
    different_beats(&stage, 4);
    let beat = stage.beat().unwrap();
    assert_eq!((beat["task_id"].as_str(), beat["status"].as_str()), (Some("phase-1"), Some("in_progress")));
    assert_eq!(beat["attempt"], 1);
    running.signal(Signal::TERM);
    running.exit();
}

#[test]
fn a_flood_of_output_holds_up_neither_beats_nor_signals() {
    let mut stage = Stage::script("floods.sh");
    stage.order.limits.log_mb = Some(1);
    let running = stage.spawn();
    different_beats(&stage, 4);
    running.signal(Signal::TERM);
    let exit = running.exit();
    assert!(exit.stopped.is_some());
    assert_eq!(exit.signal, Some(15));
}

#[test]
fn an_agent_that_ends_at_once_is_not_beaten_for() {
    // On a busy machine even this one may take so long that it needs a beat; then another one is looked at.
    eventually("one ends at once", || {
        let stage = Stage::new(&["true"]);
        let is_short = stage.run().wall_seconds < FIRST_BEAT_AFTER_SECONDS;
        assert!(!is_short || stage.beat().is_none(), "{:?}", stage.beat());
        is_short
    });
}

/// Beats for itself with its own words, for two spans of the runner, and then falls silent.
const BEATS_ITSELF: &str = r#"
for step in $(seq 25); do
    echo "{\"progress\": \"mine $step\", \"tokens_used\": $step}" > "$WK_HEARTBEAT.tmp"
    mv "$WK_HEARTBEAT.tmp" "$WK_HEARTBEAT"
    sleep 0.1
done
sleep 60
"#;

/// The beat that stands there, and when it was put there: a rename sets the time of the last change.
fn beat_and_when_it_came(stage: &Stage) -> Option<(Value, Duration)> {
    let mut file = std::fs::File::open(&stage.order.paths.heartbeat).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let about = file.metadata().ok()?;
    // To be replaced by the next is a change too.
    let stands = about.nlink() > 0;
    let came = Duration::new(about.ctime().try_into().ok()?, about.ctime_nsec().try_into().ok()?);
    Some((serde_json::from_str(&text).ok()?, came)).filter(|_| stands)
}

#[test]
fn an_agent_that_beats_itself_is_left_alone_and_its_words_are_kept_when_it_falls_silent() {
    let mut stage = Stage::sh(BEATS_ITSELF);
    stage.order.beat_every = Seconds(1.2);
    let every = Duration::from_millis(stage.order.beat_every.millis());
    let running = stage.spawn();
    let mut own: Option<Duration> = None;
    let mut is_foreign = false;
    eventually("the agent has said its last word", || {
        let Some((beat, came)) = beat_and_when_it_came(&stage) else { return false };
        if beat.get("attempt").is_some() {
            is_foreign = true;
            // Who was held up here may find the last word in the runner's mouth only.
            return beat["progress"] == "mine 25";
        }
        // An agent that was held up has fallen silent, and may be beaten for.
        if let Some(before) = own.filter(|_| is_foreign) {
            let silent = came.saturating_sub(before);
            assert!(
                silent + FILE_CLOCK >= every,
                "the runner beat for an agent that was silent for {silent:?}"
            );
        }
        (own, is_foreign) = (Some(came), false);
        beat["progress"] == "mine 25"
    });
    eventually("the runner beats again", || stage.beat().is_some_and(|beat| beat.get("attempt").is_some()));
    let beat = stage.beat().unwrap();
    assert_eq!((beat["progress"].as_str(), beat["tokens_used"].as_u64()), (Some("mine 25"), Some(25)));
    different_beats(&stage, 2);
    assert_eq!(stage.beat().unwrap()["progress"], "mine 25");
    running.signal(Signal::TERM);
    running.exit();
}

#[test]
fn the_last_line_of_a_plain_output_is_its_progress() {
    let stage = Stage::sh("echo first; echo step 2 of 3; sleep 60");
    let running = stage.spawn();
    eventually("the beat tells it", || stage.beat().is_some_and(|beat| beat["progress"] == "step 2 of 3"));
    running.signal(Signal::TERM);
    running.exit();
}

#[test]
fn a_line_is_heard_when_it_is_whole_or_when_nothing_follows() {
    let trickles =
        "echo whole; until [ -e go ]; do printf x; sleep 0.02; done; echo; printf 'go on? '; sleep 60";
    let stage = Stage::sh(trickles);
    let running = stage.spawn();
    let progress = || stage.beat().and_then(|beat| Some(beat["progress"].as_str()?.to_owned()));
    eventually("the beat tells the whole line", || progress().as_deref() == Some("whole"));
    different_beats(&stage, 4);
    assert_eq!(progress().as_deref(), Some("whole"), "what is still being said is not told");
    std::fs::write(stage.dir.path().join("go"), "").unwrap();
    eventually("the question is told", || progress().as_deref() == Some("go on?"));
    running.signal(Signal::TERM);
    running.exit();
}
