//! The plan's graph for programs that draw: Graphviz and Mermaid. Arrows run from what comes first.

use std::fmt::Write as _;

use super::Outline;
use crate::model::Batch;

/// For Graphviz: `wk check --dot plan.md | dot -Tsvg`. The critical path is drawn bold.
pub fn dot(batch: &Batch) -> String {
    let outline = Outline::of(batch);
    let mut out = String::from("digraph plan {\n  rankdir=LR;\n  node [shape=box];\n");
    for task in &batch.tasks {
        let _ = write!(out, "  \"{}\" [label=\"", task.key);
        escape_dot(&mut out, &task.phase_name);
        out.push_str("\"];\n");
    }
    for (from, to, is_critical) in edges(&outline) {
        let bold = if is_critical { " [penwidth=2]" } else { "" };
        let (from, to) = (&batch.tasks[from].key, &batch.tasks[to].key);
        let _ = writeln!(out, "  \"{from}\" -> \"{to}\"{bold};");
    }
    out.push_str("}\n");
    out
}

/// For Mermaid, as Markdown pages show it. The critical path is drawn with thick arrows.
pub fn mermaid(batch: &Batch) -> String {
    let outline = Outline::of(batch);
    let mut out = String::from("flowchart LR\n");
    for (index, task) in batch.tasks.iter().enumerate() {
        // Keys are not safe as ids: `end` is a word of the language.
        let _ = write!(out, "  t{index}[\"");
        escape_mermaid(&mut out, &task.phase_name);
        out.push_str("\"]\n");
    }
    for (from, to, is_critical) in edges(&outline) {
        let arrow = if is_critical { "==>" } else { "-->" };
        let _ = writeln!(out, "  t{from} {arrow} t{to}");
    }
    out
}

/// From, to, and whether the edge is on the critical path.
fn edges<'o>(outline: &'o Outline<'_>) -> impl Iterator<Item = (usize, usize, bool)> + 'o {
    let mut critical_before = vec![None; outline.dependencies.len()];
    for pair in outline.critical.tasks.windows(2) {
        critical_before[pair[1]] = Some(pair[0]);
    }
    let needs = outline.dependencies.iter().enumerate();
    needs.flat_map(move |(to, needs)| {
        let critical = critical_before[to];
        needs.iter().map(move |&from| (from, to, critical == Some(from)))
    })
}

fn escape_dot(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
}

fn escape_mermaid(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '#' => out.push_str("#35;"),
            '&' => out.push_str("#amp;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '`' => out.push_str("#96;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::seed_batch;
    use super::*;

    #[test]
    fn labels_cannot_break_out_of_a_drawing() {
        let dot = dot(&seed_batch());
        assert!(dot.contains("  \"2b\" [label=\"Phase 2b: Tests \\\"fast\\\" <all>\"];\n"), "{dot}");
        assert!(
            dot.contains("  \"1\" -> \"2b\" [penwidth=2];\n") && dot.contains("  \"1\" -> \"2a\";\n"),
            "{dot}"
        );
        let mermaid = mermaid(&seed_batch());
        assert!(mermaid.contains("  t2[\"Phase 2b: Tests #quot;fast#quot; #lt;all#gt;\"]\n"), "{mermaid}");
        assert!(mermaid.contains("  t0 ==> t2\n") && mermaid.contains("  t0 --> t1\n"), "{mermaid}");
    }
}
