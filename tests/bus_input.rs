//! What lies on a bus that nobody meant well: pipes, links, giants, torn and odd names. Each time the
//! neighbour goes on undisturbed, and what was refused lies intact in quarantine with its reason.

mod scene;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use scene::{Bus, Process, SUCCESS, ending, rule, task};

/// A watcher with two tasks in batch 1, of which `1` is to be disturbed and `2` must not notice.
fn with_neighbour(settings: &[&str]) -> (Bus, Process) {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 1\n 1 max_retries=0\n 2");
    let run = bus.run(&plan, settings);
    bus.agent("1/1").waits_for_spec();
    bus.agent("1/2").waits_for_spec();
    (bus, run)
}

/// The ways to be something else than a plain file.
const ODD_KINDS: &[&str] = &["pipe", "link", "directory", "socket", "hard link"];

fn make(kind: &str, path: &Path, bus: &Bus) {
    let _ = std::fs::remove_file(path);
    let elsewhere = bus.file("elsewhere.json");
    std::fs::write(&elsewhere, r#"{"task_id": "1", "goal": "g", "status": "success", "output": {}}"#)
        .unwrap();
    match kind {
        "pipe" => {
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
        }
        "link" => std::os::unix::fs::symlink(&elsewhere, path).unwrap(),
        "directory" => std::fs::create_dir(path).unwrap(),
        "socket" => {
            // A socket's path may be only some hundred bytes long: the kernel knows a shorter one.
            let dir = std::fs::File::open(path.parent().unwrap()).unwrap();
            let short = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&dir));
            let made = Path::new(&short).join(path.file_name().unwrap());
            drop(std::os::unix::net::UnixListener::bind(made).unwrap());
        }
        "hard link" => std::fs::hard_link(&elsewhere, path).unwrap(),
        other => panic!("nobody can make {other}"),
    }
}

#[test]
fn whatever_stands_in_the_inbox_is_taken_or_refused_and_never_waited_for() {
    let bus = Bus::new();
    let _watch = bus.watch(&[]);
    for kind in ODD_KINDS {
        let name = format!("plan-{}.json", kind.replace(' ', "-"));
        make(kind, &bus.path("inbox").join(&name), &bus);
        let (path, reason) = bus.quarantined(&name);
        let expected = if *kind == "hard link" { "hard_link" } else { "not_a_file" };
        assert_eq!(rule(&reason), expected, "{kind}");
        assert!(std::fs::symlink_metadata(path).is_ok());
    }
    bus.drop_plan("batch_id = 5\n 1");
    bus.agent("5/1").waits_for_spec().delivers(SUCCESS);
    assert_eq!(ending(&bus.ended("5"), "1"), "success");
}

#[test]
fn a_spec_that_is_no_plain_file_is_refused_and_its_neighbour_runs() {
    let bus = Bus::new();
    let _watch = bus.watch(&["close_after_seconds=2"]);
    // First, because a batch of nothing but refused specs would be closed before long.
    bus.drop_spec("3", "good");
    for kind in ODD_KINDS {
        let key = kind.replace(' ', "-");
        make(kind, &bus.path(&format!("tasks/batch-3/task-{key}.json")), &bus);
    }
    bus.agent("3/good").waits_for_attempt(1).delivers(SUCCESS);
    let result = bus.ended("3");
    assert_eq!(ending(&result, "good"), "success");
    for kind in ODD_KINDS {
        let key = kind.replace(' ', "-");
        assert_eq!(ending(&result, &key), "failed:spec_refused", "{kind}");
        bus.quarantined(&format!("task-{key}.json"));
    }
}

