//! A person decides conflicts: sees what they are about, keeps what does not clash, and may be wrong and try again.

use serde_json::{Value, json};

use crate::client::Client;

const BASE: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

/// Two agents that edit the same file; both have an edit that clashes and one that does not.
fn two_editors(client: &Client, file: &str, base: &str, first: &str, second: &str) -> Value {
    for name in ["a", "b"] {
        let dir = client.workspace("outputs").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(file), base).unwrap();
    }
    client
        .agent("a", &format!("sed -i -e {first} $WK_OUTPUT_TEXT"))
        .agent("b", &format!("sed -i -e {second} $WK_OUTPUT_TEXT"));
    client.request(&["a", "b"].map(|name| client.entry(name, &[("text", file)], &[])))
}

#[test]
fn the_agent_that_is_taken_wins_what_clashes_and_what_does_not_is_kept_of_both() {
    let client = Client::new();
    let request =
        two_editors(&client, "text.md", BASE, "s/one/ONE/ -e s/four/FOUR/", "s/one/Uno/ -e s/seven/SEVEN/");
    client.run(&request).exits(6);
    client.stage.call(&["resolve", "exec-001", "--take", "text.md=b"]).exits(0);
    assert_eq!(client.text("merged/text.md"), "Uno\ntwo\nthree\nFOUR\nfive\nsix\nSEVEN\n");
    let receipt = client.text("receipt.json");
    assert!(receipt.contains("what did not clash was kept"), "{receipt}");
}

#[test]
fn what_waits_is_shown_with_its_hunks_the_marked_up_file_and_every_version() {
    let client = Client::new();
    let request = two_editors(&client, "text.md", BASE, "s/one/ONE/", "s/one/Uno/");
    client.run(&request).exits(6);
    client.judge("conflicts.json", "conflicts");
    let told = client.stage.call(&["resolve", "exec-001"]).exits(6).out;
    for part in ["<<<<<<< a", "ONE", "Uno", ">>>>>>> b", "marked: ", "theirs:a: ", "theirs:b: ", "base: "] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let files = client.json("conflicts.json")["conflicts"][0]["files"].clone();
    let read = |word: &str| std::fs::read_to_string(files[word].as_str().unwrap()).unwrap();
    assert_eq!(read("base"), BASE);
    assert_eq!(read("theirs:a"), BASE.replace("one", "ONE"));
    assert_eq!(read("theirs:b"), BASE.replace("one", "Uno"));
    assert!(read("marked").starts_with("<<<<<<< a\nONE\n") && read("marked").ends_with("six\nseven\n"));
    // The marked-up file, edited, is what a person gives back.
    let own =
        read("marked").replace("<<<<<<< a\nONE\n||||||| base\none\n=======\nUno\n>>>>>>> b\n", "both\n");
    std::fs::write(files["marked"].as_str().unwrap(), own).unwrap();
    let given = format!("text.md={}", files["marked"].as_str().unwrap());
    client.stage.call(&["resolve", "exec-001", "--file", &given]).exits(0);
    assert_eq!(client.text("merged/text.md"), BASE.replace("one", "both"));
    assert!(!client.workspace(".wk-conflicts").exists() && !client.workspace("conflicts.json").exists());
    assert_eq!(client.report()["merge_result"]["conflicts"], json!([]));
}

