"""The graphs of tasks that every tool gets. Each task is the program `true`; nothing here knows how a tool is told."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    """`dependencies[i]` are the numbers of the tasks that task `i` waits for."""

    kind: str
    dependencies: tuple[tuple[int, ...], ...]

    @property
    def tasks(self) -> int:
        return len(self.dependencies)

    @property
    def title(self) -> str:
        titles = {
            "wide": f"{self.tasks} tasks, no dependencies",
            "chain": f"a chain of {self.tasks} tasks",
            "diamond": f"a diamond: 1 → {self.tasks - 2} → 1 tasks",
        }
        return titles[self.kind]

    def cut_to(self, most: int) -> "Workload":
        """The same shape with at most so many tasks."""
        return self if self.tasks <= most else make(self.kind, most)


def make(kind: str, tasks: int) -> Workload:
    """`tasks` counts all of them, in a diamond its two ends too."""
    if kind == "wide":
        dependencies = [()] * tasks
    elif kind == "chain":
        dependencies = [() if number == 0 else (number - 1,) for number in range(tasks)]
    else:
        middle = tuple(range(1, tasks - 1))
        dependencies = [(), *[(0,)] * len(middle), middle]
    return Workload(kind, tuple(dependencies))
