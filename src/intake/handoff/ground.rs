//! Directories that are nobody's own: shared by everybody, of the whole system, of the kernel.
//!
//! Judges by spelling alone. Whether a path leads there through links is for whoever can look.

use std::path::Path;

/// Directories that everybody shares.
const SHARED: &[&str] = &["/", "/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/private/var/tmp"];
/// Directories that hold what is somebody's own, and are nobody's themselves.
const HOLDERS: &[&str] = &[
    "/home",
    "/media",
    "/opt",
    "/root",
    "/srv",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/mail",
    "/var/opt",
];
/// Whole trees of programs, settings and devices: a file that is put there may be run or obeyed.
const TREES: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/run",
    "/sbin",
    "/usr",
    "/var/spool",
];
/// Places in those trees that are for work, and how many names below them it begins.
const COMMONS: &[(&str, usize)] =
    &[("/dev/shm", 1), ("/run/user", 2), ("/usr/src", 1), ("/usr/local/src", 1)];
/// Directories of the kernel: what looks like a file there is none.
const KERNELS: &[&str] = &["/proc", "/sys"];

/// What speaks against a workspace there. The words follow the path.
pub(super) fn objection_to_workspace(path: &Path) -> Option<&'static str> {
    if is_one_of(path, SHARED) {
        return Some("is shared with everybody");
    }
    let is_system = is_one_of(path, HOLDERS) || (is_below(path, TREES) && !is_common(path));
    of_kernel(path).or(is_system.then_some("belongs to the whole system"))
}

/// What speaks against a codebase there. Somebody's project may well lie among the system's files.
pub(super) fn objection_to_codebase(path: &Path) -> Option<&'static str> {
    let is_system = [SHARED, HOLDERS, TREES].iter().any(|list| is_one_of(path, list));
    of_kernel(path).or(is_system.then_some("belongs to the whole system"))
}

fn of_kernel(path: &Path) -> Option<&'static str> {
    is_below(path, KERNELS).then_some("belongs to the kernel")
}

fn is_one_of(path: &Path, list: &[&str]) -> bool {
    list.iter().any(|known| path == Path::new(known))
}

fn is_below(path: &Path, list: &[&str]) -> bool {
    list.iter().any(|known| path.starts_with(known))
}

fn is_common(path: &Path) -> bool {
    COMMONS
        .iter()
        .any(|(place, names)| path.strip_prefix(place).is_ok_and(|rest| rest.components().count() >= *names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_workspace_lies_among_the_files_of_the_system() {
        let why = |path: &str| objection_to_workspace(Path::new(path)).unwrap_or_default();
        for path in ["/", "/tmp", "/var/tmp", "/dev/shm"] {
            assert!(why(path).contains("everybody"), "{path}: {}", why(path));
        }
        for path in ["/proc/1/cwd", "/sys"] {
            assert!(why(path).contains("kernel"), "{path}: {}", why(path));
        }
        for path in [
            "/etc",
            "/etc/cron.d",
            "/usr",
            "/usr/local",
            "/usr/local/bin/x",
            "/usr/src",
            "/var",
            "/var/lib",
            "/var/spool/cron",
            "/home",
            "/root",
            "/boot/x",
            "/bin/x",
            "/sbin",
            "/lib/x",
            "/lib64/x",
            "/dev/x",
            "/run/systemd/x",
            "/run/user/1000",
            "/opt",
            "/srv",
        ] {
            assert!(why(path).contains("whole system"), "{path}: {}", why(path));
        }
        for path in [
            "/tmp/x",
            "/var/tmp/x",
            "/var/www/x",
            "/mnt/disk",
            "/data",
            "/usr/src/x",
            "/usr/local/src/x",
            "/dev/shm/x",
            "/run/user/1000/x",
            "/library",
            "/etcetera",
        ] {
            assert_eq!(why(path), "", "{path}");
        }
        for holder in HOLDERS {
            assert_eq!(objection_to_workspace(&Path::new(holder).join("x")), None, "{holder}");
        }
    }

    #[test]
    fn a_codebase_is_no_directory_of_the_whole_system() {
        let why = |path: &str| objection_to_codebase(Path::new(path)).unwrap_or_default();
        for path in ["/", "/etc", "/usr", "/home", "/proc/1", "/dev/shm"] {
            assert_ne!(why(path), "", "{path}");
        }
        for path in ["/usr/share/app", "/etc/nginx", "/srv/app"] {
            assert_eq!(why(path), "", "{path}");
        }
    }
}
