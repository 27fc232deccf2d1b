//! The heart's rules for attempts that we start: launch, exit, the kill that must be confirmed, wishes.

mod scene;

use scene::play::{check, check_ours};

#[test]
fn an_agent_of_ours_is_launched_at_once_and_its_exit_settles_it() {
    check_ours(
        "1\n2 <- 1",
        "0 turn                => launched 1#1 as smoke
         1 exit 1 0, done 1#1  => exited 1#1; collected 1#1; succeeded 1#1; launched 2#1 as smoke
         2 exit 2 0, done 2#1  => exited 2#1; collected 2#1; succeeded 2#1; finished success",
    );
}

#[test]
fn four_run_at_once_unless_the_bus_has_less_room() {
    check_ours(
        "1\n2\n3\n4\n5",
        "0 turn => launched 1#1 as smoke; launched 2#1 as smoke; launched 3#1 as smoke; launched 4#1 as smoke
         1 exit 2 0, done 2#1 => exited 2#1; collected 2#1; succeeded 2#1; launched 5#1 as smoke",
    );
    check_ours(
        "1\n2\n3",
        "0 turn, room 1 => launched 1#1 as smoke
         1 turn, room 0
         2 turn, room 2 => launched 2#1 as smoke; launched 3#1 as smoke",
    );
}

#[test]
fn a_result_that_says_success_beside_an_exit_that_does_not_is_a_failure() {
    check_ours(
        "1 max_retries=0",
        "0 turn => launched 1#1 as smoke
         1 exit 1 3, done 1#1 => exited 1#1; collected 1#1; \
            failed 1#1: its result says success, but the agent ended with exit code 3; finished failure",
    );
}

#[test]
fn exit_code_125_means_that_another_try_would_not_help() {
    check_ours(
        "1",
        "0 turn => launched 1#1 as smoke
         1 exit 1 125 => exited 1#1; failed 1#1: the agent ended with exit code 125; finished failure",
    );
    check_ours(
        "1",
        "0 turn => launched 1#1 as smoke
         1 exit 1 1 => exited 1#1; failed 1#1: the agent ended with exit code 1, again",
    );
}

#[test]
fn silence_of_an_agent_of_ours_ends_it_first_and_the_retry_waits_until_it_is_gone() {
    check_ours(
        "1 max_retries=1",
        "0   turn    => launched 1#1 as smoke
         1   beat 1
         61  scan
         62  scan    => ending 1#1: no heartbeat for 60s
         63  scan
         200 scan
         201 orphans 1
         202 gone 1  => failed 1#1: no heartbeat for 60s, again
         205 turn    => launched 1#2 as smoke",
    );
}

#[test]
fn one_that_never_beats_is_ended_by_its_start_limit() {
    check_ours(
        "1 max_retries=0",
        "0  turn => launched 1#1 as smoke
         30 scan
         61 scan => ending 1#1: never started: no heartbeat within 60s
         62 exit 1 asked => exited 1#1; failed 1#1: never started: no heartbeat within 60s; finished failure",
    );
}

#[test]
fn a_result_written_before_the_end_that_was_meant_for_it_still_counts() {
    check_ours(
        "1",
        "0  turn   => launched 1#1 as smoke
         1  kill 1 => ending 1#1: killed by sam
         2  exit 1 0, done 1#1 => exited 1#1; collected 1#1; succeeded 1#1; finished success",
    );
    check_ours(
        "1",
        "0  turn   => launched 1#1 as smoke
         1  kill 1 => ending 1#1: killed by sam
         2  exit 1 asked, done 1#1 => exited 1#1; late 1: ending; failed 1#1: killed by sam; finished failure",
    );
}

#[test]
fn a_dead_runner_fails_its_attempt_and_orphans_are_ended_before_the_next() {
    check_ours(
        "1",
        "0 turn   => launched 1#1 as smoke
         1 gone 1 => failed 1#1: its runner was killed; nothing of the attempt is left, again",
    );
    check_ours(
        "1",
        "0 turn      => launched 1#1 as smoke
         1 orphans 1 => ending 1#1: its runner was killed; nothing of the attempt is left
         2 orphans 1
         9 gone 1    => failed 1#1: its runner was killed; nothing of the attempt is left, again",
    );
}

#[test]
fn a_runner_that_somebody_else_told_to_end_costs_a_try_and_not_the_task() {
    check_ours(
        "1",
        "0 turn         => launched 1#1 as smoke
         1 exit 1 asked => exited 1#1; failed 1#1: its runner was killed; nothing of the attempt is left, again",
    );
}

