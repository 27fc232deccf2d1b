//! `wk doctor`: measures what this file system and machine can do, and says what to change. It writes only
//! probe files of its own, and removes them.

#![expect(clippy::disallowed_methods, reason = "it finds out what the disk can do by doing it")]

use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::{Desk, Exit, Outcome, locate, terminal};
use crate::bus::lease::Lease;
use crate::bus::wake::Wake;
use crate::bus::{Disk, Durability, RealDisk, access, journal, layout, platform, real_disk, version};
use crate::watcher::kept;

/// Measures what this file system and machine can do, and says what to change.
#[derive(Args)]
#[command(after_help = "Examples:\n  wk doctor\n  wk doctor --json")]
pub struct Doctor {}

/// Whether something is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Good,
    Note,
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    what: &'static str,
    health: Health,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Finding {
    pub(super) fn good(what: &'static str, found: impl Into<String>) -> Self {
        Finding { what, health: Health::Good, found: found.into(), advice: None }
    }
    pub(super) fn note(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding { what, health: Health::Note, found: found.into(), advice: Some(advice.into()) }
    }
    pub(super) fn bad(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Finding { what, health: Health::Bad, found: found.into(), advice: Some(advice.into()) }
    }
}

impl Doctor {
    pub fn run(self, desk: &Desk) -> Outcome {
        let bus = desk.layout.bus();
        let place = if bus.is_dir() { bus } else { desk.layout.root().to_owned() };
        let mut findings = vec![file_system(&place), space(&place), publishing(&place), locks(&place)];
        findings.push(modes(&place));
        findings.extend([events(&place), open_writers(&place), event_limits(), descriptors(), watcher(desk)]);
        findings.extend(super::doctor_agents::findings(desk));
        findings.extend(bus_format(desk));
        findings.extend(journals(desk));
        findings.extend(quarantine(desk));
        let is_bad = findings.iter().any(|finding| finding.health == Health::Bad);
        if desk.json {
            super::print_json(&serde_json::json!({ "place": place, "findings": findings }));
        } else {
            terminal::print(&format!("{}\n", place.display()));
            for finding in &findings {
                let mark = match finding.health {
                    Health::Good => '✓',
                    Health::Note => '!',
                    Health::Bad => '✗',
                };
                terminal::print(&format!("  {mark} {}: {}\n", finding.what, finding.found));
                if let Some(advice) = &finding.advice {
                    terminal::print(&format!("      {advice}\n"));
                }
            }
        }
        Ok(if is_bad { Exit::Failure } else { Exit::Done })
    }
}

/// A probe file's place; the name is one that every reader of the bus ignores.
fn probe(place: &Path, name: &str) -> std::path::PathBuf {
    place.join(format!("{}doctor-{}-{name}", real_disk::TEMPORARY_PREFIX, std::process::id()))
}

fn file_system(place: &Path) -> Finding {
    let what = "file system";
    match platform::file_system(place) {
        None => Finding::note(what, "unknown on this system", "scans find whatever events do not tell"),
        Some(found) if found.is_network => Finding::note(
            what,
            format!("{}, shared or user-space", found.name),
            "set heartbeat_timeout_seconds = 180: attributes may be cached for a minute there",
        ),
        Some(found) => Finding::good(what, found.name),
    }
}

fn space(place: &Path) -> Finding {
    const SPACE_LEAST: u64 = 100 << 20;
    match fs2::available_space(place) {
        Ok(bytes) if bytes < SPACE_LEAST => Finding::bad(
            "free space",
            format!("{} MiB", bytes >> 20),
            "make room: without it nothing can be decided, only read",
        ),
        Ok(bytes) => Finding::good("free space", format!("{} MiB", bytes >> 20)),
        Err(error) => Finding::bad("free space", error.to_string(), "check the mount"),
    }
}

fn publishing(place: &Path) -> Finding {
    let what = "publishing";
    let disk = RealDisk::default();
    let path = probe(place, "publish");
    let time = |durability| -> std::io::Result<f64> {
        const ROUNDS: u32 = 20;
        let started = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        for _ in 0..ROUNDS {
            disk.publish(&path, b"probe", durability)?;
        }
        let ended = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let nanos = (ended.tv_sec - started.tv_sec) * 1_000_000_000 + (ended.tv_nsec - started.tv_nsec);
        Ok(nanos as f64 / 1e6 / f64::from(ROUNDS))
    };
    let measured = time(Durability::Unsynced).and_then(|quick| Ok((quick, time(Durability::Synced)?)));
    let _ = disk.remove_file(&path);
    match measured {
        Err(error) => Finding::bad(what, error.to_string(), "this user must be able to write here"),
        Ok((quick, synced)) => {
            let found = format!("{quick:.2} ms a file by rename, {synced:.2} ms synced");
            match synced > 100.0 {
                true => Finding::note(what, found, "syncs are slow: put .ce on a local disk"),
                false => Finding::good(what, found),
            }
        }
    }
}

fn locks(place: &Path) -> Finding {
    let what = "locks";
    let path = probe(place, "lock");
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
    let found = match (open(), open()) {
        (Ok(first), Ok(second)) => {
            let has_first = fs2::FileExt::try_lock_exclusive(&first).is_ok();
            let has_second = fs2::FileExt::try_lock_exclusive(&second).is_ok();
            match (has_first, has_second) {
                (true, false) => Finding::good(what, "exclusive, as they must be"),
                (true, true) => Finding::bad(
                    what,
                    "two holders at once",
                    "never run two watchers here: move .ce to a file system with working locks",
                ),
                _ => Finding::bad(what, "not supported", "move .ce to a file system with working locks"),
            }
        }
        (Err(error), _) | (_, Err(error)) => {
            Finding::bad(what, error.to_string(), "check the mount's rights")
        }
    };
    let _ = std::fs::remove_file(&path);
    found
}

