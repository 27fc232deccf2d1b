//! Results as agents write them: other words, other spellings of paths, and JSON that is none.

use crate::scene::{Bus, ending, task};

#[test]
fn words_of_agents_for_success_and_failure_are_understood() {
    let bus = Bus::new();
    let words = ["ok", "done", "completed", "Success", "Error"];
    let tasks: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let plan = bus.plan(&format!("batch_id = 7\n max_retries = 0\n{}", tasks.join("\n")));
    let run = bus.run(&plan, &[]);
    for (word, key) in words.iter().zip(&tasks) {
        let result = format!(r#"{{"task_id": "{key}", "status": "{word}", "output": {{}}}}"#);
        bus.agent(&format!("7/{key}")).waits_for_spec().delivers_text(&result);
    }
    run.ends().exits(3);
    let result = bus.ended("7");
    for key in &tasks[..4] {
        assert_eq!(ending(&result, key), "success");
    }
    assert_eq!(ending(&result, "error"), "failed:agent_reported");
    assert_eq!(bus.quarantine().len(), 0);
}

#[test]
fn two_tasks_that_spell_one_file_differently_are_in_conflict() {
    let bus = Bus::new();
    let plan = bus.plan("batch_id = 7\n 1\n 2\n 3");
    let run = bus.run(&plan, &[]);
    for key in ["1", "2", "3"] {
        bus.agent(&format!("7/{key}")).waits_for_spec();
    }
    std::fs::create_dir(bus.file("src")).unwrap();
    std::fs::write(bus.file("src/a.rs"), "new").unwrap();
    let absolute = std::fs::canonicalize(bus.file("src/a.rs")).unwrap();
    for (key, file) in [("1", "src/a.rs"), ("2", absolute.to_str().unwrap()), ("3", "./src//./a.rs")] {
        bus.agent(&format!("7/{key}")).delivers_files(&[file]);
    }
    run.ends().exits(0);
    let result = bus.ended("7");
    let conflicts = result["conflicts"].as_array().unwrap();
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    assert_eq!(
        (&conflicts[0]["file"], conflicts[0]["tasks"].as_array().unwrap().len()),
        (&"src/a.rs".into(), 3)
    );
}

#[test]
fn a_result_that_is_no_json_says_which_of_the_usual_mistakes_it_has() {
    let bus = Bus::new();
    let good = r#""task_id": "1", "status": "success", "output": {}"#;
    let cases = [
        (format!("{{{good},}}"), "comma after the last entry"),
        (format!("{{ // done\n{good}}}"), "a comment"),
        (format!("{{{good}}}\n{{{good}}}"), "a second JSON value"),
        (format!("{{{good}}}\0\0\0"), "NUL bytes"),
        (format!("{{{}}}", good.replace('"', "'")), "single quotes"),
    ];
    let tasks: Vec<String> = (1..=cases.len()).map(|number| format!(" {number} max_retries=0")).collect();
    let plan = bus.plan(&format!("batch_id = 7\n{}", tasks.join("\n")));
    let run = bus.run(&plan, &["heartbeat_timeout_seconds=4"]);
    for (number, (text, _)) in (1..).zip(&cases) {
        let text = text.replace(r#""task_id": "1""#, &format!(r#""task_id": "{number}""#));
        bus.agent(&format!("7/{number}")).waits_for_spec().beats().delivers_text(&text);
    }
    run.ends().exits(1);
    let result = bus.ended("7");
    for (number, (_, told)) in (1..).zip(&cases) {
        let key = number.to_string();
        assert_eq!(ending(&result, &key), "failed:result_refused");
        let reason = task(&result, &key)["reason"].as_str().unwrap();
        assert!(reason.contains(told), "{told}: {reason}");
    }
}