#[test]
fn a_result_that_is_no_plain_file_is_refused_and_a_plain_one_still_counts() {
    let (bus, _run) = with_neighbour(&[]);
    for (number, kind) in ODD_KINDS.iter().enumerate() {
        make(kind, &bus.agent("1/1").result(), &bus);
        bus.wait_for("it lies in quarantine", || (bus.quarantine().len() == number + 1).then_some(()));
    }
    bus.agent("1/2").delivers(SUCCESS);
    bus.agent("1/1").delivers(SUCCESS);
    let result = bus.ended("1");
    assert_eq!(ending(&result, "1"), "success");
    assert_eq!(ending(&result, "2"), "success");
}

#[test]
fn a_heartbeat_that_is_no_plain_file_is_no_heartbeat() {
    for kind in ["pipe", "link", "directory", "socket"] {
        let (bus, _run) = with_neighbour(&["heartbeat_timeout_seconds=0.5"]);
        bus.agent("1/1").beats();
        bus.wait_event("1", "started", "1");
        make(kind, &bus.agent("1/1").heartbeat(), &bus);
        bus.wait_event("1", "attempt_failed", "1");
        bus.agent("1/2").delivers(SUCCESS);
        let result = bus.ended("1");
        assert_eq!(ending(&result, "1"), "failed:heartbeat_malformed", "{kind}");
        assert_eq!(ending(&result, "2"), "success", "{kind}");
    }
}

#[test]
fn a_directory_in_the_place_of_a_spec_to_come_is_put_aside() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 1\n 1\n 2 <- 1");
    let run = bus.run(&plan, &[]);
    bus.agent("1/1").waits_for_spec();
    for name in ["task-2.json", "task-2.hb"] {
        std::fs::create_dir(bus.path(&format!("tasks/batch-1/{name}"))).unwrap();
    }
    bus.agent("1/1").delivers(SUCCESS);
    bus.agent("1/2").waits_for_attempt(1).beats().delivers(SUCCESS);
    run.ends().exits(0);
    for name in ["task-2.json", "task-2.hb"] {
        assert_eq!(rule(&bus.quarantined(name).1), "in_the_way");
    }
}

#[test]
fn a_retry_is_not_stopped_by_directories_where_files_belong() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 1\n 1");
    let run = bus.run(&plan, &[]);
    let agent = bus.agent("1/1");
    agent.waits_for_attempt(1);
    make("directory", &agent.heartbeat(), &bus);
    agent.delivers(scene::FAILED);
    agent.waits_for_attempt(2).beats();
    make("directory", &agent.heartbeat(), &bus);
    agent.delivers_for(2, scene::FAILED);
    agent.waits_for_attempt(3).beats().delivers_for(3, SUCCESS);
    run.ends().exits(0);
}

#[test]
fn a_hand_made_batch_directory_with_odd_contents_stops_nobody() {
    let bus = Bus::new();
    let watch = bus.watch(&[]);
    bus.write("tasks/batch-4/control", "not a directory");
    bus.drop_spec("4", "1");
    bus.drop_spec("5", "1");
    bus.agent("5/1").waits_for_attempt(1).delivers(SUCCESS);
    assert_eq!(ending(&bus.ended("5"), "1"), "success");
    assert!(!watch.has_ended(), "{}", watch.stderr());
}

#[test]
fn a_directory_made_first_and_filled_a_moment_later_is_noticed_by_its_events() {
    let bus = Bus::new();
    let _watch = bus.watch(&["idle_scan_seconds=3600", "scan_interval_seconds=3600"]);
    for batch in ["4", "5", "6"] {
        std::fs::create_dir(bus.path(&format!("tasks/batch-{batch}"))).unwrap();
    }
    // Each directory has been looked at, and found empty, by the time the watcher answers for the last.
    bus.drop_plan("batch_id = 9\n 1");
    bus.agent("9/1").waits_for_spec();
    for batch in ["4", "5", "6"] {
        bus.drop_spec(batch, "1");
        bus.agent(&format!("{batch}/1")).waits_for_attempt(1);
    }
}

