//! The heart's rules on a virtual clock: what it decides, when, and in which order.

mod scene;

use scene::play::{check, check_open};

#[test]
fn exactly_sixty_seconds_of_silence_are_not_death_and_one_more_millisecond_is() {
    check(
        "1 max_retries=0",
        "0      turn    => offered 1#1
         1      beat 1  => started 1#1
         31     scan
         61     scan
         61.001 scan    => failed 1#1: no heartbeat for 60s; finished failure",
    );
}

#[test]
fn one_look_is_not_a_verdict() {
    check(
        "1 max_retries=0",
        "0   turn   => offered 1#1
         1   beat 1 => started 1#1
         2   take 1
         200 turn
         201 scan   => failed 1#1: no heartbeat for 60s; finished failure",
    );
    check(
        "1 max_retries=0 start_timeout_seconds=60",
        "0   turn   => offered 1#1
         200 scan
         201 scan   => failed 1#1: never started: no heartbeat within 60s; finished failure",
    );
}

#[test]
fn whoever_beats_lives_however_long_it_takes() {
    check(
        "1",
        "0    turn   => offered 1#1
         1    beat 1 => started 1#1
         61   beat 1
         121  beat 1
         181  beat 1
         241  scan
         241.5 done 1 => collected 1#1; succeeded 1#1; finished success",
    );
}

#[test]
fn an_outsider_that_has_not_come_is_waited_for_unless_a_limit_was_set_for_it() {
    check("1", "0 turn => offered 1#1\n 5000 scan\n 90000 scan\n 900000 scan");
    check(
        "1 max_retries=0 start_timeout_seconds=90",
        "0     turn => offered 1#1
         45    scan
         90    scan
         90.1  scan => failed 1#1: never started: no heartbeat within 90s; finished failure",
    );
}

#[test]
fn who_takes_a_task_must_beat_within_the_start_limit() {
    check(
        "1 max_retries=0",
        "0    turn   => offered 1#1
         500  take 1, scan => started 1#1 by kim
         530  scan
         560  scan
         561  scan => failed 1#1: never started: no heartbeat within 60s; finished failure",
    );
}

#[test]
fn a_heartbeat_that_says_that_the_work_has_ended_has_half_a_minute_for_its_result() {
    check(
        "1 max_retries=0\n 2 max_retries=0\n 3\n 4 max_retries=0",
        "0    turn   => offered 1#1; offered 2#1; offered 3#1; offered 4#1
         1    beat 1 2 3 4 => started 1#1; started 2#1; started 3#1; started 4#1
         5    ends 1 3
         6    breaks 2
         20   beat 3 4
         34   done 3, beat 4 => collected 3#1; succeeded 3#1
         35   ends 1
         35.1 ends 1 => failed 1#1: its heartbeat says 'completed', but no result followed within 30s
         36   beat 4
         36.1 beat 4 => failed 2#1: the agent reported failure: its heartbeat says 'failed'; no result followed within 30s
         66   done 4 => collected 4#1; succeeded 4#1; finished partial_success",
    );
    check(
        "1 max_retries=0",
        "0    turn   => offered 1#1
         1    ends 1 => started 1#1
         20   beat 1
         40   ends 1
         69   ends 1
         70.1 ends 1 => failed 1#1: its heartbeat says 'completed', but no result followed within 30s; finished failure",
    );
}

#[test]
fn an_attempt_over_its_time_is_ended_though_it_beats_and_tried_again() {
    check(
        "1 max_retries=1 timeout_seconds=100",
        "0     turn   => offered 1#1
         10    beat 1 => started 1#1
         60    beat 1
         110   beat 1
         110.1 beat 1 => failed 1#1: exceeded 100s timeout, again
         120   turn   => offered 1#2
         130   beat 1 => started 1#2
         180   beat 1
         230.1 beat 1 => failed 1#2: exceeded 100s timeout; finished failure",
    );
}

