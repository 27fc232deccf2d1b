//! Scenes with real processes. Being a subreaper, and collecting every child, holds for a whole process: so
//! each scene is played by this test program started once more, in a process of its own.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::staging::*;
use super::*;

#[test]
fn naive_kills_leave_survivors() {
    play("naive_kills", &[]);
}

#[test]
fn a_tree_of_three_is_ended_without_a_cgroup() {
    play("three", &[]);
}

#[test]
fn a_tree_of_three_is_ended_with_a_cgroup() {
    play("three_in_cgroup", &[]);
}

#[test]
fn a_process_without_environment_in_a_session_of_its_own_is_ended() {
    play("bare", &[]);
}

#[test]
fn a_fork_storm_is_ended_without_a_cgroup() {
    play("storm", &[]);
}

#[test]
fn a_fork_storm_is_ended_with_a_cgroup() {
    play("storm_in_cgroup", &[]);
}

#[test]
fn a_stopped_process_is_continued_so_that_it_can_end_in_order() {
    play("stopped", &[]);
}

#[test]
fn a_parent_that_replaces_its_dead_children_is_ended_with_them() {
    play("replacing", &[]);
}

#[test]
fn each_process_is_asked_once_and_its_exit_code_is_told() {
    play("asked_once", &[]);
}

#[test]
fn without_time_to_kill_the_survivors_are_named() {
    play("no_time", &[]);
}

#[test]
fn who_is_no_subreaper_cannot_confirm() {
    play("no_subreaper", &[]);
}

#[test]
fn children_of_a_thread_are_descendants_and_their_use_is_counted() {
    play("counted", &[]);
}

#[test]
fn where_nobody_lists_processes_the_group_is_ended_and_nothing_is_claimed() {
    play("portable", &[("WK_PORTABLE", "1")]);
}

#[test]
fn a_zombie_is_dead() {
    let mut child = Command::new("sleep").arg("300").spawn().unwrap();
    let identity = ProcessIdentity::of(child.id()).unwrap();
    assert_eq!(identity.state(), Existence::Alive);
    child.kill().unwrap();
    until("it is dead, though not waited for", || identity.state() == Existence::Dead);
    assert!(Process::read(child.id()).is_some(), "it was still listed");
    assert_eq!(send(&identity, Signal::KILL), Err(SignalError::Gone(identity.pid)));
    child.wait().unwrap();
    assert_eq!(identity.state(), Existence::Dead);
}

#[test]
fn another_start_boot_host_or_namespace_is_another_process() {
    let current = ProcessIdentity::current().unwrap();
    assert_eq!(current.state(), Existence::Alive);
    let other = |change: fn(&mut ProcessIdentity)| {
        let mut identity = current.clone();
        change(&mut identity);
        identity.state()
    };
    assert_eq!(other(|identity| identity.started += 1), Existence::Dead);
    assert_eq!(other(|identity| identity.boot_id.push('x')), Existence::Dead);
    assert_eq!(other(|identity| identity.pid_namespace += 1), Existence::Unknown);
    assert_eq!(other(|identity| identity.host.push('x')), Existence::Unknown);
    let text = serde_json::to_string(&current).unwrap();
    assert_eq!(serde_json::from_str::<ProcessIdentity>(&text).unwrap(), current);
}

