//! Files that several tasks declare though nothing orders those tasks.
//!
//! Whether one task comes after another is a search in the graph, so the searches are pruned by stage and
//! share a budget. What could not be settled within it counts as a conflict: serialising two tasks that
//! were ordered anyway costs nothing, running two that were not may cost a file.

use std::collections::HashMap;

use super::Order;

/// How many dependencies all searches together may look at: some tens of milliseconds.
const LOOKS_MAX: usize = 10_000_000;

/// A file and the tasks that may write it at the same time as another one, by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedFile<'f> {
    pub file: &'f str,
    pub tasks: Vec<usize>,
}

/// Every file that two tasks declare which nothing orders, in the order of its first declaration.
pub fn file_conflicts<'f, Files>(
    dependencies: &[Vec<usize>],
    order: &Order,
    files: Files,
) -> Vec<SharedFile<'f>>
where
    Files: Iterator<Item = (usize, &'f str)> + Clone,
{
    let mut search = Search::new(dependencies, order, LOOKS_MAX);
    shared_files(files)
        .into_iter()
        .filter_map(|(file, declarers)| {
            let tasks = search.unordered_among(declarers);
            (!tasks.is_empty()).then_some(SharedFile { file, tasks })
        })
        .collect()
}

/// Files with at least two different declarers. The pairs come task by task.
fn shared_files<'f>(files: impl Iterator<Item = (usize, &'f str)> + Clone) -> Vec<(&'f str, Vec<usize>)> {
    let is_repeated = repeated_digests(files.clone().map(|(_, file)| file));
    let files = files.filter(|(_, file)| is_repeated.binary_search(&digest(file)).is_ok());
    // By file: who declares it first, and the place in the list of those that share.
    let mut first_declarer: HashMap<&str, (usize, Option<usize>)> = HashMap::new();
    let mut shared: Vec<(usize, &str, Vec<usize>)> = Vec::new();
    for (task, file) in files {
        let (first, slot) = first_declarer.entry(file).or_insert((task, None));
        match slot {
            None if *first == task => {}
            None => {
                *slot = Some(shared.len());
                shared.push((*first, file, vec![*first, task]));
            }
            Some(at) => {
                let declarers = &mut shared[*at].2;
                if declarers.last() != Some(&task) {
                    declarers.push(task);
                }
            }
        }
    }
    shared.sort_by_key(|(first, _, _)| *first);
    shared.into_iter().map(|(_, file, declarers)| (file, declarers)).collect()
}

/// The digests that several names have. In a large plan most files have one declarer, and sorting
/// numbers is far cheaper than a map of all names. Names that share a digest by chance do no harm.
fn repeated_digests<'f>(files: impl Iterator<Item = &'f str>) -> Vec<u64> {
    let mut digests: Vec<u64> = files.map(digest).collect();
    digests.sort_unstable();
    let mut repeated: Vec<u64> =
        digests.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    repeated.dedup();
    repeated
}

/// FNV-1a, eight bytes at a step.
fn digest(name: &str) -> u64 {
    name.as_bytes().chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash: u64, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let mixed = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
        mixed ^ (mixed >> 29)
    })
}

struct Search<'g> {
    dependencies: &'g [Vec<usize>],
    stages: &'g [u32],
    looks_left: usize,
    /// By task: the number of the last search that saw it.
    seen_in: Vec<u32>,
    searches: u32,
}

impl<'g> Search<'g> {
    fn new(dependencies: &'g [Vec<usize>], order: &'g Order, looks_left: usize) -> Self {
        let seen_in = vec![0; dependencies.len()];
        Self { dependencies, stages: &order.stages, looks_left, seen_in, searches: 0 }
    }

    /// Those of the declarers that some other one is not ordered with, in the plan's order.
    fn unordered_among(&mut self, declarers: Vec<usize>) -> Vec<usize> {
        let mut by_stage = declarers.clone();
        by_stage.sort_by_key(|&task| (self.stages[task], task));
        if self.is_a_chain(&by_stage) {
            return Vec::new();
        }
        let mut unordered = vec![false; by_stage.len()];
        // Marks are only ever added, so all before this one stay marked.
        let mut first_unmarked = 0;
        for later in (1..by_stage.len()).rev() {
            while first_unmarked < unordered.len() && unordered[first_unmarked] {
                first_unmarked += 1;
            }
            if first_unmarked <= later && !self.mark_unordered_with(later, &by_stage, &mut unordered) {
                return declarers;
            }
        }
        let mut tasks: Vec<usize> =
            by_stage.iter().zip(unordered).filter(|(_, is)| *is).map(|(&task, _)| task).collect();
        tasks.sort_unstable();
        tasks
    }

