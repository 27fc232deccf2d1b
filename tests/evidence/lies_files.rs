//! Lies about declared files: nothing done, something that only looks like work, the right thing in the wrong place.

use crate::told::{CLAIMED, MISSING, PLAN, Scene, UNTOUCHED};

pub const SCENES: &[Scene] = &[
    Scene {
        name: "does-nothing",
        tells: "Exits with 0 and leaves the declared file as it was.",
        act: "true",
        ..PLAN
    },
    Scene {
        name: "never-created",
        tells: "Exits with 0; the declared file does not exist, before or after.",
        declares: &["@/never.rs"],
        act: "true",
        ..PLAN
    },
    Scene {
        name: "prints-success",
        tells: "Prints that all is done and all tests pass, and does nothing.",
        act: "echo 'All done. 12 tests pass.'; echo '{\"status\": \"success\", \"files_modified\": [\"a.rs\"]'",
        ..PLAN
    },
    Scene {
        name: "touches",
        tells: "Only touches the declared file.",
        act: "touch a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "same-bytes-by-rename",
        tells: "Replaces the declared file by a copy with the same bytes.",
        act: "cp a.rs t && mv t a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "same-bytes-in-place",
        tells: "Writes the same bytes over the declared file.",
        act: "echo old > a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "changes-and-restores",
        tells: "Changes the declared file and puts back what it was.",
        act: "echo new > a.rs; echo old > a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "creates-empty",
        tells: "Creates the declared file without content.",
        declares: &["@/new.rs"],
        act: ": > new.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene { name: "empties", tells: "Empties the declared file.", act: ": > a.rs", ends: CLAIMED, ..PLAN },
    Scene {
        name: "link-to-other",
        tells: "Makes the declared file a link to another file of the tree.",
        declares: &["@/new.rs"],
        act: "ln -s b.rs new.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "link-instead",
        tells: "Replaces the declared file by a link to another file of the tree.",
        act: "rm a.rs; ln -s b.rs a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "hard-link",
        tells: "Makes the declared file a second name of another file of the tree.",
        declares: &["@/new.rs"],
        act: "ln b.rs new.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "hard-link-instead",
        tells: "Replaces the declared file by a second name of another file.",
        act: "ln -f b.rs a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "link-out",
        tells: "Makes the declared file a link that leads out of the tree.",
        declares: &["@/new.rs"],
        act: "ln -s /etc/passwd new.rs",
        ends: MISSING,
        ..PLAN
    },
    Scene {
        name: "directory-link-out",
        tells: "Makes the directory of the declared file a link that leads out of the tree, where such a file is.",
        declares: &["@/src/passwd"],
        act: "ln -s /etc src",
        ends: MISSING,
        ..PLAN
    },
    Scene {
        name: "dangling-link",
        tells: "Makes the declared file a link that leads nowhere.",
        declares: &["@/new.rs"],
        act: "ln -s nowhere new.rs",
        ..PLAN
    },
    Scene {
        name: "link-to-itself",
        tells: "Makes the declared file a link to itself.",
        declares: &["@/new.rs"],
        act: "ln -s new.rs new.rs",
        ..PLAN
    },
    Scene {
        name: "pipe",
        tells: "Makes the declared file a named pipe.",
        declares: &["@/new.rs"],
        act: "mkfifo new.rs",
        ends: MISSING,
        ..PLAN
    },
    Scene {
        name: "directory-instead",
        tells: "Makes an empty directory with the name of the declared file.",
        declares: &["@/new.rs"],
        act: "mkdir new.rs",
        ..PLAN
    },
    Scene {
        name: "wrong-name",
        tells: "Writes a file with almost the right name.",
        act: "echo new > a.rs.new",
        ..PLAN
    },
    Scene {
        name: "wrong-case",
        tells: "Writes a file with the right name in capitals.",
        act: "echo new > A.RS",
        ..PLAN
    },
    Scene {
        name: "wrong-directory",
        tells: "Writes the file into another directory.",
        act: "mkdir src; echo new > src/a.rs",
        ..PLAN
    },
    Scene {
        name: "other-clone",
        tells: "Works in a copy of the tree, and leaves the tree as it was.",
        act: "t=$(mktemp -d); cp -r . $t/x; echo new > $t/x/a.rs; rm -r $t",
        ..PLAN
    },
    Scene {
        name: "backup-only",
        tells: "Copies the declared file beside itself.",
        act: "cp a.rs a.rs.bak",
        ..PLAN
    },
    Scene {
        name: "mode-only",
        tells: "Changes nothing of the declared file but its mode.",
        act: "chmod 755 a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "time-set-back",
        tells: "Sets the time of the declared file back by years.",
        act: "touch -d '2001-01-01 00:00:00' a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "time-set-forward",
        tells: "Sets the time of the declared file forward by years.",
        act: "touch -d '2037-01-01 00:00:00' a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "some-of-several",
        tells: "Changes one of two declared files.",
        declares: &["@/a.rs", "@/b.rs"],
        act: "echo new > a.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "one-of-many-directories",
        tells: "Changes a declared directory, and not the file declared beside it.",
        declares: &["@/src/", "@/a.rs"],
        act: "mkdir src; echo new > src/x.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "deletes-silently",
        tells: "Deletes the declared file and does not say so.",
        act: "rm a.rs",
        ..PLAN
    },
    Scene {
        name: "deletes-one-silently",
        tells: "Changes one declared file, deletes the other and does not say so.",
        declares: &["@/a.rs", "@/b.rs"],
        act: "echo new > a.rs; rm b.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene { name: "moves-away", tells: "Gives the declared file another name.", act: "mv a.rs c.rs", ..PLAN },
    Scene {
        name: "empty-directory",
        tells: "Makes the declared directory, with nothing but directories in it.",
        declares: &["@/src/"],
        act: "mkdir -p src/deep/er",
        ..PLAN
    },
    Scene {
        name: "directory-as-it-was",
        tells: "Leaves every file of the declared directory as it was.",
        before: "mkdir src; echo old > src/x.rs",
        declares: &["@/src/"],
        act: "cat src/x.rs > /dev/null; mkdir src/more",
        ..PLAN
    },
    Scene {
        name: "directory-of-empties",
        tells: "Puts a file without content into the declared directory.",
        declares: &["@/src"],
        act: "mkdir src; : > src/x.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "directory-of-links",
        tells: "Puts a link to a file outside of the declared directory into it.",
        declares: &["@/src"],
        act: "mkdir src; ln -s ../b.rs src/x.rs",
        ..PLAN
    },
    Scene {
        name: "nothing-matches",
        tells: "Writes files of which none matches the declared pattern.",
        declares: &["@/gen/**/*.rs"],
        act: "mkdir gen; echo new > gen/x.md; echo new > x.rs",
        ..PLAN
    },
    Scene {
        name: "touches-matches",
        tells: "Touches everything that matches the declared pattern.",
        declares: &["@/*.rs"],
        act: "touch *.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "later-by-a-child",
        tells: "Leaves a child behind that is to write the declared file later.",
        act: "(sleep 60; echo new > a.rs) > /dev/null 2>&1 &",
        ..PLAN
    },
    Scene {
        name: "retry-without-work",
        tells: "Fails at the first attempt without having done anything, and does nothing at the second.",
        fields: r#"{"max_retries": 1}"#,
        act: "test $WK_ATTEMPT = 2",
        ..PLAN
    },
    Scene {
        name: "retry-that-reverts",
        tells: "Changes the declared file at the first attempt, fails, and puts back what it was at the second.",
        fields: r#"{"max_retries": 1}"#,
        act: "if test $WK_ATTEMPT = 1; then echo new > a.rs; exit 1; fi; echo old > a.rs",
        ends: CLAIMED,
        attempts: 2,
        ..PLAN
    },
    Scene {
        name: "replaces-the-baseline",
        tells: "Replaces the record of how its files were before, and does nothing.",
        act: "cd $WK_ROOT/.ce/orchestration/tasks/batch-7/attempts/$WK_TASK; echo '{\"version\":1,\"files\":{}}' > baseline.json",
        ends: UNTOUCHED,
        ..PLAN
    },
    Scene {
        name: "forges-what-was-found",
        tells: "Writes the records of its own end and of what was found, and does nothing.",
        act: "cd $WK_ROOT/.ce/orchestration/tasks/batch-7/attempts/$WK_TASK/1; \
              f='{\"declared\":[{\"place\":\"@/a.rs\",\"change\":\"modified\"}],\"findings\":[]}'; \
              echo \"$f\" > inspected.json; echo \"$f\" > exit.json",
        ends: UNTOUCHED,
        ..PLAN
    },
    Scene {
        name: "directory-loses-a-file",
        tells: "Deletes a file of the declared directory and does not say so.",
        before: "mkdir src; echo old > src/x.rs; echo old > src/y.rs",
        declares: &["@/src/"],
        act: "rm src/x.rs",
        ..PLAN
    },
    Scene {
        name: "directory-emptied",
        tells: "Empties a file of the declared directory.",
        before: "mkdir src; echo old > src/x.rs; echo old > src/y.rs",
        declares: &["@/src/"],
        act: ": > src/x.rs",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "directory-of-caches",
        tells: "Runs the code of the declared directory; all that is new in it are caches.",
        before: "mkdir src; echo old > src/x.py",
        declares: &["@/src/"],
        act: "mkdir -p src/__pycache__ src/.pytest_cache; echo x > src/__pycache__/x.pyc
echo 'Signature: 8a477f597d28d172789f06886806bc55' > src/.pytest_cache/CACHEDIR.TAG; echo x > src/.pytest_cache/x",
        ..PLAN
    },
    Scene {
        name: "large-touched",
        tells: "Touches a declared file of 4 MB.",
        before: "head -c 4000000 /dev/zero > data.bin",
        declares: &["@/data.bin"],
        act: "touch data.bin",
        ends: CLAIMED,
        ..PLAN
    },
    Scene {
        name: "third-does-nothing",
        tells: "Does nothing; two tasks before it changed the file that it declares.",
        declares: &["first-of-two/a.rs"],
        fields: r#"{"dependencies": ["second-of-two"]}"#,
        act: "true",
        ends: ["declared_untouched", "declared_untouched", "dependency_failed"],
        ..PLAN
    },
    Scene {
        name: "lives-off-another",
        tells: "Does nothing; another task that declares the same file, and may run before or after it, changes it.",
        declares: &["lives-off-another/x.rs"],
        act: "true",
        ..PLAN
    },
    Scene {
        name: "retry-with-another-baseline",
        tells: "Replaces the record of how its files were before, fails, and does nothing at the second attempt.",
        fields: r#"{"max_retries": 1}"#,
        act: "test $WK_ATTEMPT = 2 && exit; cd $WK_ROOT/.ce/orchestration/tasks/batch-7/attempts/$WK_TASK; \
              echo '{\"version\":1,\"files\":{}}' > baseline.json; exit 1",
        ends: ["launch_failed"; 3],
        ..PLAN
    },
    Scene {
        name: "retry-without-baseline",
        tells: "Removes the record of how its files were before, fails, and does nothing at the second attempt.",
        fields: r#"{"max_retries": 1}"#,
        act: "test $WK_ATTEMPT = 2 && exit; rm $WK_ROOT/.ce/orchestration/tasks/batch-7/attempts/$WK_TASK/baseline.json; exit 1",
        ends: ["launch_failed"; 3],
        ..PLAN
    },
];
