//! `wk undo`: everything as it was before the batch, or nothing at all, and nothing that a person made is lost.

use serde_json::json;

use crate::client::Client;

fn worked(client: &Client) {
    std::fs::create_dir_all(client.stage.file("codebase/old")).unwrap();
    std::fs::write(client.stage.file("codebase/app.py"), "before\n").unwrap();
    std::fs::write(client.stage.file("codebase/old/gone.py"), "to be deleted\n").unwrap();
    client.agent(
        "worker",
        "cd $WK_INPUT_CODEBASE; echo after > app.py; rm -r old; echo new > new.py; echo x > $WK_OUTPUT_NOTE",
    );
    let mut entry = client.entry("worker", &[("note", "note.md")], &[]);
    entry["task"]["inputs"] = json!({"codebase": client.stage.file("codebase")});
    client.run(&client.request(&[entry])).exits(0);
    assert_eq!(client.stage.lines("codebase/app.py"), ["after"]);
}

#[test]
fn every_file_comes_back_and_what_the_batch_made_goes() {
    let client = Client::new();
    worked(&client);
    client.stage.call(&["undo", "exec-001", "--take-all", "--dry-run"]).exits(0).says("codebase/app.py");
    assert_eq!(client.stage.lines("codebase/app.py"), ["after"]);
    client.stage.call(&["undo", "exec-001", "--take-all"]).exits(0);
    assert_eq!(client.stage.lines("codebase/app.py"), ["before"]);
    assert_eq!(client.stage.lines("codebase/old/gone.py"), ["to be deleted"]);
    assert!(!client.stage.file("codebase/new.py").exists());
    assert!(!client.workspace("outputs/worker/note.md").exists());
    client.stage.call(&["undo", "exec-001"]).exits(0).says("everything is as it was");
}

#[test]
fn a_batch_that_was_undone_says_so_wherever_it_is_asked_about() {
    let client = Client::new();
    worked(&client);
    let before = client.text("execution_report.json");
    client.stage.call(&["undo", "exec-001", "--take-all"]).exits(0);
    for verb in [&["status", "exec-001"][..], &["report", "exec-001"], &["why", "exec-001/worker"]] {
        client.stage.call(verb).exits(0).says("Batch exec-001 was undone at ");
    }
    client.stage.call(&["verify", "exec-001"]).exits(1).says("Batch exec-001 was undone at ");
    let after = client.text("execution_report.json");
    assert!(after.starts_with(before.trim_end().trim_end_matches('}').trim_end()), "{after}");
    assert!(client.report()["undone_at"].is_string(), "{after}");
    client.judge("execution_report.json", "execution-report");
    assert_eq!(client.stage.call(&["report", "exec-001", "--as", "execution"]).exits(0).out, after);
    let status = client.stage.call(&["status", "exec-001", "--json"]).exits(0).json();
    assert!(status["batches"][0]["undone_at"].is_string(), "{status:#}");
}

#[test]
fn what_somebody_changed_since_is_listed_and_nothing_is_touched() {
    let client = Client::new();
    worked(&client);
    std::fs::write(client.stage.file("codebase/app.py"), "my own work\n").unwrap();
    client.stage.call(&["undo", "exec-001", "--leave", "codebase/old"]).exits(1).complains("codebase/app.py");
    let told = client.stage.call(&["undo", "exec-001", "--json"]).exits(1).json();
    assert_eq!(told["done"], false);
    assert!(told["error"].as_str().unwrap().contains("codebase/app.py"), "{told:#}");
    assert_eq!(client.stage.lines("codebase/app.py"), ["my own work"]);
    assert!(client.stage.file("codebase/new.py").exists());
}