    /// Sorted by stage, tasks are ordered throughout exactly if each comes after the one before it.
    fn is_a_chain(&mut self, by_stage: &[usize]) -> bool {
        by_stage.windows(2).all(|pair| {
            self.stages[pair[0]] < self.stages[pair[1]]
                && self.look_down(pair[1], self.stages[pair[0]], Some(pair[0])) == Looked::Found
        })
    }

    /// Marks `later` and those before it that it does not wait for. False if the budget did not suffice.
    fn mark_unordered_with(&mut self, later: usize, by_stage: &[usize], unordered: &mut [bool]) -> bool {
        if self.look_down(by_stage[later], self.stages[by_stage[0]], None) == Looked::GaveUp {
            return false;
        }
        for earlier in 0..later {
            if self.seen_in[by_stage[earlier]] != self.searches {
                unordered[earlier] = true;
                unordered[later] = true;
            }
        }
        let enough = self.looks_left >= later;
        self.looks_left = self.looks_left.saturating_sub(later);
        enough
    }

    /// Walks from `task` to what it waits for, no deeper than `floor`, and marks what it sees.
    fn look_down(&mut self, task: usize, floor: u32, wanted: Option<usize>) -> Looked {
        self.searches += 1;
        let mut open = vec![task];
        while let Some(at) = open.pop() {
            for &next in &self.dependencies[at] {
                if self.looks_left == 0 {
                    return Looked::GaveUp;
                }
                self.looks_left -= 1;
                if wanted == Some(next) {
                    return Looked::Found;
                }
                if self.stages[next] >= floor && self.seen_in[next] != self.searches {
                    self.seen_in[next] = self.searches;
                    open.push(next);
                }
            }
        }
        Looked::Everywhere
    }
}

#[derive(PartialEq, Eq)]
enum Looked {
    Found,
    Everywhere,
    GaveUp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflicts(dependencies: &[Vec<usize>], files: &[(usize, &'static str)]) -> Vec<(String, Vec<usize>)> {
        let order = crate::graph::order(dependencies).unwrap();
        file_conflicts(dependencies, &order, files.iter().copied())
            .into_iter()
            .map(|shared| (shared.file.to_owned(), shared.tasks))
            .collect()
    }

    #[test]
    fn tasks_side_by_side_that_share_a_file_conflict() {
        let side_by_side = vec![vec![], vec![0], vec![0]];
        let files = [(0, "a"), (1, "config.yml"), (2, "config.yml"), (2, "b")];
        assert_eq!(conflicts(&side_by_side, &files), [("config.yml".to_owned(), vec![1, 2])]);
    }

    #[test]
    fn what_is_ordered_however_far_apart_does_not_conflict() {
        let chain = vec![vec![], vec![0], vec![1], vec![2]];
        assert_eq!(conflicts(&chain, &[(0, "a"), (3, "a")]), []);
        assert_eq!(conflicts(&chain, &[(0, "a"), (1, "a"), (2, "a"), (3, "a")]), []);
        assert_eq!(conflicts(&chain, &[(1, "a"), (1, "a")]), [], "twice in one task is no conflict");
    }

    #[test]
    fn tasks_in_different_stages_may_still_run_at_the_same_time() {
        // 0 -> 1 -> 2 and a loner, 3, beside them.
        let graph = vec![vec![], vec![0], vec![1], vec![]];
        assert_eq!(conflicts(&graph, &[(2, "a"), (3, "a")]), [("a".to_owned(), vec![2, 3])]);
        let all = [(0, "a"), (1, "a"), (2, "a"), (3, "a")];
        assert_eq!(conflicts(&graph, &all), [("a".to_owned(), vec![0, 1, 2, 3])]);
    }

    #[test]
    fn a_task_that_is_ordered_with_all_others_is_left_out() {
        // 0 comes before everything; 1 and 2 are side by side.
        let graph = vec![vec![], vec![0], vec![0]];
        assert_eq!(conflicts(&graph, &[(0, "a"), (1, "a"), (2, "a")]), [("a".to_owned(), vec![1, 2])]);
    }

    #[test]
    fn one_file_in_a_hundred_thousand_tasks_is_settled_within_the_budget() {
        let count = 100_000;
        let fan: Vec<Vec<usize>> = (0..count).map(|task| if task == 0 { vec![] } else { vec![0] }).collect();
        let order = crate::graph::order(&fan).unwrap();
        let shared = file_conflicts(&fan, &order, (0..count).map(|task| (task, "CHANGELOG.md")));
        assert!(shared[0].tasks.len() >= count - 1);
    }

    #[test]
    fn a_search_without_budget_counts_as_a_conflict() {
        let chain = vec![vec![], vec![0], vec![1]];
        let order = crate::graph::order(&chain).unwrap();
        let mut search = Search::new(&chain, &order, 1);
        assert_eq!(search.unordered_among(vec![0, 2]), [0, 2]);
    }
}
