//! The files that the task declares, before its first attempt and after this one: the runner reads them, so that no
//! large file is read in the watcher's loop.
//!
//! It finds; what follows from it is decided by the watcher.

use std::path::Path;

use super::beats::{Beats, Said};
use super::files;
use super::inspect::CheckFiles;
use crate::bus::layout::AttemptPaths;
use crate::bus::platform::monotonic_ms;
use crate::bus::{self, Disk, RealDisk};
use crate::format::order::{DeclaredOrder, Order};
use crate::model::Attempt;
use crate::model::declared::{DeclaredPlace, is_pattern};
use crate::model::evidence::Brought;
use crate::verify::baseline::Reading;
use crate::verify::{Baseline, Since, baseline, compare};

/// So many places are told in the exit record; more of them beside it.
pub const DECLARED_INLINE_MAX: usize = 16;
/// What they may take of an exit record, which has at most 64 KiB.
const INLINE_BYTES_MAX: usize = 24 << 10;
/// A baseline: some two hundred bytes a file.
const BASELINE_BYTES_MAX: u64 = 64 << 20;
/// To read more than this may take longer than a heartbeat.
const QUICK_BYTES_MAX: u64 = 64 << 20;

pub(super) struct Declared<'a> {
    order: &'a Order,
    asked: &'a DeclaredOrder,
    baseline: Baseline,
    sha256: String,
    /// No agent can have replaced it: we took it, or the journal names it.
    is_confirmed: bool,
    attempt_began_ns: Option<i128>,
}

impl<'a> Declared<'a> {
    /// Reads how the files were, or records how they are before the first attempt. The error is a sentence for people.
    pub(super) fn begin(
        order: &'a Order,
        declared: &'a DeclaredOrder,
        paths: &AttemptPaths,
    ) -> Result<Self, String> {
        let disk = RealDisk::default();
        let path = &declared.baseline;
        let shown = path.display();
        let told = |error: std::io::Error| format!("{shown}: {error}");
        let is_first = order.attempt == Attempt::FIRST;
        // Before the first attempt whatever stands there was planted.
        let kept = if is_first { None } else { files::read(path, BASELINE_BYTES_MAX).map_err(told)? };
        let (bytes, is_confirmed) = match (kept, &declared.baseline_sha256) {
            (Some(bytes), Some(named)) if *named == bus::sha256(&bytes) => (bytes, true),
            (Some(_), Some(_)) => {
                return Err(format!(
                    "{shown}: the record of how its files were before is not the one of then"
                ));
            }
            (None, Some(_)) if !is_first => {
                return Err(format!("{shown}: the record of how its files were before is gone"));
            }
            (Some(bytes), None) => (bytes, false),
            (None, _) => {
                let beats = beats_for(order, declared);
                let places = [&declared.places[..], &declared.checks[..]].concat();
                let bytes = baseline::take(&disk, &order.paths.root, &places, &Reading::whole()).to_bytes();
                if let Some(beats) = beats {
                    beats.stop();
                }
                files::publish(paths.dir(), path, &bytes).map_err(told)?;
                (bytes, true)
            }
        };
        let baseline =
            Baseline::from_bytes(&bytes).ok_or_else(|| format!("{shown}: not a record of ours"))?;
        let began = || disk.look(&paths.spec()).ok().flatten().map_or(0, |look| look.changed_ns);
        let attempt_began_ns = (!is_first).then(began);
        Ok(Declared {
            order,
            asked: declared,
            baseline,
            sha256: bus::sha256(&bytes),
            is_confirmed,
            attempt_began_ns,
        })
    }

    pub(super) fn sha256(&self) -> String {
        self.sha256.clone()
    }

    /// What the task's checks consisted of before its first attempt.
    pub(super) fn check_files(&self) -> CheckFiles {
        let files = self.baseline.files.iter();
        let before = files.filter_map(|(file, before)| Some((file.clone(), before.sha256.clone()?)));
        CheckFiles {
            root: self.order.paths.root.clone(),
            before: before.collect(),
            declared: self.asked.places.clone(),
        }
    }

    /// What became of them.
    pub(super) fn end(&self) -> Vec<DeclaredPlace> {
        let beats = beats_for(self.order, self.asked);
        let since = Since {
            baseline: Some(&self.baseline),
            is_confirmed: self.is_confirmed,
            attempt_began_ns: self.attempt_began_ns,
        };
        let (root, reading) = (&self.order.paths.root, Reading::whole());
        let places = compare(&RealDisk::default(), root, &self.asked.places, since, &reading);
        if let Some(beats) = beats {
            beats.stop();
        }
        places
    }
}

/// Whether the exit record has room for them; lists that are too long for it become counts.
pub(super) fn fit_inline(places: &mut [DeclaredPlace]) -> bool {
    if places.len() > DECLARED_INLINE_MAX {
        return false;
    }
    let size = |places: &[DeclaredPlace]| serde_json::to_vec(places).map_or(usize::MAX, |bytes| bytes.len());
    if size(places) > INLINE_BYTES_MAX {
        for place in places.iter_mut() {
            let Brought { created, modified, deleted, more, .. } = &place.brought;
            let count = created.len() + modified.len() + deleted.len();
            place.brought = Brought { more: *more + count as u64, ..Brought::default() };
        }
    }
    size(places) <= INLINE_BYTES_MAX
}

/// Beats while much is read; small files are read before one is due.
fn beats_for(order: &Order, declared: &DeclaredOrder) -> Option<Beats> {
    let size = |place: &String| -> u64 {
        let path = Path::new(place);
        match order.paths.root.join(path).symlink_metadata() {
            _ if is_pattern(place) => QUICK_BYTES_MAX,
            Ok(data) if data.is_dir() => QUICK_BYTES_MAX,
            Ok(data) => data.len(),
            Err(_) => 0,
        }
    };
    let is_much = declared.places.iter().map(size).fold(0, u64::saturating_add) >= QUICK_BYTES_MAX;
    is_much.then(|| {
        let progress = Some("looking at the declared files".to_owned());
        Beats::start(order, std::sync::Arc::from([]), monotonic_ms(), Said { progress, tokens_used: None })
    })
}
