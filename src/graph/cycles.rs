//! Tasks that wait for each other, told as a path that a person can follow.

use std::collections::VecDeque;

use super::Graph;

/// For each strongly connected component one shortest cycle through its first task.
pub(super) fn one_per_knot(graph: &Graph, dependencies: &[Vec<usize>]) -> Vec<Vec<usize>> {
    // Kosaraju's and not Tarjan's: petgraph's Tarjan recurses.
    let mut knots: Vec<Vec<usize>> = petgraph::algo::kosaraju_scc(graph)
        .into_iter()
        .map(|component| component.into_iter().map(petgraph::prelude::NodeIndex::index).collect::<Vec<_>>())
        .filter(|component| component.len() > 1 || dependencies[component[0]].contains(&component[0]))
        .collect();
    let mut knot_of = vec![usize::MAX; dependencies.len()];
    for (number, knot) in knots.iter_mut().enumerate() {
        knot.sort_unstable();
        for &task in &*knot {
            knot_of[task] = number;
        }
    }
    let mut cycles: Vec<Vec<usize>> =
        knots.iter().map(|knot| shortest_through(knot[0], dependencies, &knot_of)).collect();
    cycles.sort_unstable();
    cycles
}

/// Breadth first from `start` along what each task waits for, within the knot, until it comes back.
fn shortest_through(start: usize, dependencies: &[Vec<usize>], knot_of: &[usize]) -> Vec<usize> {
    let mut reached_from = std::collections::HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(task) = queue.pop_front() {
        for &next in &dependencies[task] {
            if next == start {
                let mut path: Vec<usize> =
                    std::iter::successors(Some(task), |at| reached_from.get(at).copied()).collect();
                path.reverse();
                return path;
            }
            if knot_of[next] == knot_of[start] && !reached_from.contains_key(&next) {
                reached_from.insert(next, task);
                queue.push_back(next);
            }
        }
    }
    unreachable!("a strongly connected component has a way back to each of its tasks")
}
