//! Why something happened. The same value is journaled, printed by `wk why` and shown in every face.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::clock::Seconds;
use super::defect::Defect;
use super::evidence::{About, Finding, Grade};
use super::exit::{DO_NOT_RETRY, Resource};
use super::id::TaskKey;

/// Why an attempt or a task did not succeed. Reasons name limits, not measured times, so that the same
/// story always reads the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    NoHeartbeat {
        limit: Seconds,
    },
    NeverStarted {
        limit: Seconds,
    },
    HeartbeatMalformed {
        limit: Seconds,
        defect: Defect,
    },
    /// Its heartbeat said that it had completed, and that was its last word.
    ResultNeverCame {
        limit: Seconds,
    },
    AttemptTimeout {
        limit: Seconds,
    },
    StageTimeout {
        stage: u32,
        limit: Seconds,
    },
    BatchTimeout {
        limit: Seconds,
    },
    AgentReported {
        errors: Vec<String>,
    },
    /// An agent of ours ended without success; `said` is the last it printed about it.
    AgentExited {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<String>,
    },
    /// It ended well, and there is no result of it, not even its runner's.
    NoResult {
        why: String,
    },
    /// Its result says success, its exit says otherwise.
    ExitDisagrees {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    LimitExceeded {
        what: Resource,
        limit: u64,
    },
    LaunchFailed {
        why: String,
    },
    /// The runner is gone without an exit record.
    RunnerDied,
    /// A person says that what nobody could confirm is gone.
    ToldGone,
    /// The machine was started anew under it.
    Rebooted,
    /// The terminal session that it lived in is gone.
    TerminalLost,
    /// Somebody ended this task.
    Killed {
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    ResultRefused {
        defects: Vec<Defect>,
    },
    EvidenceMissing {
        unmet: Vec<Finding>,
    },
    /// Nothing of what the task declares was changed.
    DeclaredUntouched {
        files: Vec<String>,
    },
    BelowRequired {
        grade: Grade,
        required: Grade,
    },
    SpecRefused {
        defects: Vec<Defect>,
    },
    /// `cause` is the task whose failure began it; `via` the direct dependency, where that is another.
    DependencyFailed {
        cause: TaskKey,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        via: Option<TaskKey>,
    },
    /// Its workspace or its snapshot could not be made: nothing was started.
    NotPrepared {
        why: String,
    },
    /// In an open batch: the spec that it waits for never came.
    DependencyMissing {
        missing: TaskKey,
    },
    Cancelled {
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

impl Reason {
    /// Stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::NoHeartbeat { .. } => "no_heartbeat",
            Reason::NeverStarted { .. } => "never_started",
            Reason::HeartbeatMalformed { .. } => "heartbeat_malformed",
            Reason::ResultNeverCame { .. } => "result_never_came",
            Reason::AttemptTimeout { .. } => "attempt_timeout",
            Reason::StageTimeout { .. } => "stage_timeout",
            Reason::BatchTimeout { .. } => "batch_timeout",
            Reason::AgentReported { .. } => "agent_reported",
            Reason::AgentExited { .. } => "agent_exited",
            Reason::NoResult { .. } => "no_result",
            Reason::ExitDisagrees { .. } => "exit_disagrees",
            Reason::LimitExceeded { .. } => "limit_exceeded",
            Reason::LaunchFailed { .. } => "launch_failed",
            Reason::RunnerDied => "runner_died",
            Reason::ToldGone => "told_gone",
            Reason::Rebooted => "rebooted",
            Reason::TerminalLost => "terminal_lost",
            Reason::Killed { .. } => "killed",
            Reason::ResultRefused { .. } => "result_refused",
            Reason::EvidenceMissing { .. } => "evidence_missing",
            Reason::DeclaredUntouched { .. } => "declared_untouched",
            Reason::BelowRequired { .. } => "below_required",
            Reason::SpecRefused { .. } => "spec_refused",
            Reason::DependencyFailed { .. } => "dependency_failed",
            Reason::NotPrepared { .. } => "not_prepared",
            Reason::DependencyMissing { .. } => "dependency_missing",
            Reason::Cancelled { .. } => "cancelled",
        }
    }

    /// Whether the task ends as `timeout` rather than `failed`.
    pub fn is_timeout(&self) -> bool {
        matches!(
            self,
            Reason::AttemptTimeout { .. } | Reason::StageTimeout { .. } | Reason::BatchTimeout { .. }
        )
    }

    /// Whether another try may help. Stage and batch clocks leave no room for one.
    pub fn is_retryable(&self) -> bool {
        match self {
            Reason::AgentExited { code, .. } => *code != Some(DO_NOT_RETRY),
            Reason::NoHeartbeat { .. }
            | Reason::NoResult { .. }
            | Reason::ExitDisagrees { .. }
            | Reason::LimitExceeded { .. }
            | Reason::LaunchFailed { .. }
            | Reason::RunnerDied
            | Reason::ToldGone
            | Reason::Rebooted
            | Reason::TerminalLost
            | Reason::NeverStarted { .. }
            | Reason::HeartbeatMalformed { .. }
            | Reason::ResultNeverCame { .. }
            | Reason::AttemptTimeout { .. }
            | Reason::AgentReported { .. }
            | Reason::ResultRefused { .. }
            | Reason::EvidenceMissing { .. }
            | Reason::DeclaredUntouched { .. }
            | Reason::BelowRequired { .. } => true,
            Reason::StageTimeout { .. }
            | Reason::BatchTimeout { .. }
            | Reason::SpecRefused { .. }
            | Reason::DependencyFailed { .. }
            | Reason::DependencyMissing { .. }
            | Reason::NotPrepared { .. }
            | Reason::Killed { .. }
            | Reason::Cancelled { .. } => false,
        }
    }

    /// Whether the try counts against the task. A crash of the machine is nobody's attempt.
    pub fn counts(&self) -> bool {
        !matches!(self, Reason::Rebooted)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoHeartbeat { limit } => write!(f, "no heartbeat for {limit}"),
            Reason::NeverStarted { limit } => write!(f, "never started: no heartbeat within {limit}"),
            Reason::HeartbeatMalformed { limit, defect } => {
                write!(f, "no valid heartbeat for {limit}; the file says: {defect}")
            }
            Reason::ResultNeverCame { limit } => {
                write!(f, "its heartbeat says 'completed', but no result followed within {limit}")
            }
            Reason::AttemptTimeout { limit } => write!(f, "exceeded {limit} timeout"),
            Reason::StageTimeout { stage, limit } => write!(f, "stage {stage} exceeded {limit} timeout"),
            Reason::BatchTimeout { limit } => write!(f, "batch exceeded {limit} timeout"),
            Reason::AgentReported { errors } if errors.is_empty() => write!(f, "the agent reported failure"),
            Reason::AgentReported { errors } => {
                write!(f, "the agent reported failure: {}", errors.join("; "))
            }
            Reason::AgentExited { code, signal, said } => {
                write!(f, "the agent {}", ending(*code, *signal))?;
                said.as_ref().map_or(Ok(()), |said| write!(f, ": {said}"))
            }
            Reason::NoResult { why } => {
                write!(f, "the agent ended with exit code 0, but there is no result: {why}")
            }
            Reason::ExitDisagrees { code, signal } => {
                write!(f, "its result says success, but the agent {}", ending(*code, *signal))
            }
            Reason::LimitExceeded { what, limit } => write!(f, "exceeded its limit of {what} = {limit}"),
            Reason::LaunchFailed { why } => write!(f, "could not be started: {why}"),
            Reason::RunnerDied => write!(f, "its runner was killed; nothing of the attempt is left"),
            Reason::ToldGone => write!(f, "its runner was killed; a person says that nothing of it is left"),
            Reason::Rebooted => write!(f, "the machine was restarted"),
            Reason::TerminalLost => write!(f, "its terminal session is gone"),
            Reason::Killed { by, why: None } => write!(f, "killed by {by}"),
            Reason::Killed { by, why: Some(why) } => write!(f, "killed by {by}: {why}"),
            Reason::ResultRefused { defects } => write!(f, "result refused: {}", joined(defects)),
            Reason::EvidenceMissing { unmet } => f.write_str(&missing(unmet)),
            Reason::DeclaredUntouched { files } => write!(
                f,
                "nothing that it declares was changed: {}; if nothing had to be, say `no_change_needed` and why",
                files.join("; ")
            ),
            Reason::BelowRequired { grade, required } => {
                write!(f, "evidence is {grade}, and {required} is required")
            }
            Reason::SpecRefused { defects } => write!(f, "spec refused: {}", joined(defects)),
            Reason::DependencyFailed { cause, via: None } => write!(f, "dependency {cause} failed"),
            Reason::DependencyFailed { cause, via: Some(via) } => {
                write!(f, "dependency {via} was skipped because {cause} failed")
            }
            Reason::NotPrepared { why } => write!(f, "nothing was started: {why}"),
            Reason::DependencyMissing { missing } => write!(f, "dependency {missing} was never dropped"),
            Reason::Cancelled { by, why: None } => write!(f, "cancelled by {by}"),
            Reason::Cancelled { by, why: Some(why) } => write!(f, "cancelled by {by}: {why}"),
        }
    }
}

