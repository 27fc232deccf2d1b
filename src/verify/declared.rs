//! What became of the files that a task declares, by their content, since its first attempt began.
//!
//! Only looks and reads. Whether a file that was not touched is a failure is for `decide` to say.

use std::path::Path;

use super::baseline::{Baseline, Before, READ_ANYWAY_BYTES_MAX, Reading, find, plainly};
use super::tally::{Tally, is_customarily_empty};
use crate::bus::disk::WireLook;
use crate::bus::{Disk, Look, NodeKind};
use crate::model::Grade;
use crate::model::declared::{DeclaredPlace, covers};
use crate::model::evidence::{Brought, Change};

/// What is known of the time before.
#[derive(Debug, Clone, Copy)]
pub struct Since<'b> {
    /// `None` where nobody looked.
    pub baseline: Option<&'b Baseline>,
    /// The journal names the baseline, or whoever compares took it: no agent can have replaced it.
    pub is_confirmed: bool,
    /// The file system's time when this attempt began; what is older was done by an earlier one. `None` for the
    /// first attempt.
    pub attempt_began_ns: Option<i128>,
}

/// Looks at every declared place again.
pub fn compare(
    disk: &impl Disk,
    root: &Path,
    places: &[String],
    since: Since<'_>,
    reading: &Reading,
) -> Vec<DeclaredPlace> {
    places.iter().map(|place| compare_place(disk, root, place, since, reading)).collect()
}

/// Whether anything stands at a declared place.
pub fn stands(disk: &impl Disk, root: &Path, place: &str) -> bool {
    !find(disk, root, place).files.is_empty()
}

fn compare_place(
    disk: &impl Disk,
    root: &Path,
    place: &str,
    since: Since<'_>,
    reading: &Reading,
) -> DeclaredPlace {
    let now = find(disk, root, place);
    let mut told = DeclaredPlace {
        place: place.to_owned(),
        change: Change::Absent,
        remains: !now.files.is_empty(),
        inherited: false,
        refused: now.refused,
        brought: Brought::default(),
    };
    if told.refused.is_some() {
        return told;
    }
    let is_partial =
        now.is_partial || since.baseline.is_some_and(|one| one.partial.iter().any(|p| p == place));
    let Some(baseline) = since.baseline.filter(|_| !is_partial) else {
        told.change = if now.files.is_empty() { Change::Absent } else { Change::Unknown };
        return told;
    };
    let is_newly_linked =
        now.behind_a_link.is_some() && now.behind_a_link.as_ref() != baseline.links.get(place);
    let mut tally = Tally::default();
    for (file, look) in &now.files {
        let change = change_of(disk, &root.join(file), look, baseline.files.get(file), reading);
        // It may be a file of long ago that the link leads to.
        let is_doubtful = is_newly_linked && change.grade() > Grade::Claimed;
        let change = if is_doubtful { Change::Linked } else { change };
        tally.note(file, change, since.attempt_began_ns.is_some_and(|began| look.changed_ns < began));
    }
    for file in baseline.files.keys().filter(|file| covers(place, file) && !now.files.contains_key(*file)) {
        tally.had_files = true;
        match disk.look(&root.join(file)).ok().flatten().map(|look| look.kind) {
            None => tally.note(file, Change::Deleted, false),
            Some(NodeKind::Symlink) => tally.note(file, Change::Linked, false),
            // It became part of a cache, or of something that is no file: not seen, and not gone.
            Some(_) => told.remains = true,
        }
    }
    told.change = tally.change();
    told.inherited = tally.is_inherited();
    told.brought = tally.brought;
    if !since.is_confirmed && told.change.grade() > Grade::Claimed {
        told.change = Change::Unknown;
    }
    told
}

