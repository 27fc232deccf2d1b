//! Handed-over batches outlive their watcher: whatever it was about to do is done by the next one.

use serde_json::Value;

use crate::client::Client;

#[test]
fn a_watcher_that_is_killed_while_agents_work_is_followed_by_one_that_merges_and_reports() {
    let client = Client::new();
    client.agent("slow", "until test -e go; do sleep 0.05; done; echo done > $WK_OUTPUT_NOTE");
    let run = client.start(&client.request(&[client.entry("slow", &[("note", "note.md")], &[])]), &[]);
    client.stage.wait_for("it runs", || client.workspace("logs/slow/stdout.log").exists().then_some(()));
    run.kill();
    std::fs::write(client.workspace("go"), "").unwrap();
    let watcher = client.stage.go(&["watch", "--exit-when-idle"], &[]);
    watcher.ends();
    let report: Value = client.report();
    assert_eq!(report["status"], "success", "{report:#}");
    assert_eq!(client.text("merged/note.md"), "done\n");
}