#[test]
fn all_wrong_choices_are_told_at_once_and_none_is_made() {
    let client = Client::new();
    let request = two_editors(&client, "text.md", BASE, "s/one/ONE/", "s/one/Uno/");
    client.run(&request).exits(6);
    let wrong =
        ["resolve", "exec-001", "--take", "text.md=nobody", "--base", "other.md", "--take", "no-equals"];
    let told = client.stage.call(&wrong).exits(2).err;
    for part in ["nobody", "other.md", "no-equals"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    client.stage.call(&["resolve", "exec-001"]).exits(6);
}

#[test]
fn a_resolution_that_makes_no_valid_tree_is_asked_for_again() {
    let client = Client::new();
    let base = "{\n  \"name\": \"one\"\n}\n";
    let request = two_editors(&client, "data.json", base, "s/one/ONE/", "s/one/Uno/");
    client.run(&request).exits(6);
    std::fs::write(client.stage.file("torn.json"), "{ \"name\": ").unwrap();
    let torn = format!("data.json={}", client.stage.file("torn.json").display());
    client.stage.call(&["resolve", "exec-001", "--file", &torn]).exits(6);
    let report = client.report();
    assert_eq!(report["merge_result"]["awaits_resolution"], true, "{report:#}");
    assert!(report["merge_result"]["reason"].as_str().unwrap().contains("not valid"), "{report:#}");
    let counts = |told: &Value| (told["conflicts_detected"].clone(), told["conflicts_resolved"].clone());
    assert_eq!(counts(&client.json("conflicts.json")), counts(&report["merge_result"]));
    assert!(!client.workspace("merged").exists());
    client.stage.call(&["resolve", "exec-001", "--take", "data.json=a"]).exits(0);
    assert_eq!(client.text("merged/data.json"), base.replace("one", "ONE"));
}

#[test]
fn a_batch_that_failed_on_a_conflict_is_decided_afterwards_and_no_agent_runs_again() {
    let client = Client::new();
    let mut request = two_editors(&client, "text.md", BASE, "s/one/ONE/", "s/one/Uno/");
    request["merge_strategy"]["conflict_resolution"] = json!("fail_on_conflict");
    client.run(&request).exits(1);
    assert!(client.report().to_string().contains("resolve exec-001"), "{:#}", client.report());
    client.stage.call(&["resolve", "exec-001"]).exits(6).says("text.md");
    client.stage.call(&["resolve", "exec-001", "--take", "text.md=a"]).exits(0);
    assert_eq!(client.text("merged/text.md"), BASE.replace("one", "ONE"));
    assert_eq!(client.report()["status"], "success", "{:#}", client.report());
    let story = client.stage.call(&["why", "exec-001/a"]).exits(0);
    assert_eq!(story.out.matches("was started").count(), 1, "{}", story.out);
}

#[test]
fn a_decision_can_be_made_otherwise_after_the_batch_has_ended() {
    let client = Client::new();
    let request = two_editors(&client, "text.md", BASE, "s/one/ONE/", "s/one/Uno/");
    client.run(&request).exits(6);
    client.stage.call(&["resolve", "exec-001", "--take", "text.md=a"]).exits(0);
    client.stage.call(&["resolve", "exec-001"]).exits(0).says("decided");
    client.stage.call(&["resolve", "exec-001", "--take", "text.md=b"]).exits(0);
    assert_eq!(client.text("merged/text.md"), BASE.replace("one", "Uno"));
}

#[test]
fn a_batch_that_was_cancelled_while_it_waited_can_still_be_decided() {
    let client = Client::new();
    let request = two_editors(&client, "text.md", BASE, "s/one/ONE/", "s/one/Uno/");
    client.run(&request).exits(6);
    client.stage.call(&["cancel", "exec-001"]);
    let watcher = client.stage.watch(&[]);
    client.stage.ended("exec-001");
    drop(watcher);
    client.stage.call(&["resolve", "exec-001", "--take", "text.md=a"]).exits(0);
    assert_eq!(client.text("merged/text.md"), BASE.replace("one", "ONE"));
}

/// Where a file of the workspace is that a merge would have written over.
fn kept(client: &Client, round: u32, file: &str) -> std::path::PathBuf {
    let place = client.workspace(&format!(".wk-replaced/exec-001-{round}"));
    let stood = std::fs::canonicalize(client.workspace("")).unwrap().join(file);
    place.join(stood.strip_prefix("/").unwrap())
}

#[test]
fn edits_in_the_merged_tree_are_kept_when_it_is_made_anew() {
    let client = Client::new();
    let request = two_editors(&client, "text.md", BASE, "s/one/ONE/", "s/one/Uno/");
    client.run(&request).exits(6);
    client.stage.call(&["resolve", "exec-001", "--take", "text.md=a"]).exits(0);
    let warnings = client.report()["merge_result"]["warnings"].to_string();
    assert!(!warnings.contains("kept in"), "nothing was edited yet: {warnings}");
    assert!(!client.workspace(".wk-replaced").exists());
    std::fs::write(client.workspace("merged/text.md"), "by hand\n").unwrap();
    std::fs::write(client.workspace("merged/notes.md"), "and more\n").unwrap();
    let told = client.stage.call(&["resolve", "exec-001", "--take", "text.md=b"]).exits(0).out;
    assert_eq!(client.text("merged/text.md"), BASE.replace("one", "Uno"));
    assert!(told.contains(".wk-replaced/exec-001-3"), "{told}");
    let read = |file: &str| std::fs::read_to_string(kept(&client, 3, file)).unwrap();
    assert_eq!((read("merged/text.md"), read("merged/notes.md")), ("by hand\n".into(), "and more\n".into()));
}

#[test]
fn a_marked_up_file_stays_as_it_was_edited_until_its_conflict_is_decided() {
    let client = Client::new();
    let base = "{\n  \"name\": \"one\"\n}\n";
    let request = two_editors(&client, "data.json", base, "s/one/ONE/", "s/one/Uno/");
    client.run(&request).exits(6);
    let marked = client.json("conflicts.json")["conflicts"][0]["files"]["marked"].clone();
    let marked = marked.as_str().unwrap();
    // A mark was overlooked, so that this is no JSON.
    let edited = std::fs::read_to_string(marked).unwrap().replace("ONE", "both");
    std::fs::write(marked, &edited).unwrap();
    client.stage.call(&["resolve", "exec-001", "--file", &format!("data.json={marked}")]).exits(6);
    assert_eq!(std::fs::read_to_string(marked).unwrap(), edited);
    // What is left unused is not lost either.
    std::fs::write(marked, "half of a third try").unwrap();
    client.stage.call(&["resolve", "exec-001", "--take", "data.json=a"]).exits(0);
    assert_eq!(client.text("merged/data.json"), base.replace("one", "ONE"));
    let within = std::path::Path::new(marked).strip_prefix(client.workspace("")).unwrap().to_owned();
    let left = std::fs::read_to_string(kept(&client, 3, within.to_str().unwrap())).unwrap();
    assert_eq!(left, "half of a third try");
}
