//! Agents that put links and pipes where we write: nothing outside of the workspace is touched.

use crate::client::{Client, agent_of};

/// A directory outside of the workspace, with a file that nobody may touch.
fn victim(client: &Client) -> std::path::PathBuf {
    let dir = client.stage.file("victim");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("stdout.log"), "precious\n").unwrap();
    dir
}

#[test]
fn a_link_in_place_of_a_log_folder_is_not_followed() {
    let client = Client::new();
    let victim = victim(&client);
    client.agent("a", &format!("ln -s {} $WK_WORKSPACE/logs/b", victim.display())).agent("b", "echo loud");
    let agents = [client.entry("a", &[], &[]), client.entry("b", &[], &["a"])];
    client.run(&client.request(&agents)).exits(0);
    assert_eq!(std::fs::read_to_string(victim.join("stdout.log")).unwrap(), "precious\n");
}

#[test]
fn an_output_that_leads_out_of_the_workspace_through_a_link_fails_its_agent() {
    let client = Client::new();
    let victim = victim(&client);
    client.agent(
        "a",
        &format!("rmdir $WK_WORKSPACE/outputs/b; ln -s {} $WK_WORKSPACE/outputs/b", victim.display()),
    );
    client.agent("b", "echo x > $WK_OUTPUT_NOTE");
    let agents = [client.entry("a", &[], &[]), client.entry("b", &[("note", "note.md")], &["a"])];
    client.run(&client.request(&agents)).exits(3);
    let report = client.report();
    assert_eq!(agent_of(&report, "b")["status"], "failure", "{report:#}");
    assert!(!victim.join("note.md").exists());
}

#[test]
fn a_pipe_among_the_outputs_is_told_and_hangs_nobody() {
    let client = Client::new();
    client.agent("plumber", "mkdir $WK_OUTPUT_CODE; echo x > $WK_OUTPUT_CODE/a; mkfifo $WK_OUTPUT_CODE/pipe");
    client.run(&client.request(&[client.entry("plumber", &[("code", "code")], &[])])).exits(0);
    assert!(client.report()["warnings"].to_string().contains("pipe"), "{:#}", client.report());
}