fn modes(place: &Path) -> Finding {
    let what = "modes";
    match access::keeps_modes(&probe(place, "mode")) {
        Ok(true) => Finding::good(what, "kept: the bus is closed to other users"),
        Ok(false) => Finding::note(
            what,
            "not kept here",
            "every user who reaches this mount can read the bus: move .ce to a file system with modes, or mount it \
             with a umask of 077",
        ),
        Err(error) => Finding::bad(what, error.to_string(), "this user must be able to write here"),
    }
}

fn events(place: &Path) -> Finding {
    let what = "file events";
    let mut wake = Wake::new(true);
    wake.watch(place);
    if wake.mode() == "scan" {
        return Finding::note(what, "none", "scans find everything, a second later");
    }
    let path = place.join(format!("doctor-probe-{}", std::process::id()));
    let started = platform::monotonic_ms();
    let written = std::fs::write(&path, b"probe");
    let mut arrived = None;
    while written.is_ok() && platform::monotonic_ms() - started < 1_000 {
        let hints = wake.wait(Duration::from_millis(100), 0);
        if hints.paths.contains(&path) {
            arrived = Some(platform::monotonic_ms() - started);
            break;
        }
    }
    let _ = std::fs::remove_file(&path);
    match (written, arrived) {
        (Err(error), _) => Finding::bad(what, error.to_string(), "this user must be able to write here"),
        (Ok(()), Some(ms)) => Finding::good(what, format!("arrive within {} ms", ms + 1)),
        (Ok(()), None) => {
            Finding::note(what, "none within a second", "set events = false; scans find everything")
        }
    }
}

fn open_writers(place: &Path) -> Finding {
    let what = "open writers";
    let path = probe(place, "writer");
    let seen =
        OpenOptions::new().write(true).create(true).truncate(true).open(&path).ok().and_then(|writer| {
            let disk = RealDisk::default();
            let while_open = disk.has_writer(&path)?;
            drop(writer);
            Some(while_open && disk.has_writer(&path) == Some(false))
        });
    let _ = std::fs::remove_file(&path);
    match seen {
        Some(true) => Finding::good(what, "can be seen: a torn file is told from a wrong one at once"),
        _ => {
            Finding::note(what, "cannot be seen", "a torn file is waited for by time alone (settle_seconds)")
        }
    }
}

fn event_limits() -> Finding {
    const WATCHES_LEAST: u64 = 1_024;
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?.trim().parse::<u64>().ok()
    };
    match (read("max_user_watches"), read("max_user_instances"), read("max_queued_events")) {
        (Some(watches), Some(instances), Some(queue)) => {
            let found = format!("{watches} watches, {instances} instances, queue of {queue}");
            match watches < WATCHES_LEAST {
                true => Finding::note("event limits", found, "raise fs.inotify.max_user_watches"),
                false => Finding::good("event limits", found),
            }
        }
        _ => {
            Finding::note("event limits", "unknown on this system", "scans find whatever events do not tell")
        }
    }
}

fn descriptors() -> Finding {
    const DESCRIPTORS_LEAST: u64 = 256;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    match limit {
        Some(limit) if limit < DESCRIPTORS_LEAST => Finding::note(
            "open files",
            format!("at most {limit}"),
            format!("raise it: ulimit -n {DESCRIPTORS_LEAST}"),
        ),
        Some(limit) => Finding::good("open files", format!("at most {limit}")),
        None => Finding::good("open files", "without limit"),
    }
}

fn watcher(desk: &Desk) -> Finding {
    match Lease::holder(&desk.layout) {
        Some(holder) => Finding::good("watcher", holder),
        None => Finding::note("watcher", "none runs on this bus", "`wk watch` starts one"),
    }
}

fn bus_format(desk: &Desk) -> Option<Finding> {
    let newer = version::check_bus(&RealDisk::default(), &desk.layout).err()?;
    Some(Finding::bad("format", newer.to_string(), "use the wk that wrote it, or a later one"))
}

/// Every journal under way that cannot be folded, with the remedy.
fn journals(desk: &Desk) -> Vec<Finding> {
    let disk = RealDisk::default();
    let mut findings = Vec::new();
    let under_way = locate::active(desk).unwrap_or_else(|trouble| {
        findings.push(Finding::bad("bus", trouble.text, "see that it is a directory that you may read"));
        Vec::new()
    });
    for found in under_way {
        if let Err(newer) = kept::read_state(&disk, &found.paths)
            && newer.is_newer()
        {
            let advice = format!("batch {} is left alone; the wk that wrote it goes on with it", found.id);
            findings.push(Finding::bad("format", newer.to_string(), advice));
        } else if let Err(error) = journal::read(&disk, &found.paths.journal()) {
            let archive = desk.layout.archived(&found.id);
            findings.push(Finding::bad(
                "journal",
                error.to_string(),
                format!(
                    "batch {} is stopped. Restore the journal from a copy, or cut it before that line to go on \
                     from there; or give the batch up: mv {} {}",
                    found.id,
                    found.paths.dir().display(),
                    archive.dir().display()
                ),
            ));
        }
    }
    findings
}

fn quarantine(desk: &Desk) -> Option<Finding> {
    let listed = RealDisk::default().list(&desk.layout.quarantine()).ok()?;
    let refused = listed.iter().filter(|entry| !layout::is_reason(&entry.name)).count();
    (refused > 0).then(|| {
        Finding::note(
            "quarantine",
            crate::view::words::counted(refused, "refused file"),
            "`wk quarantine list` tells why, `wk quarantine retry` gives a corrected one another try"
                .to_owned(),
        )
    })
}