#[test]
fn a_stage_over_its_time_ends_its_tasks_without_retry_and_no_others() {
    check(
        "stage_timeout_seconds = 100\n 1\n 2\n 3 <- 1",
        "0    turn     => offered 1#1; offered 2#1
         10   beat 1 2 => started 1#1; started 2#1
         50   done 1   => collected 1#1; succeeded 1#1; offered 3#1
         60   beat 2 3 => started 3#1
         110  beat 2 3
         111  beat 2 3 => failed 2#1: stage 1 exceeded 100s timeout
         160  beat 3
         161  beat 3   => failed 3#1: stage 2 exceeded 100s timeout; finished timeout",
    );
}

#[test]
fn a_try_that_somebody_asks_for_has_the_stages_whole_time_again() {
    check(
        "stage_timeout_seconds = 100\n 1\n 2\n 3 <- 2",
        "0    turn      => offered 1#1; offered 2#1
         10   beat 1 2  => started 1#1; started 2#1
         20   done 2    => collected 2#1; succeeded 2#1; offered 3#1
         60   beat 1
         111  beat 1    => failed 1#1: stage 1 exceeded 100s timeout
         120  retry 1   => retry of 1 asked by sam; offered 1#2
         130  beat 1    => started 1#2
         180  beat 1
         229  beat 1
         230  done 1#2  => collected 1#2; succeeded 1#2",
    );
}

#[test]
fn the_last_attempt_of_a_stage_is_ended_by_its_own_limit() {
    check(
        "1 timeout_seconds=100 max_retries=1",
        "0     turn   => offered 1#1
         10    beat 1 => started 1#1
         60    beat 1
         111   beat 1 => failed 1#1: exceeded 100s timeout, again
         120   turn   => offered 1#2
         130   beat 1 => started 1#2
         180   beat 1
         229.5 beat 1
         230.1 beat 1 => failed 1#2: exceeded 100s timeout; finished failure",
    );
}

#[test]
fn a_stages_clock_stands_still_while_none_of_its_tasks_runs() {
    check(
        "stage_timeout_seconds = 100\n 1\n 2",
        "0    turn   => offered 1#1; offered 2#1
         10   beat 1 => started 1#1
         60   done 1 => collected 1#1; succeeded 1#1
         900  scan
         910  beat 2 => started 2#1
         960  beat 2
         961  beat 2 => failed 2#1: stage 1 exceeded 100s timeout; finished timeout",
    );
}

#[test]
fn a_batch_over_its_time_ends_everything_that_has_not_ended() {
    check(
        "batch_timeout_seconds = 100\n 1\n 2 <- 1\n 3",
        "0     turn   => offered 1#1; offered 3#1
         50    done 3 => started 3#1 late; collected 3#1; succeeded 3#1
         60    beat 1 => started 1#1
         100   beat 1
         100.1 scan   => failed 1#1: batch exceeded 100s timeout; dropped 2: batch exceeded 100s timeout; finished timeout",
    );
}

#[test]
fn a_task_is_tried_again_until_its_retries_are_used_up() {
    check(
        "1",
        "0   turn     => offered 1#1
         1   failed 1 => started 1#1 late; collected 1#1; failed 1#1: the agent reported failure, again
         1.4 turn
         2   turn     => offered 1#2
         3   failed 1#2 => started 1#2 late; collected 1#2; failed 1#2: the agent reported failure, again
         5   turn     => offered 1#3
         6   failed 1#3 => started 1#3 late; collected 1#3; failed 1#3: the agent reported failure; finished failure",
    );
}

#[test]
fn a_result_beats_silence_and_silence_is_judged_before_the_attempts_clock() {
    check(
        "1 max_retries=0",
        "0  turn   => offered 1#1
         1  beat 1 => started 1#1
         30 scan
         99 done 1, scan => collected 1#1; succeeded 1#1; finished success",
    );
    check(
        "1 max_retries=0 timeout_seconds=60",
        "0  turn   => offered 1#1
         1  beat 1 => started 1#1
         30 scan
         99 scan   => failed 1#1: no heartbeat for 60s; finished failure",
    );
}

