//! A phase that a plan names again under another section, such as "Acceptance Criteria": one phase, not two.

use std::borrow::Cow;

use crate::intake::draft::{Item, Phase, Slot};
use crate::intake::value::folded;

/// Is this the earlier phase once more? Either it has no field of its own, or it goes by the same title and
/// says nothing else than the earlier one does.
pub(super) fn is_restated(earlier: &Phase<'_>, again: &Phase<'_>) -> bool {
    let is_alike =
        again.title.is_empty() || earlier.title.is_empty() || folded(&earlier.title) == folded(&again.title);
    has_no_field(again) || (is_alike && agrees(earlier, again)) || (has_no_field(earlier) && is_alike)
}

/// Has none of the fields that every phase has. An estimate may stand in a heading of any kind.
pub(super) fn has_no_field(phase: &Phase<'_>) -> bool {
    phase.goal.is_absent()
        && phase.complexity.is_absent()
        && phase.files_modified.is_absent()
        && phase.dependencies.is_absent()
}

fn agrees(earlier: &Phase<'_>, again: &Phase<'_>) -> bool {
    let names = |one: &Vec<Item<'_>>, other: &Vec<Item<'_>>| {
        one.iter().map(|item| &item.text).eq(other.iter().map(|item| &item.text))
    };
    same(&earlier.goal, &again.goal, PartialEq::eq)
        && same(&earlier.complexity, &again.complexity, PartialEq::eq)
        && same(&earlier.estimated_hours, &again.estimated_hours, PartialEq::eq)
        && same(&earlier.files_modified, &again.files_modified, names)
        && same(&earlier.dependencies, &again.dependencies, names)
}

fn same<T>(one: &Slot<T>, other: &Slot<T>, equal: impl Fn(&T, &T) -> bool) -> bool {
    match (one, other) {
        (Slot::Given(one, _), Slot::Given(other, _)) => equal(one, other),
        (Slot::Refused, Slot::Refused) => false,
        _ => true,
    }
}

/// Adds to a phase what it is said to have elsewhere.
pub(super) fn absorb<'a>(phase: &mut Phase<'a>, mut again: Phase<'a>) {
    fill(&mut phase.goal, again.goal.take());
    fill(&mut phase.complexity, again.complexity.take());
    fill(&mut phase.estimated_hours, again.estimated_hours.take());
    fill(&mut phase.files_modified, again.files_modified.take());
    fill(&mut phase.dependencies, again.dependencies.take());
    if phase.title.is_empty() {
        phase.title = std::mem::take(&mut again.title);
    }
    add(&mut phase.steps, std::mem::take(&mut again.steps));
    add(&mut phase.validation_gates, std::mem::take(&mut again.validation_gates));
    if again.rare().is_none() {
        return;
    }
    let more = again.take_rare();
    let rare = phase.rare_mut();
    rare.conflict_notes = rare.conflict_notes.take().or(more.conflict_notes);
    rare.kind = rare.kind.or(more.kind);
    rare.agent = rare.agent.take().or(more.agent);
    rare.command = rare.command.take().or(more.command);
    rare.shell = rare.shell.take().or(more.shell);
    rare.limits = rare.limits.or(more.limits);
    for (name, value) in more.extra {
        rare.extra.entry(name).or_insert(value);
    }
}

fn fill<T>(slot: &mut Slot<T>, more: Slot<T>) {
    if slot.is_absent() {
        *slot = more;
    }
}

fn add<'a>(list: &mut Vec<Cow<'a, str>>, more: Vec<Cow<'a, str>>) {
    for sentence in more {
        if !list.contains(&sentence) {
            list.push(sentence);
        }
    }
}
