//! Plans and dropped specs, as released versions left them.

use crate::frozen::each;
use crate::scene::{ending, task};

const BOTH: [&str; 2] = ["left", "right"];

#[test]
fn a_batch_under_way_with_outsiders_is_finished_by_agents_old_and_new() {
    each("outsiders", |frozen| {
        frozen.shows(
            "1",
            &[
                ("done", "COMPLETED"),
                ("running", "IN_PROGRESS"),
                ("offered", "QUEUED"),
                ("flaky", "QUEUED"),
                ("waiting", "QUEUED"),
            ],
        );
        let _watcher = frozen.watched();
        // Taken before the upgrade: its agent goes on, and nobody else is given it.
        frozen.does("1", "running", 1);
        let mut taken: Vec<String> = (0..3).map(|_| frozen.takes_and_does_one()).collect();
        taken.sort();
        assert_eq!(taken, ["1/flaky#2", "1/offered#1", "1/waiting#1"]);
        let result = frozen.ended("1");
        assert_eq!(result["status"], "success", "{result:#}");
        assert_eq!(task(&result, "done")["attempts"].as_array().unwrap().len(), 1, "it was not done again");
        assert_eq!(task(&result, "flaky")["attempts"].as_array().unwrap().len(), 2);
        frozen.wk(&["verify", "1"]).exits(0);
    });
}

#[test]
fn agents_of_ours_that_were_killed_are_tried_again_and_those_that_ended_are_not() {
    each("ours", |frozen| {
        frozen.shows("1", &[("first", "COMPLETED"), ("left", "IN_PROGRESS"), ("last", "QUEUED")]);
        frozen.wk(&["logs", "1/left"]).exits(0).says("left begins");
        let _watcher = frozen.watched();
        let result = frozen.ends_though_agents_were_killed("1", &BOTH);
        assert_eq!(result["status"], "success", "{result:#}");
        assert_eq!(task(&result, "first")["attempts"].as_array().unwrap().len(), 1);
        for key in BOTH {
            assert_eq!(task(&result, key)["attempts"].as_array().unwrap().len(), 2, "{key}");
        }
        for key in ["first", "left", "right", "last"] {
            let made = std::fs::read_to_string(frozen.file(&format!("src/{key}.txt"))).unwrap();
            assert_eq!(made, format!("made by {key}\n"));
        }
    });
}

#[test]
fn a_batch_whose_watcher_died_at_its_end_is_archived() {
    each("finished", |frozen| {
        frozen.watched_to_the_end();
        let result = frozen.ended("1");
        assert_eq!((ending(&result, "a"), ending(&result, "b")), ("success".into(), "success".into()));
        assert_eq!(frozen.count("1", "finished", None), 1, "its end is decided once");
        frozen.wk(&["verify", "1"]).exits(0);
    });
}

#[test]
fn archived_batches_are_shown_verified_and_tried_again() {
    each("archived", |frozen| {
        let kept = std::fs::read(frozen.path("batches/batch-1.result.json")).unwrap();
        frozen.wk(&["verify", "1"]).exits(0);
        frozen.shows("2", &[("good", "COMPLETED"), ("bad", "FAILED"), ("after", "BLOCKED")]);
        frozen.wk(&["report", "2"]).exits(0).says("it cannot be done yet");
        let retry = frozen.start(&["retry", "--failed", "2"], &[]);
        frozen.does("2", "bad", 2);
        frozen.does("2", "after", 1);
        retry.ends().exits(0);
        let result = frozen.ended("2");
        assert_eq!(result["status"], "success", "{result:#}");
        assert_eq!(task(&result, "good")["attempts"].as_array().unwrap().len(), 1);
        assert_eq!(std::fs::read(frozen.path("batches/batch-1.result.json")).unwrap(), kept);
    });
}

#[test]
fn a_wish_to_cancel_that_nobody_had_seen_is_granted_and_a_cancelled_batch_stays_so() {
    each("cancelled", |frozen| {
        frozen.watched_to_the_end();
        for batch in ["1", "2"] {
            let result = frozen.ended(batch);
            assert_eq!(result["status"], "cancelled", "{result:#}");
            assert_eq!(ending(&result, "done"), "success");
            assert_eq!(task(&result, "running")["status"], "cancelled");
        }
    });
}

#[test]
fn a_paused_batch_stays_paused_until_somebody_resumes_it() {
    each("paused", |frozen| {
        let _watcher = frozen.watched();
        frozen.does("1", "running", 1);
        // Every turn since has had the chance to offer it.
        assert_eq!(frozen.count("1", "offered", Some("next")), 0, "it is paused");
        frozen.wk(&["resume", "1"]).exits(0);
        frozen.does("1", "next", 1);
        assert_eq!(frozen.ended("1")["status"], "success");
    });
}

#[test]
fn late_and_refused_files_are_kept_with_their_reasons() {
    each("refused", |frozen| {
        let _watcher = frozen.watched();
        frozen.does("1", "again", 2);
        frozen.does("1", "torn", 1);
        let result = frozen.ended("1");
        assert_eq!(result["status"], "success", "{result:#}");
        assert_eq!(result["late"][0]["attempt"], 1, "{result:#}");
        frozen.quarantined("task-torn.result.json");
        frozen.quarantined("broken.json");
    });
}

#[test]
fn an_open_batch_of_dropped_specs_and_a_loose_one_are_finished() {
    each("dropped", |frozen| {
        let _watcher = frozen.watched();
        frozen.does("7", "two", 1);
        frozen.does("loose-solo", "solo", 1);
        let result = frozen.ended("7");
        assert_eq!((ending(&result, "one"), ending(&result, "two")), ("success".into(), "success".into()));
        assert_eq!(frozen.ended("loose-solo")["status"], "success");
    });
}