#[test]
fn a_beat_of_the_last_moment_beats_the_clock() {
    check(
        "1 max_retries=0",
        "0  turn   => offered 1#1
         1  beat 1 => started 1#1
         30 scan
         99 beat 1
         159 scan
         160 scan => failed 1#1: no heartbeat for 60s; finished failure",
    );
}

#[test]
fn what_comes_after_its_verdict_is_late_and_changes_nothing() {
    check(
        "1\n 2",
        "0   turn       => offered 1#1; offered 2#1
         1   failed 1#1 => started 1#1 late; collected 1#1; failed 1#1: the agent reported failure, again
         1.2 done 1#1   => late 1: between attempts
         2   turn       => offered 1#2
         3   done 1#1   => late 1: 2 is out
         4   done 1#2   => started 1#2 late; collected 1#2; succeeded 1#2
         5   failed 1#2 => late 1: settled
         6   done 2     => started 2#1 late; collected 2#1; succeeded 2#1; finished success",
    );
}

#[test]
fn a_second_attempts_result_without_a_number_is_taken_but_unfenced() {
    check(
        "1",
        "0 turn     => offered 1#1
         1 failed 1 => started 1#1 late; collected 1#1; failed 1#1: the agent reported failure, again
         3 turn     => offered 1#2
         4 done 1   => started 1#2 late; unfenced 1#2; succeeded 1#2; finished success",
    );
}

#[test]
fn a_result_before_its_task_begins_decides_nothing() {
    check(
        "1\n 2 <- 1",
        "0 turn   => offered 1#1
         1 done 2
         2 done 1 => started 1#1 late; collected 1#1; succeeded 1#1; offered 2#1
         3 done 2 => started 2#1 late; collected 2#1; succeeded 2#1; finished success",
    );
}

#[test]
fn a_refused_result_leaves_the_attempt_its_time_and_then_is_the_reason() {
    check(
        "1 max_retries=0",
        "0  turn    => offered 1#1
         1  beat 1  => started 1#1
         2  wrong 1 => refused 1#1
         30 scan
         62 scan    => failed 1#1: result refused: line 1, column 1: is not JSON; finished failure",
    );
    check(
        "1 max_retries=0",
        "0  turn    => offered 1#1
         1  beat 1  => started 1#1
         2  wrong 1 => refused 1#1
         3  done 1  => collected 1#1; succeeded 1#1; finished success",
    );
}

#[test]
fn a_heartbeat_that_is_garbage_for_the_whole_window_is_named() {
    check(
        "1 max_retries=0",
        "0  turn     => offered 1#1
         1  beat 1   => started 1#1
         30 garble 1
         62 garble 1 => failed 1#1: no valid heartbeat for 60s; the file says: line 1, column 1: is not JSON; finished failure",
    );
    check(
        "1",
        "0  turn     => offered 1#1
         1  beat 1   => started 1#1
         30 garble 1
         59 beat 1
         118 garble 1
         119 scan",
    );
}

#[test]
fn exactly_the_dependents_of_a_failure_are_skipped_each_with_its_cause() {
    check(
        "1 max_retries=0\n 2 <- 1\n 3 <- 2\n 4\n 5 <- 4",
        "0 turn     => offered 1#1; offered 4#1
         1 failed 1 => started 1#1 late; collected 1#1; failed 1#1: the agent reported failure; \
dropped 2: dependency 1 failed; dropped 3: dependency 2 was skipped because 1 failed
         2 done 4   => started 4#1 late; collected 4#1; succeeded 4#1; offered 5#1
         3 done 5   => started 5#1 late; collected 5#1; succeeded 5#1; finished partial_success",
    );
}

