//! Why something happened. The same value is journaled, printed by `wk why` and shown in every face.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::clock::Seconds;
use super::defect::Defect;
use super::evidence::{Finding, Grade};
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
    ResultRefused {
        defects: Vec<Defect>,
    },
    EvidenceMissing {
        unmet: Vec<Finding>,
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
            Reason::AttemptTimeout { .. } => "attempt_timeout",
            Reason::StageTimeout { .. } => "stage_timeout",
            Reason::BatchTimeout { .. } => "batch_timeout",
            Reason::AgentReported { .. } => "agent_reported",
            Reason::ResultRefused { .. } => "result_refused",
            Reason::EvidenceMissing { .. } => "evidence_missing",
            Reason::BelowRequired { .. } => "below_required",
            Reason::SpecRefused { .. } => "spec_refused",
            Reason::DependencyFailed { .. } => "dependency_failed",
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
            Reason::NoHeartbeat { .. }
            | Reason::NeverStarted { .. }
            | Reason::HeartbeatMalformed { .. }
            | Reason::AttemptTimeout { .. }
            | Reason::AgentReported { .. }
            | Reason::ResultRefused { .. }
            | Reason::EvidenceMissing { .. }
            | Reason::BelowRequired { .. } => true,
            Reason::StageTimeout { .. }
            | Reason::BatchTimeout { .. }
            | Reason::SpecRefused { .. }
            | Reason::DependencyFailed { .. }
            | Reason::DependencyMissing { .. }
            | Reason::Cancelled { .. } => false,
        }
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
            Reason::AttemptTimeout { limit } => write!(f, "exceeded {limit} timeout"),
            Reason::StageTimeout { stage, limit } => write!(f, "stage {stage} exceeded {limit} timeout"),
            Reason::BatchTimeout { limit } => write!(f, "batch exceeded {limit} timeout"),
            Reason::AgentReported { errors } if errors.is_empty() => write!(f, "the agent reported failure"),
            Reason::AgentReported { errors } => {
                write!(f, "the agent reported failure: {}", errors.join("; "))
            }
            Reason::ResultRefused { defects } => write!(f, "result refused: {}", joined(defects)),
            Reason::EvidenceMissing { unmet } => {
                let texts: Vec<String> =
                    unmet.iter().map(|finding| format!("{}: {}", finding.subject, finding.saw)).collect();
                write!(f, "claimed, but not so: {}", texts.join("; "))
            }
            Reason::BelowRequired { grade, required } => {
                write!(f, "evidence is {grade}, and {required} is required")
            }
            Reason::SpecRefused { defects } => write!(f, "spec refused: {}", joined(defects)),
            Reason::DependencyFailed { cause, via: None } => write!(f, "dependency {cause} failed"),
            Reason::DependencyFailed { cause, via: Some(via) } => {
                write!(f, "dependency {via} was skipped because {cause} failed")
            }
            Reason::DependencyMissing { missing } => write!(f, "dependency {missing} was never dropped"),
            Reason::Cancelled { by, why: None } => write!(f, "cancelled by {by}"),
            Reason::Cancelled { by, why: Some(why) } => write!(f, "cancelled by {by}: {why}"),
        }
    }
}

fn joined(defects: &[Defect]) -> String {
    defects.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