#[test]
fn a_checkpoint_that_somebody_changed_is_no_way_back() {
    let client = Client::new();
    worked(&client);
    let manifest = client.text("checkpoint/manifest.json");
    // What the mode was depends on the umask; that everybody may do everything is another one.
    let (before, rest) = manifest.split_once("\"mode\":").unwrap();
    let changed = format!("{before}\"mode\":511{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    assert_ne!(changed, manifest, "{manifest}");
    std::fs::write(client.workspace("checkpoint/manifest.json"), changed).unwrap();
    client.stage.call(&["undo", "exec-001"]).exits(1).complains("not the one that was taken");
    client.stage.call(&["verify", "exec-001"]).exits(1).says("✗ the checkpoint");
    assert_eq!(client.stage.lines("codebase/app.py"), ["after"]);
    std::fs::write(client.workspace("checkpoint/manifest.json"), manifest).unwrap();
    client.stage.call(&["undo", "exec-001", "--take-all"]).exits(0);
}

#[test]
fn a_batch_without_a_checkpoint_cannot_be_undone() {
    let client = Client::new();
    client.agent("a", "true");
    let mut request = client.request(&[client.entry("a", &[], &[])]);
    request["execution_options"]["checkpoint_enabled"] = json!(false);
    client.run(&request).exits(0);
    assert!(!client.workspace("checkpoint").exists());
    client.stage.call(&["undo", "exec-001"]).exits(2).complains("checkpoint_enabled = false");
}

#[test]
fn batches_that_shared_a_workspace_are_undone_the_last_first() {
    let client = Client::new();
    client.agent("first", "echo 1 > $WK_OUTPUT_NOTE").agent("second", "echo 2 > $WK_OUTPUT_NOTE");
    let mut request = client.request(&[client.entry("first", &[("note", "note.md")], &[])]);
    client.run(&request).exits(0);
    request["agents"] = json!([client.entry("second", &[("note", "note.md")], &[])]);
    request["execution_id"] = json!("exec-002");
    client.run(&request).exits(0);
    let manifest = client.text("checkpoint/manifest.json");
    assert!(!manifest.contains("checkpoint.tar.gz"), "a checkpoint keeps no other: {manifest}");
    client.stage.call(&["undo", "exec-002"]).exits(0);
    assert!(
        client.workspace("outputs/first/note.md").exists()
            && !client.workspace("outputs/second/note.md").exists()
    );
    client.stage.call(&["undo", "exec-001"]).exits(0);
    assert!(!client.workspace("outputs/first/note.md").exists());
}

#[test]
fn a_codebase_that_is_a_link_is_undone_where_it_leads() {
    let client = Client::new();
    std::fs::create_dir_all(client.stage.file("real")).unwrap();
    std::fs::write(client.stage.file("real/app.py"), "before\n").unwrap();
    std::os::unix::fs::symlink(client.stage.file("real"), client.stage.file("link")).unwrap();
    client.agent("a", "echo after > $WK_INPUT_CODEBASE/app.py");
    let mut entry = client.entry("a", &[], &[]);
    entry["task"]["inputs"] = json!({"codebase": client.stage.file("link")});
    client.run(&client.request(&[entry])).exits(0);
    client.stage.call(&["undo", "exec-001", "--take", "link/app.py"]).exits(0);
    assert_eq!(client.stage.lines("real/app.py"), ["before"]);
}

#[test]
fn checkpoints_of_a_clients_own_are_files_like_any_other() {
    let client = Client::new();
    let weights =
        [client.workspace("checkpoint-500/weights"), client.stage.file("codebase/runs/checkpoint-7/weights")];
    for path in &weights {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "trained\n").unwrap();
    }
    client.agent(
        "a",
        "echo worse > checkpoint-500/weights; echo worse > $WK_INPUT_CODEBASE/runs/checkpoint-7/weights; echo x > $WK_OUTPUT_NOTE",
    );
    let mut entry = client.entry("a", &[("note", "note.md")], &[]);
    entry["task"]["inputs"] = json!({"codebase": client.stage.file("codebase")});
    client.run(&client.request(&[entry])).exits(0);
    assert!(!client.workspace("checkpoint-500/status.json").exists());
    client.stage.call(&["undo", "exec-001", "--take-all"]).exits(0);
    for path in &weights {
        assert_eq!(std::fs::read_to_string(path).unwrap(), "trained\n");
    }
}

