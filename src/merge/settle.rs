//! Settles the open conflict of one place as a person said. Asks nobody, and offers nothing: what may be chosen is the
//! conflict's to say.

use std::io;

use super::conflict::ConflictKind;
use super::fold::{Favouring, Place, Terms, favouring, taken};
use super::receipt::{Fate, MADE_BY_RESOLUTION, PERSON};
use crate::model::handoff::Choice;
use crate::model::tree::{Digest, Entry};
use crate::work_tree::Contents;

pub const RESOLVED_TO_BASE: &str = "resolved_to_base";
pub const RESOLVED_TO_DELETION: &str = "resolved_to_deletion";
const MODE_OF_NEW_FILES: u32 = 0o644;

impl Place {
    pub fn resolve(&mut self, resolution: &Choice, terms: &Terms) -> io::Result<()> {
        let Some(conflict) = self.conflict.take() else { return Ok(()) };
        self.settled += 1;
        if let Choice::Take(agent) = resolution
            && matches!(conflict.kind, ConflictKind::EditEdit | ConflictKind::AddAdd | ConflictKind::Mode)
            && let Some(favoured) = favouring(&self.path, &self.steps, terms, agent)?
        {
            let Favouring { entry, fates, notes } = favoured;
            (self.entry, self.fates, self.notes) = (entry, fates, notes);
            return Ok(());
        }
        let (entry, otherwise) = match resolution {
            Choice::Ours => {
                self.fates = std::mem::take(&mut self.if_ours);
                return Ok(());
            }
            Choice::Take(agent) => {
                let step = self.steps.iter().find(|step| step.who == *agent);
                (step.and_then(|step| step.theirs.clone()), taken(agent))
            }
            Choice::Base => (self.base.clone(), Fate::Dropped { rule: RESOLVED_TO_BASE }),
            Choice::Delete => (None, Fate::Dropped { rule: RESOLVED_TO_DELETION }),
            Choice::Content(digest) => (Some(self.given(digest, terms.contents)?), taken(PERSON)),
        };
        for (step, fate) in self.steps.iter().zip(&mut self.fates) {
            if matches!(fate, Fate::Escalated { .. }) {
                // Where several wrote one file, the same bytes prove nothing: the one who was chosen counts.
                let is_of_it = match resolution {
                    Choice::Take(agent) if conflict.kind == ConflictKind::SideBySide => step.who == *agent,
                    _ => step.theirs == entry,
                };
                *fate = if is_of_it { Fate::Kept } else { otherwise.clone() };
            }
        }
        let is_made = matches!(resolution, Choice::Base | Choice::Content(_)) && entry.is_some();
        self.made_by = is_made.then_some(MADE_BY_RESOLUTION);
        self.entry = entry;
        Ok(())
    }

    /// A person's content, with the mode that the file has.
    fn given(&self, digest: &Digest, contents: &dyn Contents) -> io::Result<Entry> {
        let size = contents.read(digest)?.len() as u64;
        let known = [self.entry.as_ref(), self.base.as_ref()];
        let mode = known.into_iter().flatten().find_map(|entry| match entry {
            Entry::File { mode, .. } => Some(*mode),
            _ => None,
        });
        Ok(Entry::File { mode: mode.unwrap_or(MODE_OF_NEW_FILES), size, sha256: *digest })
    }
}