#[test]
fn what_nobody_can_confirm_waits_for_a_person_and_nothing_is_retried() {
    check_ours(
        "1\n2 <- 1",
        "0   turn      => launched 1#1 as smoke
         1   unknown 1 => unconfirmed 1#1: no /proc
         900 scan
         901 unknown 1
         902 retry 1   => retry of 1 asked by sam; launched 1#2 as smoke
         903 exit 1 0, done 1#2 => exited 1#2; collected 1#2; succeeded 1#2; launched 2#1 as smoke",
    );
    check_ours(
        "1",
        "0 turn      => launched 1#1 as smoke
         1 unknown 1 => unconfirmed 1#1: no /proc
         2 cancel    => cancel asked by sam; failed 1#1: cancelled by sam: nobody could confirm that attempt 1 is gone (no /proc); finished cancelled",
    );
    check_ours(
        "1\n2",
        "0 turn      => launched 1#1 as smoke; launched 2#1 as smoke
         1 unknown 1 => unconfirmed 1#1: no /proc
         2 retry
         3 kill 1    => failed 1#1: killed by sam: nobody could confirm that attempt 1 is gone (no /proc)
         4 retry
         5 retry 1   => retry of 1 asked by sam; launched 1#2 as smoke",
    );
    check_ours(
        "1 max_retries=0\n2",
        "0 turn       => launched 1#1 as smoke; launched 2#1 as smoke
         1 unknown 1  => unconfirmed 1#1: no /proc
         2 exit 1 3   => exited 1#1; failed 1#1: the agent ended with exit code 3
         3 retry      => retry of 1 asked by sam; launched 1#2 as smoke",
    );
    check_ours(
        "1",
        "0 turn      => launched 1#1 as smoke
         1 unknown 1 => unconfirmed 1#1: no /proc
         2 gone 1    => failed 1#1: its runner was killed; nothing of the attempt is left, again",
    );
}

#[test]
fn a_restart_of_the_machine_is_nobodys_attempt() {
    check_ours(
        "1 max_retries=0",
        "0 turn     => launched 1#1 as smoke
         1 reboot 1 => failed 1#1: the machine was restarted, again
         9 turn     => launched 1#2 as smoke
        10 gone 1   => failed 1#2: its runner was killed; nothing of the attempt is left; finished failure",
    );
}

#[test]
fn limits_and_lost_terminals_have_their_own_reasons() {
    for (how, why) in [
        ("timeout", "exceeded 5s timeout"),
        ("memory", "exceeded its limit of memory_mb = 64"),
        ("hangup", "its terminal session is gone"),
        ("signal", "the agent was ended by signal 9"),
    ] {
        check_ours(
            "1 max_retries=0",
            &format!(
                "0 turn => launched 1#1 as smoke
                 1 exit 1 {how} => exited 1#1; failed 1#1: {why}; finished failure"
            ),
        );
    }
}

#[test]
fn an_agent_that_could_not_be_started_failed_its_attempt() {
    check_ours(
        "1 max_retries=0",
        "0 turn => launched 1#1 as smoke
         1 unlaunched 1 => failed 1#1: could not be started: no such program; finished failure",
    );
}

#[test]
fn a_result_counts_although_its_agent_lingered() {
    check_ours(
        "1",
        "0 turn => launched 1#1 as smoke
         1 exit 1 lingered, done 1#1 => exited 1#1; collected 1#1; succeeded 1#1; finished success",
    );
}

#[test]
fn a_cancelled_batch_is_over_when_its_agents_are_gone() {
    check_ours(
        "1\n2 <- 1",
        "0 turn   => launched 1#1 as smoke
         1 cancel => cancel asked by sam; ending 1#1: cancelled by sam; dropped 2: cancelled by sam
         2 scan
         3 exit 1 asked => exited 1#1; failed 1#1: cancelled by sam; finished cancelled",
    );
}

#[test]
fn a_paused_batch_begins_nothing_and_goes_on_when_it_is_let() {
    check_ours(
        "1\n2 <- 1\n3",
        "0 pause => pause asked by sam
         1 scan
         2 resume => resume asked by sam; launched 1#1 as smoke; launched 3#1 as smoke
         3 pause  => pause asked by sam
         4 exit 1 0, done 1#1 => exited 1#1; collected 1#1; succeeded 1#1
         5 resume => resume asked by sam; launched 2#1 as smoke",
    );
}

#[test]
fn another_try_revives_what_was_skipped_and_counts_its_retries_anew() {
    check_ours(
        "1 max_retries=0\n2 <- 1\n3 <- 2\n4",
        "0 turn => launched 1#1 as smoke; launched 4#1 as smoke
         1 exit 1 1 => exited 1#1; failed 1#1: the agent ended with exit code 1; dropped 2: dependency 1 failed; \
            dropped 3: dependency 2 was skipped because 1 failed
         2 retry 1 => retry of 1 asked by sam; launched 1#2 as smoke
         3 exit 1 0, done 1#2 => exited 1#2; collected 1#2; succeeded 1#2; launched 2#1 as smoke
         4 exit 2 0, done 2#1 => exited 2#1; collected 2#1; succeeded 2#1; launched 3#1 as smoke",
    );
    check_ours(
        "1 max_retries=0\n4",
        "0 turn => launched 1#1 as smoke; launched 4#1 as smoke
         1 exit 1 1 => exited 1#1; failed 1#1: the agent ended with exit code 1
         2 retry => retry of 1 asked by sam; launched 1#2 as smoke",
    );
}