fn change_of(
    disk: &impl Disk,
    path: &Path,
    look: &Look,
    before: Option<&Before>,
    reading: &Reading,
) -> Change {
    let is_empty = look.kind == NodeKind::File && look.size == 0 && !is_customarily_empty(path);
    // Another file under this name, which has a name besides: `ln other a.rs`. One that was written through had them before.
    let is_second_name = look.kind == NodeKind::File
        && look.links > 1
        && before.is_none_or(|before| before.look.inode() != look.inode);
    let Some(before) = before else {
        return match look.kind {
            NodeKind::Symlink => Change::Linked,
            _ if is_second_name => Change::Linked,
            _ if is_empty => Change::Emptied,
            _ => Change::Created,
        };
    };
    let looks_the_same = before.look == WireLook::of(&plainly(*look));
    if looks_the_same && look.kind == NodeKind::File && look.size > READ_ANYWAY_BYTES_MAX {
        return Change::Untouched;
    }
    if look.kind == NodeKind::Symlink && !looks_the_same {
        return Change::Linked;
    }
    match (&before.sha256, reading.digest(disk, path, look)) {
        (Some(then), Some(now)) if *then == now => match looks_the_same {
            true => Change::Untouched,
            false => Change::Rewritten,
        },
        (Some(_), Some(_)) if is_second_name => Change::Linked,
        (Some(_), Some(_)) if is_empty => Change::Emptied,
        (Some(_), Some(_)) => Change::Modified,
        // Too large to be read before, or beside the loop: another size is another content.
        (_, _) if before.look.size() != look.size => Change::Modified,
        (_, _) => Change::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    use super::super::baseline;
    use super::*;
    use crate::bus::RealDisk;

    struct Place {
        dir: tempfile::TempDir,
        places: Vec<String>,
        baseline: Baseline,
    }

    impl Place {
        fn of(places: &[&str], prepare: impl FnOnce(&Path)) -> Self {
            let dir = tempfile::tempdir().unwrap();
            prepare(dir.path());
            let places: Vec<String> = places.iter().map(|place| (*place).to_owned()).collect();
            let baseline = baseline::take(&RealDisk::default(), dir.path(), &places, &Reading::whole());
            let baseline = Baseline::from_bytes(&baseline.to_bytes()).unwrap();
            Place { dir, places, baseline }
        }

        fn now(&self) -> Vec<DeclaredPlace> {
            let since = Since { baseline: Some(&self.baseline), is_confirmed: true, attempt_began_ns: None };
            compare(&RealDisk::default(), self.dir.path(), &self.places, since, &Reading::whole())
        }

        fn change_after(&self, act: impl FnOnce(&Path)) -> Change {
            act(self.dir.path());
            self.now()[0].change
        }
    }

    fn write(root: &Path, file: &str, text: &str) {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), text).unwrap();
    }

    #[test]
    fn content_decides_and_not_the_time_stamp() {
        let old = |root: &Path| write(root, "a.rs", "old");
        let changed = |act: fn(&Path)| Place::of(&["a.rs"], old).change_after(act);
        assert_eq!(changed(|_| {}), Change::Untouched);
        assert_eq!(changed(|root| write(root, "a.rs", "new")), Change::Modified);
        assert_eq!(changed(|root| write(root, "a.rs", "old")), Change::Rewritten);
        assert_eq!(changed(|root| write(root, "a.rs", "")), Change::Emptied);
        assert_eq!(changed(|root| fs::remove_file(root.join("a.rs")).unwrap()), Change::Deleted);
        let replaced = |root: &Path| {
            write(root, "a.tmp", "old");
            fs::rename(root.join("a.tmp"), root.join("a.rs")).unwrap();
        };
        assert_eq!(Place::of(&["./a.rs"], old).change_after(replaced), Change::Rewritten);
    }

    #[test]
    fn a_new_file_counts_unless_it_is_empty_or_a_link() {
        let changed = |place: &str, act: fn(&Path)| {
            Place::of(&[place], |root| write(root, "other.rs", "x")).change_after(act)
        };
        assert_eq!(changed("a.rs", |_| {}), Change::Absent);
        assert_eq!(changed("a.rs", |root| write(root, "a.rs", "x")), Change::Created);
        assert_eq!(changed("a.rs", |root| write(root, "a.rs", "")), Change::Emptied);
        assert_eq!(changed("p/__init__.py", |root| write(root, "p/__init__.py", "")), Change::Created);
        let link = |root: &Path| std::os::unix::fs::symlink("other.rs", root.join("a.rs")).unwrap();
        assert_eq!(changed("a.rs", link), Change::Linked);
        let second_name = |root: &Path| fs::hard_link(root.join("other.rs"), root.join("a.rs")).unwrap();
        assert_eq!(changed("a.rs", second_name), Change::Linked);
    }

    #[test]
    fn a_directory_or_a_pattern_has_changed_when_a_file_below_it_has() {
        let old = |root: &Path| {
            write(root, "src/a.rs", "old");
            write(root, "src/deep/b.rs", "old");
            write(root, "src/c.md", "old");
        };
        for place in ["src/", "src", "src/**", "src/**/*.rs", "**/*.rs"] {
            let scene = Place::of(&[place], old);
            assert_eq!(scene.now()[0].change, Change::Untouched, "{place}");
            let change = scene.change_after(|root| write(root, "src/deep/b.rs", "new"));
            assert_eq!(change, Change::Modified, "{place}");
            assert_eq!(scene.now()[0].brought.modified, ["src/deep/b.rs"], "{place}");
        }
        let scene = Place::of(&["src/"], old);
        let change = scene.change_after(|root| {
            write(root, "src/__pycache__/a.pyc", "compiled");
            write(root, "src/target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55");
            write(root, "src/target/a.o", "compiled");
        });
        assert_eq!(change, Change::Untouched, "caches are no work");
        let scene = Place::of(&["src/*.rs"], old);
        let change = scene.change_after(|root| write(root, "src/deep/b.rs", "new"));
        assert_eq!(change, Change::Untouched, "one star does not cross directories");
    }

    #[test]
    fn what_leads_out_or_is_a_pipe_is_refused() {
        let scene = Place::of(&["out", "pipe"], |_| {});
        std::os::unix::fs::symlink("/etc/passwd", scene.dir.path().join("out")).unwrap();
        let pipe = scene.dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let refused: Vec<_> = scene.now().into_iter().map(|place| place.refused.unwrap()).collect();
        assert_eq!(
            refused,
            ["leads outside the root through a symbolic link", "is a pipe, socket or device"]
        );
    }

    #[test]
    fn a_large_file_is_read_by_runners_and_told_by_its_size_in_the_loop() {
        let size = 70 << 20;
        let dir = tempfile::tempdir().unwrap();
        let file = fs::File::create(dir.path().join("model.bin")).unwrap();
        file.set_len(size).unwrap();
        let places = ["model.bin".to_owned()];
        for (reading, change) in
            [(Reading::whole as fn() -> Reading, Change::Modified), (Reading::in_the_loop, Change::Unknown)]
        {
            let baseline = baseline::take(&RealDisk::default(), dir.path(), &places, &reading());
            let since = Since { baseline: Some(&baseline), is_confirmed: true, attempt_began_ns: None };
            let now = || compare(&RealDisk::default(), dir.path(), &places, since, &reading())[0].change;
            assert_eq!(now(), Change::Untouched);
            file.write_all_at(b"other bytes", 5).unwrap();
            assert_eq!(now(), change);
            file.set_len(size + 1).unwrap();
            assert_eq!(now(), Change::Modified);
            file.set_len(size).unwrap();
            file.write_all_at(&[0; 11], 5).unwrap();
        }
    }

    #[test]
    fn what_was_to_be_deleted_is_gone_only_when_nothing_of_it_stands_there() {
        let link = std::os::unix::fs::symlink::<&str, PathBuf>;
        let two = |root: &Path| {
            write(root, "d/a.txt", "a");
            write(root, "d/b.txt", "b");
        };
        let remove = |root: &Path, name: &str| fs::remove_file(root.join(name)).unwrap();
        for place in ["d", "d/*.txt"] {
            let scene = Place::of(&[place], two);
            remove(scene.dir.path(), "d/a.txt");
            assert_eq!(scene.now()[0].finding(|_| true).grade, Grade::Claimed, "{place}: one is left");
            link("../elsewhere", scene.dir.path().join("d/a.txt")).unwrap();
            remove(scene.dir.path(), "d/b.txt");
            assert_eq!(scene.now()[0].finding(|_| true).grade, Grade::Claimed, "{place}: a link is left");
            remove(scene.dir.path(), "d/a.txt");
            assert_eq!(scene.now()[0].finding(|_| true).grade, Grade::Observed, "{place}");
        }
        let scene = Place::of(&["d"], two);
        write(scene.dir.path(), "d/CACHEDIR.TAG", "");
        assert_eq!(scene.now()[0].finding(|_| true).grade, Grade::Claimed, "hidden, not gone");
    }

    #[test]
    fn a_directory_that_is_a_link_brings_no_work_of_its_own() {
        let link = std::os::unix::fs::symlink::<&str, PathBuf>;
        for place in ["pkg/m.py", "pkg/*.py"] {
            let scene = Place::of(&[place], |root| write(root, "other/m.py", "of long ago"));
            let linked = scene.change_after(|root| link("other", root.join("pkg")).unwrap());
            assert_eq!(linked, Change::Linked, "{place}");
        }
        let scene = Place::of(&["docs/a.md"], |root| {
            write(root, "content/a.md", "old");
            link("content", root.join("docs")).unwrap();
        });
        assert_eq!(scene.change_after(|root| write(root, "content/a.md", "new")), Change::Modified);
        let scene = Place::of(&["gen/*.conf"], |_| {});
        link("/etc", scene.dir.path().join("gen")).unwrap();
        let refused = scene.now()[0].refused.clone();
        assert_eq!(refused.as_deref(), Some("leads outside the root through a symbolic link"));
    }

    #[test]
    fn what_was_written_through_a_link_that_was_there_counts() {
        let scene = Place::of(&["link"], |root| {
            write(root, "real", "old");
            std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        });
        assert_eq!(scene.now()[0].change, Change::Untouched);
        assert_eq!(scene.change_after(|root| write(root, "real", "new")), Change::Modified);
    }

    #[test]
    fn what_an_earlier_attempt_did_is_inherited_and_a_doubtful_baseline_proves_nothing() {
        let scene = Place::of(&["a.rs"], |_| {});
        write(scene.dir.path(), "a.rs", "work");
        let later =
            Since { baseline: Some(&scene.baseline), is_confirmed: true, attempt_began_ns: Some(i128::MAX) };
        let told = compare(&RealDisk::default(), scene.dir.path(), &scene.places, later, &Reading::whole());
        assert_eq!((told[0].change, told[0].inherited), (Change::Created, true));
        let doubtful = Since { is_confirmed: false, attempt_began_ns: None, ..later };
        let told =
            compare(&RealDisk::default(), scene.dir.path(), &scene.places, doubtful, &Reading::whole());
        assert_eq!((told[0].change, told[0].inherited), (Change::Unknown, false));
        let none = Since { baseline: None, ..doubtful };
        let told = compare(&RealDisk::default(), scene.dir.path(), &scene.places, none, &Reading::whole());
        assert_eq!(told[0].change, Change::Unknown);
    }
}