/// What an agent said falsely, and what it was to bring about and did not, are two things.
fn missing(unmet: &[Finding]) -> String {
    let told = |is_claim: bool| {
        let of_kind = unmet.iter().filter(|finding| (finding.about == About::Claim) == is_claim);
        of_kind.map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    match (told(true), told(false)) {
        (claimed, required) if required.is_empty() => format!("claimed, but not so: {claimed}"),
        (claimed, required) if claimed.is_empty() => format!("required, but not so: {required}"),
        (claimed, required) => format!("claimed, but not so: {claimed}; required, but not so: {required}"),
    }
}

/// `ended with exit code 3`, `was ended by signal 9`.
fn ending(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "did not end by itself".to_owned(),
    }
}

fn joined(defects: &[Defect]) -> String {
    defects.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_by_what_it_is() {
        let finding = |about, subject: &str, saw: &str| Finding {
            about,
            ..Finding::new(subject, Grade::Observed, false, saw)
        };
        let output = finding(About::Output, "code", "does not exist");
        let criterion = finding(About::Criterion, "coverage", "75, but at least 80 is required");
        let claim = finding(About::Claim, "src/a.rs", "does not exist");
        let told = |unmet: &[&Finding]| {
            Reason::EvidenceMissing { unmet: unmet.iter().map(|one| (*one).clone()).collect() }.to_string()
        };
        assert_eq!(
            told(&[&output, &criterion]),
            "required, but not so: output code: does not exist; coverage: 75, but at least 80 is required"
        );
        assert_eq!(told(&[&claim]), "claimed, but not so: src/a.rs: does not exist");
        assert_eq!(
            told(&[&claim, &finding(About::Artifact, "dist/*.whl", "matches nothing")]),
            "claimed, but not so: src/a.rs: does not exist; required, but not so: artifact dist/*.whl: matches nothing"
        );
    }
}
