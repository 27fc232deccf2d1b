//! Honest work on declared files, in the many ways in which it is done.

use crate::told::{CLAIMED, OBSERVED, PLAN, Scene};

/// Most of it is seen.
const HONEST: Scene = Scene { ends: OBSERVED, ..PLAN };

pub const SCENES: &[Scene] = &[
    Scene {
        name: "creates",
        tells: "Creates the declared file.",
        declares: &["@/new.rs"],
        act: "echo new > new.rs",
        ..HONEST
    },
    Scene { name: "modifies", tells: "Changes the declared file.", act: "echo new > a.rs", ..HONEST },
    Scene { name: "appends", tells: "Adds a line to the declared file.", act: "echo more >> a.rs", ..HONEST },
    Scene {
        name: "replaces",
        tells: "Writes a new file and renames it over the declared one, as editors do.",
        act: "echo new > .a.rs.swp; mv .a.rs.swp a.rs",
        ..HONEST
    },
    Scene {
        name: "same-size",
        tells: "Changes the declared file without changing its size, and sets its time back.",
        act: "touch -r a.rs t; echo new > a.rs; touch -r t a.rs; rm t",
        ..HONEST
    },
    Scene {
        name: "all-of-several",
        tells: "Changes one declared file and creates the other.",
        declares: &["@/a.rs", "@/new.rs"],
        act: "echo new > a.rs; echo new > new.rs",
        ..HONEST
    },
    Scene {
        name: "new-directory",
        tells: "Creates the declared file in a directory that did not exist.",
        declares: &["@/deep/er/x.rs"],
        act: "mkdir -p deep/er; echo new > deep/er/x.rs",
        ..HONEST
    },
    Scene {
        name: "directory",
        tells: "Changes one file of the declared directory.",
        before: "mkdir -p src/deep; echo old > src/x.rs; echo old > src/deep/y.rs",
        declares: &["@/src/"],
        act: "echo new > src/deep/y.rs",
        ..HONEST
    },
    Scene {
        name: "directory-anew",
        tells: "Makes the declared directory with a file in it.",
        declares: &["@/src"],
        act: "mkdir src; echo new > src/x.rs",
        ..HONEST
    },
    Scene {
        name: "pattern",
        tells: "Creates a file that matches the declared pattern.",
        declares: &["@/gen/**/*.rs"],
        act: "mkdir -p gen/deep; echo new > gen/deep/x.rs",
        ..HONEST
    },
    Scene {
        name: "pattern-with-a-question-mark",
        tells: "Changes a file that matches the declared pattern.",
        before: "echo old > part-1.md; echo old > part-2.md",
        declares: &["@/part-?.md"],
        act: "echo new > part-2.md",
        ..HONEST
    },
    Scene {
        name: "dot-slash",
        tells: "Changes the declared file, which the plan spells with `./`.",
        declares: &["./@/a.rs"],
        act: "echo new > a.rs",
        ..HONEST
    },
    Scene {
        name: "brackets",
        tells: "Creates a file with brackets in its path, as web frameworks name them.",
        declares: &["@/app/[id]/page.tsx"],
        act: "mkdir -p 'app/[id]'; echo new > 'app/[id]/page.tsx'",
        ..HONEST
    },
    Scene {
        name: "spaces-and-umlauts",
        tells: "Creates a file with spaces and other letters in its name.",
        declares: &["@/Übersicht für alle.md"],
        act: "echo new > 'Übersicht für alle.md'",
        ..HONEST
    },
    Scene {
        name: "below-ce",
        tells: "Creates a declared file below `.ce` that is none of the bus's own.",
        declares: &[".ce/notes/@.md"],
        act: "mkdir -p $WK_ROOT/.ce/notes; echo new > $WK_ROOT/.ce/notes/@.md",
        ..HONEST
    },
    Scene {
        name: "init-py",
        tells: "Creates an empty `__init__.py`.",
        declares: &["@/pkg/__init__.py"],
        act: "mkdir pkg; : > pkg/__init__.py",
        ..HONEST
    },
    Scene {
        name: "gitkeep",
        tells: "Creates an empty `.gitkeep` in a declared directory.",
        declares: &["@/data/"],
        act: "mkdir data; : > data/.gitkeep",
        ..HONEST
    },
    Scene {
        name: "py-typed",
        tells: "Creates an empty `py.typed`.",
        declares: &["@/py.typed"],
        act: ": > py.typed",
        ..HONEST
    },
    Scene {
        name: "through-a-link",
        tells: "Writes through a declared link that was there before.",
        before: "echo old > real.rs; ln -s real.rs link.rs",
        declares: &["@/link.rs"],
        act: "echo new > link.rs",
        ..HONEST
    },
    Scene {
        name: "through-a-linked-directory",
        tells: "Creates a file in a directory that is a link within the tree.",
        before: "mkdir real; ln -s real linked",
        declares: &["@/linked/x.rs"],
        act: "echo new > linked/x.rs",
        ..HONEST
    },
    Scene {
        name: "of-two-names",
        tells: "Changes a file that had a second name before.",
        before: "echo old > a.rs; ln a.rs second.rs",
        act: "echo new > a.rs",
        ..HONEST
    },
    Scene {
        name: "fills-an-empty-file",
        tells: "Writes into a declared file that was empty.",
        before: ": > a.rs",
        act: "echo new > a.rs",
        ..HONEST
    },
    Scene {
        name: "binary",
        tells: "Creates a file of random bytes.",
        declares: &["@/logo.png"],
        act: "head -c 100000 /dev/urandom > logo.png",
        ..HONEST
    },
    Scene {
        name: "large",
        tells: "Creates a file of 4 MB.",
        declares: &["@/data.bin"],
        act: "head -c 4000000 /dev/zero > data.bin",
        ..HONEST
    },
    Scene {
        name: "one-byte-of-a-large-file",
        tells: "Changes one byte in the middle of a file of 4 MB.",
        before: "head -c 4000000 /dev/zero > data.bin",
        declares: &["@/data.bin"],
        act: "printf x | dd of=data.bin bs=1 seek=2000000 conv=notrunc 2> /dev/null",
        ..HONEST
    },
    Scene {
        name: "deletion-in-the-plan",
        tells: "Deletes a file that the plan wants deleted.",
        fields: r#"{"files_deleted": ["@/a.rs"]}"#,
        act: "rm a.rs",
        ..HONEST
    },
    Scene {
        name: "deletion-in-the-result",
        tells: "Deletes the declared file and says so.",
        act: r#"rm a.rs; result success '{"files_deleted":["@/a.rs"]}'"#,
        ..HONEST
    },
    Scene {
        name: "rename-told",
        tells: "Moves a declared file to another declared place, and says so.",
        declares: &["@/a.rs", "@/new.rs"],
        act: r#"mv a.rs new.rs; result success '{"files_created":["@/new.rs"],"files_deleted":["@/a.rs"]}'"#,
        ..HONEST
    },
    Scene {
        name: "rerun",
        tells: "Generates once more what was there, byte by byte.",
        act: "echo old > t; mv t a.rs",
        ends: CLAIMED,
        ..HONEST
    },
    Scene {
        name: "retry-after-work",
        tells: "Does its work at the first attempt and fails then; the second has nothing left to do.",
        fields: r#"{"max_retries": 1}"#,
        act: "test $WK_ATTEMPT = 2 || { echo new > a.rs; exit 1; }",
        attempts: 2,
        ..HONEST
    },
    Scene {
        name: "retry-after-half",
        tells: "Changes one declared file at the first attempt, which fails, and the other at the second.",
        fields: r#"{"max_retries": 1}"#,
        declares: &["@/a.rs", "@/b.rs"],
        act: "test $WK_ATTEMPT = 2 || { echo new > a.rs; exit 1; }; echo new > b.rs",
        attempts: 2,
        ..HONEST
    },
    Scene {
        name: "first-of-two",
        tells: "Changes a file that the next task changes again.",
        act: "echo new > a.rs",
        ..HONEST
    },
    Scene {
        name: "second-of-two",
        tells: "Changes the file that the task before it changed.",
        declares: &["first-of-two/a.rs"],
        fields: r#"{"dependencies": ["first-of-two"]}"#,
        act: "echo newer >> ../first-of-two/a.rs",
        ends: ["observed", "observed", "dependency_failed"],
        ..HONEST
    },
    Scene {
        name: "lent-to-another",
        tells: "Changes a file that another task declares too, and does not touch.",
        declares: &["lives-off-another/x.rs"],
        act: "echo new > ../lives-off-another/x.rs",
        ..HONEST
    },
    Scene {
        name: "large-with-its-time-set-back",
        tells: "Changes one byte of a file of 4 MB and sets its time back.",
        before: "head -c 4000000 /dev/zero > data.bin",
        declares: &["@/data.bin"],
        act: "touch -r data.bin t; printf x | dd of=data.bin bs=1 seek=9 conv=notrunc 2> /dev/null; touch -r t data.bin",
        ..HONEST
    },
    Scene {
        name: "deletion-in-a-directory",
        tells: "Deletes a file of the declared directory and says so.",
        before: "mkdir src; echo old > src/x.rs; echo old > src/y.rs",
        declares: &["@/src/"],
        act: r#"rm src/x.rs; result success '{"files_deleted":["@/src/x.rs"]}'"#,
        ..HONEST
    },
    Scene {
        name: "tested-on-the-way",
        tells: "Changes a file of the declared directory, and leaves caches there too.",
        before: "mkdir src; echo old > src/x.py",
        declares: &["@/src/"],
        act: "echo new > src/x.py; mkdir src/__pycache__; echo x > src/__pycache__/x.pyc",
        ..HONEST
    },
];
