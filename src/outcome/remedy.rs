//! What a person can do about a reason.

use crate::model::defect::Defect;
use crate::model::evidence::{About, Finding};
use crate::model::exit::DO_NOT_RETRY;
use crate::model::reason::Reason;
use crate::model::state::{BatchState, TaskIx};
use crate::view::handoff::command;
use crate::view::waiting::label;

/// One piece of advice, or none where there is nothing to mend. Commands in it are those of whoever stands
/// where the batch was handed over.
pub fn remedy(state: &BatchState, task: Option<TaskIx>, reason: &Reason) -> Option<String> {
    let advice = match reason {
        Reason::NoHeartbeat { limit } => format!(
            "see whether the agent died; if it lives, let it rewrite its heartbeat within {limit}, or raise heartbeat_timeout_seconds"
        ),
        Reason::NeverStarted { .. } => {
            "see whether the agent was started at all; if it needs longer, raise start_timeout_seconds"
                .to_owned()
        }
        Reason::HeartbeatMalformed { defect, .. } => format!("mend the heartbeat: {}", defect.remedy),
        Reason::ResultNeverCame { .. } => "let the agent write its result before it ends".to_owned(),
        // A handed-over request has names of its own for its clocks.
        Reason::AttemptTimeout { .. } if state.batch.handoff.is_some() => {
            "raise its timeout, or split the task".to_owned()
        }
        Reason::BatchTimeout { .. } if state.batch.handoff.is_some() => {
            "raise overall_timeout, or split the request".to_owned()
        }
        Reason::AttemptTimeout { .. } => "raise timeout_seconds, or split the task".to_owned(),
        Reason::StageTimeout { .. } => "raise stage_timeout_seconds, or split the stage's tasks".to_owned(),
        Reason::BatchTimeout { .. } => "raise batch_timeout_seconds, or split the batch".to_owned(),
        Reason::AgentReported { .. } => "mend what the agent reported, then wk retry".to_owned(),
        Reason::AgentExited { code: Some(DO_NOT_RETRY), .. } => {
            format!(
                "exit code {DO_NOT_RETRY} means that another try would not help: mend the cause, then wk retry"
            )
        }
        Reason::AgentExited { .. } => {
            let task = task.map_or(String::new(), |ix| format!("/{}", state.key(ix)));
            let logs = command(state, &format!("logs {}{task}", state.batch.id));
            format!("read what it printed: {logs}")
        }
        Reason::NoResult { .. } => {
            "keep the agent away from the bus's own files, and let them be readable".to_owned()
        }
        Reason::ExitDisagrees { .. } => {
            "let the agent end with 0 where it succeeded, or report what failed".to_owned()
        }
        Reason::LimitExceeded { what, .. } => {
            format!("raise {what} under limits of this agent in settings, or split the task")
        }
        Reason::LaunchFailed { .. } => "mend the agent's command in settings, then wk retry".to_owned(),
        Reason::RunnerDied | Reason::TerminalLost => {
            "see who killed it (memory? a person?), then wk retry".to_owned()
        }
        Reason::ToldGone | Reason::Rebooted => "wk retry starts it again".to_owned(),
        Reason::Killed { .. } => "wk retry starts it again".to_owned(),
        Reason::ResultRefused { defects } | Reason::SpecRefused { defects } => remedies(defects),
        Reason::EvidenceMissing { unmet } => missing_evidence(unmet).to_owned(),
        Reason::DeclaredUntouched { .. } => {
            "let the agent change what its task declares, or declare less; for work that may leave it as it is, \
             set declared_files = may"
                .to_owned()
        }
        Reason::BelowRequired { required, .. } => {
            format!("declare files or gates that can be {required}, or lower require")
        }
        Reason::DependencyFailed { cause, .. } => {
            let why = command(state, &format!("why {}/{cause}", state.batch.id));
            format!("see what stopped {}: {why}", label(state, cause))
        }
        Reason::NotPrepared { .. } => "mend that, then hand the request over again".to_owned(),
        Reason::DependencyMissing { missing } => format!("drop the spec of {missing} with it next time"),
        Reason::Cancelled { .. } => return None,
    };
    Some(advice)
}

fn missing_evidence(unmet: &[Finding]) -> &'static str {
    match unmet.iter().all(|finding| matches!(finding.about, About::Claim | About::Commit)) {
        true => "let the agent write what it claims, or claim only what it wrote",
        false => "let the agent bring about what the request requires, or require less",
    }
}

fn remedies(defects: &[Defect]) -> String {
    defects.iter().map(|defect| defect.remedy.as_str()).collect::<Vec<_>>().join("; ")
}