#[test]
fn a_request_that_is_wrong_is_refused_when_it_has_settled_and_not_at_the_next_scan() {
    let bus = Bus::new();
    let _watch = bus.watch(&["idle_scan_seconds=3600", "scan_interval_seconds=3600"]);
    let staged = bus.write("plan.json", "{}");
    std::fs::rename(staged, bus.path("inbox/plan.json")).unwrap();
    bus.quarantined("plan.json");
}

#[test]
fn giants_are_refused_by_their_size_without_being_read() {
    let (bus, _run) = with_neighbour(&["heartbeat_timeout_seconds=6"]);
    let giant = |path: &Path, size: u64| std::fs::File::create(path).unwrap().set_len(size).unwrap();
    bus.agent("1/1").beats();
    bus.wait_event("1", "started", "1");
    giant(&bus.agent("1/1").heartbeat(), 10 << 20);
    giant(&bus.path("inbox/plan.md"), 10 << 30);
    let (path, reason) = bus.quarantined("plan.md");
    assert_eq!(rule(&reason), "too_large");
    assert_eq!(std::fs::metadata(path).unwrap().len(), 10 << 30, "intact");
    bus.wait_event("1", "attempt_failed", "1");
    giant(&bus.agent("1/2").result(), (16 << 20) + 1);
    bus.wait_for("the agent is told", || bus.agent("1/2").result_error().exists().then_some(()));
    bus.agent("1/2").delivers(SUCCESS);
    let result = bus.ended("1");
    assert_eq!(ending(&result, "1"), "failed:heartbeat_malformed");
    assert!(task(&result, "1")["reason"].as_str().unwrap().contains("at most 65536"));
    assert_eq!(ending(&result, "2"), "success");
}