#[test]
fn a_stranger_with_a_recorded_pid_is_never_signalled() {
    let mut stranger = Command::new("setsid").args(["sleep", "300"]).spawn().unwrap();
    until("it leads a session", || Process::read(stranger.id()).unwrap().session == stranger.id());
    let true_identity = ProcessIdentity::of(stranger.id()).unwrap();
    let mut planted = true_identity.clone();
    planted.started -= 1;
    assert_eq!(send(&planted, Signal::KILL), Err(SignalError::Gone(planted.pid)));

    let trace = Trace {
        runner: planted.clone(),
        session: 1,
        ancestors: Vec::new(),
        marker: format!("WK_TEST_MARK=nobody-{}", planted.pid),
        leader: Some(planted),
        cgroup: Some(PathBuf::from("/sys/fs/cgroup")),
    };
    end_orphans(&trace, Innocent::default(), Duration::ZERO, Duration::from_millis(200), &mut || ());
    assert_eq!(true_identity.state(), Existence::Alive);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn init_and_ourselves_are_never_signalled() {
    let current = ProcessIdentity::current().unwrap();
    assert_eq!(send(&current, Signal::KILL), Err(SignalError::Forbidden(current.pid)));
    let init = ProcessIdentity::of(1).unwrap();
    assert_eq!(send(&init, Signal::CONT), Err(SignalError::Forbidden(1)));
}

#[test]
fn orphans_of_a_killed_subreaper_are_found_by_their_mark() {
    let scene = Orphaned::by("orphans");
    assert!(scene.trace.cgroup.is_none());
    // The shells between them and their parent are marked too, until they have ended.
    let marked = || marked(&scene.trace.marker, scene.trace.runner.started).marked.len();
    until("nobody but the four is left", || marked() == 4);
    let answer = end_orphans(&scene.trace, Innocent::default(), GRACE, LIMIT, &mut || ());
    scene.assert_dead(&["child", "session", "daemon"]);
    // Where other users start processes meanwhile, these cannot be told from orphans of ours.
    assert!(matches!(answer, Confirmation::Gone | Confirmation::Unknown(Doubt::Unproven(_))), "{answer:?}");
}

#[test]
fn orphans_of_a_killed_subreaper_are_found_by_their_cgroup() {
    if !has_cgroups() {
        return;
    }
    let scene = Orphaned::by("bare_orphans_in_cgroup");
    let answer = end_orphans(&scene.trace, Innocent::default(), Duration::ZERO, LIMIT, &mut || ());
    scene.assert_dead(&["bare"]);
    assert_eq!(answer, Confirmation::Gone);
    let path = scene.trace.cgroup.as_deref().unwrap();
    assert!(Cgroup::is_removed(path), "{}", path.display());
    // Who looks again does not doubt it because the proof is gone.
    let again = end_orphans(&scene.trace, Innocent::default(), Duration::ZERO, LIMIT, &mut || ());
    assert_eq!(again, Confirmation::Gone);
}

#[test]
fn an_orphan_without_mark_and_cgroup_is_left_alone_but_keeps_the_answer_open() {
    for scene in ["bare_orphans", "unmarked_orphans"] {
        let scene = Orphaned::by(scene);
        let answer = end_orphans(&scene.trace, Innocent::default(), Duration::ZERO, LIMIT, &mut || ());
        let Confirmation::Unknown(Doubt::Unproven(unproven)) = answer else { panic!("{answer:?}") };
        assert!(unproven.contains(&scene.who["bare"]), "{unproven:?}");
        assert_eq!(scene.who["bare"].state(), Existence::Alive);
        send(&scene.who["bare"], Signal::KILL).unwrap();
    }
}

#[test]
fn who_is_gone_at_a_second_look_is_no_suspect() {
    let scene = Orphaned::by("unmarked_orphans");
    let suspect = &scene.who["bare"];
    let suspects = |tick: &mut dyn FnMut()| match end_orphans(
        &scene.trace,
        Innocent::default(),
        Duration::ZERO,
        LIMIT,
        tick,
    ) {
        Confirmation::Unknown(Doubt::Unproven(suspects)) => suspects,
        _ => Vec::new(),
    };
    assert!(suspects(&mut || ()).contains(suspect));
    // Nobody is left who could be ended: whoever is called now is called between two looks.
    let found = suspects(&mut || {
        let _ = send(suspect, Signal::KILL);
        until("it is dead", || suspect.state() == Existence::Dead);
    });
    assert!(!found.contains(suspect), "{found:?}");
}

#[test]
fn an_orphan_that_runs_a_program_which_no_agent_leaves_is_not_suspected() {
    let scene = Orphaned::by("unmarked_orphans");
    let program = procfs::program_of(scene.who["bare"].pid).unwrap();
    let name = program.file_name().unwrap().to_str().unwrap();
    let innocent = Innocent { own: &[name], servers: &[] };
    let answer = end_orphans(&scene.trace, innocent, Duration::ZERO, LIMIT, &mut || ());
    if let Confirmation::Unknown(Doubt::Unproven(unproven)) = answer {
        assert!(!unproven.contains(&scene.who["bare"]), "{unproven:?}");
    }
    send(&scene.who["bare"], Signal::KILL).unwrap();
}

#[test]
fn what_is_started_while_nobody_inherits_becomes_nobodys_child() {
    play("lapse", &[]);
}

#[test]
fn who_was_once_proven_is_not_forgotten_when_its_parent_ends() {
    let scene = Orphaned::by("bare_child_orphans");
    end_orphans(&scene.trace, Innocent::default(), GRACE, LIMIT, &mut || ());
    scene.assert_dead(&["bare"]);
}

#[test]
fn an_orphan_without_mark_is_found_in_the_recorded_session() {
    let scene = Orphaned::by("session_orphans");
    end_orphans(&scene.trace, Innocent::default(), Duration::ZERO, LIMIT, &mut || ());
    scene.assert_dead(&["bare"]);
}

#[test]
fn a_session_that_may_be_another_by_now_is_left_alone() {
    play("lost_session", &[]);
}

#[test]
fn of_another_boot_nobody_is_left_and_of_another_host_nobody_knows() {
    let mut trace = Trace::of_ours("WK_TEST_MARK=nobody", None).unwrap();
    let end =
        |trace: &Trace| end_orphans(trace, Innocent::default(), Duration::ZERO, Duration::ZERO, &mut || ());
    trace.runner.boot_id.push('x');
    assert_eq!(end(&trace), Confirmation::Gone);
    trace.runner.host.push('x');
    assert_eq!(end(&trace), Confirmation::Unknown(Doubt::Elsewhere));
}

/// Not a claim of its own: plays the scene that it was started for.
#[test]
fn stage() {
    let Ok(scene) = std::env::var(SCENE) else { return };
    match scene.as_str() {
        "naive_kills" => naive_kills(),
        "three" => three(None),
        "three_in_cgroup" => in_cgroup(three),
        "bare" => bare(),
        "storm" => storm(None),
        "storm_in_cgroup" => in_cgroup(storm),
        "stopped" => stopped(),
        "replacing" => replacing(),
        "asked_once" => asked_once(),
        "no_time" => no_time(),
        "no_subreaper" => no_subreaper(),
        "counted" => counted(),
        "portable" => portable(),
        "lost_session" => lost_session(),
        "lapse" => lapse(),
        "orphans" => run_until_killed(&agent("three-processes.sh"), None),
        "bare_orphans" => run_until_killed(&script(BARE), None),
        "unmarked_orphans" => run_until_killed(&script(UNMARKED), None),
        "bare_child_orphans" => run_until_killed(&script(BARE_CHILD), None),
        "session_orphans" => run_until_killed(&leading_a_session(BARE_IN_SESSION), None),
        "bare_orphans_in_cgroup" => in_cgroup(|cgroup| run_until_killed(&script(BARE), cgroup)),
        other => panic!("no scene {other}"),
    }
}

const BARE: &str = r#"cd "$1"; (env -i setsid sh -c 'echo $$ > bare; exec sleep 300' &); exec sleep 300"#;
const UNMARKED: &str = r#"cd "$1"
    (env -i PATH="$PATH" setsid sh -c 'echo $$ > bare; exec sleep 300' &); exec sleep 300"#;
const BARE_CHILD: &str = r#"cd "$1"; env -i setsid sh -c 'trap "" TERM; echo $$ > bare; exec sleep 300' &
    exec sleep 300"#;
const BARE_IN_SESSION: &str = r#"cd "$1"; (env -i sh -c 'echo $$ > bare; exec sleep 300' &); exec sleep 300"#;

fn naive_kills() {
    let three = ["child", "session", "daemon"];
    let killed_alone = Played::new(&agent("three-processes.sh"), None, &three);
    Command::new("kill").args(["-9", &killed_alone.leader.to_string()]).status().unwrap();
    until("the leader is dead", || {
        !Process::read(killed_alone.leader).is_some_and(|leader| leader.is_alive())
    });
    assert_eq!(killed_alone.alive(), three.len());

    let killed_group = Played::new(&agent("three-processes.sh"), None, &three);
    Command::new("kill").args(["-9", "--", &format!("-{}", killed_group.leader)]).status().unwrap();
    until("the group is dead", || killed_group.who["child"].state() == Existence::Dead);
    assert_eq!(killed_group.alive(), 2);

    killed_group.end(None);
    assert_eq!(killed_alone.alive() + killed_group.alive(), 0);
}

fn three(cgroup: Option<&Cgroup>) {
    let played = Played::new(&agent("three-processes.sh"), cgroup, &["child", "session", "daemon"]);
    let ended = played.end(cgroup);
    assert_eq!(ended.confirmation, Confirmation::Gone);
    assert!(ended.leader.is_some(), "the leader was collected");
    assert_eq!(played.alive(), 0);
    assert_eq!(family_of_ours(), 0);
}

fn bare() {
    let played = Played::new(&script(BARE), None, &["bare"]);
    assert_eq!(played.end(None).confirmation, Confirmation::Gone);
    assert_eq!(played.alive(), 0);
}

fn storm(cgroup: Option<&Cgroup>) {
    let played = Played::new(&agent("fork-storm.sh"), cgroup, &["storm"]);
    until("there is a crowd", || descendants(std::process::id()).len() > 30);
    let limit = if cgroup.is_some() { LIMIT } else { LIMIT * 2 };
    let tree = Tree { leader: Some(played.leader), cgroup };
    // No grace: the chains would run out before it is over.
    let ended = end_tree(&tree, Duration::ZERO, limit, &mut || ());
    assert_eq!(ended.confirmation, Confirmation::Gone);
    assert_eq!(family_of_ours(), 0);
    assert!(played.place.path().is_dir(), "it would have gone on");
}

fn stopped() {
    let trap =
        r#"cd "$1"; trap 'echo ended > last; exit 3' TERM; echo $$ > me; while :; do sleep 0.05; done"#;
    let played = Played::new(&script(trap), None, &["me"]);
    send(&played.who["me"], Signal::STOP).unwrap();
    until("it is stopped", || Process::read(played.leader).unwrap().state == b'T');
    let ended = end_tree(&played.tree(None), PATIENCE, LIMIT, &mut || ());
    assert_eq!(ended.leader.unwrap().code(), Some(3));
    assert_eq!(fs::read_to_string(played.place.path().join("last")).unwrap(), "ended\n");
}

fn replacing() {
    let script =
        script(r#"cd "$1"; trap '' TERM; echo $$ > me; while [ -d "$1" ]; do setsid sleep 300; done"#);
    let played = Played::new(&script, None, &["me"]);
    assert_eq!(played.end(None).confirmation, Confirmation::Gone);
    assert_eq!(family_of_ours(), 0);
}

fn asked_once() {
    let count = r#"cd "$1"; n=0; trap 'n=$((n + 1)); echo $n > asked' TERM; echo $$ > me
        until [ -s asked ]; do sleep 0.05; done; sleep 0.3; exit $((40 + n))"#;
    let played = Played::new(&script(count), None, &["me"]);
    let mut ticks = 0;
    let ended = end_tree(&played.tree(None), PATIENCE, LIMIT, &mut || ticks += 1);
    assert_eq!(ended.leader.unwrap().code(), Some(41));
    assert_eq!(ended.confirmation, Confirmation::Gone);
    assert!(ticks > 0);
}

fn no_time() {
    let played = Played::new(&agent("three-processes.sh"), None, &["child", "session", "daemon"]);
    let ended = end_tree(&played.tree(None), Duration::ZERO, Duration::ZERO, &mut || ());
    let Confirmation::Survivors(survivors) = ended.confirmation else { panic!("{ended:?}") };
    assert!(played.who.values().all(|one| survivors.contains(one)), "{survivors:?}");
    played.end(None);
    assert_eq!(played.alive(), 0);
}

fn no_subreaper() {
    let mut child = Command::new("sleep").arg("300").process_group(0).spawn().unwrap();
    let tree = Tree { leader: Some(child.id()), cgroup: None };
    let ended = end_tree(&tree, GRACE, LIMIT, &mut || ());
    assert_eq!(ended.confirmation, Confirmation::Unknown(Doubt::NotSubreaper));
    assert!(child.try_wait().is_err(), "it was collected already");
}

fn counted() {
    become_subreaper().unwrap();
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; sleep 300 & wait";
    let start = || Command::new("sh").args(["-c", busy]).process_group(0).spawn().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let (leave, left) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tell.send(start().id()).unwrap();
        left.recv().unwrap();
    });
    let child = told.recv().unwrap();
    until("the shell has worked and sleeps", || descendants(std::process::id()).len() == 2);
    let used = usage(std::process::id()).unwrap();
    assert_eq!(used.processes, 2);
    assert!(used.memory_bytes > 100_000, "{used:?}");
    assert!(used.cpu > Duration::ZERO, "{used:?}");
    leave.send(()).unwrap();
    thread.join().unwrap();
    let tree = Tree { leader: Some(child), cgroup: None };
    assert_eq!(end_tree(&tree, GRACE, LIMIT, &mut || ()).confirmation, Confirmation::Gone);
    let after = usage(std::process::id()).unwrap();
    assert!(after.processes == 0 && after.cpu >= used.cpu, "what was waited for still counts: {after:?}");
}

