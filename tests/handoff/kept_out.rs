//! What is in no merge: what failed, what nobody's work is, what came too late; and what is told of the rest.

use serde_json::{Value, json};

use crate::client::Client;

fn lines_of(client: &Client, agent: &str) -> Vec<(String, String)> {
    let receipt = client.json("receipt.json");
    let lines = receipt["lines"].as_array().unwrap().iter().filter(|line| line["agent"] == agent);
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    lines.map(|line| (word(&line["path"]), word(&line["change"]))).collect()
}

/// One agent that makes a tree, from the client's code where there is some.
fn one_agent(client: &Client, script: &str) -> Value {
    client.agent("a", script);
    let mut entry = client.entry("a", &[("tree", "tree")], &[]);
    if client.stage.file("code").exists() {
        entry["task"]["inputs"] = json!({"codebase": client.stage.file("code")});
    }
    client.request(&[entry])
}

fn code(client: &Client, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = client.stage.file("code").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn what_an_attempt_that_failed_left_in_an_output_is_in_no_merge_and_is_told() {
    let client = Client::new();
    let mut request = one_agent(
        &client,
        "mkdir -p $WK_OUTPUT_TREE; cd $WK_OUTPUT_TREE
        if test -e junk; then echo good > good; exit 0; fi; echo junk > junk; exit 1",
    );
    request["execution_options"] = json!({"retry_on_failure": true, "max_retries": 1});
    let told = client.run(&request).exits(0);
    assert!(client.workspace("merged/tree/good").exists());
    assert!(!client.workspace("merged/tree/junk").exists());
    assert!(told.out.contains("an attempt that failed left tree/junk"), "{}", told.out);
    assert!(client.workspace("outputs/a/tree/junk").exists(), "it stays where it is");
}

#[test]
fn a_repository_and_what_the_clients_rules_ignore_are_in_no_merge_and_no_receipt() {
    let client = Client::new();
    code(&client, &[(".gitignore", "*.log\n/build/\n"), ("app.py", "print()\n")]);
    let request = one_agent(
        &client,
        "cp -r $WK_INPUT_CODEBASE $WK_OUTPUT_TREE; cd $WK_OUTPUT_TREE; echo 'x = 1' >> app.py
        mkdir .git build node_modules; echo ref > .git/HEAD; echo o > build/app.o; echo j > node_modules/x.js
        echo trace > run.log; echo '*.py' >> .gitignore",
    );
    client.run(&request).exits(0);
    assert!(client.text("merged/tree/app.py").ends_with("x = 1\n"), "an agent's own rules hide nothing");
    for out in [".git", "build", "node_modules", "run.log"] {
        assert!(!client.workspace("merged/tree").join(out).exists(), "{out}");
    }
    let told: Vec<String> = lines_of(&client, "a").into_iter().map(|(path, _)| path).collect();
    assert_eq!(told, ["tree", "tree/.gitignore", "tree/app.py"]);
}

#[test]
fn an_ignored_file_that_is_declared_or_named_is_merged() {
    let client = Client::new();
    code(&client, &[(".gitignore", "*.log\ndist/\n"), ("app.py", "print()\n")]);
    let request = one_agent(
        &client,
        "cp -r $WK_INPUT_CODEBASE $WK_OUTPUT_TREE; cd $WK_OUTPUT_TREE; echo trace > run.log; mkdir dist; echo d > dist/d
        echo \"{\\\"task_id\\\":\\\"$WK_TASK_ID\\\",\\\"status\\\":\\\"success\\\",\
        \\\"output\\\":{\\\"files_created\\\":[\\\"outputs/a/tree/run.log\\\"]}}\" > $WK_RESULT",
    );
    client.run(&request).exits(0);
    assert!(client.workspace("merged/tree/run.log").exists());
    assert!(!client.workspace("merged/tree/dist").exists());
}

#[test]
fn an_ignored_file_that_an_agent_overwrote_comes_back_and_the_repository_is_not_kept() {
    let client = Client::new();
    code(&client, &[(".gitignore", ".env\n"), (".env", "SECRET=1\n"), (".git/HEAD", "ref: main\n")]);
    let request = one_agent(
        &client,
        "mkdir -p $WK_OUTPUT_TREE; echo x > $WK_OUTPUT_TREE/x
        cd $WK_INPUT_CODEBASE; echo SECRET=2 > .env; echo other > .git/HEAD",
    );
    client.run(&request).exits(0);
    assert!(!client.text("checkpoint/manifest.json").contains(".git/HEAD"));
    client.stage.call(&["undo", "exec-001", "--take-all"]).exits(0);
    let read = |name: &str| std::fs::read_to_string(client.stage.file("code").join(name)).unwrap();
    assert_eq!((read(".env").as_str(), read(".git/HEAD").as_str()), ("SECRET=1\n", "other\n"));
}

#[test]
fn a_deletion_that_the_agent_names_is_merged_and_a_doubtful_one_is_told_in_the_summary() {
    let client = Client::new();
    code(
        &client,
        &[("a.py", "a\n"), ("old.py", "old\n"), ("lost.py", "lost\n"), ("b.py", "b\n"), ("c.py", "c\n")],
    );
    client.agent("keeper", "cp -r $WK_INPUT_CODEBASE $WK_OUTPUT_TREE; echo more >> $WK_OUTPUT_TREE/a.py");
    client.agent(
        "remover",
        "cp -r $WK_INPUT_CODEBASE $WK_OUTPUT_TREE; rm $WK_OUTPUT_TREE/old.py $WK_OUTPUT_TREE/lost.py
        echo \"{\\\"task_id\\\":\\\"$WK_TASK_ID\\\",\\\"status\\\":\\\"success\\\",\
        \\\"output\\\":{\\\"files_deleted\\\":[\\\"old.py\\\"]}}\" > $WK_RESULT",
    );
    let entries = ["keeper", "remover"].map(|name| {
        let mut entry = client.entry(name, &[("tree", "tree")], &[]);
        entry["task"]["inputs"] = json!({"codebase": client.stage.file("code")});
        entry
    });
    let told = client.run(&client.request(&entries)).exits(0);
    assert!(!client.workspace("merged/tree/old.py").exists());
    assert!(client.workspace("merged/tree/lost.py").exists());
    assert!(told.out.contains("lacks tree/lost.py"), "{}", told.out);
    let unchanged = lines_of(&client, "remover");
    assert!(unchanged.contains(&("tree/b.py".into(), "unchanged".into())), "{unchanged:?}");
}

#[test]
fn what_was_wiped_or_changed_undeclared_is_in_the_summary_and_in_the_status() {
    let client = Client::new();
    code(&client, &[("lib/one.py", "1\n"), ("lib/two.py", "2\n"), ("app.py", "print()\n")]);
    let request = one_agent(
        &client,
        "mkdir -p $WK_OUTPUT_TREE; echo x > $WK_OUTPUT_TREE/x; rm -r $WK_INPUT_CODEBASE/lib; echo y >> $WK_INPUT_CODEBASE/app.py",
    );
    let told = client.run(&request).exits(0).out;
    let status = client.stage.call(&["status", "exec-001"]).exits(0).out;
    for text in [&told, &status] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("lib (wiped: 2 files)"), "{text}");
        assert!(text.contains("app.py"), "{text}");
    }
}

#[test]
fn a_batch_that_is_cancelled_while_it_is_merged_publishes_nothing() {
    let client = Client::new();
    let request = one_agent(
        &client,
        "mkdir -p $WK_OUTPUT_TREE; cd $WK_OUTPUT_TREE; seq 1 10000 | split -l 1 -a 4 - part-",
    );
    let run = client.start(&request, &[]);
    client.stage.wait_for("the merge", || {
        let status: Value =
            serde_json::from_str(&std::fs::read_to_string(client.workspace("status.json")).ok()?).ok()?;
        (status["stage"] == "merging" || run.has_ended()).then_some(())
    });
    client.stage.call(&["cancel", "exec-001"]);
    run.ends().exits(5);
    assert!(!client.workspace("merged").exists());
    assert_eq!(client.report()["merge_result"]["status"], "skipped", "{:#}", client.report()["merge_result"]);
}