#[test]
fn tasks_that_share_a_file_run_one_after_the_other() {
    let graph =
        "1 files_modified=[\"a\"] max_retries=1\n 2 files_modified=[\"a\",\"b\"]\n 3 files_modified=[\"c\"]";
    check(
        graph,
        "0   turn     => offered 1#1; offered 3#1
         1   failed 1 => started 1#1 late; collected 1#1; failed 1#1: the agent reported failure, again
         3   turn     => offered 1#2
         4   done 1   => started 1#2 late; unfenced 1#2; succeeded 1#2; offered 2#1
         5   done 2, done 3 => started 2#1 late; collected 2#1; succeeded 2#1; started 3#1 late; collected 3#1; succeeded 3#1; finished success",
    );
    check(&format!("on_file_conflict = warn\n{graph}"), "0 turn => offered 1#1; offered 2#1; offered 3#1");
}

#[test]
fn a_held_back_task_is_released_by_any_end_of_its_holder() {
    check(
        "1 files_modified=[\"a\"]\n 2 files_modified=[\"a\"]",
        "0 turn     => offered 1#1
         1 cancel 1 => failed 1#1: cancelled by sam; offered 2#1",
    );
}

#[test]
fn no_more_attempts_are_out_than_the_limit_allows() {
    check(
        "parallel_limit = 2\n 1 max_retries=1\n 2\n 3\n 4",
        "0 turn     => offered 1#1; offered 2#1
         1 failed 1 => started 1#1 late; collected 1#1; failed 1#1: the agent reported failure, again; offered 3#1
         3 turn
         4 done 3   => started 3#1 late; collected 3#1; succeeded 3#1; offered 1#2
         5 done 2   => started 2#1 late; collected 2#1; succeeded 2#1; offered 4#1",
    );
}

#[test]
fn when_many_fall_silent_together_the_watcher_doubts_itself_once() {
    check(
        "max_retries = 0\n 1\n 2\n 3\n 4",
        "0     turn       => offered 1#1; offered 2#1; offered 3#1; offered 4#1
         1     beat 1 2 3 4 => started 1#1; started 2#1; started 3#1; started 4#1
         31    beat 4
         61.1  beat 4     => doubts 1 2 3 until 121.1
         91    beat 4
         121.1 beat 4
         121.2 beat 4     => failed 1#1: no heartbeat for 60s; failed 2#1: no heartbeat for 60s; failed 3#1: no heartbeat for 60s",
    );
}

#[test]
fn who_beats_again_after_a_doubt_is_as_good_as_new() {
    check(
        "max_retries = 0\n 1\n 2\n 3",
        "0     turn       => offered 1#1; offered 2#1; offered 3#1
         1     beat 1 2 3 => started 1#1; started 2#1; started 3#1
         31    scan
         61.1  scan       => doubts 1 2 3 until 121.1
         90    beat 1 2 3
         130   scan
         150.1 scan       => doubts 1 2 3 until 210.1
         211   scan       => failed 1#1: no heartbeat for 60s; failed 2#1: no heartbeat for 60s; failed 3#1: no heartbeat for 60s; finished failure",
    );
}

#[test]
fn one_silent_attempt_among_many_is_not_doubted() {
    check(
        "max_retries = 0\n 1\n 2\n 3\n 4",
        "0    turn         => offered 1#1; offered 2#1; offered 3#1; offered 4#1
         1    beat 1 2 3 4 => started 1#1; started 2#1; started 3#1; started 4#1
         31   beat 2 3 4
         61.1 beat 2 3 4   => failed 1#1: no heartbeat for 60s",
    );
}

#[test]
fn two_silent_attempts_of_two_are_too_few_to_doubt() {
    check(
        "max_retries = 0\n 1\n 2",
        "0    turn     => offered 1#1; offered 2#1
         1    beat 1 2 => started 1#1; started 2#1
         31   scan
         61.1 scan     => failed 1#1: no heartbeat for 60s; failed 2#1: no heartbeat for 60s; finished failure",
    );
}

