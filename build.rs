//! Links the runner statically where that works: every task starts one, and half of the cost of starting a
//! small program is finding and relocating its libraries. Everything else is built as usual.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WK_DYNAMIC_RUNNER");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_native = std::env::var("HOST") == std::env::var("TARGET");
    let is_gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !is_native || !is_gnu || is("WK_DYNAMIC_RUNNER", "1") {
        return;
    }
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    let Some(()) = stand_ins(&out) else { return };
    for argument in ["-static".to_owned(), "-no-pie".to_owned(), format!("-L{}", out.display())] {
        println!("cargo::rustc-link-arg-bin=wk-runner={argument}");
    }
}

/// The compiler asks for shared libraries by name, whatever the linker was told. These scripts have the names
/// that it asks for, and lead to the archives.
fn stand_ins(out: &Path) -> Option<()> {
    let (c, gcc, unwinder) = (library("libc.a")?, library("libgcc.a")?, library("libgcc_eh.a")?);
    let group = format!("GROUP({} {} {})\n", c.display(), gcc.display(), unwinder.display());
    std::fs::write(out.join("libc.so"), &group).ok()?;
    std::fs::write(out.join("libgcc_s.so"), &group).ok()?;
    for name in ["m", "rt", "pthread", "dl", "util"] {
        let archive = library(&format!("lib{name}.a"))?;
        std::fs::write(out.join(format!("lib{name}.so")), format!("INPUT({})\n", archive.display())).ok()?;
    }
    Some(())
}

/// Where the C compiler finds a library, if it does.
fn library(name: &str) -> Option<PathBuf> {
    let asked = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    // A library that it does not know, it repeats as it was given.
    (path != Path::new(name) && path.is_file()).then_some(path)
}