#[test]
fn a_killed_task_is_not_retried_and_one_that_never_began_does_not_begin() {
    check_ours(
        "1\n2 <- 1",
        "0 turn   => launched 1#1 as smoke
         1 kill 2 => dropped 2: killed by sam
         2 kill 1 => ending 1#1: killed by sam
         3 gone 1 => failed 1#1: killed by sam; finished failure",
    );
    check(
        "1",
        "0 turn   => offered 1#1
         1 beat 1 => started 1#1
         2 kill 1 => failed 1#1: killed by sam; finished failure",
    );
}

#[test]
fn what_was_cancelled_counts_as_failed_when_all_that_failed_is_tried_again() {
    check_ours(
        "1\n2",
        "0 turn     => launched 1#1 as smoke; launched 2#1 as smoke
         1 cancel 1 => ending 1#1: cancelled by sam
         2 gone 1   => failed 1#1: cancelled by sam
         3 retry    => retry of 1 asked by sam; launched 1#2 as smoke",
    );
}

#[test]
fn a_task_that_is_tried_again_waits_for_the_file_that_another_holds_by_now() {
    check_ours(
        "1 files_modified=[\"a\"] max_retries=0\n2 files_modified=[\"a\"]",
        "0 turn     => launched 1#1 as smoke
         1 exit 1 1 => exited 1#1; failed 1#1: the agent ended with exit code 1; launched 2#1 as smoke
         2 retry 1  => retry of 1 asked by sam
         3 turn
         4 exit 2 0, done 2#1 => exited 2#1; collected 2#1; succeeded 2#1; launched 1#2 as smoke",
    );
}

#[test]
fn a_wish_for_the_end_outweighs_a_reason_after_which_it_would_be_tried_again() {
    check_ours(
        "1",
        "0  turn   => launched 1#1 as smoke
         1  beat 1
         61 scan
         62 scan   => ending 1#1: no heartbeat for 60s
         63 kill 1 => ending 1#1: killed by sam
         64 gone 1 => failed 1#1: killed by sam; finished failure",
    );
}

#[test]
fn a_wish_that_is_seen_after_the_end_changes_nothing_of_its_reason() {
    check_ours(
        "1 max_retries=0",
        "0 turn => launched 1#1 as smoke
         9 kill 1, exit 1 timeout => exited 1#1; failed 1#1: exceeded 5s timeout; finished failure",
    );
    check_ours(
        "1",
        "0 turn => launched 1#1 as smoke
         9 kill 1, exit 1 timeout => exited 1#1; failed 1#1: exceeded 5s timeout, again; \
            dropped 1: killed by sam; finished failure",
    );
    check_ours(
        "1",
        "0 turn => launched 1#1 as smoke
         9 kill 1, exit 1 0, done 1#1 => exited 1#1; collected 1#1; succeeded 1#1; finished success",
    );
    check_ours(
        "1\n2",
        "0 turn => launched 1#1 as smoke; launched 2#1 as smoke
         9 kill 1, exit 2 timeout => ending 1#1: killed by sam; exited 2#1; failed 2#1: exceeded 5s timeout, again",
    );
}

#[test]
fn a_task_whose_dependency_failed_is_skipped_again_when_it_alone_is_tried_again() {
    check_ours(
        "1 max_retries=0\n2 <- 1\n3",
        "0 turn     => launched 1#1 as smoke; launched 3#1 as smoke
         1 cancel 2 => dropped 2: cancelled by sam
         2 exit 1 1 => exited 1#1; failed 1#1: the agent ended with exit code 1
         3 retry 2  => retry of 2 asked by sam; dropped 2: dependency 1 failed",
    );
}

#[test]
fn an_end_and_another_try_in_one_turn_leave_the_dependents_waiting() {
    check_ours(
        "1 max_retries=1\n2 <- 1",
        "0 turn     => launched 1#1 as smoke
         1 exit 1 1 => exited 1#1; failed 1#1: the agent ended with exit code 1, again
         1.1 kill 1, retry 1 => dropped 1: killed by sam; retry of 1 asked by sam; launched 1#2 as smoke
         2 exit 1 0, done 1#2 => exited 1#2; collected 1#2; succeeded 1#2; launched 2#1 as smoke",
    );
}