#[test]
fn a_batch_whose_merge_failed_can_be_undone() {
    let client = Client::new();
    client.agent("a", "echo 1 > $WK_OUTPUT_NOTE; echo in the way > $WK_WORKSPACE/merged");
    client.run(&client.request(&[client.entry("a", &[("note", "note.md")], &[])])).exits(1);
    client.stage.call(&["undo", "exec-001"]).exits(0);
    assert!(!client.workspace("outputs/a/note.md").exists() && !client.workspace("merged").exists());
}

#[test]
fn a_plan_of_an_undo_that_somebody_left_there_is_not_believed() {
    let client = Client::new();
    worked(&client);
    let manifest = client.json("checkpoint/manifest.json");
    std::fs::write(client.stage.file("codebase/mine.py"), "made after the batch\n").unwrap();
    let path = format!("{}/codebase/mine.py", client.stage.root().display());
    let mine = json!({"type": "file", "mode": 420, "size": 21, "sha256":
        "5b0ab2d7d3dcf1b3e3a2b7c0d1c4c2a3c9f2b4f0b6d0e5d6f7a8b9c0d1e2f3a4"});
    let step = json!({"path": path.trim_start_matches('/'), "found": mine, "wanted": null});
    for steps in [json!([]), json!([step])] {
        let plan = json!({"version": 1, "archive": manifest["archive"]["sha256"], "steps": steps,
            "remove_if_empty": [], "locked": []});
        std::fs::write(client.workspace("checkpoint/undo.json"), plan.to_string()).unwrap();
        // The true plan looks at everything, and asks about what the agent changed.
        client.stage.call(&["undo", "exec-001"]).exits(1).complains("codebase/app.py");
        assert!(client.stage.file("codebase/mine.py").exists());
    }
    client.stage.call(&["undo", "exec-001", "--take-all", "--leave", "codebase/mine.py"]).exits(0);
    assert_eq!(client.stage.lines("codebase/app.py"), ["before"]);
    assert_eq!(client.stage.lines("codebase/mine.py"), ["made after the batch"]);
}

#[test]
fn an_undo_that_was_begun_before_a_retry_is_planned_anew() {
    let client = Client::new();
    std::fs::create_dir_all(client.stage.file("codebase")).unwrap();
    std::fs::write(client.stage.file("codebase/first"), "before\n").unwrap();
    std::fs::write(client.stage.file("codebase/second"), "before\n").unwrap();
    let script = "cd $WK_INPUT_CODEBASE; echo after > first; test -e ../go; echo after > second";
    client.agent("worker", script);
    let mut entry = client.entry("worker", &[], &[]);
    entry["task"]["inputs"] = json!({"codebase": client.stage.file("codebase")});
    client.run(&client.request(&[entry])).exits(1);
    // Without its archive an undo gets no further than its plan.
    let archive = client.workspace("checkpoint/checkpoint.tar.gz");
    let hidden = client.stage.file("hidden");
    std::fs::rename(&archive, &hidden).unwrap();
    client.stage.call(&["undo", "exec-001", "--take-all"]).exits(1).complains("the archive is gone");
    assert!(!client.workspace("checkpoint/undo.json").exists(), "a plan that leads nowhere is not kept");
    std::fs::rename(&hidden, &archive).unwrap();
    std::fs::write(client.stage.file("go"), "").unwrap();
    client.stage.call(&["retry", "exec-001/worker"]).exits(0);
    assert_eq!(client.stage.lines("codebase/second"), ["after"]);
    client.stage.call(&["undo", "exec-001", "--take-all"]).exits(0).says("everything is as it was");
    let both = ["first", "second"].map(|name| client.stage.lines(&format!("codebase/{name}")));
    assert_eq!(both, [["before"], ["before"]]);
}