fn portable() {
    assert!(become_subreaper().is_err());
    assert!(ProcessIdentity::current().is_none());
    assert!(Trace::of_ours("A=b", None).is_none());
    assert!(Cgroup::create("portable").is_none());
    assert!(usage(std::process::id()).is_none());
    assert!(marked("PATH", 0).unreadable.is_empty());
    let deaf = "trap '' TERM; sleep 300 & while :; do sleep 300; done";
    let child = Command::new("sh").args(["-c", deaf]).process_group(0).spawn().unwrap().id();
    assert!(descendants(std::process::id()).is_empty());
    let tree = Tree { leader: Some(child), cgroup: None };
    let ended = end_tree(&tree, GRACE, LIMIT, &mut || ());
    assert_eq!(ended.confirmation, Confirmation::Unknown(Doubt::NoProcessList));
    assert!(ended.leader.is_some());
    let group = rustix::process::Pid::from_raw(child as i32).unwrap();
    until("nobody is in the group", || rustix::process::test_kill_process_group(group).is_err());
}

fn lost_session() {
    become_subreaper().unwrap();
    let scene = Orphaned::by("session_orphans");
    let leader = scene.trace.leader.as_ref().unwrap();
    send(leader, Signal::KILL).unwrap();
    until("the leader is gone for good", || {
        reap();
        Process::read(leader.pid).is_none()
    });
    let answer = end_orphans(&scene.trace, Innocent::default(), Duration::ZERO, LIMIT, &mut || ());
    let Confirmation::Unknown(Doubt::Unproven(unproven)) = answer else { panic!("{answer:?}") };
    assert_eq!(unproven.iter().filter(|one| **one == scene.who["bare"]).count(), 1);
    assert_eq!(scene.who["bare"].state(), Existence::Alive);
    send(&scene.who["bare"], Signal::KILL).unwrap();
}

