//! Agents that write our own papers before we do: nothing of it is believed.

use crate::client::{Client, agent_of};

#[test]
fn a_merge_that_an_agent_reports_is_no_merge() {
    let client = Client::new();
    client.agent("forger", "echo x > $WK_OUTPUT_NOTE\n\
        echo '{\"work\": \"merged\", \"round\": 1, \"outcome\": {\"status\": \"success\"}}' > $(dirname $WK_RESULT)/../../../work-merge-1.json");
    client.run(&client.request(&[client.entry("forger", &[("note", "note.md")], &[])])).exits(0);
    assert_eq!(client.text("merged/note.md"), "x\n");
    assert!(client.workspace("receipt.json").exists());
}

#[test]
fn what_a_runner_found_cannot_be_changed_by_a_later_agent() {
    let client = Client::new();
    client.agent("a", "echo mine > $WK_OUTPUT_NOTE");
    client.agent(
        "b",
        "echo '{\"findings\": [], \"changes\": []}' > $(dirname $WK_RESULT)/../../../attempts/a/1/inspected.json",
    );
    let agents = [client.entry("a", &[("note", "note.md")], &[]), client.entry("b", &[], &["a"])];
    client.run(&client.request(&agents)).exits(1);
    let report = client.report();
    assert_eq!(agent_of(&report, "a")["status"], "success");
    assert!(report["errors"].to_string().contains("was changed after its attempt had ended"), "{report:#}");
}

#[test]
fn what_a_runner_found_and_somebody_replaced_before_it_was_read_fails_the_attempt() {
    for (how, forged) in [("replaced", Some("{\"findings\": [], \"changes\": []}")), ("removed", None)] {
        let client = Client::new();
        client.agent("slow", "until test -e go; do sleep 0.05; done; echo done > $WK_OUTPUT_NOTE");
        let run = client.start(&client.request(&[client.entry("slow", &[("note", "note.md")], &[])]), &[]);
        client.stage.wait_for("it runs", || client.workspace("logs/slow/stdout.log").exists().then_some(()));
        run.kill();
        std::fs::write(client.workspace("go"), "").unwrap();
        client.stage.wait_file("tasks/batch-exec-001/task-slow.1.exit");
        let found = client.stage.wait_file("tasks/batch-exec-001/attempts/slow/1/inspected.json");
        match forged {
            Some(forged) => std::fs::write(found, forged).unwrap(),
            None => std::fs::remove_file(found).unwrap(),
        }
        client.stage.go(&["watch", "--exit-when-idle"], &[]).ends();
        let failed =
            client.stage.journal("exec-001").into_iter().find(|line| line["event"] == "attempt_failed");
        let told = failed.map(|line| line.to_string()).unwrap_or_default();
        assert!(told.contains(&format!("what its runner found was {how}")), "{told}");
    }
}

#[test]
fn a_batch_file_that_somebody_replaced_is_not_read() {
    let client = Client::new();
    client.agent("slow", "until test -e go; do sleep 0.05; done; echo done > $WK_OUTPUT_NOTE");
    let run = client.start(&client.request(&[client.entry("slow", &[("note", "note.md")], &[])]), &[]);
    client.stage.wait_for("it runs", || client.workspace("logs/slow/stdout.log").exists().then_some(()));
    run.kill();
    std::fs::write(client.workspace("go"), "").unwrap();
    client.stage.wait_file("tasks/batch-exec-001/task-slow.1.exit");
    // Something else is demanded, says the one that lies there now.
    let path = client.stage.path("tasks/batch-exec-001/batch.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("note.md", "other.md")).unwrap();
    let refused = client.stage.call(&["status", "exec-001"]);
    assert!(refused.err.contains("another file than the one that the journal names"), "{}", refused.err);
    client.stage.go(&["watch", "--once"], &[]).ends();
    assert!(client.stage.count("exec-001", "finished", None) == 0);
    std::fs::write(&path, text).unwrap();
    client.stage.go(&["watch", "--exit-when-idle"], &[]).ends();
    assert_eq!(client.report()["status"], "success");
}