#[test]
fn a_spec_one_byte_over_the_limit_is_refused_and_one_at_it_is_not() {
    let bus = Bus::new();
    let _watch = bus.watch(&["close_after_seconds=1"]);
    let of_size = |key: &str, size: usize| {
        let head = format!(r#"{{"task_id": "{key}", "goal": "g"}}"#);
        bus.drop_spec_text("3", key, &format!("{head}{}", " ".repeat(size - head.len())));
    };
    of_size("fits", 1 << 20);
    of_size("bursts", (1 << 20) + 1);
    bus.agent("3/fits").waits_for_attempt(1).delivers(SUCCESS);
    let result = bus.ended("3");
    assert_eq!(ending(&result, "fits"), "success");
    assert_eq!(ending(&result, "bursts"), "failed:spec_refused");
    assert_eq!(rule(&bus.quarantined("task-bursts.json").1), "too_large");
}

#[test]
fn bad_specs_are_refused_one_by_one_with_rule_and_place() {
    let bus = Bus::new();
    let _watch = bus.watch(&["close_after_seconds=2"]);
    let deep = format!(r#"{{"task_id": "x", "goal": "g", "x": {}1{}}}"#, "[".repeat(70), "]".repeat(70));
    let cases: &[(&str, &[u8], &str)] = &[
        ("empty", b"", "empty"),
        ("array", br#"["phase-1"]"#, "expected_object"),
        ("twice", br#"{"task_id": "a", "task_id": "b", "goal": "g"}"#, "duplicate_key"),
        ("twice-unknown", br#"{"task_id": "a", "goal": "g", "x": 1, "x": 2}"#, "duplicate_key"),
        ("deep", deep.as_bytes(), "too_deep"),
        ("latin", b"{\"task_id\": \"a\", \"goal\": \"caf\xe9\"}", "not_utf8"),
        ("dots", br#"{"task_id": "../x", "goal": "g"}"#, "bad_id"),
        ("out", br#"{"task_id": "o", "goal": "g", "files_modified": ["../../etc/passwd"]}"#, "bad_path"),
        (
            "bus",
            br#"{"task_id": "p", "goal": "g", "files_modified": [".ce/orchestration/epoch"]}"#,
            "bad_path",
        ),
        ("git", br#"{"task_id": "q", "goal": "g", "files_modified": [".git/config"]}"#, "bad_path"),
        ("command", br#"{"task_id": "c", "goal": "g", "command": ["rm"]}"#, "command_not_allowed"),
    ];
    bus.drop_spec("3", "good");
    for (key, bytes, _) in cases {
        bus.write(&format!("tasks/batch-3/task-{key}.json"), bytes);
    }
    bus.agent("3/good").waits_for_attempt(1).delivers(SUCCESS);
    for (key, bytes, expected) in cases {
        let (path, reason) = bus.quarantined(&format!("task-{key}.json"));
        assert_eq!(&std::fs::read(path).unwrap(), bytes, "intact");
        assert_eq!(rule(&reason), *expected, "{key}: {reason:#}");
        assert_eq!(reason["file"], format!("tasks/batch-3/task-{key}.json"));
    }
    let result = bus.ended("3");
    assert_eq!(ending(&result, "good"), "success");
    for (key, _, _) in cases {
        assert_eq!(ending(&result, key), "failed:spec_refused", "{key}");
    }
}

#[test]
fn a_second_spec_of_the_same_id_is_refused_and_names_the_first() {
    let bus = Bus::new();
    let _watch = bus.watch(&["close_after_seconds=1"]);
    bus.drop_spec("3", "a");
    bus.agent("3/a").waits_for_attempt(1);
    bus.drop_spec_text("3", "b", r#"{"task_id": "a", "goal": "the same again"}"#);
    let (_, reason) = bus.quarantined("task-b.json");
    assert_eq!(rule(&reason), "duplicate_task");
    assert!(reason.to_string().contains("already in this batch as 'a'"));
    bus.agent("3/a").delivers(SUCCESS);
    assert_eq!(ending(&bus.ended("3"), "a"), "success");
}

#[test]
fn names_that_are_not_text_are_refused_and_never_taken_twice() {
    let (bus, _run) = with_neighbour(&[]);
    let odd = |dir: &str, head: &[u8], tail: &[u8]| -> PathBuf {
        bus.path(dir).join(OsStr::from_bytes(&[head, b"\xff", tail].concat()))
    };
    std::fs::copy(bus.plan("batch_id = 9\n 1"), odd("inbox", b"plan-", b".json")).unwrap();
    std::fs::write(odd("tasks/batch-1", b"task-", b".json"), "{}").unwrap();
    bus.wait_for("both are in quarantine", || (bus.quarantine().len() == 2).then_some(()));
    let reasons = std::fs::read_dir(bus.path("quarantine")).unwrap().count();
    assert_eq!(reasons, 4, "each has its reason beside it");
    assert!(!bus.path("tasks/batch-9").exists(), "a request that cannot be named is not run");
    bus.agent("1/1").delivers(SUCCESS);
    bus.agent("1/2").delivers(SUCCESS);
    assert_eq!(bus.ended("1")["status"], "success");
}

#[test]
fn a_name_of_the_greatest_length_can_still_be_refused() {
    let (bus, run) = with_neighbour(&[]);
    let name = format!("{}.md", "n".repeat(252));
    std::fs::write(bus.path("inbox").join(&name), "no plan at all").unwrap();
    let long_task = format!("task-{}.json", "k".repeat(245));
    std::fs::write(bus.path("tasks/batch-1").join(&long_task), "{}").unwrap();
    bus.wait_for("both are in quarantine", || (bus.quarantine().len() == 2).then_some(()));
    let reasons: Vec<String> = std::fs::read_dir(bus.path("quarantine"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".reason.json"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    assert!(reasons.iter().any(|text| text.contains(&name)), "the whole name is told");
    bus.agent("1/1").delivers(SUCCESS);
    bus.agent("1/2").delivers(SUCCESS);
    run.ends().exits(0);
}

#[test]
fn droppings_of_editors_and_unknown_files_are_left_alone() {
    let (bus, run) = with_neighbour(&[]);
    let droppings = ["task-9.json~", ".task-9.json.swp", "4913", "task-9.json.tmp", ".DS_Store", ".nfs0001"];
    for name in droppings.iter().chain(&["notes.txt"]) {
        bus.write(&format!("tasks/batch-1/{name}"), "whatever");
        bus.write(&format!("inbox/{name}~"), "whatever");
    }
    bus.agent("1/1").delivers(SUCCESS);
    bus.wait_event("1", "succeeded", "1");
    let status = bus.wait_for("the unknown file is shown", || {
        let text = std::fs::read_to_string(bus.path("tasks/batch-1/status.json")).ok()?;
        text.contains("notes.txt").then_some(text)
    });
    assert!(!status.contains("4913"), "droppings are not worth a word");
    bus.agent("1/2").delivers(SUCCESS);
    run.ends().exits(0);
    assert!(bus.path("completed-batches/batch-1/notes.txt").exists(), "nothing is deleted");
    assert_eq!(bus.quarantine().len(), 0);
}

fn with_junk(count: usize) {
    let (bus, run) = with_neighbour(&["heartbeat_timeout_seconds=5"]);
    for number in 0..count {
        std::fs::write(bus.path(&format!("tasks/batch-1/junk-{number}.txt")), "").unwrap();
    }
    bus.agent("1/1").beats().delivers(SUCCESS);
    bus.wait_event("1", "succeeded", "1");
    bus.agent("1/2").delivers(SUCCESS);
    run.ends().exits(0);
}

#[test]
fn a_thousand_junk_files_disturb_nobody() {
    with_junk(1_000);
}

#[test]
#[ignore = "makes a hundred thousand files"]
fn a_hundred_thousand_junk_files_disturb_nobody() {
    with_junk(100_000);
}

#[test]
fn directories_that_are_no_batches_are_ignored_and_look_alikes_are_their_own() {
    let bus = Bus::new();
    let watch = bus.watch(&["close_after_seconds=1"]);
    for name in ["batch-", "batch-43 ", "Batch-43", "batch-..x"] {
        bus.write(&format!("tasks/{name}/task-1.json"), r#"{"task_id": "1", "goal": "g"}"#);
    }
    bus.drop_spec("43", "1");
    bus.drop_spec("043", "1");
    for batch in ["43", "043"] {
        bus.agent(&format!("{batch}/1")).waits_for_attempt(1).delivers(SUCCESS);
    }
    assert_eq!(bus.ended("43")["batch_id"], 43);
    assert_eq!(bus.ended("043")["batch_id"], "043");
    for name in ["batch-", "batch-43 ", "batch-..x"] {
        assert!(bus.path(&format!("tasks/{name}/task-1.json")).exists(), "{name} is left as it was");
        assert!(watch.stderr().contains(&format!("tasks/{name} is ignored")), "{}", watch.stderr());
    }
}

#[test]
fn an_archived_id_is_not_used_again() {
    let bus = Bus::new();
    let _watch = bus.watch(&[]);
    bus.drop_spec("43", "1");
    bus.agent("43/1").waits_for_attempt(1).delivers(SUCCESS);
    bus.ended("43");
    bus.drop_spec("43", "2");
    let (_, reason) = bus.quarantined("task-2.json");
    assert_eq!(rule(&reason), "batch_archived");
    assert!(reason.to_string().contains("choose another batch id"));
    std::fs::copy(bus.plan("batch_id = 43\n 1"), bus.path("inbox/again.json")).unwrap();
    assert_eq!(rule(&bus.quarantined("again.json").1), "batch_exists");
    std::fs::copy(bus.plan("1"), bus.path("inbox/new.json")).unwrap();
    bus.agent("44/1").waits_for_spec();
}

#[test]
fn a_batch_directory_that_is_a_link_is_not_followed() {
    let bus = Bus::new();
    let watch = bus.watch(&[]);
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("task-1.json"), r#"{"task_id": "1", "goal": "g"}"#).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), bus.path("tasks/batch-6")).unwrap();
    bus.drop_spec("7", "1");
    bus.agent("7/1").waits_for_attempt(1).delivers(SUCCESS);
    bus.ended("7");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1, "nothing was written there");
    assert!(watch.stderr().contains("batch-6 is a symbolic link"), "{}", watch.stderr());
}

#[test]
fn a_batch_directory_that_becomes_a_link_is_left_until_it_is_back() {
    let bus = Bus::new();
    let watch = bus.watch(&["close_after_seconds=1"]);
    bus.drop_spec("6", "1");
    bus.agent("6/1").waits_for_attempt(1);
    let (here, away) = (bus.path("tasks/batch-6"), bus.file("away"));
    std::fs::rename(&here, &away).unwrap();
    std::os::unix::fs::symlink(&away, &here).unwrap();
    std::fs::write(away.join("task-1.result.json"), r#"{"task_id": "1", "status": "success", "output": {}}"#)
        .unwrap();
    bus.wait_for("it is told", || watch.stderr().contains("is a symbolic link").then_some(()));
    bus.drop_spec("7", "1");
    bus.agent("7/1").waits_for_attempt(1).delivers(SUCCESS);
    bus.ended("7");
    assert!(away.join("task-1.result.json").exists(), "nothing is collected through a link");
    std::fs::remove_file(&here).unwrap();
    std::fs::rename(&away, &here).unwrap();
    assert_eq!(ending(&bus.ended("6"), "1"), "success");
}

#[test]
fn a_batch_directory_deleted_while_running_stops_that_batch_alone() {
    let bus = Bus::new();
    let watch = bus.watch(&["heartbeat_timeout_seconds=0.6", "close_after_seconds=1"]);
    bus.drop_spec("6", "1");
    bus.agent("6/1").waits_for_attempt(1);
    bus.wait_for("it is deleted", || {
        // The watcher may put something there while the rest is removed.
        let _ = std::fs::remove_dir_all(bus.path("tasks/batch-6"));
        (!bus.path("tasks/batch-6").exists()).then_some(())
    });
    bus.wait_for("it is told", || watch.stderr().contains("batch-6: is gone").then_some(()));
    bus.drop_spec_text("7", "1", r#"{"task_id": "1", "goal": "g", "max_retries": 0}"#);
    bus.agent("7/1").waits_for_attempt(1).beats();
    assert_eq!(ending(&bus.ended("7"), "1"), "failed:no_heartbeat", "the others' clocks go on");
    assert!(!watch.has_ended(), "{}", watch.stderr());
}

fn damage(path: &Path, at_line: usize) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert!(lines.len() > at_line, "{text}");
    lines[at_line - 1] = lines[at_line - 1].replacen("\"turn\":", "\"tern\":", 1);
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
}

#[test]
fn a_damaged_journal_stops_its_batch_alone_and_doctor_names_line_and_remedy() {
    let bus = Bus::new();
    let watch = bus.watch(&["close_after_seconds=1"]);
    for batch in ["6", "7"] {
        bus.drop_spec(batch, "1");
        bus.agent(&format!("{batch}/1")).waits_for_attempt(1);
    }
    watch.stop().exits(0);
    damage(&bus.path("tasks/batch-6/journal.jsonl"), 2);
    let before = std::fs::read(bus.path("tasks/batch-6/journal.jsonl")).unwrap();
    let watch = bus.watch(&["close_after_seconds=1"]);
    for batch in ["6", "7"] {
        bus.agent(&format!("{batch}/1")).delivers(SUCCESS);
    }
    assert_eq!(ending(&bus.ended("7"), "1"), "success");
    assert!(watch.stderr().contains("batch 6 is stopped"), "{}", watch.stderr());
    assert_eq!(std::fs::read(bus.path("tasks/batch-6/journal.jsonl")).unwrap(), before, "never guessed over");
    let doctor = bus.wk(&["doctor"]);
    assert_ne!(doctor.code, Some(0));
    doctor.says("line 2").says("batch 6 is stopped").says("Restore the journal from a copy");
    bus.wk(&["status", "6"]).exits(74).complains("line 2");
}

#[test]
fn a_torn_last_line_of_a_journal_is_cut_off_and_the_batch_goes_on() {
    let bus = Bus::new();
    let watch = bus.watch(&[]);
    bus.drop_spec("6", "1");
    bus.agent("6/1").waits_for_attempt(1);
    watch.kill();
    let journal = bus.path("tasks/batch-6/journal.jsonl");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes.extend_from_slice(br#"{"seq":4,"turn":3,"epoch":1,"at":"20"#);
    std::fs::write(&journal, bytes).unwrap();
    bus.wk(&["status"]).exits(0);
    let _watch = bus.watch(&[]);
    bus.agent("6/1").delivers(SUCCESS);
    assert_eq!(ending(&bus.ended("6"), "1"), "success");
}

#[test]
fn beats_that_do_not_change_in_content_are_beats_and_times_inside_decide_nothing() {
    let (bus, run) = with_neighbour(&["heartbeat_timeout_seconds=6"]);
    let path = bus.agent("1/1").heartbeat();
    let same = scene::agent::Beating::start(move |_| {
        let _ = std::fs::write(&path, r#"{"progress": "the same", "last_update": "2100-01-01T00:00:00Z"}"#);
    });
    bus.agent("1/2").beats_with(r#"{"last_update": "2100-01-01T00:00:00Z", "task_id": "of somebody else"}"#);
    let far = std::time::SystemTime::now() + std::time::Duration::from_secs(1 << 31);
    let file = std::fs::File::options().write(true).open(bus.agent("1/2").heartbeat()).unwrap();
    file.set_modified(far).unwrap();
    drop(file);
    bus.wait_event("1", "attempt_failed", "2");
    assert_eq!(bus.count("1", "attempt_failed", Some("1")), 0);
    bus.agent("1/1").delivers(SUCCESS);
    drop(same);
    bus.agent("1/2").waits_for_attempt(2).delivers(SUCCESS);
    run.ends().exits(0);
}

#[test]
fn a_flood_of_beats_is_only_one_beat_a_scan() {
    let (bus, run) = with_neighbour(&[]);
    for _ in 0..2_000 {
        bus.agent("1/1").beats();
    }
    bus.wait_event("1", "started", "1");
    bus.agent("1/1").delivers(SUCCESS);
    bus.agent("1/2").delivers(SUCCESS);
    run.ends().exits(0);
    assert!(bus.journal("1").len() < 15, "beats are not decisions");
}

#[test]
fn beats_after_the_result_change_nothing() {
    let (bus, run) = with_neighbour(&[]);
    let beating = bus.agent("1/1").keeps_beating();
    bus.agent("1/1").delivers(SUCCESS);
    bus.wait_event("1", "succeeded", "1");
    bus.agent("1/2").delivers(SUCCESS);
    run.ends().exits(0);
    drop(beating);
    assert_eq!(ending(&bus.ended("1"), "1"), "success");
}

#[test]
fn numbers_that_are_none_are_refused_in_a_result_field_by_field() {
    let (bus, _run) = with_neighbour(&[]);
    for (number, tokens) in ["-1", "1.5", "18446744073709551616", "\"many\""].iter().enumerate() {
        bus.agent("1/1").delivers_fields(SUCCESS, &format!(r#", "tokens_used": {tokens}"#));
        bus.wait_events("1", "result_refused", "1", number + 1);
        bus.wait_for("it is put away", || (!bus.agent("1/1").result().exists()).then_some(()));
    }
    bus.agent("1/1").delivers(SUCCESS);
    bus.agent("1/2").delivers_fields(SUCCESS, r#", "tokens_used": 7"#);
    let result = bus.ended("1");
    assert_eq!(task(&result, "1")["tokens_used"], serde_json::Value::Null, "missing is not zero");
    assert_eq!(result["total_tokens_used"], 7);
}
