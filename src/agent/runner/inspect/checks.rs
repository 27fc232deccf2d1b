//! Commands that decide whether a criterion is met: run like an agent, with its environment, limits, logs and
//! redaction, after the agent has ended.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use super::super::attend::Attendant;
use super::super::environment::Environment;
use super::super::reasons::Reasons;
use super::super::{Mirrored, ending, files, start};
use crate::agent::redact::redact;
use crate::agent::tree::Cgroup;
use crate::bus::layout::AttemptPaths;
use crate::bus::platform::monotonic_ms;
use crate::format::order::{Inspection, Order};
use crate::model::Finding;
use crate::model::exit::Stopped;
use crate::model::handoff::{Check, Criterion, Wanted};
use crate::model::preset::Dialect;
use crate::verify::cannot_fail::{Asked, cannot_fail};
use crate::verify::criteria::{self, Ran};
use crate::verify::vacuous;

/// A log that is larger is not searched for how many tests there were.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// Runs every check, one after the other. `Err` says why the attempt has to end instead.
pub(super) fn run_all(
    order: &Order,
    inspection: &Inspection,
    paths: &AttemptPaths,
    environment: &Environment,
    cgroup: Option<&Cgroup>,
) -> Result<Vec<Finding>, Stopped> {
    let mut findings = Vec::new();
    for criterion in &inspection.criteria {
        if let Some(check) = &criterion.check {
            findings.push(run(order, inspection, paths, (criterion, check), environment, cgroup)?);
        }
    }
    Ok(findings)
}

/// What decides: a check with a floor or a pattern has to print something.
fn asked(criterion: &Criterion, check: &Check) -> Asked {
    match (&check.value, criterion.wants) {
        (None, Wanted::Truth(_)) => Asked::Exit,
        (_, _) => Asked::Value,
    }
}

/// Everything that a check printed: how many tests there were may stand far from its end.
fn said_in_all(logs: &AttemptPaths) -> String {
    let read = |path: PathBuf| files::read(&path, LOG_BYTES_MAX).ok().flatten().unwrap_or_default();
    let bytes = [read(logs.stdout()), read(logs.stderr())].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where the logs of a check go. Two criteria never share a folder, whatever becomes of their names.
fn folder(inspection: &Inspection, paths: &AttemptPaths, criterion: &Criterion) -> PathBuf {
    let own = paths.check(&criterion.name);
    let mut before = inspection.criteria.iter().take_while(|other| other.name != criterion.name);
    if !before.any(|other| paths.check(&other.name) == own) {
        return own;
    }
    let mut told_apart = own.into_os_string();
    told_apart.push(format!(".{:08x}", crc32fast::hash(criterion.name.as_bytes())));
    PathBuf::from(told_apart)
}

fn run(
    order: &Order,
    inspection: &Inspection,
    paths: &AttemptPaths,
    (criterion, check): (&Criterion, &Check),
    environment: &Environment,
    cgroup: Option<&Cgroup>,
) -> Result<Finding, Stopped> {
    if let Some(why) = cannot_fail(&check.command, asked(criterion, check)) {
        return Ok(criteria::vacuous(criterion, &why));
    }
    let order = Order {
        command: check.command.clone(),
        cwd: inspection.workspace.clone(),
        stdin: None,
        dialect: Dialect::Plain,
        ..order.clone()
    };
    let logs = AttemptPaths::at(folder(inspection, paths, criterion));
    if let Err(error) = files::make_folder(logs.dir()) {
        return Ok(criteria::not_run(criterion, &format!("{}: {error}", logs.dir().display())));
    }
    let started_ms = monotonic_ms();
    let mut reasons = Reasons::of_check(&order, paths, started_ms);
    if let Some(stopped) = reasons.before_start() {
        return Err(stopped);
    }
    let copies = inspection.mirrors.as_ref().and_then(|mirrors| mirrors.checks.get(&criterion.name));
    let mirrors = copies.map(|copies| Mirrored {
        workspace: &inspection.workspace,
        stdout: &copies.stdout,
        stderr: &copies.stderr,
    });
    let (begin, child) = match start(&order, (&logs, mirrors), environment, cgroup) {
        Ok(started) => started,
        Err(why) => return Ok(criteria::not_run(criterion, &why)),
    };
    let mut attendant = Attendant::new(begin, child, started_ms);
    attendant.announce(&format!("verifying {}", criterion.name));
    let stopped = attendant.attend(&mut reasons);
    ending::end_everyone(&mut attendant, cgroup, stopped.as_ref());
    attendant.finish();
    match stopped {
        None => {}
        // The check used more than it may; the attempt itself has ended well.
        Some(Stopped::Timeout { limit }) => {
            return Ok(criteria::not_run(criterion, &format!("it took more than {limit}")));
        }
        Some(Stopped::Limit { what, limit }) => {
            return Ok(criteria::not_run(criterion, &format!("it exceeded {what} = {limit}")));
        }
        Some(stopped) => return Err(stopped),
    }
    Ok(decided(criterion, check, &attendant, &logs, &environment.secrets))
}

/// What the check's end and words say of the criterion.
fn decided(
    criterion: &Criterion,
    check: &Check,
    attendant: &Attendant<'_>,
    logs: &AttemptPaths,
    secrets: &[String],
) -> Finding {
    let status = attendant.status;
    let printed = [attendant.err.kept.text(), attendant.out.kept.text()].join("\n");
    let ran = Ran { exit_code: status.and_then(|status| status.code()), output: &printed };
    let mut finding = criteria::by_command(criterion, check, ran);
    if let Some(why) = vacuous::executed_nothing(&said_in_all(logs)).filter(|_| ran.exit_code == Some(0)) {
        finding = criteria::vacuous(criterion, &format!("`{}`: {why}", check.command.join(" ")));
    }
    if let Some(signal) = status.and_then(|status| status.signal()) {
        finding.saw = format!("{} {signal}", finding.saw);
    }
    if !finding.met
        && let Some(last) =
            attendant.err.kept.last_lines(1).pop().or_else(|| attendant.out.kept.last_lines(1).pop())
    {
        finding.saw = format!("{}; it said: {last}", finding.saw);
    }
    // The command itself may hold a secret, and findings are told to everybody.
    finding.saw = redact(&finding.saw, secrets);
    finding
}