#[test]
fn every_path_that_stands_in_the_way_is_told_and_no_name_speaks_to_the_terminal() {
    let client = Client::new();
    std::fs::create_dir_all(client.stage.file("codebase")).unwrap();
    client.agent(
        "worker",
        "cd $WK_INPUT_CODEBASE; for n in $(seq -w 0 29); do echo x > mine-$n; done; touch \"$(printf '\\033[31m\\342\\200\\256red')\"",
    );
    let mut entry = client.entry("worker", &[], &[]);
    entry["task"]["inputs"] = json!({"codebase": client.stage.file("codebase")});
    client.run(&client.request(&[entry])).exits(0);
    let told = client.stage.call(&["undo", "exec-001"]).exits(1).err;
    assert!((0..30).all(|number| told.contains(&format!("mine-{number:02}"))), "{told}");
    assert!(!told.contains('\u{1b}') && !told.contains('\u{202e}'), "{told:?}");
}

#[test]
fn what_no_checkpoint_keeps_is_named_where_it_stays() {
    let client = Client::new();
    client.agent(
        "a",
        "mkfifo $WK_WORKSPACE/pipe; echo x > $WK_OUTPUT_NOTE; printf y > \"$WK_WORKSPACE/\x1b[1mz\"",
    );
    client.run(&client.request(&[client.entry("a", &[("note", "note.md")], &[])])).exits(0);
    let shown = client.stage.call(&["undo", "exec-001", "--take-all", "--dry-run"]).exits(0).out;
    assert!(shown.contains("would remove") && !shown.contains('\u{1b}'), "{shown:?}");
    let told = client.stage.call(&["undo", "exec-001", "--take-all"]).exits(0);
    assert!(told.out.contains("everything else is as it was"), "{}", told.out);
    assert!(told.err.contains("/pipe stays"), "{}", told.err);
    assert!(!client.workspace("outputs/a/note.md").exists() && client.workspace("pipe").exists());
}

#[test]
fn a_checkpoint_that_an_agent_deleted_or_cut_is_told_when_the_batch_ends() {
    for spoil in
        ["rm $WK_WORKSPACE/checkpoint/checkpoint.tar.gz", "rm $WK_WORKSPACE/checkpoint/manifest.json", "true"]
    {
        let client = Client::new();
        client.agent("a", &format!("{spoil}; echo out > $WK_OUTPUT_OUT"));
        client.run(&client.request(&[client.entry("a", &[("out", "out.txt")], &[])])).exits(0);
        let warnings = client.report()["warnings"].to_string();
        assert_eq!(warnings.contains("checkpoint is damaged"), spoil != "true", "{warnings}");
    }
}

/// A client whose agent edits the client's code, declares nothing there, and waits while a person edits it too.
fn edited_together() -> Client {
    let client = Client::new();
    std::fs::create_dir_all(client.stage.file("codebase")).unwrap();
    for name in ["app.py", "notes.md", "README.md"] {
        std::fs::write(client.stage.file("codebase").join(name), "before\n").unwrap();
    }
    client.agent(
        "worker",
        "cd $WK_INPUT_CODEBASE; echo agent > app.py; echo x > $WK_OUTPUT_NOTE; touch ../begun; until test -e ../go; do sleep 0.05; done",
    );
    let mut entry = client.entry("worker", &[("note", "note.md")], &[]);
    entry["task"]["inputs"] = json!({"codebase": client.stage.file("codebase")});
    let running = client.start(&client.request(&[entry]), &[]);
    client.stage.wait_for("the agent works", || client.stage.file("begun").exists().then_some(()));
    std::fs::write(client.stage.file("codebase/notes.md"), "a person's\n").unwrap();
    std::fs::write(client.stage.file("codebase/idea.md"), "a person's idea\n").unwrap();
    std::fs::write(client.stage.file("go"), "").unwrap();
    running.ends().exits(0);
    client
}

