//! Merges of agents that build upon one another: what they were given, what they share, and who of them failed.

use std::fs;

use serde_json::{Value, json};

use crate::client::Client;

/// A request whose outputs are merged by line, and in which nothing may clash.
fn strict(client: &Client, agents: &[Value]) -> Value {
    let mut request = client.request(agents);
    request["merge_strategy"]["conflict_resolution"] = json!("fail_on_conflict");
    request
}

fn given(mut entry: Value, name: &str, path: impl serde::Serialize) -> Value {
    entry["task"]["inputs"][name] = json!(path);
    entry
}

#[test]
fn a_new_file_of_the_same_name_does_not_push_aside_the_one_that_was_given() {
    let client = Client::new();
    client
        .agent("gen", "echo 'what was made' > $WK_OUTPUT_S")
        .agent("rev", "echo 'a review of it' > $WK_OUTPUT_S");
    let gen_ = client.entry("gen", &[("s", "summary.md")], &[]);
    let rev = client.entry("rev", &[("s", "summary.md")], &["gen"]);
    let rev = given(rev, "code", client.workspace("outputs/gen/summary.md"));
    client.run(&strict(&client, &[gen_, rev])).exits(1);
    assert_eq!(client.report()["merge_result"]["conflicts_detected"], 1, "{:#}", client.report());
    assert!(!client.workspace("merged").exists());
}

#[test]
fn what_was_made_from_the_given_file_takes_its_place() {
    let client = Client::new();
    client.agent("gen", "printf '1\\n2\\n3\\n' > $WK_OUTPUT_CODE");
    client.agent("fix", "sed s/2/two/ $WK_INPUT_OLD > $WK_OUTPUT_NEW");
    let first = client.entry("gen", &[("code", "code.py")], &[]);
    let then = client.entry("fix", &[("new", "code.py")], &["gen"]);
    let then = given(then, "old", client.workspace("outputs/gen/code.py"));
    client.run(&strict(&client, &[first, then])).exits(0);
    assert_eq!(client.text("merged/code.py"), "1\ntwo\n3\n");
}

#[test]
fn an_output_that_is_called_as_the_input_is_the_same_thing_whatever_is_in_it() {
    let client = Client::new();
    client.agent("gen", "echo one > $WK_OUTPUT_CODE").agent("redo", "echo 'all anew' > $WK_OUTPUT_CODE");
    let first = client.entry("gen", &[("code", "code.py")], &[]);
    let then = client.entry("redo", &[("code", "code.py")], &["gen"]);
    let then = given(then, "code", client.workspace("outputs/gen/code.py"));
    client.run(&strict(&client, &[first, then])).exits(0);
    assert_eq!(client.text("merged/code.py"), "all anew\n");
}

#[test]
fn two_copies_of_the_clients_code_merge_by_line() {
    let client = Client::new();
    fs::create_dir_all(client.stage.file("codebase/old")).unwrap();
    fs::write(client.stage.file("codebase/app.py"), "1\n2\n3\n4\n5\n6\n7\n").unwrap();
    fs::write(client.stage.file("codebase/old/kept.py"), "kept\n").unwrap();
    let copy = |edit: &str| {
        format!("cp -r $WK_INPUT_CODEBASE $WK_OUTPUT_CODE; sed -i {edit} $WK_OUTPUT_CODE/app.py")
    };
    client.agent("a", &copy("s/1/one/")).agent("b", &copy("s/7/seven/"));
    let agents = ["a", "b"].map(|name| {
        given(client.entry(name, &[("code", "code")], &[]), "codebase", client.stage.file("codebase"))
    });
    client.run(&strict(&client, &agents)).exits(0);
    assert_eq!(client.text("merged/code/app.py"), "one\n2\n3\n4\n5\n6\nseven\n");
    assert_eq!(client.text("merged/code/old/kept.py"), "kept\n");
}

#[test]
fn a_copy_that_lacks_something_of_what_was_given_is_told() {
    let client = Client::new();
    client.agent("a", "mkdir $WK_OUTPUT_CODE; cd $WK_OUTPUT_CODE; printf '1\\n2\\n' > k; echo x > obsolete");
    client.agent("b", "cp -r $WK_INPUT_OLD $WK_OUTPUT_CODE; cd $WK_OUTPUT_CODE; rm obsolete; echo 3 >> k");
    let a = client.entry("a", &[("code", "code")], &[]);
    let b = given(client.entry("b", &[("code", "code")], &["a"]), "old", client.workspace("outputs/a/code"));
    client.run(&strict(&client, &[a, b])).exits(0);
    assert_eq!(client.text("merged/code/k"), "1\n2\n3\n");
    assert!(client.workspace("merged/code/obsolete").exists());
    let warnings = client.report()["warnings"].to_string();
    assert!(warnings.contains("lacks code/obsolete"), "{warnings}");
    let receipt = client.json("receipt.json");
    let told = |line: &Value| line["agent"] == "b" && line["path"] == "code/obsolete";
    let told: Vec<&Value> = receipt["lines"].as_array().unwrap().iter().filter(|line| told(line)).collect();
    assert_eq!(told.len(), 1, "{receipt:#}");
    assert_eq!(told[0]["change"], "deleted");
    assert_eq!(told[0]["fate"], json!({"is": "dropped", "rule": "perhaps_never_copied"}));
    assert_eq!(receipt["totals"]["dropped"], 1);
    client.judge("receipt.json", "receipt");
}

