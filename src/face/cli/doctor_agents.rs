//! What `wk doctor` says about starting agents: the runner, process trees, tmux, and the program of each agent
//! and criterion.

use super::Desk;
use super::doctor::Finding;
use crate::agent::launcher::{self, RunnerProgram, tmux_version};
use crate::agent::tree::{Cgroup, ProcessIdentity};
use crate::format::agents::{template_warnings, type_warnings};

pub(super) fn findings(desk: &Desk) -> Vec<Finding> {
    let mut findings = vec![runner(), processes(), control_groups(), tmux()];
    findings.extend(sessions(desk));
    findings.extend(desk.settings.agents.named.values().filter_map(|agent| {
        let program = agent.command.first()?;
        (!is_found(program, desk)).then(|| {
            Finding::bad(
                "agent",
                format!("{}: there is no program '{program}'", agent.name),
                "install it, or give its full path in command",
            )
        })
    }));
    let templates = desk.settings.agents.named.values().flat_map(template_warnings);
    findings.extend(templates.map(|warning| {
        Finding::note("agent", warning, "correct the name, or leave it if the agent wants it so")
    }));
    findings.extend(type_warnings(&desk.settings.agents).into_iter().map(|warning| {
        Finding::note("agent", warning, "give each type to one agent, or name agents in the plan")
    }));
    findings.extend(criteria(desk));
    findings
}

/// A criterion whose program is not there would fail every task that has it.
fn criteria(desk: &Desk) -> impl Iterator<Item = Finding> {
    desk.settings.criteria.iter().filter_map(|(name, check)| {
        let program = check.command.first()?;
        (!is_found(program, desk)).then(|| {
            Finding::bad(
                "criterion",
                format!("{name}: there is no program '{program}'"),
                "install it, or give its full path in [criteria]",
            )
        })
    })
}

fn runner() -> Finding {
    let what = "runner";
    match RunnerProgram::find() {
        Ok(program) if program.is_lean() => Finding::good(what, program.path().display().to_string()),
        Ok(_) => Finding::note(
            what,
            "wk itself, because wk-runner does not lie beside it",
            "install both (`cargo install` does): a task then costs a millisecond less",
        ),
        Err(error) => Finding::bad(what, error.to_string(), "start wk by a path that the system can tell"),
    }
}

fn processes() -> Finding {
    let what = "process trees";
    match ProcessIdentity::current() {
        Some(_) => Finding::good(what, "are listed: an agent's end can be confirmed"),
        None => Finding::note(
            what,
            "cannot be listed here",
            "an agent is ended with its process group, and not with what left it; when a runner is killed, a person is asked",
        ),
    }
}

fn control_groups() -> Finding {
    let what = "control groups";
    match Cgroup::create(&format!("doctor-{}", std::process::id())) {
        Some(group) => {
            let _ = group.remove();
            Finding::good(what, "can be made; WK_CGROUPS=on gives every attempt its own")
        }
        None => Finding::good(what, "cannot be made here; agents are ended by a walk through their tree"),
    }
}

fn tmux() -> Finding {
    let what = "tmux";
    match tmux_version() {
        Some(version) => Finding::good(what, version),
        None => Finding::note(what, "not installed", "needed only for --launcher tmux and wk attach"),
    }
}

/// Sessions that nobody will close any more: their attempts' folders were archived or removed.
fn sessions(desk: &Desk) -> Option<Finding> {
    let kept = launcher::all(&desk.settings).into_iter().flat_map(|one| one.reconcile());
    let left = kept.filter(|attempt| !attempt.exists()).count();
    let found = crate::view::words::counted(left, "session");
    let advice = "they were kept (keep_sessions), or a crash left them; close them with tmux kill-session";
    (left > 0).then(|| Finding::note("sessions", format!("{found} of ended batches left"), advice))
}

/// Whether the program can be found as an agent would find it.
fn is_found(program: &str, desk: &Desk) -> bool {
    if program.contains('/') {
        return desk.layout.root().join(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
