//! The exit code by which a batch tells scripts how it ended.

use crate::model::event::BatchStatus;

/// What a process that followed the batch to its end returns.
pub fn exit_code(status: BatchStatus) -> u8 {
    match status {
        BatchStatus::Success => 0,
        BatchStatus::Failure => 1,
        BatchStatus::PartialSuccess => 3,
        BatchStatus::Timeout => 4,
        BatchStatus::Cancelled => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::scene::Scene;

    fn check(script: &str, status: BatchStatus, code: u8) {
        let scene = Scene::of("1; 2<-1", script);
        assert_eq!(scene.state.status(), status, "{script}");
        assert_eq!(exit_code(status), code);
    }

    #[test]
    fn the_status_follows_from_how_the_tasks_ended() {
        check("0 done 1 claimed\n60 done 2 claimed", BatchStatus::Success, 0);
        check("0 done 1 claimed\n60 offer 2\n99 fail 2 silent", BatchStatus::PartialSuccess, 3);
        check("0 offer 1\n9 fail 1 silent\n9 block 2 1", BatchStatus::Failure, 1);
        check("0 offer 1\n9 fail 1 timeout\n9 block 2 1", BatchStatus::Failure, 1);
    }

    #[test]
    fn a_cancelled_or_timed_out_batch_says_so_whatever_succeeded() {
        check("0 done 1 claimed\n61 cancel\n61 drop 2", BatchStatus::Cancelled, 5);
        check("0 done 1 claimed\n60 offer 2\n99 fail 2 batch", BatchStatus::Timeout, 4);
    }
}