/// A client's code of which one agent's copy has little left, and another's copy all.
fn rewritten(client: &Client) -> [Value; 2] {
    fs::create_dir_all(client.stage.file("codebase")).unwrap();
    for (name, content) in [
        ("version", "1.0\n"),
        ("emptied", "a\nb\n"),
        ("logo", "\0old"),
        ("one-line.json", r#"{"a": 1, "b": 2}"#),
    ] {
        fs::write(client.stage.file("codebase").join(name), content).unwrap();
    }
    let copy = "cp -r $WK_INPUT_CODEBASE $WK_OUTPUT_CODE; cd $WK_OUTPUT_CODE";
    let rewrite =
        r#"echo 2.0 > version; : > emptied; printf '\0new' > logo; echo '{"a": 9, "b": 2}' > one-line.json"#;
    client.agent("a", &format!("{copy}; {rewrite}")).agent("b", copy);
    ["a", "b"].map(|name| {
        given(client.entry(name, &[("code", "code")], &[]), "codebase", client.stage.file("codebase"))
    })
}

fn is_rewritten(client: &Client) {
    assert_eq!(
        (client.text("merged/code/version"), client.text("merged/code/emptied")),
        ("2.0\n".into(), String::new())
    );
    assert_eq!(client.text("merged/code/logo"), "\0new");
    assert_eq!(client.text("merged/code/one-line.json"), "{\"a\": 9, \"b\": 2}\n");
}

#[test]
fn a_file_that_was_rewritten_in_a_copy_of_the_clients_code_is_an_edit_of_it() {
    let client = Client::new();
    let agents = rewritten(&client);
    client.run(&strict(&client, &agents)).exits(0);
    is_rewritten(&client);
    let receipt = client.json("receipt.json");
    let edits = receipt["lines"].as_array().unwrap().iter().filter(|line| line["change"] == "edited");
    assert!(edits.clone().all(|line| line["agent"] == "a") && edits.count() == 4, "{receipt:#}");
}

#[test]
fn copies_of_the_clients_code_merge_without_a_checkpoint_too() {
    let client = Client::new();
    let agents = rewritten(&client);
    let mut request = strict(&client, &agents);
    request["execution_options"]["checkpoint_enabled"] = json!(false);
    client.run(&request).exits(0);
    is_rewritten(&client);
}

#[test]
fn json_on_one_line_merges_by_key_between_two_copies_of_the_clients_code() {
    let client = Client::new();
    fs::create_dir_all(client.stage.file("codebase")).unwrap();
    fs::write(client.stage.file("codebase/p.json"), r#"{"name": "x", "version": 1}"#).unwrap();
    let copy = |with: &str| {
        format!("cp -r $WK_INPUT_CODEBASE $WK_OUTPUT_CODE; printf '%s' '{with}' > $WK_OUTPUT_CODE/p.json")
    };
    client.agent("a", &copy(r#"{"name": "x", "version": 2}"#));
    client.agent("b", &copy(r#"{"name": "x", "version": 1, "new": true}"#));
    let agents = ["a", "b"].map(|name| {
        given(client.entry(name, &[("code", "code")], &[]), "codebase", client.stage.file("codebase"))
    });
    let mut request = strict(&client, &agents);
    request["merge_strategy"]["conflict_resolution"] = json!("auto");
    client.run(&request).exits(0);
    assert_eq!(client.json("merged/code/p.json"), json!({"name": "x", "version": 2, "new": true}));
}

#[test]
fn a_file_that_was_rewritten_in_a_copy_of_anothers_work_is_an_edit_of_it() {
    let client = Client::new();
    client.agent("a", "mkdir $WK_OUTPUT_CODE; cd $WK_OUTPUT_CODE; echo k > k; echo l > l; echo old > m");
    client.agent("b", "cp -r $WK_INPUT_OLD $WK_OUTPUT_CODE; echo 'all anew' > $WK_OUTPUT_CODE/m");
    let a = client.entry("a", &[("code", "code")], &[]);
    let b = given(client.entry("b", &[("code", "code")], &["a"]), "old", client.workspace("outputs/a/code"));
    client.run(&strict(&client, &[a, b])).exits(0);
    assert_eq!(client.text("merged/code/m"), "all anew\n");
}

#[test]
fn an_edit_follows_a_rename_in_a_copy_of_what_was_given() {
    let client = Client::new();
    let lines = "printf '1\\n2\\n3\\n4\\n5\\n'";
    let make =
        format!("mkdir $WK_OUTPUT_CODE; cd $WK_OUTPUT_CODE; {lines} > ren; echo k > keep; echo o > old");
    let copy = "cp -r $WK_INPUT_OLD $WK_OUTPUT_CODE; cd $WK_OUTPUT_CODE";
    client.agent("up", &make);
    client.agent("a", &format!("{copy}; mv ren new")).agent("b", &format!("{copy}; sed -i s/4/four/ ren"));
    let up = client.entry("up", &[("code", "code")], &[]);
    let [a, b] = ["a", "b"].map(|name| {
        given(client.entry(name, &[("code", "code")], &["up"]), "old", client.workspace("outputs/up/code"))
    });
    client.run(&strict(&client, &[up, a, b])).exits(0);
    assert_eq!(client.text("merged/code/new"), "1\n2\n3\nfour\n5\n");
    assert!(!client.workspace("merged/code/ren").exists());
    let receipt = client.json("receipt.json");
    let lines = receipt["lines"].as_array().unwrap();
    let told = |change: &str| lines.iter().any(|line| line["agent"] == "a" && line["change"] == change);
    assert!(told("renamed") && told("deleted"), "{receipt:#}");
    assert!(!client.report()["warnings"].to_string().contains("lacks"), "{:#}", client.report());
}

#[test]
fn what_a_failed_agent_left_in_a_file_of_both_is_not_merged() {
    let client = Client::new();
    fs::create_dir_all(client.workspace("")).unwrap();
    fs::write(client.workspace("f"), "1\n2\n3\n4\n5\n6\n7\n").unwrap();
    client.agent("a", "sed -i s/1/BROKEN/ $WK_OUTPUT_F; touch $WK_WORKSPACE/a-was-here; exit 1");
    client.agent(
        "b",
        "until test -e $WK_WORKSPACE/a-was-here; do sleep 0.05; done; sed -i s/7/seven/ $WK_OUTPUT_F",
    );
    let agents = ["a", "b"].map(|name| {
        let mut entry = client.entry(name, &[], &[]);
        entry["task"]["outputs"] = json!({"f": client.workspace("f")});
        entry
    });
    client.run(&strict(&client, &agents)).exits(3);
    assert_eq!(client.text("merged/f"), "1\n2\n3\n4\n5\n6\nseven\n");
    assert_eq!(client.text("f"), "BROKEN\n2\n3\n4\n5\n6\nseven\n", "the outputs themselves stay as they are");
}

#[test]
fn a_file_inside_anothers_output_has_one_place() {
    let client = Client::new();
    client.agent("a", "mkdir -p $WK_OUTPUT_SRC; printf '1\\n2\\n3\\n' > $WK_OUTPUT_SRC/m.py");
    client.agent("b", "sed -i s/2/B/ $WK_OUTPUT_M");
    let a = client.entry("a", &[("src", "src")], &[]);
    let mut b = client.entry("b", &[], &["a"]);
    b["task"]["outputs"] = json!({"m": client.workspace("outputs/a/src/m.py")});
    client.run(&strict(&client, &[a, b])).exits(0);
    assert_eq!(client.text("merged/src/m.py"), "1\nB\n3\n");
    assert!(!client.workspace("merged/m.py").exists());
}

#[test]
fn outputs_and_artifacts_of_one_task_that_end_in_the_same_name_are_both_merged() {
    let client = Client::new();
    client.agent("writer", "mkdir -p docs; echo inner > docs/README.md; echo outer > README.md");
    let context = client.stage.file("context.md");
    fs::write(&context, "# Write both\n").unwrap();
    fs::create_dir_all(client.workspace("")).unwrap();
    let request = json!({
        "tasks": [{"id": "a", "agent": client.stage.file("agents/writer"), "context_path": context, "dependencies": [],
            "outputs": ["docs/README.md"]}],
        "environment": {"workspace_dir": client.workspace("")},
        "success_criteria": {"required_artifacts": ["README.md"]},
    });
    client.run(&request).exits(0);
    assert_eq!(
        (client.text("merged/docs/README.md"), client.text("merged/README.md")),
        ("inner\n".into(), "outer\n".into())
    );
}