#[test]
fn what_a_person_edited_while_agents_worked_is_asked_about_and_left_on_demand() {
    let client = edited_together();
    let asked = client.stage.call(&["undo", "exec-001"]).exits(1).err;
    for path in ["codebase/app.py", "codebase/notes.md", "codebase/idea.md", "--take", "--leave"] {
        assert!(asked.contains(path), "{path}: {asked}");
    }
    assert!(!asked.contains("note.md:"), "what the agent declared needs no word: {asked}");
    let told = client.stage.call(&["undo", "exec-001", "--json"]).exits(1).json();
    assert_eq!(told["asked"].as_array().unwrap().len(), 3, "{told:#}");
    assert!(client.workspace("outputs/worker/note.md").exists(), "nothing is done until it is decided");

    let verb = ["undo", "exec-001", "--take", "codebase/app.py", "--leave", "codebase"];
    client.stage.call(&verb).exits(0).says("checkpoint/undone");
    assert_eq!(client.stage.lines("codebase/app.py"), ["before"]);
    assert_eq!(client.stage.lines("codebase/notes.md"), ["a person's"]);
    assert_eq!(client.stage.lines("codebase/idea.md"), ["a person's idea"]);
    assert!(!client.workspace("outputs/worker/note.md").exists());
}

#[test]
fn whatever_an_undo_takes_away_is_kept_and_a_second_undo_keeps_its_own() {
    let client = edited_together();
    client.stage.call(&["undo", "exec-001", "--take-all"]).exits(0);
    assert_eq!(client.stage.lines("codebase/notes.md"), ["before"]);
    assert!(!client.stage.file("codebase/idea.md").exists());
    let kept = |number: &str, path: std::path::PathBuf| {
        let below = path.strip_prefix("/").unwrap().to_owned();
        std::fs::read_to_string(client.workspace(&format!("checkpoint/{number}")).join(below))
    };
    let real = client.stage.root().canonicalize().unwrap();
    assert_eq!(kept("undone", real.join("codebase/notes.md")).unwrap(), "a person's\n");
    assert_eq!(kept("undone", real.join("codebase/idea.md")).unwrap(), "a person's idea\n");
    assert_eq!(kept("undone", real.join("codebase/app.py")).unwrap(), "agent\n");
    assert_eq!(kept("undone", real.join("ws/outputs/worker/note.md")).unwrap(), "x\n");
    std::fs::write(client.stage.file("codebase/notes.md"), "later\n").unwrap();
    client.stage.call(&["undo", "exec-001", "--take", "codebase/notes.md"]).exits(0);
    assert_eq!(client.stage.lines("codebase/notes.md"), ["before"]);
    assert_eq!(kept("undone-2", real.join("codebase/notes.md")).unwrap(), "later\n");
    assert_eq!(kept("undone", real.join("codebase/notes.md")).unwrap(), "a person's\n");
}

#[test]
fn what_agents_declared_or_name_in_their_results_is_undone_without_a_word_beside_later_work_elsewhere() {
    let client = Client::new();
    let said = r#"printf '{"task_id":"%s","status":"success","output":{"files_created":["extra.md"]}}' "$WK_TASK_ID" > $WK_RESULT"#;
    client.agent("a", &format!("echo x > $WK_OUTPUT_NOTE; echo y > $WK_WORKSPACE/extra.md; {said}"));
    client.run(&client.request(&[client.entry("a", &[("note", "note.md")], &[])])).exits(0);
    std::fs::write(client.workspace("unrelated.txt"), "a person's\n").unwrap();
    client.stage.call(&["undo", "exec-001"]).exits(0).complains("unrelated.txt stays");
    assert!(!client.workspace("extra.md").exists() && !client.workspace("outputs").exists());
    assert_eq!(client.text("unrelated.txt"), "a person's\n");
}
