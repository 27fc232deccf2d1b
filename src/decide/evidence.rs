//! What was found, put together to a verdict, and whether it is enough: declared files first, then what the result
//! lists besides them, then the grade that the batch demands.

use super::{Checked, Turn};
use crate::model::claim::Claim;
use crate::model::containment::plain_spelling;
use crate::model::declared::{DeclaredFiles, DeclaredPlace, covers, overlap};
use crate::model::evidence::{About, Brought, Change, Finding};
use crate::model::state::{TaskIx, Try};
use crate::model::{Grade, Reason, Task, Verdict};

/// The verdict on a claim: what the look at it found, and what became of the declared files.
pub(super) fn weigh(turn: &Turn<'_>, task: TaskIx, checked: Checked) -> Checked {
    let Checked { claim, verdict, declared, committed } = checked;
    let state = &turn.state.tasks[task];
    let told = state.exit().map(|exit| exit.declared.as_slice()).unwrap_or_default();
    let mut declared = if declared.is_empty() { told.to_vec() } else { declared };
    let unseen = state.spec.declared_places().into_iter();
    let unseen = unseen.filter(|place| !declared.iter().any(|seen| seen.place == *place)).collect::<Vec<_>>();
    declared.extend(unseen.into_iter().map(unknown));
    for place in &mut declared {
        count_commits(place, &committed);
        if place.change.grade() > Grade::Claimed {
            leave_out_shared(turn, task, place);
        }
    }
    Checked { verdict: verdict_of(&state.spec, &claim, verdict, &declared), claim, declared, committed }
}

/// What a new commit changes has changed, though the work tree may be as it was.
fn count_commits(place: &mut DeclaredPlace, committed: &[String]) {
    if place.refused.is_some() || place.change.grade() > Grade::Claimed {
        return;
    }
    let files: Vec<String> = committed.iter().filter(|file| covers(&place.place, file)).cloned().collect();
    if !files.is_empty() {
        place.change = Change::Modified;
        place.brought.extend(Brought { modified: files, ..Brought::default() });
    }
}

/// A place that nobody looked at: the runner that did the work was of an older version.
fn unknown(place: String) -> DeclaredPlace {
    let brought = Brought::default();
    DeclaredPlace { place, change: Change::Unknown, remains: false, inherited: false, refused: None, brought }
}

fn verdict_of(spec: &Task, claim: &Claim, found: Verdict, declared: &[DeclaredPlace]) -> Verdict {
    let only_checks = spec.is_validation();
    let mut verdict = Verdict { no_change_needed: claim.no_change_needed.clone(), only_checks, ..found };
    let mut brought = verdict.brought.take().unwrap_or_default();
    let announced = |file: &str| {
        let is_it = |said: &String| covers(said, file) || plain_spelling(said) == file;
        claim.files_deleted.iter().chain(&spec.files_deleted).any(is_it)
    };
    let listed = std::mem::take(&mut verdict.findings);
    let mut findings: Vec<Finding> = declared.iter().map(|place| place.finding(announced)).collect();
    for place in declared {
        brought.extend(place.brought.clone());
    }
    for finding in listed {
        match declared
            .iter()
            .find(|place| finding.about == About::Claim && covers(&place.place, &finding.subject))
        {
            Some(place) => findings.extend(contradiction(place, finding)),
            None => {
                if finding.about == About::Claim && finding.met {
                    note_listed(&mut brought, claim, &finding.subject);
                }
                findings.push(finding);
            }
        }
    }
    let untouched = findings.iter().filter(|one| one.change.is_some_and(|change| !change.is_done()));
    let untouched: Vec<String> = untouched.map(|one| one.subject.clone()).collect();
    verdict.declared_untouched.extend(untouched);
    Verdict { findings, brought: Some(brought), ..verdict }
}

/// A file that the result lists and that a declared place covers: the place's own finding tells the rest, unless the
/// result says more of it than was seen.
fn contradiction(place: &DeclaredPlace, listed: Finding) -> Option<Finding> {
    if !listed.met {
        return Some(listed);
    }
    let is_whole = plain_spelling(&listed.subject) == plain_spelling(&place.place);
    let brought = &place.brought;
    let spelled = plain_spelling(&listed.subject).into_owned();
    let is_seen =
        brought.more > 0 || brought.created.contains(&spelled) || brought.modified.contains(&spelled);
    let is_false = match is_whole {
        true => !place.change.is_done(),
        // Of several files of one place those that changed are known by name.
        false => !is_seen && !place.brought.is_empty() && place.change.grade() > Grade::Claimed,
    };
    let saw = "was not changed since the task began";
    is_false.then(|| Finding::new(&listed.subject, Grade::Claimed, false, saw))
}

/// What only the result tells of, and was seen to be written.
fn note_listed(brought: &mut Brought, claim: &Claim, file: &str) {
    let list = match claim.files_created.iter().any(|created| created == file) {
        true => &mut brought.created,
        false => &mut brought.modified,
    };
    let file = plain_spelling(file).into_owned();
    if !list.contains(&file) {
        list.push(file);
    }
}

/// What an attempt of another task that ran at the same time declares, or says to have written, is credited to neither.
fn leave_out_shared(turn: &Turn<'_>, task: TaskIx, place: &mut DeclaredPlace) {
    let own = &turn.state.tasks[task];
    let Some(began) = own.tries.first().map(|first| first.offered_tick) else { return };
    let ran_beside = |one: &Try| one.started.is_some() && one.ended_tick.is_none_or(|ended| ended > began);
    let others = turn.state.tasks.iter().enumerate().filter(|(ix, _)| *ix != task);
    let beside = others.map(|(_, other)| other).filter(|other| other.tries.iter().any(ran_beside));
    for other in beside {
        let declared = other.spec.declared_places();
        let reported = other.collected.as_ref().and_then(|collected| collected.verdict.brought.as_ref());
        if declared.iter().any(|declared| overlap(declared, &place.place)) {
            place.brought = Brought::default();
        } else if let Some(reported) = reported.filter(|reported| place.brought.shares_files_with(reported)) {
            place.brought.leave_out(reported);
        } else {
            continue;
        }
        if place.brought.is_empty() {
            place.change = Change::Shared;
            return;
        }
    }
}

/// Why what was found is not enough, if it is not.
pub(super) fn shortcoming(turn: &Turn<'_>, task: TaskIx, verdict: &Verdict) -> Option<Reason> {
    let unmet: Vec<_> = verdict.unmet().cloned().collect();
    if !unmet.is_empty() {
        return Some(Reason::EvidenceMissing { unmet });
    }
    let must = turn.state.tasks[task].spec.declared_files == DeclaredFiles::Must;
    let (promised, undone) = (verdict.promised().count(), verdict.undone().count());
    if must && undone > 0 && undone == promised && verdict.no_change_needed.is_none() {
        let files = verdict.undone().map(ToString::to_string).collect();
        return Some(Reason::DeclaredUntouched { files });
    }
    let required = turn.state.required_of(&turn.state.tasks[task], verdict);
    let grade = verdict.grade();
    (grade < required).then_some(Reason::BelowRequired { grade, required })
}