#[test]
fn a_cancelled_batch_ends_everything_and_a_cancelled_task_only_its_dependents() {
    check(
        "1\n 2 <- 1\n 3",
        "0 turn   => offered 1#1; offered 3#1
         1 done 3 => started 3#1 late; collected 3#1; succeeded 3#1
         2 cancel => cancel asked by sam; failed 1#1: cancelled by sam; dropped 2: cancelled by sam; finished cancelled",
    );
    check(
        "1\n 2 <- 1\n 3",
        "0 turn     => offered 1#1; offered 3#1
         1 cancel 1 => failed 1#1: cancelled by sam; dropped 2: dependency 1 failed
         2 cancel 1
         3 done 3   => started 3#1 late; collected 3#1; succeeded 3#1; finished partial_success",
    );
}

#[test]
fn a_cancelled_batch_retries_nothing() {
    check(
        "1\n 2",
        "0   turn     => offered 1#1; offered 2#1
         1   failed 1 => started 1#1 late; collected 1#1; failed 1#1: the agent reported failure, again
         1.1 cancel   => cancel asked by sam; dropped 1: cancelled by sam; failed 2#1: cancelled by sam; finished cancelled",
    );
}

#[test]
fn specs_join_an_open_batch_and_it_closes_when_none_has_come_for_a_while() {
    check_open(
        "0    spec 1      => joined 1 in stage 1; offered 1#1
         1    done 1      => started 1#1 late; collected 1#1; succeeded 1#1
         5    spec 2 <- 1 => joined 2 in stage 2; offered 2#1
         6    done 2      => started 2#1 late; collected 2#1; succeeded 2#1
         14.9 scan
         15   scan        => finished success",
    );
}

#[test]
fn a_dependency_may_join_after_the_spec_that_names_it() {
    check_open(
        "0  spec 2 <- 1 => joined 2 in stage 1
         1  spec 1      => joined 1 in stage 1; offered 1#1
         2  done 1      => started 1#1 late; collected 1#1; succeeded 1#1; offered 2#1",
    );
}

#[test]
fn a_dependency_that_never_comes_is_told_when_the_batch_closes() {
    check_open(
        "0  spec 1      => joined 1 in stage 1; offered 1#1
         1  spec 2 <- 9 => joined 2 in stage 1
         2  spec 3 <- 2 => joined 3 in stage 2
         3  done 1      => started 1#1 late; collected 1#1; succeeded 1#1
         12 scan        => dropped 2: dependency 9 was never dropped; dropped 3: dependency 2 failed; finished partial_success",
    );
}

#[test]
fn an_open_batch_does_not_close_on_somebody_at_work() {
    check_open(
        "0   spec 1, spec 2 <- 9 => joined 1 in stage 1; joined 2 in stage 1; offered 1#1
         10  beat 1 => started 1#1
         60  beat 1
         61  done 1, scan => collected 1#1; succeeded 1#1; dropped 2: dependency 9 was never dropped; finished partial_success",
    );
}

#[test]
fn an_id_is_taken_once_whatever_its_case() {
    check_open(
        "0 spec a => joined a in stage 1; offered a#1
         1 spec a
         2 spec A => spec A refused: field task_id: task 'A' is already in this batch as 'a'",
    );
}

#[test]
fn a_cycle_that_would_close_by_joining_is_refused_with_its_path() {
    check_open(
        "0 spec 1 <- 3 => joined 1 in stage 1
         1 spec 2 <- 1 => joined 2 in stage 2
         2 spec 3 <- 2 => spec 3 refused: field dependencies: Circular dependency: 3 → 2 → 1 → 3; dropped 1: dependency 3 failed; dropped 2: dependency 1 was skipped because 3 failed
         3 spec 4 <- 4 => spec 4 refused: field dependencies: Circular dependency: 4 → 4",
    );
}

#[test]
fn a_refused_spec_is_that_tasks_end_and_nobody_elses() {
    check_open(
        "0  badspec 1   => spec 1 refused: line 1, column 1: is not JSON
         1  spec 2 <- 1 => joined 2 in stage 2; dropped 2: dependency 1 failed
         2  spec 3      => joined 3 in stage 1; offered 3#1
         3  done 3      => started 3#1 late; collected 3#1; succeeded 3#1
         12 scan        => finished partial_success",
    );
}
