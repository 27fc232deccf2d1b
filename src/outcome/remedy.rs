//! What a person can do about a reason.

use crate::model::defect::Defect;
use crate::model::reason::Reason;
use crate::model::state::BatchState;
use crate::view::waiting::label;

/// One piece of advice, or none where there is nothing to mend.
pub fn remedy(state: &BatchState, reason: &Reason) -> Option<String> {
    let advice = match reason {
        Reason::NoHeartbeat { limit } => format!(
            "see whether the agent died; if it lives, let it rewrite its heartbeat within {limit}, or raise heartbeat_timeout_seconds"
        ),
        Reason::NeverStarted { .. } => {
            "see whether the agent was started at all; if it needs longer, raise start_timeout_seconds"
                .to_owned()
        }
        Reason::HeartbeatMalformed { defect, .. } => format!("mend the heartbeat: {}", defect.remedy),
        Reason::AttemptTimeout { .. } => "raise timeout_seconds, or split the task".to_owned(),
        Reason::StageTimeout { .. } => "raise stage_timeout_seconds, or split the stage's tasks".to_owned(),
        Reason::BatchTimeout { .. } => "raise batch_timeout_seconds, or split the batch".to_owned(),
        Reason::AgentReported { .. } => "mend what the agent reported, and submit the task again".to_owned(),
        Reason::ResultRefused { defects } | Reason::SpecRefused { defects } => remedies(defects),
        Reason::EvidenceMissing { .. } => {
            "let the agent write what it claims, or claim only what it wrote".to_owned()
        }
        Reason::BelowRequired { required, .. } => {
            format!("declare files or gates that can be {required}, or lower require")
        }
        Reason::DependencyFailed { cause, .. } => {
            format!("see what stopped {}: wk why {}/{cause}", label(state, cause), state.batch.id)
        }
        Reason::DependencyMissing { missing } => format!("drop the spec of {missing} with it next time"),
        Reason::Cancelled { .. } => return None,
    };
    Some(advice)
}

fn remedies(defects: &[Defect]) -> String {
    defects.iter().map(|defect| defect.remedy.as_str()).collect::<Vec<_>>().join("; ")
}
