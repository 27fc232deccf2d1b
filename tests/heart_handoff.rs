//! The heart's rules for handed-over batches: prepared before the first agent, merged after the last.

mod scene;

use scene::play::check_handed_over;

#[test]
fn no_agent_begins_before_the_workspace_is_made_and_no_batch_ends_before_its_merge() {
    check_handed_over(
        "1",
        "0 turn      => preparing
         1 turn
         2 prepared  => prepared; launched 1#1 as smoke
         3 exit 1 0, done 1#1 => exited 1#1; collected 1#1; succeeded 1#1; merging in round 1
         4 turn
         5 merged 1  => round 1 ended: Success; finished success",
    );
}

#[test]
fn a_batch_that_cannot_be_prepared_starts_nothing() {
    check_handed_over(
        "1\n2 <- 1",
        "0 turn       => preparing
         1 unprepared => not prepared: the disk is full; dropped 1: nothing was started: the disk is full; \
            dropped 2: nothing was started: the disk is full; finished failure",
    );
}

#[test]
fn conflicts_wait_for_a_person_and_another_round_follows_the_answer() {
    check_handed_over(
        "1",
        "0 turn      => preparing
         1 prepared  => prepared; launched 1#1 as smoke
         2 exit 1 0, done 1#1 => exited 1#1; collected 1#1; succeeded 1#1; merging in round 1
         3 conflict 1 => round 1 ended: AwaitsResolution
         4 scan
         5 merged 1
         6 resolve   => resolve asked by sam; merging in round 2
         7 resolve
         8 merged 2  => round 2 ended: Success; finished success",
    );
}

#[test]
fn a_merge_that_failed_fails_the_batch() {
    check_handed_over(
        "1",
        "0 turn      => preparing
         1 prepared  => prepared; launched 1#1 as smoke
         2 exit 1 0, done 1#1 => exited 1#1; collected 1#1; succeeded 1#1; merging in round 1
         3 unmerged 1 => round 1 ended: Failure; finished failure",
    );
}

#[test]
fn a_batch_that_is_cancelled_while_conflicts_wait_ends() {
    check_handed_over(
        "1",
        "0 turn      => preparing
         1 prepared  => prepared; launched 1#1 as smoke
         2 exit 1 0, done 1#1 => exited 1#1; collected 1#1; succeeded 1#1; merging in round 1
         3 conflict 1 => round 1 ended: AwaitsResolution
         4 cancel    => cancel asked by sam; finished cancelled",
    );
}

#[test]
fn a_batch_that_is_cancelled_while_it_is_prepared_ends_when_that_is_over() {
    check_handed_over(
        "1",
        "0 turn     => preparing
         1 cancel   => cancel asked by sam; dropped 1: cancelled by sam
         2 prepared => prepared; merging in round 1
         3 merged 1 => round 1 ended: Success; finished cancelled",
    );
}
