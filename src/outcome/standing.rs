//! What stands behind a verdict, in a few words: files and criteria apart, because they are graded apart.

use crate::model::evidence::{About, Grade, Verdict};
use crate::view::words::counted;

/// `files observed · gates not run`.
pub fn standing(verdict: &Verdict) -> String {
    format!("{} · {}", files(verdict), criteria(verdict))
}

fn files(verdict: &Verdict) -> String {
    match verdict.promised().count() {
        0 => "no files declared".to_owned(),
        _ => format!("files {}", verdict.files().min(Grade::Observed)),
    }
}

fn criteria(verdict: &Verdict) -> String {
    let all = verdict.about(About::Criterion).count();
    let count = |grade: Grade| verdict.about(About::Criterion).filter(|one| one.grade == grade).count();
    match (all, count(Grade::Verified), count(Grade::Claimed)) {
        (0, _, _) => "no gates".to_owned(),
        (_, verified, _) if verified == all => "gates verified".to_owned(),
        (_, _, not_run) if not_run == all => "gates not run".to_owned(),
        (_, _, 0) => "gates in doubt".to_owned(),
        (_, _, not_run) => format!("{} of {} not run", not_run, counted(all, "gate")),
    }
}

/// The same for several tasks: the weakest of each.
pub fn standing_of_all<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Option<String> {
    let mut all = Verdict::default();
    let (mut without_files, mut without_gates) = (0, 0);
    for verdict in verdicts {
        without_files += usize::from(!verdict.only_checks && verdict.promised().next().is_none());
        without_gates += usize::from(verdict.criteria().is_none());
        all.findings.extend(verdict.promised().cloned());
        all.findings.extend(verdict.about(About::Criterion).cloned());
        all.brought.clone_from(&verdict.brought);
    }
    all.brought.as_ref()?;
    let mut told = standing(&all);
    if without_files > 0 && all.promised().next().is_some() {
        told += &format!(" · {} without declared files", counted(without_files, "task"));
    }
    if without_gates > 0 && all.criteria().is_some() {
        told += &format!(" · {} without gates", counted(without_gates, "task"));
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::evidence::{Brought, Change, Finding};

    fn verdict(changes: &[Change], criteria: &[Grade]) -> Verdict {
        let declared = changes.iter().map(|change| Finding::of_change("a", About::Declared, *change, false));
        let criterion =
            |grade: &Grade| Finding { about: About::Criterion, ..Finding::new("`make`", *grade, true, "") };
        let findings = declared.chain(criteria.iter().map(criterion)).collect();
        Verdict { findings, brought: Some(Brought::default()), ..Verdict::default() }
    }

    #[test]
    fn files_and_gates_are_told_apart() {
        use Grade::{Claimed, Verified};
        let told = |changes: &[Change], criteria: &[Grade]| standing(&verdict(changes, criteria));
        assert_eq!(told(&[Change::Created], &[Claimed]), "files observed · gates not run");
        assert_eq!(told(&[Change::Rewritten], &[Verified]), "files claimed · gates verified");
        assert_eq!(told(&[], &[]), "no files declared · no gates");
        assert_eq!(told(&[Change::Created], &[Verified, Claimed]), "files observed · 1 of 2 gates not run");
    }

    #[test]
    fn many_tasks_are_as_strong_as_the_weakest() {
        let all = [verdict(&[Change::Created], &[]), verdict(&[], &[]), verdict(&[Change::Linked], &[])];
        let told = standing_of_all(all.iter()).unwrap();
        assert_eq!(told, "files claimed · no gates · 1 task without declared files");
        assert_eq!(standing_of_all([Verdict::default()].iter()), None, "an old journal");
    }
}