fn lapse() {
    become_subreaper().unwrap();
    let place = tempfile::tempdir().unwrap();
    let leave = |name: &str| {
        let line = format!("cd \"$0\"; (setsid sh -c 'echo $$ > {name}; exec sleep 300' &)");
        Command::new("sh").args(["-c", &line]).arg(place.path()).status().unwrap();
        told(place.path(), name)
    };
    let before = ProcessIdentity::current().unwrap().started;
    assert!(has_inherited_since(before));
    let server = without_inheriting(|| leave("server"));
    let orphan = leave("orphan");
    let parent = |of: &ProcessIdentity| Process::read(of.pid).unwrap().parent;
    let me = std::process::id();
    assert_ne!(parent(&server), me);
    until("an orphan is ours again", || parent(&orphan) == me);
    assert!(!has_inherited_since(before), "what was orphaned meanwhile did not come");
    assert!(has_inherited_since(orphan.started + 1));
    for one in [server, orphan] {
        send(&one, Signal::KILL).unwrap();
    }
    let dropped = std::panic::catch_unwind(|| without_inheriting(|| panic!("on purpose")));
    assert!(dropped.is_err() && reap::is_subreaper(), "whatever happens, we inherit again");
}

/// What a runner does before somebody kills it: leaves a trace, starts its agent.
fn run_until_killed(command: &[String], cgroup: Option<&Cgroup>) {
    become_subreaper().unwrap();
    let place = PathBuf::from(std::env::var(PLACE).unwrap());
    let marker = format!("WK_TEST_MARK={}", place.display());
    let mut trace = Trace::of_ours(&marker, cgroup).unwrap();
    let child = start(command, &place, &marker, cgroup);
    trace.leader = ProcessIdentity::of(child);
    fs::write(place.join("trace.new"), serde_json::to_string(&trace).unwrap()).unwrap();
    fs::rename(place.join("trace.new"), place.join("trace")).unwrap();
    std::thread::sleep(PATIENCE);
}
