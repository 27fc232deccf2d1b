//! What follows from "this needs that": order, stages, cycles as a path, the critical path, file conflicts.
//!
//! Tasks are plain indexes here, and `dependencies[i]` lists what task `i` waits for. Nothing recurses:
//! a chain of two hundred thousand tasks is as deep as the heap, not as the stack.

mod conflicts;
mod cycles;

use petgraph::graph::{DiGraph, NodeIndex};

pub use conflicts::{SharedFile, file_conflicts};

/// Tasks in an order in which each comes after all that it waits for, with their stages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Order {
    pub sequence: Vec<usize>,
    /// By task: the longest way to it, counted from 1.
    pub stages: Vec<u32>,
}

/// The chain of tasks that decides how long everything takes at least.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CriticalPath {
    /// From the first to the last.
    pub tasks: Vec<usize>,
    pub total: f64,
}

/// Orders the tasks, or gives one cycle for each knot of tasks that wait for each other. A cycle is
/// listed without its return: `[0, 1]` says that 0 waits for 1, and 1 for 0.
pub fn order(dependencies: &[Vec<usize>]) -> Result<Order, Vec<Vec<usize>>> {
    let graph = graph_of(dependencies);
    let Ok(sorted) = petgraph::algo::toposort(&graph, None) else {
        return Err(cycles::one_per_knot(&graph, dependencies));
    };
    // Edges run from a task to what it waits for, so the sort begins at the end.
    let sequence: Vec<usize> = sorted.into_iter().rev().map(NodeIndex::index).collect();
    let mut stages = vec![1; dependencies.len()];
    for &task in &sequence {
        let before = dependencies[task].iter().map(|&dependency| stages[dependency]).max();
        stages[task] = before.unwrap_or(0) + 1;
    }
    Ok(Order { sequence, stages })
}

/// The heaviest chain. Among equals it takes the longer one, then the one that comes first in the plan.
pub fn critical_path(dependencies: &[Vec<usize>], order: &Order, weights: &[f64]) -> CriticalPath {
    let mut finish = vec![0.0_f64; dependencies.len()];
    let mut previous = vec![None; dependencies.len()];
    let heaviest = |candidates: &mut dyn Iterator<Item = usize>, finish: &[f64]| {
        candidates.max_by(|&a, &b| {
            finish[a].total_cmp(&finish[b]).then(order.stages[a].cmp(&order.stages[b])).then(b.cmp(&a))
        })
    };
    for &task in &order.sequence {
        previous[task] = heaviest(&mut dependencies[task].iter().copied(), &finish);
        finish[task] = weights[task] + previous[task].map_or(0.0, |before| finish[before]);
    }
    let Some(last) = heaviest(&mut (0..dependencies.len()), &finish) else {
        return CriticalPath::default();
    };
    let mut tasks: Vec<usize> = std::iter::successors(Some(last), |&task| previous[task]).collect();
    tasks.reverse();
    CriticalPath { tasks, total: finish[last] }
}

/// By task: whether `task` waits for it, however many others are in between. Cycles do no harm.
pub fn all_before(dependencies: &[Vec<usize>], task: usize) -> Vec<bool> {
    let mut found = vec![false; dependencies.len()];
    let mut open = vec![task];
    while let Some(at) = open.pop() {
        for &next in &dependencies[at] {
            if !std::mem::replace(&mut found[next], true) {
                open.push(next);
            }
        }
    }
    found
}

type Graph = DiGraph<(), ()>;

fn graph_of(dependencies: &[Vec<usize>]) -> Graph {
    let edges = dependencies.iter().map(Vec::len).sum();
    let mut graph = Graph::with_capacity(dependencies.len(), edges);
    for _ in dependencies {
        graph.add_node(());
    }
    for (task, needs) in dependencies.iter().enumerate() {
        for &dependency in needs {
            graph.add_edge(NodeIndex::new(task), NodeIndex::new(dependency), ());
        }
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seed's drawing: 1; 2a, 2b; 3a, 3b; 4.
    fn seed() -> Vec<Vec<usize>> {
        vec![vec![], vec![0], vec![0], vec![1], vec![2], vec![3, 4]]
    }

    #[test]
    fn a_stage_is_the_longest_way_from_the_start() {
        assert_eq!(order(&seed()).unwrap().stages, [1, 2, 2, 3, 3, 4]);
        let shortcut = vec![vec![], vec![0], vec![0, 1]];
        assert_eq!(order(&shortcut).unwrap().stages, [1, 2, 3]);
        assert_eq!(order(&[]).unwrap(), Order::default());
    }

    #[test]
    fn a_task_comes_after_all_that_it_waits_for() {
        let dependencies = vec![vec![3], vec![0], vec![0, 1], vec![]];
        assert_eq!(order(&dependencies).unwrap().sequence, [3, 0, 1, 2]);
    }

    #[test]
    fn each_knot_is_told_as_one_short_cycle() {
        assert_eq!(order(&[vec![0]]).unwrap_err(), [vec![0]]);
        assert_eq!(order(&[vec![1], vec![0]]).unwrap_err(), [vec![0, 1]]);
        let two_knots = vec![vec![1], vec![2, 0], vec![0], vec![4], vec![3], vec![]];
        assert_eq!(order(&two_knots).unwrap_err(), [vec![0, 1], vec![3, 4]]);
    }

    #[test]
    fn a_task_waits_for_what_its_dependencies_wait_for() {
        assert_eq!(all_before(&seed(), 3), [true, true, false, false, false, false]);
        assert_eq!(all_before(&seed(), 0), [false; 6]);
        assert_eq!(all_before(&[vec![1], vec![0], vec![0]], 2), [true, true, false], "through a cycle");
    }

    #[test]
    fn deep_chains_and_long_cycles_do_not_touch_the_stack() {
        let count = 200_000;
        let chain: Vec<Vec<usize>> =
            (0..count).map(|task| if task == 0 { vec![] } else { vec![task - 1] }).collect();
        assert_eq!(order(&chain).unwrap().stages[count - 1], 200_000);
        let ring: Vec<Vec<usize>> = (0..count).map(|task| vec![(task + 1) % count]).collect();
        assert_eq!(order(&ring).unwrap_err()[0].len(), count);
    }

    #[test]
    fn the_critical_path_is_the_heaviest_chain() {
        let dependencies = seed();
        let order = order(&dependencies).unwrap();
        let path = critical_path(&dependencies, &order, &[1.0, 0.5, 2.0, 4.0, 1.0, 1.0]);
        assert_eq!(path, CriticalPath { tasks: vec![0, 1, 3, 5], total: 6.5 });
        let unweighted = critical_path(&dependencies, &order, &[0.0; 6]);
        assert_eq!(unweighted.tasks, [0, 1, 3, 5], "the longest chain, and its first in the plan");
    }
}
